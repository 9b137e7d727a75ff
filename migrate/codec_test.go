package migrate

import (
	"database/sql"
	"testing"
	"time"
)

var testTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type Order struct {
	ID     int64
	Name   string
	Active bool
	Maybe  *bool
}

// TestCodecForms writes, compares and reads through every form of a column.
func TestCodecForms(t *testing.T) {
	inModes(t, func(b *bench) {
		for _, f := range forms {
			b.Run(f.name, func(t *testing.T) {
				b := *b
				b.T = t
				b.exec("DROP TABLE IF EXISTS orders")
				b.exec("CREATE TABLE orders (id BIGINT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20), active " + f.column + " NOT NULL, maybe " + f.column + " NULL, KEY (active))")
				codec := LegacyBools()
				if f.codec != nil {
					codec = f.codec(codec)
				}
				testForm(&b, f, codec)
			})
		}
	})
}

func testForm(b *bench, f form, codec *Bools) {
	db := b.open(codec, nil, "")
	yes, no := true, false
	orders := []Order{{Name: "a", Active: true, Maybe: &no}, {Name: "b", Active: false, Maybe: &yes}, {Name: "c", Active: true}}
	b.must(db.Create(&orders))
	if got, want := b.stored("SELECT active FROM orders ORDER BY id"), f.yes+" "+f.no+" "+f.yes; got != want {
		b.Fatalf("stored %q, want %q", got, want)
	}
	if got, want := b.stored("SELECT maybe FROM orders ORDER BY id"), f.no+" "+f.yes+" NULL"; got != want {
		b.Fatalf("stored %q, want %q", got, want)
	}
	var found []Order
	b.must(db.Where("active = ?", true).Order("id").Find(&found))
	if len(found) != 2 || found[0].Name != "a" || !found[0].Active || found[0].Maybe == nil || *found[0].Maybe || found[1].Maybe != nil {
		b.Fatalf("found %+v", found)
	}
	found = nil
	b.must(db.Where(map[string]any{"active": false}).Find(&found))
	if len(found) != 1 || found[0].Name != "b" || found[0].Active || !*found[0].Maybe {
		b.Fatalf("found %+v", found)
	}
	b.must(db.Model(&Order{}).Where("id = ?", orders[1].ID).Update("active", true))
	b.must(db.Model(&orders[0]).Updates(map[string]any{"active": false, "maybe": true}))
	b.must(db.Model(&Order{ID: orders[2].ID}).Select("active", "maybe").Updates(Order{Active: false, Maybe: &yes}))
	if got, want := b.stored("SELECT active FROM orders ORDER BY id"), f.no+" "+f.yes+" "+f.no; got != want {
		b.Fatalf("stored %q, want %q", got, want)
	}
	var plucked []bool
	b.must(db.Model(&Order{}).Order("id").Pluck("active", &plucked))
	if len(plucked) != 3 || plucked[0] || !plucked[1] || plucked[2] {
		b.Fatalf("plucked %v", plucked)
	}
	var scanned []struct {
		Active bool
		M      sql.NullBool
	}
	b.must(db.Model(&Order{}).Select("active", "maybe AS m").Order("id").Scan(&scanned))
	if len(scanned) != 3 || scanned[0].Active || !scanned[1].Active || !scanned[2].M.Bool {
		b.Fatalf("scanned %+v", scanned)
	}
	var count int64
	b.must(db.Model(&Order{}).Where("active <> ?", true).Count(&count))
	if count != 2 {
		b.Fatalf("counted %d", count)
	}
}
