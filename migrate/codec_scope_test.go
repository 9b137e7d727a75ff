package migrate

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// TestCodecTwoDatabases: one model, two databases, two encodings, one process; with
// a codec for both and with one for each.
func TestCodecTwoDatabases(t *testing.T) {
	for name, codecs := range map[string]func() (*Bools, *Bools){
		"one codec":  func() (*Bools, *Bools) { c := LegacyBools(&flag{}); return c, c },
		"two codecs": func() (*Bools, *Bools) { return LegacyBools(&flag{}), LegacyBools(&flag{}) },
	} {
		t.Run(name, func(t *testing.T) {
			onServers(t, func(b *bench) {
				other := &bench{T: b.T, srv: b.srv, kind: b.kind}
				newBench(b.T, b.srv, "strict", func(o *bench) { other = o })
				b.flags("enum('N','Y') NOT NULL")
				other.flags("enum('true','false') NOT NULL")
				codec1, codec2 := codecs()
				db1, db2 := b.open(codec1, nil, ""), other.open(codec2, nil, "")
				for range 2 {
					b.must(db1.Create(&[]flag{{V: true}, {V: false}}))
					b.must(db2.Create(&[]flag{{V: true}, {V: false}}))
				}
				if got := b.stored("SELECT v FROM flags ORDER BY id") + "; " + other.stored("SELECT v FROM flags ORDER BY id"); got != "Y N Y N; true false true false" {
					b.Fatalf("stored %q", got)
				}
				if got := b.ids(db1.Where(&flag{V: true})) + "; " + b.ids(db2.Where("v = ?", true)); got != "1 3; 1 3" {
					b.Fatalf("found %q", got)
				}
				// And from one connection into the other database.
				name := other.stored("SELECT DATABASE()")
				b.must(db1.Exec("INSERT INTO `"+name+"`.flags (v) VALUES (?), (?)", true, false))
				b.must(db1.Exec("UPDATE `"+name+"`.flags o JOIN flags f ON f.id = o.id SET o.v = ? WHERE f.v = ? AND o.v = ? AND f.id = 1", false, true, true))
				b.must(db1.Table("`"+name+"`.flags").Where("id < ? AND v = ?", 4, true).Update("v", false))
				if got := other.stored("SELECT v FROM flags ORDER BY id"); got != "false false false false true false" {
					b.Fatalf("stored %q", got)
				}
			})
		})
	}
}

// TestCodecShards: a model over many tables of different ages.
func TestCodecShards(t *testing.T) {
	onServers(t, func(b *bench) {
		for name, column := range map[string]string{"flags": "enum('N','Y')", "flags_2024": "char(1)", "flags_2025": "tinyint(1)", "archive": "enum('Y','N')"} {
			b.exec("CREATE TABLE " + name + " (id BIGINT PRIMARY KEY AUTO_INCREMENT, v " + column + " NOT NULL)")
		}
		for _, codec := range []*Bools{LegacyBools(), LegacyBools(&flag{}), LegacyBools(&flag{}).Mapping("flags", "v", "Y", "N")} {
			db := b.open(codec, nil, "")
			for name, want := range map[string]string{"flags": "Y N", "flags_2024": "Y N", "flags_2025": "1 0", "archive": "Y N"} {
				b.exec("TRUNCATE TABLE " + name)
				if name != "archive" { // raw SQL first: no model has shown the table yet
					b.must(db.Exec("INSERT INTO "+name+" (v) VALUES (?)", true))
				} else {
					b.must(db.Table(name).Create(&flag{V: true}))
				}
				b.must(db.Table(name).Create(&flag{V: false}))
				if got := b.stored("SELECT v FROM " + name + " ORDER BY id"); got != want {
					b.Errorf("%s: stored %q, expected %q", name, got, want)
				}
				var all []flag
				b.must(db.Table(name).Where("v = ?", true).Find(&all))
				if len(all) != 1 || all[0].ID != 1 || !all[0].V {
					b.Errorf("%s: found %+v", name, all)
				}
			}
		}
	})
}

