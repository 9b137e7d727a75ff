package migrate

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"
)

// still is a codec that never asks for the schema on a schedule, so that these
// tests see what it does by itself.
func still() *Bools { return LegacyBools().Recheck(-1).Logger(quiet) }

// swap exchanges the enum and the tinyint of flags, as a migration does in one
// ALTER. With a keeper the old column stays beside the new one.
func (b *bench) swap(keep bool) {
	b.Helper()
	if !keep {
		b.exec("ALTER TABLE flags ADD w TINYINT(1)")
		b.exec("UPDATE flags SET w = CASE v WHEN 'Y' THEN 1 WHEN 'N' THEN 0 END")
		b.exec("ALTER TABLE flags DROP COLUMN v, CHANGE w v TINYINT(1) NOT NULL")
		return
	}
	b.exec("ALTER TABLE flags CHANGE v tmp ENUM('N','Y') NOT NULL DEFAULT 'N', CHANGE " + HelperColumn("v") + " v TINYINT(1) NOT NULL DEFAULT 0")
	b.exec("ALTER TABLE flags CHANGE tmp " + HelperColumn("v") + " ENUM('N','Y') NOT NULL DEFAULT 'N'")
}

// staleCases are statements of a program that has seen the enum, after the swap.
var staleCases = map[string]struct {
	do   func(db *gorm.DB) error
	want string // of SELECT v, before it two rows 0 and 1
}{
	"insert":  {func(db *gorm.DB) error { return db.Create(&flag{V: true}).Error }, "0 1 1"},
	"batch":   {func(db *gorm.DB) error { return db.Create(&[]flag{{V: false}, {V: true}}).Error }, "0 1 0 1"},
	"update":  {func(db *gorm.DB) error { return db.Model(&flag{ID: 1}).Update("v", true).Error }, "1 1"},
	"updates": {func(db *gorm.DB) error { return db.Model(&flag{ID: 2}).Updates(map[string]any{"v": false}).Error }, "0 0"},
	"update by the column": {func(db *gorm.DB) error {
		return db.Model(&flag{}).Where("v = ?", true).Update("v", false).Error
	}, "0 0"},
	"delete true":      {func(db *gorm.DB) error { return db.Where("v = ?", true).Delete(&flag{}).Error }, "0"},
	"delete false":     {func(db *gorm.DB) error { return db.Where("v = ?", false).Delete(&flag{}).Error }, "1"},
	"delete not true":  {func(db *gorm.DB) error { return db.Where("v <> ?", true).Delete(&flag{}).Error }, "1"},
	"delete not false": {func(db *gorm.DB) error { return db.Where("NOT v = ?", false).Delete(&flag{}).Error }, "0"},
	"delete not equal": {func(db *gorm.DB) error { return db.Where("NOT (v = ?)", true).Delete(&flag{}).Error }, "1"},
	"delete not both":  {func(db *gorm.DB) error { return db.Where("NOT (v <> ?)", true).Delete(&flag{}).Error }, "0"},
	"delete in":        {func(db *gorm.DB) error { return db.Where("v IN ?", []bool{true}).Delete(&flag{}).Error }, "0"},
	"delete null safe": {func(db *gorm.DB) error { return db.Where("v <=> ?", true).Delete(&flag{}).Error }, "0"},
	"raw":              {func(db *gorm.DB) error { return db.Exec("INSERT INTO flags (v) VALUES (?)", true).Error }, "0 1 1"},
	"param": {func(db *gorm.DB) error {
		return db.Exec("INSERT INTO flags (v) SELECT ?", Param(db, &flag{}, "v", true)).Error
	}, "0 1 1"},
	"transaction": {func(db *gorm.DB) error {
		return db.Transaction(func(tx *gorm.DB) error {
			return errors.Join(tx.Create(&flag{V: true}).Error, tx.Where("v = ?", false).Delete(&flag{}).Error)
		})
	}, "1 1"},
	"find": {func(db *gorm.DB) error {
		var all []flag
		err := db.Where("v = ?", true).Find(&all).Error
		if err == nil && (len(all) != 1 || all[0].ID != 2 || !all[0].V) {
			return fmt.Errorf("found %+v", all)
		}
		return err
	}, "0 1"},
	"find all": {func(db *gorm.DB) error {
		var all []flag
		err := db.Order("id").Find(&all).Error
		if err == nil && (all[0].V || !all[1].V) {
			return fmt.Errorf("found %+v", all)
		}
		return err
	}, "0 1"},
	"ids": {func(db *gorm.DB) error {
		var ids []int64
		err := db.Model(&flag{}).Where("v = ?", true).Pluck("id", &ids).Error
		if err == nil && fmt.Sprint(ids) != "[2]" {
			return fmt.Errorf("found %v", ids)
		}
		return err
	}, "0 1"},
	"count": {func(db *gorm.DB) error {
		var n int64
		err := db.Model(&flag{}).Where("v = ?", true).Count(&n).Error
		if err == nil && n != 1 {
			return fmt.Errorf("counted %d", n)
		}
		return err
	}, "0 1"},
}

