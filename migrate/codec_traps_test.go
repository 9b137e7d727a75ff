package migrate

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"
)

// flag is a row with one boolean, for the traps. The traps carry the numbers of
// the list in docs/legacy-booleans.md; those that a test here doesn't name are the
// migration's.
type flag struct {
	ID int64
	V  bool
}

func (b *bench) flags(column string, rows ...string) {
	b.Helper()
	b.exec("DROP TABLE IF EXISTS flags")
	b.exec("CREATE TABLE flags (id BIGINT PRIMARY KEY AUTO_INCREMENT, v " + column + ", KEY (v))")
	for _, row := range rows {
		b.exec("INSERT INTO flags (v) VALUES (" + row + ")")
	}
}

func (b *bench) ids(db *gorm.DB) string {
	b.Helper()
	var ids []int64
	b.must(db.Model(&flag{}).Order("id").Pluck("id", &ids))
	return strings.Trim(fmt.Sprint(ids), "[]")
}

var indexed = []struct{ column, yes, no string }{
	{"enum('N','Y') NOT NULL", "Y", "N"},
	{"enum('0','1') NOT NULL", "1", "0"},
	{"enum('false','true') NOT NULL", "true", "false"},
}

// TestTrap01WriteTrue: true became the first label.
func TestTrap01WriteTrue(t *testing.T) {
	inModes(t, func(b *bench) {
		for _, c := range indexed {
			b.flags(c.column)
			b.must(b.open(nil, nil, "").Create(&flag{V: true}))
			b.must(b.open(LegacyBools(), nil, "").Create(&flag{V: true}))
			if got := b.stored("SELECT v FROM flags ORDER BY id"); got != c.no+" "+c.yes {
				b.Errorf("%s: stored %q; expected GORM's %s and the codec's %s", c.column, got, c.no, c.yes)
			}
		}
	})
}

// TestTrap02WriteFalse: false was refused, or stored as the empty text.
func TestTrap02WriteFalse(t *testing.T) {
	inModes(t, func(b *bench) {
		for _, c := range indexed {
			b.flags(c.column)
			b.must(b.open(LegacyBools(), nil, "").Create(&flag{V: false}))
			if got := b.stored("SELECT v FROM flags"); got != c.no {
				b.Errorf("%s: stored %q, expected %s", c.column, got, c.no)
			}
		}
	})
}

// TestTrap03Where: true found the false rows and false found none.
func TestTrap03Where(t *testing.T) {
	inModes(t, func(b *bench) {
		for _, c := range indexed {
			b.flags(c.column, "'"+c.no+"'", "'"+c.yes+"'", "'"+c.yes+"'")
			if got := b.ids(b.open(nil, nil, "").Where("v = ?", true)); got != "1" {
				b.Errorf("%s: without the codec %q; the trap is gone", c.column, got)
			}
			db := b.open(LegacyBools(), nil, "")
			for v, want := range map[bool]string{true: "2 3", false: "1"} {
				if got := b.ids(db.Where("v = ?", v)); got != want {
					b.Errorf("%s: v = %v found %q, expected %q", c.column, v, got, want)
				}
			}
		}
	})
}

// TestTrap04Scan: Y and N didn't convert to bool.
func TestTrap04Scan(t *testing.T) {
	onServers(t, func(b *bench) {
		b.flags("enum('N','Y')", "'N'", "'Y'", "NULL")
		var all []flag
		b.must(b.open(LegacyBools(), nil, "").Order("id").Find(&all))
		if len(all) != 3 || all[0].V || !all[1].V || all[2].V {
			b.Fatalf("found %+v", all)
		}
	})
}

// TestTrap05ReadsRightWritesWrong: enum('0','1') was read right and written inverted.
func TestTrap05ReadsRightWritesWrong(t *testing.T) {
	inModes(t, func(b *bench) {
		for _, c := range indexed[1:] {
			b.flags(c.column)
			db := b.open(LegacyBools(), nil, "")
			rows := []flag{{V: true}, {V: false}}
			b.must(db.Create(&rows))
			b.must(db.Model(&rows[0]).Update("v", false))
			b.must(db.Model(&rows[1]).Updates(map[string]any{"v": true}))
			var all []flag
			b.must(db.Order("id").Find(&all))
			if all[0].V || !all[1].V || b.stored("SELECT v FROM flags ORDER BY id") != c.no+" "+c.yes {
				b.Errorf("%s: read %+v of %s", c.column, all, b.stored("SELECT v FROM flags ORDER BY id"))
			}
		}
	})
}