// TestCodecNamed: a codec for named models leaves the others alone, and reads the
// label into a string.
func TestCodecNamed(t *testing.T) {
	type label struct {
		ID int64
		V  string
	}
	onServers(t, func(b *bench) {
		b.flags("enum('N','Y') NOT NULL")
		b.exec("CREATE TABLE labels (id BIGINT PRIMARY KEY AUTO_INCREMENT, v ENUM('N','Y') NOT NULL)")
		for _, codec := range []*Bools{LegacyBools(&flag{}), LegacyBools()} {
			b.exec("DELETE FROM labels")
			db := b.open(codec, nil, "")
			b.must(db.Create(&[]label{{V: "Y"}, {V: "N"}}))
			var all []label
			b.must(db.Order("id").Find(&all))
			if len(all) != 2 || all[0].V != "Y" || all[1].V != "N" {
				b.Fatalf("found %+v", all)
			}
			all = nil
			b.must(db.Model(&label{}).Where("v = ?", "Y").Scan(&all))
			if len(all) != 1 || all[0].V != "Y" {
				b.Fatalf("scanned %+v", all)
			}
		}
		// Nobody has said that labels.v is a boolean: what scans it gets the label.
		var labels []string
		b.must(b.open(LegacyBools(), nil, "").Raw("SELECT v FROM labels ORDER BY id").Scan(&labels))
		if strings.Join(labels, "") != "YN" {
			b.Fatalf("scanned %q", labels)
		}
		if err := b.open(LegacyBools(&flag{}), nil, "").Exec("INSERT INTO labels (v) VALUES (?)", true).Error; err != nil {
			b.Fatalf("a table that the codec isn't for: %v", err)
		}
		if got := b.stored("SELECT v FROM labels WHERE id = LAST_INSERT_ID() OR id = (SELECT MAX(id) FROM labels)"); got != "N" {
			b.Fatalf("MySQL stored %q by index; N is expected", got)
		}
	})
}

// TestCodecUnproven: what can't be proven fails before anything is sent, or warns.
func TestCodecUnproven(t *testing.T) {
	onServers(t, func(b *bench) {
		b.flags("enum('N','Y') NOT NULL", "'N'")
		db := b.open(LegacyBools(), nil, "")
		for name, tx := range map[string]func(*gorm.DB) *gorm.DB{
			"exec": func(db *gorm.DB) *gorm.DB { return db.Exec("UPDATE flags SET v = IFNULL(?, v)", true) },
			"raw": func(db *gorm.DB) *gorm.DB {
				return db.Raw("SELECT IF(v = 'Y', ?, ?) FROM flags", true, false).Scan(new(bool))
			},
			"where": func(db *gorm.DB) *gorm.DB { return db.Where("COALESCE(v, ?) = 'Y'", true).Find(&[]flag{}) },
			"expr": func(db *gorm.DB) *gorm.DB {
				return db.Model(&flag{ID: 1}).Update("v", gorm.Expr("COALESCE(?, v)", true))
			},
			"delete": func(db *gorm.DB) *gorm.DB { return db.Where("v + 0 = ?", true).Delete(&flag{}) },
			"row": func(db *gorm.DB) *gorm.DB {
				_ = db.AddError(db.Raw("SELECT v = CONCAT(?) FROM flags", true).Row().Scan(new(bool)))
				return db
			},
			"generics": func(db *gorm.DB) *gorm.DB {
				_, err := gorm.G[flag](db).Where("v IN (v, ?)", true).Find(b.Context())
				_ = db.AddError(err)
				return db
			},
			"no list": func(db *gorm.DB) *gorm.DB { return db.Exec("INSERT INTO flags VALUES (7, ?)", true) },
			"named": func(db *gorm.DB) *gorm.DB {
				return db.Where("IFNULL(v, @v) = 'Y'", map[string]any{"v": true}).Find(&[]flag{})
			},
			"subselect": func(db *gorm.DB) *gorm.DB {
				return db.Where("id IN (?)", db.Session(&gorm.Session{NewDB: true}).Model(&flag{}).Select("id").Where("GREATEST(v, ?) = v", true)).Find(&[]flag{})
			},
		} {
			err := tx(db.Session(&gorm.Session{NewDB: true}).Session(&gorm.Session{})).Error
			var detail *UnprovenBoolError
			if !errors.As(err, &detail) || !errors.Is(err, ErrUnprovenBool) || detail.Table != "flags" || detail.Column != "v" || !strings.Contains(err.Error(), "migrate.Param") {
				b.Errorf("%s: %v, expected ErrUnprovenBool for flags.v", name, err)
			}
		}
		if got := b.stored("SELECT v FROM flags"); got != "N" {
			b.Fatalf("the table holds %q", got)
		}
		var log bytes.Buffer
		warned := b.open(LegacyBools().WarnOnRaw().Logger(slog.New(slog.NewTextHandler(&log, nil))), nil, "")
		b.must(warned.Exec("UPDATE flags SET v = IFNULL(?, v)", true))
		if !strings.Contains(log.String(), "table=flags column=v") {
			b.Fatalf("the log holds %q", log.String())
		}
	})
}

