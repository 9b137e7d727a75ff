package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"
)

// meddler is a connection pool on which something happens just before a statement
// is executed: the codec has encoded it already.
type meddler struct {
	gorm.ConnPool
	before func(query string)
}

func (m *meddler) GetDBConn() (*sql.DB, error) { return m.ConnPool.(*sql.DB), nil }

func (m *meddler) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	m.before(query)
	return m.ConnPool.ExecContext(ctx, query, args...)
}

func (m *meddler) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	m.before(query)
	return m.ConnPool.QueryContext(ctx, query, args...)
}

func (m *meddler) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	m.before(query)
	return m.ConnPool.QueryRowContext(ctx, query, args...)
}

// TestStaleNoticedByAnother: between the encoding of a statement and its execution
// the swap happens, and another goroutine of the same program has noticed it by the
// time that this one asks for the schema.
func TestStaleNoticedByAnother(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(map[bool]string{false: "old column dropped", true: "old column kept"}[keep], func(t *testing.T) {
			onServers(t, func(b *bench) {
				for name, tc := range staleCases {
					if name == "transaction" {
						continue // its metadata lock would keep the swap out
					}
					b.Run(name, func(t *testing.T) {
						b := *b
						b.T = t
						b.flags("enum('N','Y') NOT NULL", "'N'", "'Y'")
						if keep {
							b.exec("ALTER TABLE flags ADD " + HelperColumn("v") + " TINYINT(1) NOT NULL DEFAULT 0")
							b.exec("UPDATE flags SET " + HelperColumn("v") + " = v = 'Y'")
						}
						db := b.open(still(), &gorm.Config{Logger: silent, SkipDefaultTransaction: true}, "")
						count := func() {
							var n int64
							b.must(db.Model(&flag{}).Where("v = ?", true).Count(&n))
							if n != 1 {
								b.Fatalf("counted %d", n)
							}
						}
						count()
						var swap sync.Once
						meddled := db.Session(&gorm.Session{NewDB: true, Context: b.Context()})
						meddled.Statement.ConnPool = &meddler{db.ConnPool, func(string) {
							swap.Do(func() {
								b.swap(keep)
								count()
							})
						}}
						if err := tc.do(meddled); err != nil {
							b.Fatal(err)
						}
						if got := b.stored("SELECT v FROM flags ORDER BY id"); got != tc.want {
							b.Fatalf("left %q, expected %q", got, tc.want)
						}
					})
				}
			})
		})
	}
}

// TestStaleTwice: the swap happens between the encoding of a statement and its
// execution, and its rollback before the second attempt.
func TestStaleTwice(t *testing.T) {
	cases := map[string]struct {
		do   func(db *gorm.DB) error
		want string
	}{
		"insert": {func(db *gorm.DB) error { return db.Create(&flag{V: true}).Error }, "N Y Y"},
		"update": {func(db *gorm.DB) error { return db.Model(&flag{ID: 1}).Update("v", true).Error }, "Y Y"},
		"find": {func(db *gorm.DB) error {
			var all []flag
			err := db.Where("v = ?", true).Find(&all).Error
			if err == nil && (len(all) != 1 || all[0].ID != 2 || !all[0].V) {
				return fmt.Errorf("found %+v", all)
			}
			return err
		}, "N Y"},
		"find all": {func(db *gorm.DB) error {
			var all []flag
			err := db.Order("id").Find(&all).Error
			if err == nil && (len(all) != 2 || all[0].V || !all[1].V) {
				return fmt.Errorf("found %+v", all)
			}
			return err
		}, "N Y"},
	}
	onServers(t, func(b *bench) {
		for name, tc := range cases {
			b.Run(name, func(t *testing.T) {
				b := *b
				b.T = t
				helper := HelperColumn("v")
				b.flags("enum('N','Y') NOT NULL", "'N'", "'Y'")
				b.exec("ALTER TABLE flags ADD " + helper + " TINYINT(1) NOT NULL DEFAULT 0")
				b.exec("UPDATE flags SET " + helper + " = v = 'Y'")
				db := b.open(still(), &gorm.Config{Logger: silent, SkipDefaultTransaction: true}, "")
				var n int64
				b.must(db.Model(&flag{}).Where("v = ?", true).Count(&n))
				attempts := 0
				meddled := db.Session(&gorm.Session{NewDB: true, Context: b.Context()})
				meddled.Statement.ConnPool = &meddler{db.ConnPool, func(query string) {
					if !strings.Contains(query, "`flags`") {
						return // the codec's own questions
					}
					switch attempts++; attempts {
					case 1:
						b.swap(true)
					case 2:
						b.exec("ALTER TABLE flags CHANGE v tmp TINYINT(1) NOT NULL DEFAULT 0, CHANGE " + helper + " v ENUM('N','Y') NOT NULL DEFAULT 'N'")
						b.exec("ALTER TABLE flags CHANGE tmp " + helper + " TINYINT(1) NOT NULL DEFAULT 0")
					}
				}}
				if err := tc.do(meddled); err != nil {
					b.Fatal(err)
				}
				if attempts < 2 {
					b.Fatalf("%d attempts, expected the second to meet the rollback", attempts)
				}
				if got := b.stored("SELECT v FROM flags ORDER BY id"); got != tc.want {
					b.Fatalf("left %q, expected %q", got, tc.want)
				}
			})
		}
	})
}

// TestCodecNestedStatement: another plugin's statement between the codec's in and out
// is encoded, and leaves the outer statement's text and values as they were.
func TestCodecNestedStatement(t *testing.T) {
	onServers(t, func(b *bench) {
		b.flags("enum('N','Y') NOT NULL", "'Y'")
		db := b.open(still(), nil, "")
		var n int64
		var nested error
		var text string
		var vars []any
		if err := db.Callback().Create().After("gorm:create").Before("gormflake:legacy-bools:out").Register("nested", func(tx *gorm.DB) {
			nested = tx.Session(&gorm.Session{NewDB: true}).Model(&flag{}).Where("v = ?", true).Count(&n).Error
			text, vars = tx.Statement.SQL.String(), tx.Statement.Vars
		}); err != nil {
			b.Fatal(err)
		}
		b.must(db.Create(&flag{V: false}))
		if nested != nil || n != 1 {
			b.Fatalf("counted %d, error %v, expected 1", n, nested)
		}
		if !strings.HasPrefix(text, "INSERT") {
			b.Errorf("the create's text is %q", text)
		}
		if len(vars) == 0 || vars[0] != "N" {
			b.Errorf("the create's values are %v, expected N first", vars)
		}
	})
}

// TestCodecUse: what a USE would do to one connection isn't done.
func TestCodecUse(t *testing.T) {
	onServers(t, func(b *bench) {
		b.flags("enum('N','Y') NOT NULL", "'Y'")
		db := b.open(still(), nil, "")
		if err := db.Exec("use mysql").Error; !errors.Is(err, ErrUse) {
			b.Fatalf("error %v, expected ErrUse", err)
		}
		b.must(db.Create(&flag{V: false}))
		if got := b.stored("SELECT v FROM flags ORDER BY id"); got != "Y N" {
			b.Fatalf("stored %q", got)
		}
	})
}