// TestTrap06TruthByIndex: a bare column and IS TRUE go by the index; refused.
func TestTrap06TruthByIndex(t *testing.T) {
	onServers(t, func(b *bench) {
		b.flags("enum('N','Y') NOT NULL", "'N'", "'Y'")
		db := b.open(LegacyBools(), nil, "")
		for _, where := range []string{"v", "v IS TRUE", "NOT v", "v = TRUE", "v = 1", "id > 0 AND flags.v"} {
			var n int64
			if err := db.Model(&flag{}).Where(where).Count(&n).Error; !errors.Is(err, ErrUnprovenBool) {
				b.Errorf("%s: %d rows, %v; expected ErrUnprovenBool", where, n, err)
			}
		}
		if got := b.ids(db.Where("v = 'Y'")); got != "2" {
			b.Errorf("a label found %q", got)
		}
		if got := b.ids(b.open(LegacyBools().WarnOnRaw().Logger(quiet), nil, "").Where("v")); got != "1 2" {
			b.Errorf("with WarnOnRaw a bare column found %q; MySQL's own truth is expected", got)
		}
	})
}

// TestTrap07Bit: the scan failed on the byte.
func TestTrap07Bit(t *testing.T) {
	onServers(t, func(b *bench) {
		b.flags("bit(1)", "b'0'", "b'1'", "NULL")
		db := b.open(LegacyBools(), nil, "")
		var all []flag
		b.must(db.Order("id").Find(&all))
		if all[0].V || !all[1].V || all[2].V {
			b.Fatalf("found %+v", all)
		}
		if got := b.ids(db.Where(&flag{V: true})); got != "2" {
			b.Fatalf("found %q", got)
		}
	})
}

// TestTrap08Text: '1' and '0' were written beside Y and N, and = false matched every
// row.
func TestTrap08Text(t *testing.T) {
	inModes(t, func(b *bench) {
		for _, column := range []string{"char(1) NOT NULL", "varchar(3) NOT NULL"} {
			b.flags(column, "'Y'", "'N'")
			db := b.open(LegacyBools(), nil, "")
			b.must(db.Create(&[]flag{{V: true}, {V: false}}))
			if got := b.stored("SELECT v FROM flags ORDER BY id"); got != "Y N Y N" {
				b.Errorf("%s: stored %q", column, got)
			}
			if got := b.ids(db.Where("v = ?", false)); got != "2 4" {
				b.Errorf("%s: false found %q", column, got)
			}
			// While the table is empty nothing but the rule tells how to write.
			b.flags(column)
			b.must(db.Create(&flag{V: true}))
			if got := b.stored("SELECT v FROM flags"); got != "Y" {
				b.Errorf("%s: the first row is %q", column, got)
			}
			// What an unguarded program has left is met, not guessed.
			b.exec("INSERT INTO flags (v) VALUES ('1')")
			if err := db.Find(&[]flag{}).Error; !errors.Is(err, ErrUnexpectedValue) {
				b.Errorf("%s: reading '1': %v, expected ErrUnexpectedValue", column, err)
			}
		}
	})
}

// TestTrap09OutOfRange: a 2 in a tinyint is an error, never a guess.
func TestTrap09OutOfRange(t *testing.T) {
	onServers(t, func(b *bench) {
		for _, column := range []string{"tinyint(1)", "tinyint(4)"} {
			b.flags(column, "0", "1", "NULL")
			db := b.open(LegacyBools(), nil, "")
			var all []flag
			b.must(db.Order("id").Find(&all))
			if all[0].V || !all[1].V || all[2].V || b.ids(db.Where("v = ?", true)) != "2" {
				b.Errorf("%s: found %+v", column, all)
			}
			for _, odd := range []string{"2", "-1"} {
				b.exec("UPDATE flags SET v = " + odd + " WHERE id = 3")
				if err := db.Find(&[]flag{}).Error; err == nil {
					b.Errorf("%s: reading %s succeeded", column, odd)
				}
			}
		}
	})
}