// TestCodecMistaken: mappings and columns that don't fit.
func TestCodecMistaken(t *testing.T) {
	type order struct {
		ID    int64
		State bool
	}
	type tagged struct {
		ID    int64
		State bool `gorm:"legacybool:on,off"`
	}
	type badTag struct {
		ID    int64
		State bool `gorm:"legacybool:on"`
	}
	onServers(t, func(b *bench) {
		b.exec("CREATE TABLE orders (id BIGINT PRIMARY KEY AUTO_INCREMENT, state ENUM('off','on') NOT NULL)")
		db := b.open(LegacyBools(), nil, "")
		if err := db.Create(&order{State: true}).Error; !errors.Is(err, ErrNotBoolean) || !strings.Contains(err.Error(), "Mapping") {
			b.Errorf("an enum without a mapping: %v, expected ErrNotBoolean", err)
		}
		if err := db.Where("state = ?", true).Find(&[]order{}).Error; !errors.Is(err, ErrNotBoolean) {
			b.Errorf("an enum without a mapping: %v, expected ErrNotBoolean", err)
		}
		tags := b.open(LegacyBools(&tagged{}), nil, "").Table("orders")
		b.must(tags.Session(&gorm.Session{}).Create(&tagged{State: true}))
		var all []tagged
		b.must(tags.Session(&gorm.Session{}).Where("state = ?", true).Find(&all))
		if len(all) != 1 || !all[0].State || b.stored("SELECT state FROM orders") != "on" {
			b.Errorf("by tag: found %+v", all)
		}
		b.exec("ALTER TABLE orders CHANGE state state VARCHAR(3) NOT NULL") // a mapping goes on where it can
		b.must(tags.Session(&gorm.Session{}).Create(&tagged{State: false}))
		if got := b.stored("SELECT state FROM orders ORDER BY id"); got != "on off" {
			b.Errorf("stored %q", got)
		}
		for name, codec := range map[string]*Bools{
			"labels alike": LegacyBools().Mapping("orders", "state", "on", "on"),
			"no table":     LegacyBools().Mapping("", "state", "on", "off"),
			"bad tag":      LegacyBools(&badTag{}),
			"no model":     LegacyBools(7),
		} {
			if err := b.open(nil, nil, "").Use(codec); err == nil || !strings.HasPrefix(err.Error(), "migrate: ") {
				b.Errorf("%s: %v", name, err)
			}
		}
		for name, value := range map[string]any{
			"no table":  Param(db, "nowhere", "state", true),
			"no column": Param(db, "orders", "nothing", true),
			"no labels": Param(db, "orders", "state", true),
			"no model":  Param(db, 7, "state", true),
		} {
			if name == "no labels" {
				b.exec("ALTER TABLE orders CHANGE state state ENUM('off','on') NOT NULL")
			}
			if err := db.Exec("UPDATE orders SET state = ?", value).Error; !errors.Is(err, ErrNotBoolean) {
				b.Errorf("Param, %s: %v, expected ErrNotBoolean", name, err)
			}
		}
		plain := b.open(nil, nil, "")
		if err := plain.Exec("UPDATE orders SET state = ?", Param(plain, "orders", "state", true)).Error; !errors.Is(err, ErrNoCodec) {
			b.Errorf("Param without the codec: %v, expected ErrNoCodec", err)
		}
	})
}

// TestCodecLog: the log and ToSQL show what is sent.
func TestCodecLog(t *testing.T) {
	onServers(t, func(b *bench) {
		b.flags("enum('N','Y') NOT NULL", "'N'")
		var log strings.Builder
		db := b.open(LegacyBools(), &gorm.Config{Logger: logger.New(writer{&log}, logger.Config{LogLevel: logger.Info})}, "")
		b.must(db.Model(&flag{}).Where("v = ?", false).Update("v", true))
		if !strings.Contains(log.String(), "UPDATE `flags` SET `v`='Y' WHERE v = 'N'") {
			b.Errorf("the log holds %s", log.String())
		}
		got := db.ToSQL(func(tx *gorm.DB) *gorm.DB {
			return tx.Where("v = ?", true).Where("id IN (?)", db.Model(&flag{}).Select("id").Where("v = ?", false)).Find(&[]flag{})
		})
		if want := "SELECT * FROM `flags` WHERE (v = 'Y' AND v <> '0') AND id IN (SELECT `id` FROM `flags` WHERE v = 'N')"; got != want {
			b.Errorf("ToSQL = %s, want %s", got, want)
		}
	})
}

type writer struct{ b *strings.Builder }

func (w writer) Printf(format string, args ...any) { fmt.Fprintf(w.b, format, args...) }

