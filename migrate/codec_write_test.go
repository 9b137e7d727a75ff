package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

type named bool

// state has a boolean in every guise, in columns of many forms.
type state struct {
	ID     int64
	A      bool         // enum('N','Y')
	B      *bool        // enum('Y','N') NULL
	C      sql.NullBool // char(1) NULL
	D      named        // bit(1)
	E      bool         // tinyint(1)
	Part   part         `gorm:"embedded;embeddedPrefix:part_"`
	F      sql.Null[bool]
	Name   string
	Parent *int64
	Kids   []state `gorm:"foreignKey:Parent"`
}

type part struct {
	On bool // enum('0','1')
}

const stateTable = `CREATE TABLE %s (id BIGINT PRIMARY KEY AUTO_INCREMENT, a ENUM('N','Y') NOT NULL, b ENUM('Y','N') NULL,
	c CHAR(1) NULL, d BIT(1) NOT NULL DEFAULT b'0', e TINYINT(1) NOT NULL DEFAULT 0, part_on ENUM('0','1') NOT NULL DEFAULT '0',
	f ENUM('false','true') NULL, name VARCHAR(20) NOT NULL DEFAULT '', parent BIGINT NULL, UNIQUE KEY (id, name))`

// onStates runs the test on every server with every way to send a statement.
func onStates(t *testing.T, test func(b *bench, db *gorm.DB)) {
	t.Helper()
	onServers(t, func(b *bench) {
		for _, how := range []struct {
			name   string
			config gorm.Config
			dsn    string
		}{
			{name: "binary protocol"},
			{name: "interpolated", dsn: "&interpolateParams=true"},
			{name: "prepared", config: gorm.Config{PrepareStmt: true}},
			{name: "no transactions", config: gorm.Config{SkipDefaultTransaction: true}},
		} {
			b.Run(how.name, func(t *testing.T) {
				b := *b
				b.T = t
				b.exec("DROP TABLE IF EXISTS states")
				b.exec(fmt.Sprintf(stateTable, "states"))
				config := how.config
				config.Logger = silent
				db := b.open(LegacyBools(&state{}).Logger(quiet), &config, how.dsn)
				test(&b, db)
			})
		}
	})
}

// states reads the booleans of every row without GORM.
func (b *bench) states() string {
	b.Helper()
	return b.stored("SELECT CONCAT(a, COALESCE(b, '-'), COALESCE(c, '-'), d+0, e, part_on, COALESCE(f, '-')) FROM states ORDER BY id")
}

func ref(v bool) *bool { return &v }

func null(v bool) sql.NullBool { return sql.NullBool{Bool: v, Valid: true} }

// full has every boolean at v.
func full(v bool) state {
	return state{A: v, B: ref(v), C: null(v), D: named(v), E: v, Part: part{On: v}, F: sql.Null[bool]{V: v, Valid: true}}
}

const allYes, allNo = "YYY111true", "NNN000false"