// TestTrap10Null: NULL is NULL in a *bool, false in a bool, and in no predicate.
func TestTrap10Null(t *testing.T) {
	type pointed struct {
		ID int64
		V  *bool
	}
	onServers(t, func(b *bench) {
		b.flags("enum('N','Y')", "'N'", "'Y'", "NULL")
		db := b.open(LegacyBools(), nil, "").Table("flags")
		var all []pointed
		b.must(db.Session(&gorm.Session{}).Order("id").Find(&all))
		if *all[0].V || !*all[1].V || all[2].V != nil {
			b.Fatalf("found %+v", all)
		}
		for where, want := range map[string]string{"v <> ?": "1", "NOT v = ?": "1", "v = ?": "2", "v IS NULL OR v = ?": "2 3", "NOT (v <=> ?)": "1 3"} {
			if got := b.ids(db.Session(&gorm.Session{}).Where(where, true)); got != want {
				b.Errorf("%s found %q, expected %q", where, got, want)
			}
		}
		b.must(db.Session(&gorm.Session{}).Create(&pointed{}))
		b.must(db.Session(&gorm.Session{}).Where("id = 2").Update("v", nil))
		if got := b.stored("SELECT v FROM flags ORDER BY id"); got != "N NULL NULL NULL" {
			b.Fatalf("stored %q", got)
		}
	})
}

// TestTrap11Case: labels in another case, and a binary collation.
func TestTrap11Case(t *testing.T) {
	inModes(t, func(b *bench) {
		for _, column := range []string{"enum('n','y') NOT NULL", "enum('n','y') CHARACTER SET utf8 COLLATE utf8_bin NOT NULL"} {
			b.flags(column, "'n'")
			db := b.open(LegacyBools(), nil, "")
			b.must(db.Create(&flag{V: true}))
			if got := b.stored("SELECT v FROM flags ORDER BY id"); got != "n y" {
				b.Errorf("%s: stored %q", column, got)
			}
			if got := b.ids(db.Where("v = ?", true)); got != "2" {
				b.Errorf("%s: found %q", column, got)
			}
		}
		b.flags("char(1) NOT NULL", "'y'", "'n'", "'Y'")
		db := b.open(LegacyBools(), nil, "")
		var all []flag
		b.must(db.Order("id").Find(&all))
		if !all[0].V || all[1].V || !all[2].V || b.ids(db.Where("v = ?", true)) != "1 3" {
			b.Errorf("char: found %+v", all)
		}
	})
}

// TestTrap12Texts: no text '1' or '0' is sent to a column that reads it as an index.
func TestTrap12Texts(t *testing.T) {
	inModes(t, func(b *bench) {
		for _, f := range forms {
			if f.codec != nil {
				continue
			}
			b.flags(f.column + " NOT NULL")
			b.must(b.open(LegacyBools(), nil, "&interpolateParams=true").Create(&[]flag{{V: true}, {V: false}}))
			b.must(b.open(LegacyBools(), nil, "").Create(&[]flag{{V: true}, {V: false}}))
			if got := b.stored("SELECT v FROM flags ORDER BY id"); got != f.yes+" "+f.no+" "+f.yes+" "+f.no {
				b.Errorf("%s: stored %q", f.name, got)
			}
		}
	})
}

// TestTrap22DefaultTrue: a plain bool that is false is stored as false.
func TestTrap22DefaultTrue(t *testing.T) {
	type order struct {
		ID     int64
		Active bool  `gorm:"default:true"`
		Maybe  *bool `gorm:"default:true"`
		Off    bool  `gorm:"default:false"`
	}
	onServers(t, func(b *bench) {
		for _, column := range []string{"enum('N','Y') NOT NULL DEFAULT 'Y'", "tinyint(1) NOT NULL DEFAULT 1"} {
			b.exec("DROP TABLE IF EXISTS orders")
			b.exec("CREATE TABLE orders (id BIGINT PRIMARY KEY AUTO_INCREMENT, active " + column + ", maybe " + column + ", off " + column + ")")
			db := b.open(LegacyBools(), nil, "")
			no := false
			o := order{Active: false, Maybe: &no}
			b.must(db.Create(&o))
			if o.Active {
				b.Errorf("%s: the struct was rewritten", column)
			}
			batch := []order{{Active: false}, {Active: true}}
			b.must(db.Create(&batch))
			b.must(db.Save(&order{Active: false}))
			want := map[byte]string{'e': "NNN NYN YYN NYN", 't': "000 010 110 010"}[column[0]]
			if got := b.stored("SELECT CONCAT(active, maybe, off) FROM orders ORDER BY id"); got != want {
				b.Errorf("%s: stored %q, expected %q", column, got, want)
			}
			if batch[0].Maybe == nil || !*batch[0].Maybe {
				b.Errorf("%s: the default of a *bool wasn't applied", column)
			}
		}
	})
}