// TestCodecConnections: one connection only, a connection of one's own, and a
// context that ends.
func TestCodecConnections(t *testing.T) {
	onServers(t, func(b *bench) {
		b.flags("enum('N','Y') NOT NULL")
		db := b.open(LegacyBools().Recheck(time.Nanosecond), nil, "")
		pool, err := db.DB()
		if err != nil {
			b.Fatal(err)
		}
		pool.SetMaxOpenConns(1) // whatever the codec asks must go over the statement's connection
		err = db.Transaction(func(tx *gorm.DB) error {
			if err := tx.Create(&flag{V: true}).Error; err != nil {
				return err
			}
			var all []flag
			return tx.Where("v = ?", true).Find(&all).Error
		})
		if err != nil {
			b.Fatal(err)
		}
		if err := db.Connection(func(tx *gorm.DB) error {
			return tx.Create(&flag{V: false}).Error
		}); err != nil {
			b.Fatal(err)
		}
		for range 3 { // closed rows give their connection back
			rows, err := db.Model(&flag{}).Rows()
			if err != nil {
				b.Fatal(err)
			}
			if !rows.Next() {
				b.Fatal(rows.Err())
			}
			if err := rows.Close(); err != nil {
				b.Fatal(err)
			}
			var v bool
			if err := db.Model(&flag{}).Select("v").Order("id").Limit(1).Row().Scan(&v); err != nil || !v {
				b.Fatal(v, err)
			}
		}
		ctx, cancel := context.WithCancel(b.Context())
		cancel()
		if err := db.WithContext(ctx).Find(&[]flag{}).Error; !errors.Is(err, context.Canceled) {
			b.Fatalf("error %v, expected context.Canceled", err)
		}
		if got := b.stored("SELECT v FROM flags ORDER BY id"); got != "Y N" {
			b.Fatalf("stored %q", got)
		}
	})
}

// TestCodecRefresh: on demand the schema is read anew.
func TestCodecRefresh(t *testing.T) {
	onServers(t, func(b *bench) {
		b.flags("tinyint(1) NOT NULL", "1")
		codec := still()
		db := b.open(codec, nil, "")
		b.must(db.Create(&flag{V: true}))
		b.flags("enum('N','Y') NOT NULL")
		codec.Refresh()
		b.must(db.Create(&flag{V: true}))
		// And by itself after DDL that passes through GORM.
		b.must(db.Exec("DROP TABLE flags"))
		b.must(db.Exec("CREATE TABLE flags (id BIGINT PRIMARY KEY AUTO_INCREMENT, v ENUM('true','false') NOT NULL)"))
		b.must(db.Create(&flag{V: true}))
		if got := b.stored("SELECT v FROM flags"); got != "true" {
			b.Fatalf("stored %q", got)
		}
	})
}

// TestCodecConcurrent has many goroutines use one codec while models are parsed for
// the first time; run it with -race.
func TestCodecConcurrent(t *testing.T) {
	type one struct {
		ID int64
		V  bool `gorm:"default:true"`
	}
	type two struct {
		ID int64
		V  *bool
	}
	onServers(t, func(b *bench) {
		b.exec("CREATE TABLE ones (id BIGINT PRIMARY KEY AUTO_INCREMENT, v ENUM('N','Y') NOT NULL)")
		b.exec("CREATE TABLE twos (id BIGINT PRIMARY KEY AUTO_INCREMENT, v CHAR(1) NULL)")
		db := b.open(LegacyBools().Recheck(time.Millisecond), &gorm.Config{Logger: silent}, "")
		var group sync.WaitGroup
		fail := make(chan error, 64)
		for g := range 8 {
			group.Go(func() {
				for i := range 20 {
					v := (g+i)%2 == 0
					var ones []one
					var twos []two
					fail <- errors.Join(
						db.Create(&one{V: v}).Error, db.Create(&two{V: &v}).Error,
						db.Model(&one{}).Where("v = ? AND id < 0", v).Update("v", v).Error,
						db.Where(&one{V: true}).Limit(3).Find(&ones).Error, db.Where("v = ?", v).Limit(3).Find(&twos).Error,
					)
				}
			})
		}
		go func() { group.Wait(); close(fail) }()
		for err := range fail {
			if err != nil {
				b.Error(err)
			}
		}
		if got := b.stored("SELECT CONCAT(COUNT(*), '/', SUM(v = 'Y')) FROM ones") + " " + b.stored("SELECT CONCAT(COUNT(*), '/', SUM(v = 'Y')) FROM twos"); got != "160/80 160/80" {
			b.Fatalf("stored %q", got)
		}
	})
}

// TestCodecLeaks: a decoded result leaves no goroutine behind.
func TestCodecLeaks(t *testing.T) {
	onServers(t, func(b *bench) {
		b.flags("enum('N','Y') NOT NULL", "'Y'")
		db := b.open(LegacyBools(), nil, "")
		b.must(db.Find(&[]flag{}))
		before := goleak.IgnoreCurrent()
		for range 10 {
			b.must(db.Where("v = ?", true).Find(&[]flag{}))
			var v sql.NullBool
			if err := db.Model(&flag{}).Select("v").Row().Scan(&v); err != nil || !v.Bool {
				b.Fatal(v, err)
			}
		}
		goleak.VerifyNone(b.T, before)
	})
}
