package migrate

import (
	"testing"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake/internal/servers"
)

// TestCodecElsewhere: on SQLite and Postgres the codec installs nothing, so that it
// costs nothing and changes nothing.
func TestCodecElsewhere(t *testing.T) {
	servers.Each(t, []servers.Kind{servers.SQLite, servers.Postgres}, func(t *testing.T, srv *servers.Server) {
		db := srv.Open(t, nil)
		dialector, pool := db.Config.Dialector, db.Config.ConnPool
		if err := db.Use(LegacyBools(&flag{}).Mapping("flags", "v", "on", "off")); err != nil {
			t.Fatal(err)
		}
		callbacks := db.Callback()
		for name, fn := range map[string]func(*gorm.DB){
			"create": callbacks.Create().Get(pluginName + ":in"), "query": callbacks.Query().Get(pluginName + ":in"),
			"update": callbacks.Update().Get(pluginName + ":in"), "delete": callbacks.Delete().Get(pluginName + ":in"),
			"row": callbacks.Row().Get(pluginName + ":in"), "raw": callbacks.Raw().Get(pluginName + ":in"),
		} {
			if fn != nil {
				t.Errorf("a callback for %s is registered", name)
			}
		}
		if db.Config.Dialector != dialector || db.Config.ConnPool != pool {
			t.Error("the dialector or the pool was replaced")
		}
		if v := Param(db, &flag{}, "v", true); v != true {
			t.Errorf("Param = %v, expected true itself", v)
		}
		if err := db.AutoMigrate(&flag{}); err != nil {
			t.Fatal(err)
		}
		if err := db.Create(&[]flag{{V: true}, {V: false}}).Error; err != nil {
			t.Fatal(err)
		}
		var all []flag
		if err := db.Where("v = ?", Param(db, &flag{}, "v", true)).Or("COALESCE(v, ?) = ?", true, false).Order("id").Find(&all).Error; err != nil {
			t.Fatal(err)
		}
		if len(all) != 2 || !all[0].V || all[1].V {
			t.Fatalf("found %+v", all)
		}
		if err := db.Use(LegacyBools()); err == nil {
			t.Fatal("a second codec was accepted")
		}
	})
}

// BenchmarkCodecElsewhere compares SQLite with and without the codec.
func BenchmarkCodecElsewhere(b *testing.B) {
	srv := servers.Shared(b, servers.SQLite)
	for _, with := range []string{"without", "with"} {
		db := srv.Open(b, &gorm.Config{Logger: silent, SkipDefaultTransaction: true})
		if with == "with" {
			if err := db.Use(LegacyBools(&flag{})); err != nil {
				b.Fatal(err)
			}
		}
		if err := db.AutoMigrate(&flag{}); err != nil {
			b.Fatal(err)
		}
		if err := db.Create(&flag{V: true}).Error; err != nil {
			b.Fatal(err)
		}
		b.Run(with, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var f flag
				if err := db.Where("v = ?", true).Take(&f).Error; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCodec shows what the codec costs on MariaDB: nothing installed, a table
// of today's form, and one with an enum.
func BenchmarkCodec(b *testing.B) {
	srv := servers.Shared(b, servers.MariaDB)
	for _, c := range []struct {
		name, column, yes string
		codec             *Bools
	}{
		{"without", "tinyint(1)", "1", nil},
		{"tinyint", "tinyint(1)", "1", LegacyBools()},
		{"enum", "enum('N','Y')", "'Y'", LegacyBools()},
	} {
		db := srv.Open(b, &gorm.Config{Logger: silent, SkipDefaultTransaction: true})
		if c.codec != nil {
			if err := db.Use(c.codec); err != nil {
				b.Fatal(err)
			}
		}
		for _, statement := range []string{
			"CREATE TABLE flags (id BIGINT PRIMARY KEY AUTO_INCREMENT, v " + c.column + " NOT NULL)",
			"INSERT INTO flags (v) VALUES (" + c.yes + ")",
			"INSERT INTO flags (v) SELECT v FROM flags a", "INSERT INTO flags (v) SELECT a.v FROM flags a, flags b, flags c, flags d",
			"INSERT INTO flags (v) SELECT a.v FROM flags a, flags b LIMIT 82",
		} {
			if err := db.Exec(statement).Error; err != nil {
				b.Fatal(err)
			}
		}
		b.Run(c.name+"/take", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var f flag
				if err := db.Where("v = ?", true).Take(&f).Error; err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/find100", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var f []flag
				if err := db.Where("v = ?", true).Find(&f).Error; err != nil || len(f) != 100 {
					b.Fatal(len(f), err)
				}
			}
		})
		b.Run(c.name+"/plan", func(b *testing.B) {
			if c.codec == nil {
				b.Skip("there is no codec to measure")
			}
			cat := c.codec.catalogOf(db)
			query := "SELECT * FROM `flags` WHERE v = ? LIMIT ?"
			b.ReportAllocs()
			for b.Loop() {
				p, err := cat.plan(b.Context(), db.ConnPool, query)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := p.encode(query, []any{true, 1}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