// TestTrap13StaleLabels: a program that still sends labels after the migration. A
// comparison with 'Y' matched, and on MariaDB deleted, the false rows.
func TestTrap13StaleLabels(t *testing.T) {
	for i, name := range []string{"old column dropped", "old column dropped, in a transaction", "old column kept", "old column kept, in a transaction"} {
		keep := i >= 2
		t.Run(name, func(t *testing.T) {
			onServers(t, func(b *bench) {
				for name, tc := range staleCases {
					b.Run(name, func(t *testing.T) {
						b := *b
						b.T = t
						b.flags("enum('N','Y') NOT NULL", "'N'", "'Y'")
						if keep {
							b.exec("ALTER TABLE flags ADD " + HelperColumn("v") + " TINYINT(1) NOT NULL DEFAULT 0")
							b.exec("UPDATE flags SET " + HelperColumn("v") + " = v = 'Y'")
						}
						db := b.open(still(), nil, "")
						var n int64
						b.must(db.Model(&flag{}).Where("v = ?", true).Count(&n)) // now it knows the enum
						if n != 1 {
							b.Fatalf("counted %d before the swap", n)
						}
						b.swap(keep)
						do := tc.do
						if i%2 == 1 { // in a transaction, where one result must be read before the next query
							do = func(db *gorm.DB) error { return db.Transaction(tc.do) }
						}
						if err := do(db); err != nil {
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

// TestStaleNumbers is the way back: a program that learned of the tinyint while
// both columns were there, after a rollback to the enum.
func TestStaleNumbers(t *testing.T) {
	cases := map[string]struct {
		do   func(db *gorm.DB) error
		want string
	}{
		"insert":           {func(db *gorm.DB) error { return db.Create(&flag{V: true}).Error }, "N Y Y"},
		"insert false":     {func(db *gorm.DB) error { return db.Create(&flag{V: false}).Error }, "N Y N"},
		"update":           {func(db *gorm.DB) error { return db.Model(&flag{ID: 1}).Update("v", true).Error }, "Y Y"},
		"delete true":      {func(db *gorm.DB) error { return db.Where("v = ?", true).Delete(&flag{}).Error }, "N"},
		"delete not true":  {func(db *gorm.DB) error { return db.Where("v <> ?", true).Delete(&flag{}).Error }, "Y"},
		"delete not false": {func(db *gorm.DB) error { return db.Not("v = ?", false).Delete(&flag{}).Error }, "N"},
		"find": {func(db *gorm.DB) error {
			var all []flag
			err := db.Where("v = ?", true).Find(&all).Error
			if err == nil && (len(all) != 1 || all[0].ID != 2 || !all[0].V) {
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
				b.flags("tinyint(1) NOT NULL", "0", "1")
				b.exec("ALTER TABLE flags ADD " + helper + " ENUM('N','Y') NOT NULL DEFAULT 'N'")
				b.exec("UPDATE flags SET " + helper + " = IF(v, 'Y', 'N')")
				db := b.open(still(), nil, "")
				var n int64
				b.must(db.Model(&flag{}).Where("v = ?", true).Count(&n))
				if n != 1 {
					b.Fatalf("counted %d before the rollback", n)
				}
				b.exec("ALTER TABLE flags DROP COLUMN v, CHANGE " + helper + " v ENUM('N','Y') NOT NULL, ADD KEY (v)")
				if err := tc.do(db); err != nil {
					b.Fatal(err)
				}
				if got := b.stored("SELECT v FROM flags ORDER BY id"); got != tc.want {
					b.Fatalf("left %q, expected %q", got, tc.want)
				}
			})
		}
	})
}

// TestStaleLoose: without a strict mode no error tells of a swap. A migration's two
// columns do, and the writes are right even so.
func TestStaleLoose(t *testing.T) {
	inModes(t, func(b *bench) {
		for _, config := range []gorm.Config{{}, {SkipDefaultTransaction: true}, {PrepareStmt: true, SkipDefaultTransaction: true}} {
			helper := HelperColumn("v")
			b.flags("enum('N','Y') NOT NULL")
			b.exec("ALTER TABLE flags ADD " + helper + " TINYINT(1) NOT NULL DEFAULT 0")
			config.Logger = silent
			db := b.open(still(), &config, "")
			b.must(db.Create(&flag{V: true}))
			b.exec("UPDATE flags SET " + helper + " = 1")
			b.swap(true)
			b.must(db.Create(&[]flag{{V: true}, {V: false}}))
			b.must(db.Model(&flag{ID: 1}).Update("v", false))
			b.must(db.Model(&flag{}).Where("v = ? AND id > ?", false, 2).Update("v", true))
			if got := b.stored("SELECT v FROM flags ORDER BY id"); got != "0 1 1" {
				b.Fatalf("stored %q", got)
			}
		}
	})
}

// TestStaleOnce: a value that no encoding helps with fails once, with the server's
// own error.
func TestStaleOnce(t *testing.T) {
	onServers(t, func(b *bench) {
		b.flags("enum('N','Y') NOT NULL")
		db := b.open(still(), nil, "")
		b.must(db.Create(&flag{V: true}))
		err := db.Exec("INSERT INTO flags (v, id) VALUES (?, ?)", true, "no number").Error
		if err == nil || !isStale(err) || strings.Contains(err.Error(), "migrate:") {
			b.Fatalf("error %v, expected the server's", err)
		}
	})
}

// TestStaleMyISAM: what may have been half done isn't done again.
func TestStaleMyISAM(t *testing.T) {
	onServers(t, func(b *bench) {
		b.exec("CREATE TABLE flags (id BIGINT PRIMARY KEY AUTO_INCREMENT, v ENUM('N','Y') NOT NULL) ENGINE=MyISAM")
		db := b.open(still(), nil, "")
		b.must(db.Create(&flag{V: true}))
		b.swap(false)
		if err := db.Create(&flag{V: true}).Error; !isStale(err) {
			b.Fatalf("error %v, expected the server's", err)
		}
		b.must(db.Create(&flag{V: true}))
		if got := b.stored("SELECT v FROM flags"); got != "1 1" {
			b.Fatalf("stored %q", got)
		}
	})
}

// TestSwapUnderPrograms: writers and readers go on through a swap there and back;
// none fails, and no value is lost or inverted.
func TestSwapUnderPrograms(t *testing.T) {
	inModes(t, func(b *bench) {
		b.flags("enum('N','Y') NOT NULL")
		helper := HelperColumn("v")
		b.exec("ALTER TABLE flags ADD name BIGINT NOT NULL DEFAULT 0, ADD " + helper + " TINYINT(1) NOT NULL DEFAULT 0")
		body := " SET NEW." + helper + " = CASE NEW.v WHEN 'Y' THEN 1 WHEN 'N' THEN 0 END"
		back := " SET NEW." + helper + " = CASE NEW.v WHEN 1 THEN 'Y' WHEN 0 THEN 'N' END"
		trigger := func(body string) {
			b.exec("CREATE TRIGGER flags_i BEFORE INSERT ON flags FOR EACH ROW" + body)
			b.exec("CREATE TRIGGER flags_u BEFORE UPDATE ON flags FOR EACH ROW" + body)
		}
		trigger(body)
		type row struct {
			ID   int64
			V    bool
			Name int64
		}
		stop := make(chan struct{})
		var group sync.WaitGroup
		failures := make(chan error, 8)
		wrote := make(chan struct{}, 1<<16)
		programs := [2]*gorm.DB{} // of two goroutines each
		for i := range programs {
			programs[i] = b.open(still(), &gorm.Config{Logger: silent, PrepareStmt: i == 0}, "")
		}
		for w := range 4 {
			db := programs[w%2].Table("flags")
			group.Go(func() {
				for n := int64(0); ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					r := row{V: n%3 == 0, Name: n*2 + 1 - n%3/2}
					r.Name = map[bool]int64{true: 1, false: 2}[r.V]
					if err := db.Session(&gorm.Session{}).Create(&r).Error; err != nil {
						failures <- fmt.Errorf("create: %w", err)
						return
					}
					r.V, r.Name = !r.V, 3-r.Name
					if err := db.Session(&gorm.Session{}).Where("id = ?", r.ID).Select("v", "name").Updates(&r).Error; err != nil {
						failures <- fmt.Errorf("update: %w", err)
						return
					}
					var wrong []row
					if err := db.Session(&gorm.Session{}).Where("v = ? AND name = 2 OR v = ? AND name = 1", true, false).Find(&wrong).Error; err != nil || len(wrong) > 0 {
						failures <- fmt.Errorf("find: %+v, %w", wrong, errors.Join(err, errors.New("rows whose value and name disagree")))
						return
					}
					var right int64
					if err := db.Session(&gorm.Session{}).Where("v = ? AND name = 1 AND id = ? OR v = ? AND name = 2 AND id = ?", true, r.ID, false, r.ID).Count(&right).Error; err != nil || right != 1 {
						failures <- fmt.Errorf("count %d: %w", right, errors.Join(err, errors.New("the row that was written isn't found")))
						return
					}
					wrote <- struct{}{}
				}
			})
		}
		progress := func() {
			for range 40 {
				select {
				case <-wrote:
				case err := <-failures:
					failures <- err
					return
				}
			}
		}
		exchange := func(from, to, body string) {
			conn, err := b.sql.Conn(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			for _, s := range []string{
				"LOCK TABLES flags WRITE", "DROP TRIGGER flags_i", "DROP TRIGGER flags_u",
				"ALTER TABLE flags CHANGE v " + helper + " " + from + ", CHANGE " + helper + " v " + to,
				"CREATE TRIGGER flags_i BEFORE INSERT ON flags FOR EACH ROW" + body,
				"CREATE TRIGGER flags_u BEFORE UPDATE ON flags FOR EACH ROW" + body,
				"UNLOCK TABLES",
			} {
				if _, err := conn.ExecContext(b.Context(), s); err != nil {
					b.Fatalf("%s: %v", s, err)
				}
			}
		}
		const enum, tiny = "ENUM('N','Y') NOT NULL DEFAULT 'N'", "TINYINT(1) NOT NULL DEFAULT 0"
		progress()
		exchange(enum, tiny, back)
		progress()
		exchange(tiny, enum, body)
		progress()
		close(stop)
		group.Wait()
		select {
		case err := <-failures:
			b.Fatal(err)
		default:
		}
		if got := b.stored("SELECT COUNT(*) FROM flags WHERE NOT (name = 1 AND v = 'Y' OR name = 2 AND v = 'N') OR " + helper + " <> (v = 'Y')"); got != "0" {
			b.Fatalf("%s rows are wrong", got)
		}
	})
}

// TestCodecRollbackOfText: a char or varchar takes any text that fits, so a program
// that goes on at the moment of a rollback must send what doesn't.
func TestCodecRollbackOfText(t *testing.T) {
	type T struct {
		ID int64 `gorm:"primaryKey"`
		V  bool
	}
	onMySQL(t, func(t *testing.T, f *fixture) {
		for _, column := range []string{"char(1)", "varchar(3)", "varchar(5)", "varchar(255)"} {
			f.exec("CREATE TABLE t (id bigint NOT NULL PRIMARY KEY, v " + column + " NOT NULL)")
			f.exec("INSERT INTO t VALUES (1, 'N'), (2, 'Y')")
			p := f.plan(BoolSpec{Table: "t", Columns: []string{"v"}})
			db := f.srv.OpenDSN(t, f.dsn, nil)
			if err := db.Use(still()); err != nil { // relies on what it has read, however old
				t.Fatal(err)
			}
			write := func(id int64) {
				t.Helper()
				if err := db.Table("t").Create(&T{id, id%2 == 0}).Error; err != nil {
					t.Fatal(err)
				}
				if err := db.Table("t").Where("id = ?", id-2).Update("v", id%2 == 0).Error; err != nil {
					t.Fatal(err)
				}
			}
			f.must(p.Prepare, fill(p), p.Swap)
			write(3)
			write(4)
			if got := join(f.column("SELECT v FROM t ORDER BY id")); got != "0 1 0 1" {
				t.Errorf("%s, swapped: expected 0 1 0 1, met %s", column, got)
			}
			f.must(p.Rollback)
			write(5)
			write(6)
			if got := join(f.column("SELECT v FROM t ORDER BY id")); got != "N Y N Y N Y" {
				t.Errorf("%s, rolled back: expected N Y N Y N Y, met %s", column, got)
			}
			f.exec("DROP TABLE t")
		}
	})
}