func TestCodecWrites(t *testing.T) {
	ctx := context.Background()
	maps := func(v bool) map[string]any {
		return map[string]any{"a": v, "B": v, "c": v, "d": v, "e": v, "part_on": v, "f": v}
	}
	cases := map[string]struct {
		write func(db *gorm.DB) *gorm.DB
		want  string
	}{
		"struct":      {func(db *gorm.DB) *gorm.DB { s := full(true); return db.Create(&s) }, allYes},
		"zero struct": {func(db *gorm.DB) *gorm.DB { return db.Create(&state{}) }, "N--000-"},
		"slice":       {func(db *gorm.DB) *gorm.DB { return db.Create(&[]state{full(true), full(false)}) }, allYes + " " + allNo},
		"pointers":    {func(db *gorm.DB) *gorm.DB { s := full(true); return db.Create([]*state{&s}) }, allYes},
		"map":         {func(db *gorm.DB) *gorm.DB { return db.Model(&state{}).Create(maps(true)) }, allYes},
		"maps": {func(db *gorm.DB) *gorm.DB {
			// Without a model: with one, GORM can't scan RETURNING into a slice of maps.
			return db.Table("states").Create([]map[string]any{{"a": true, "c": false}, {"a": false, "c": null(true)}})
		}, "Y-N000- N-Y000-"},
		"map, no model": {func(db *gorm.DB) *gorm.DB {
			return db.Table("states").Create(map[string]any{"a": true, "b": ref(false), "c": null(true)})
		}, "YNY000-"},
		"batches": {func(db *gorm.DB) *gorm.DB {
			return db.CreateInBatches([]state{full(true), full(false), full(true)}, 2)
		}, allYes + " " + allNo + " " + allYes},
		"save new": {func(db *gorm.DB) *gorm.DB { s := full(true); return db.Save(&s) }, allYes},
		"save": {func(db *gorm.DB) *gorm.DB {
			s := full(true)
			db.Create(&s)
			id := s.ID
			s = full(false)
			s.ID = id
			return db.Save(&s)
		}, allNo},
		"save slice": {func(db *gorm.DB) *gorm.DB {
			s := []state{full(true), full(false)}
			db.Create(&s)
			s[0].A, s[1].A = false, true
			return db.Save(&s)
		}, "NYY111true YNN000false"},
		"update": {func(db *gorm.DB) *gorm.DB {
			db.Create(&state{})
			return db.Model(&state{}).Where("id > 0").Update("b", true)
		}, "NY-000-"},
		"update column": {func(db *gorm.DB) *gorm.DB {
			db.Create(&state{})
			return db.Model(&state{}).Where("id > 0").UpdateColumn("C", null(false))
		}, "N-N000-"},
		"updates map": {func(db *gorm.DB) *gorm.DB {
			db.Create(&state{})
			return db.Model(&state{}).Where("id > 0").Updates(maps(true))
		}, allYes},
		"updates map by name": {func(db *gorm.DB) *gorm.DB {
			db.Create(&state{})
			return db.Table("states").Where("id > 0").Updates(map[string]any{"a": true, "f": named(true)})
		}, "Y--000true"},
		"updates struct": {func(db *gorm.DB) *gorm.DB {
			db.Create(&state{})
			return db.Model(&state{}).Where("id > 0").Updates(full(true))
		}, allYes},
		"updates zero": {func(db *gorm.DB) *gorm.DB {
			s := full(true)
			db.Create(&s)
			return db.Model(&s).Select("a", "b", "part_on").Updates(state{B: ref(false)})
		}, "NNY110true"},
		"upsert": {func(db *gorm.DB) *gorm.DB {
			s := full(true)
			db.Create(&s)
			s.A, s.B = false, ref(false)
			return db.Clauses(clause.OnConflict{DoUpdates: clause.AssignmentColumns([]string{"a"})}).Create(&s)
		}, "NYY111true"},
		"upsert assignments": {func(db *gorm.DB) *gorm.DB {
			s := full(true)
			db.Create(&s)
			return db.Clauses(clause.OnConflict{DoUpdates: clause.Assignments(map[string]any{"a": false, "part_on": false})}).Create(&s)
		}, "NYY110true"},
		"upsert all": {func(db *gorm.DB) *gorm.DB {
			s := full(true)
			db.Create(&s)
			id := s.ID
			s = full(false)
			s.ID = id
			return db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&s)
		}, allNo},
		"first or create": {func(db *gorm.DB) *gorm.DB {
			var s state
			return db.Where(&state{A: true, B: ref(false)}).Attrs(&state{C: null(true)}).FirstOrCreate(&s)
		}, "YNY000-"},
		"first or create, found": {func(db *gorm.DB) *gorm.DB {
			db.Create(&state{A: true})
			var s state
			return db.Where(map[string]any{"a": true}).Assign(map[string]any{"b": true}).FirstOrCreate(&s)
		}, "YY-000-"},
		"association": {func(db *gorm.DB) *gorm.DB {
			s := full(true)
			s.Kids = []state{full(false), full(true)}
			return db.Create(&s)
		}, allYes + " " + allNo + " " + allYes},
		"association append": {func(db *gorm.DB) *gorm.DB {
			s := full(true)
			db.Create(&s)
			if err := db.Model(&s).Association("Kids").Append(&state{A: true, Part: part{On: true}}); err != nil {
				_ = db.AddError(err)
			}
			return db
		}, allYes + " Y--001-"},
		"transaction": {func(db *gorm.DB) *gorm.DB {
			_ = db.AddError(db.Transaction(func(tx *gorm.DB) error {
				s := full(true)
				return tx.Create(&s).Error
			}))
			return db
		}, allYes},
		"raw insert": {func(db *gorm.DB) *gorm.DB {
			return db.Exec("INSERT INTO states (a, b, c, e) VALUES (?, ?, ?, ?), (?, NULL, ?, ?)", true, false, null(true), true, false, named(false), false)
		}, "YNY010- N-N000-"},
		"raw update": {func(db *gorm.DB) *gorm.DB {
			db.Create(&state{})
			return db.Exec("UPDATE states s SET s.a = ?, part_on = @on WHERE s.a = @off", true, sql.Named("on", true), sql.Named("off", false))
		}, "Y--001-"},
		"raw param": {func(db *gorm.DB) *gorm.DB {
			db.Create(&state{})
			return db.Exec("UPDATE states SET a = COALESCE(?, a), c = IF(id > 0, ?, NULL)", Param(db, &state{}, "A", true), Param(db, "states", "c", false))
		}, "Y-N000-"},
		"expression": {func(db *gorm.DB) *gorm.DB {
			db.Create(&state{})
			return db.Model(&state{}).Where("id > 0").Updates(map[string]any{"a": gorm.Expr("?", Param(db, &state{}, "a", true)), "b": gorm.Expr("?", true)})
		}, "YY-000-"},
		"soft copies": {func(db *gorm.DB) *gorm.DB {
			db.Create(&state{A: true})
			return db.Exec("INSERT INTO states (a, b) SELECT a, b FROM states WHERE a = ?", true)
		}, "Y--000- Y--000-"},
		"generics create": {func(db *gorm.DB) *gorm.DB {
			s := full(true)
			_ = db.AddError(gorm.G[state](db).Create(ctx, &s))
			return db
		}, allYes},
		"generics batches": {func(db *gorm.DB) *gorm.DB {
			s := []state{full(true), full(false), full(true)}
			_ = db.AddError(gorm.G[state](db).CreateInBatches(ctx, &s, 2))
			return db
		}, allYes + " " + allNo + " " + allYes},
		"generics update": {func(db *gorm.DB) *gorm.DB {
			db.Create(&state{})
			_, err := gorm.G[state](db).Where("a = ?", false).Update(ctx, "a", true)
			_ = db.AddError(err)
			return db
		}, "Y--000-"},
		"generics updates": {func(db *gorm.DB) *gorm.DB {
			db.Create(&state{})
			_, err := gorm.G[state](db).Where("id > 0").Updates(ctx, full(true))
			_ = db.AddError(err)
			return db
		}, allYes},
		"generics set": {func(db *gorm.DB) *gorm.DB {
			db.Create(&state{})
			_, err := gorm.G[state](db).Where("a = ?", false).Set(clause.Assignment{Column: clause.Column{Name: "a"}, Value: true}).Update(ctx)
			_ = db.AddError(err)
			return db
		}, "Y--000-"},
		"generics set create": {func(db *gorm.DB) *gorm.DB {
			_ = db.AddError(gorm.G[state](db).Set(clause.Assignment{Column: clause.Column{Name: "a"}, Value: true}).Create(ctx))
			return db
		}, "Y--000-"},
		"generics conflict": {func(db *gorm.DB) *gorm.DB {
			s := full(true)
			db.Create(&s)
			s.A = false
			_ = db.AddError(gorm.G[state](db, clause.OnConflict{UpdateAll: true}).Create(ctx, &s))
			return db
		}, "NYY111true"},
		"generics exec": {func(db *gorm.DB) *gorm.DB {
			db.Create(&state{})
			_ = db.AddError(gorm.G[state](db).Exec(ctx, "UPDATE states SET a = ?", true))
			return db
		}, "Y--000-"},
		"delete": {func(db *gorm.DB) *gorm.DB {
			db.Create(&[]state{{A: true}, {A: false}})
			return db.Where("a = ?", true).Delete(&state{})
		}, "N--000-"},
		"delete by struct": {func(db *gorm.DB) *gorm.DB {
			db.Create(&[]state{{A: true}, {A: false}})
			return db.Delete(&state{}, "a <> ?", true)
		}, "Y--000-"},
		"generics delete": {func(db *gorm.DB) *gorm.DB {
			db.Create(&[]state{{A: true}, {A: false}})
			_, err := gorm.G[state](db).Where(&state{A: true}).Delete(ctx)
			_ = db.AddError(err)
			return db
		}, "N--000-"},
	}
	onStates(t, func(b *bench, db *gorm.DB) {
		for name, tc := range cases {
			b.Run(name, func(t *testing.T) {
				b := *b
				b.T = t
				b.exec("DELETE FROM states")
				tx := tc.write(db.Session(&gorm.Session{}))
				if tx.Error != nil {
					b.Fatal(tx.Error)
				}
				if got := b.states(); got != tc.want {
					b.Fatalf("stored %q, expected %q", got, tc.want)
				}
			})
		}
	})
}
