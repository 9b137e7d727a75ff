package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// TestCodecConditions finds rows 1 (all true), 2 (all false) and 3 (true or NULL).
func TestCodecConditions(t *testing.T) {
	type scope = func(*gorm.DB) *gorm.DB
	where := func(query any, args ...any) scope {
		return func(db *gorm.DB) *gorm.DB { return db.Where(query, args...) }
	}
	cases := map[string]struct {
		scope scope
		want  string
	}{
		"struct":            {where(&state{A: true}), "1 3"},
		"struct, zero":      {where(&state{A: false, Name: "two"}, "a", "Name"), "2"},
		"struct, pointer":   {where(&state{B: ref(false)}), "2"},
		"struct, NullBool":  {where(&state{C: null(true)}), "1"},
		"struct, embedded":  {where(&state{Part: part{On: true}}), "1 3"},
		"map":               {where(map[string]any{"a": false}), "2"},
		"map, two":          {where(map[string]any{"a": true, "d": true, "e": true}), "1 3"},
		"map, list":         {where(map[string]any{"a": []bool{true, false}}), "1 2 3"},
		"map, qualified":    {where(map[string]any{"states.a": false}), "2"},
		"eq":                {where(clause.Eq{Column: "a", Value: true}), "1 3"},
		"neq":               {where(clause.Neq{Column: clause.Column{Table: clause.CurrentTable, Name: "a"}, Value: true}), "2"},
		"in":                {where(clause.IN{Column: "b", Values: []any{true}}), "1"},
		"and, or":           {where(clause.Or(clause.Eq{Column: "b", Value: true}, clause.Eq{Column: "a", Value: false})), "1 2"},
		"text":              {where("a = ?", true), "1 3"},
		"text, false":       {where("a = ?", false), "2"},
		"text, unequal":     {where("a <> ?", true), "2"},
		"text, unequal no":  {where("a <> ?", false), "1 3"},
		"text, in":          {where("a IN ?", []bool{false}), "2"},
		"text, in brackets": {where("part_on IN (?)", []bool{true}), "1 3"},
		"text, not in":      {where("a NOT IN ?", []bool{true}), "2"},
		"text, quoted":      {where("`states`.`a` = ?", true), "1 3"},
		"text, qualified":   {where("states.a = ? AND name <> ?", true, "three"), "1"},
		"text, not":         {where("NOT a = ?", true), "2"},
		"text, named":       {where("a = @v OR b = @v", sql.Named("v", false)), "2"},
		"text, map":         {where("a = @v", map[string]any{"v": true}), "1 3"},
		"text, only name":   {where("a", true), "1 3"},
		"text, brackets":    {where("(id < 3 AND (a = ?)) OR d = ?", false, true), "1 2 3"},
		"text, flipped":     {where("? = f", false), "2"},
		"text, mixed":       {where("a = ? AND e = ? AND d = ?", true, true, true), "1 3"},
		"text, pointer":     {where("a = ?", ref(true)), "1 3"},
		"text, NullBool":    {where("a = ?", null(false)), "2"},
		"text, named type":  {where("a = ?", named(false)), "2"},
		"not":               {func(db *gorm.DB) *gorm.DB { return db.Not("a = ?", true) }, "2"},
		"not, map":          {func(db *gorm.DB) *gorm.DB { return db.Not(map[string]any{"a": false}) }, "1 3"},
		"not, struct":       {func(db *gorm.DB) *gorm.DB { return db.Not(&state{A: true}) }, "2"},
		"not, two":          {func(db *gorm.DB) *gorm.DB { return db.Not(map[string]any{"a": true, "b": true}) }, "2"},
		"or":                {func(db *gorm.DB) *gorm.DB { return db.Where("a = ?", false).Or("c = ?", true) }, "1 2"},
		"group": {func(db *gorm.DB) *gorm.DB {
			return db.Where(db.Where("a = ?", false).Or("b = ?", true)).Where("id > 0")
		}, "1 2"},
		"subquery": {func(db *gorm.DB) *gorm.DB {
			return db.Where("id IN (?)", db.Session(&gorm.Session{NewDB: true}).Model(&state{}).Select("id").Where("a = ?", true).Where("c = ?", true))
		}, "1"},
		"subquery, raw": {func(db *gorm.DB) *gorm.DB {
			return db.Where("id = (?)", db.Session(&gorm.Session{NewDB: true}).Raw("SELECT MIN(id) FROM states s WHERE s.a = ? AND s.a <> ?", true, false))
		}, "1"},
		"exists": {func(db *gorm.DB) *gorm.DB {
			return db.Where("NOT EXISTS (?)", db.Session(&gorm.Session{NewDB: true}).Table("states AS o").Select("1").Where("o.id = states.id AND o.a = ? AND states.d = ?", true, true))
		}, "2"},
		"join": {func(db *gorm.DB) *gorm.DB {
			return db.Joins("JOIN states o ON o.id = states.id AND o.a = ?", false)
		}, "2"},
		"having": {func(db *gorm.DB) *gorm.DB { return db.Group("id, a").Having("a = ?", false) }, "2"},
		"scope": {func(db *gorm.DB) *gorm.DB {
			return db.Scopes(func(tx *gorm.DB) *gorm.DB { return tx.Where("a = ?", false) })
		}, "2"},
		"param": {func(db *gorm.DB) *gorm.DB {
			return db.Where("COALESCE(c, ?) = ?", Param(db, &state{}, "c", false), Param(db, &state{}, "C", false))
		}, "2 3"},
		"param in a map": {func(db *gorm.DB) *gorm.DB {
			return db.Where(map[string]any{"a": Param(db, "states", "a", true)})
		}, "1 3"},
	}
	onStates(t, func(b *bench, db *gorm.DB) {
		third := full(true)
		third.B, third.C = nil, sql.NullBool{}
		rows := []state{full(true), full(false), third}
		for i, name := range []string{"one", "two", "three"} {
			rows[i].Name = name
		}
		b.must(db.Create(&rows))
		if rows[0].ID != 1 {
			b.Fatalf("the first id is %d", rows[0].ID)
		}
		for name, tc := range cases {
			b.Run(name, func(t *testing.T) {
				var ids []int64
				if err := tc.scope(db.Model(&state{})).Order("states.id").Pluck("states.id", &ids).Error; err != nil {
					t.Fatal(err)
				}
				if got := strings.Trim(fmt.Sprint(ids), "[]"); got != tc.want {
					t.Fatalf("found %q, expected %q", got, tc.want)
				}
				var count int64
				if err := tc.scope(db.Model(&state{})).Count(&count).Error; err != nil {
					t.Fatal(err)
				}
				if want := int64(len(strings.Fields(tc.want))); name != "having" && count != want {
					t.Fatalf("counted %d, expected %d", count, want)
				}
			})
		}
	})
}

// TestCodecReads reads three rows: all true, all false, and A with NULLs.
func TestCodecReads(t *testing.T) {
	ctx := context.Background()
	type view struct {
		ID int64
		A  bool
		On *bool
	}
	type label struct {
		ID int64
		A  string
		D  []byte
	}
	text := func(v *bool) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprint(*v)
	}
	cases := map[string]struct {
		read func(db *gorm.DB) (any, error)
		want any
	}{
		"find": {func(db *gorm.DB) (any, error) {
			var all []state
			err := db.Order("id").Find(&all).Error
			out := ""
			for _, s := range all {
				out += fmt.Sprint(s.A, " ", text(s.B), " ", s.C.Valid, s.C.Bool, " ", s.D, " ", s.E, " ", s.Part.On, " ", s.F.Valid, s.F.V, "; ")
			}
			return out, err
		}, "true true true true true true true true true; false false true false false false false true false; true - false false false false false false false; "},
		"first, last, take": {func(db *gorm.DB) (any, error) {
			var a, z, k state
			err := errors.Join(db.First(&a).Error, db.Last(&z).Error, db.Where("id = 2").Take(&k).Error)
			return []bool{a.A, bool(a.D), z.A, bool(z.D), k.A}, err
		}, []bool{true, true, true, false, false}},
		"pluck": {func(db *gorm.DB) (any, error) {
			var all []bool
			err := db.Model(&state{}).Order("id").Pluck("a", &all).Error
			return all, err
		}, []bool{true, false, true}},
		"pluck pointers": {func(db *gorm.DB) (any, error) {
			var all []*bool
			err := db.Model(&state{}).Where("b IS NOT NULL").Order("id").Pluck("B", &all).Error
			return text(all[0]) + text(all[1]), err
		}, "truefalse"},
		"pluck NullBool": {func(db *gorm.DB) (any, error) {
			var all []sql.NullBool
			err := db.Model(&state{}).Order("id").Pluck("c", &all).Error
			return all, err
		}, []sql.NullBool{{Bool: true, Valid: true}, {Valid: true}, {}}},
		"pluck named": {func(db *gorm.DB) (any, error) {
			var all []named
			err := db.Model(&state{}).Order("id").Pluck("d", &all).Error
			return all, err
		}, []named{true, false, false}},
		"pluck labels": {func(db *gorm.DB) (any, error) {
			var all []string
			err := db.Model(&state{}).Order("id").Pluck("a", &all).Error
			return all, err
		}, []string{"Y", "N", "Y"}},
		"pluck distinct": {func(db *gorm.DB) (any, error) {
			var all []bool
			err := db.Model(&state{}).Distinct().Order("a").Pluck("a", &all).Error
			return all, err
		}, []bool{false, true}},
		"scan labels": {func(db *gorm.DB) (any, error) {
			var decoded, stored []string
			err := errors.Join(
				db.Model(&state{}).Select("a").Order("id").Scan(&decoded).Error,
				db.Model(&state{}).Scopes(AsStored).Select("a").Order("id").Scan(&stored).Error)
			return append(decoded, stored...), err
		}, []string{"true", "false", "true", "Y", "N", "Y"}},
		"find into another struct": {func(db *gorm.DB) (any, error) {
			var all []view
			err := db.Model(&state{}).Select("id", "a", "part_on AS `on`").Order("id").Find(&all).Error
			return fmt.Sprintln(all[0].A, text(all[0].On), all[1].A, text(all[1].On)), err
		}, "true true false false\n"},
		"find labels": {func(db *gorm.DB) (any, error) {
			var all []label
			err := db.Model(&state{}).Order("id").Find(&all).Error
			return all, err
		}, []label{{1, "Y", []byte{1}}, {2, "N", []byte{0}}, {3, "Y", []byte{0}}}},
		"scan into another struct": {func(db *gorm.DB) (any, error) {
			var all []view
			err := db.Table("states").Select("id, a, part_on AS `on`").Order("id").Scan(&all).Error
			return fmt.Sprintln(all[0].A, text(all[0].On), all[1].A, text(all[1].On)), err
		}, "true true false false\n"},
		"scan one": {func(db *gorm.DB) (any, error) {
			var a bool
			var c *bool
			err := errors.Join(db.Model(&state{}).Select("a").Where("id = 1").Scan(&a).Error, db.Raw("SELECT c FROM states WHERE id = 2").Scan(&c).Error)
			return fmt.Sprintln(a, text(c)), err
		}, "true false\n"},
		"scan into a model": {func(db *gorm.DB) (any, error) {
			var s state
			err := db.Raw("SELECT * FROM states WHERE a = ? AND d = ?", true, false).Scan(&s).Error
			return fmt.Sprintln(s.ID, s.A, text(s.B), s.D), err
		}, "3 true - false\n"},
		"scan an expression": {func(db *gorm.DB) (any, error) {
			var v view
			err := db.Raw("SELECT MAX(a) AS a, COALESCE(b, 'N') AS `on` FROM states WHERE id = 1").Scan(&v).Error
			return fmt.Sprintln(v.A, text(v.On)), err
		}, "true true\n"},
		"derived": {func(db *gorm.DB) (any, error) {
			var all []view
			err := db.Table("(?) AS t", db.Model(&state{}).Where("a = ?", true)).Select("t.id, t.a").Order("id").Find(&all).Error
			return fmt.Sprint(len(all), all[0].A, all[1].A), err
		}, "2 true true"},
		"union": {func(db *gorm.DB) (any, error) {
			var all []view
			err := db.Raw("SELECT id, a FROM states WHERE a = ? UNION ALL SELECT id, a FROM states WHERE a = ? ORDER BY id", true, false).Scan(&all).Error
			return fmt.Sprint(all[0].A, all[1].A, all[2].A), err
		}, "true false true"},
		// GORM puts the field's own type into a map, a pointer included.
		"map": {func(db *gorm.DB) (any, error) {
			m := map[string]any{}
			err := db.Model(&state{}).Where("id = 1").Select("a", "c", "d").Take(&m).Error
			return m, err
		}, map[string]any{"a": true, "c": true, "d": named(true)}},
		"maps": {func(db *gorm.DB) (any, error) {
			var m []map[string]any
			err := db.Model(&state{}).Select("a", "c").Order("id").Find(&m).Error
			return m, err
		}, []map[string]any{{"a": true, "c": true}, {"a": false, "c": false}, {"a": true, "c": nil}}},
		"maps, no model": {func(db *gorm.DB) (any, error) {
			var m []map[string]any
			err := db.Table("states").Select("a", "b", "d").Order("id").Find(&m).Error
			return m, err
		}, []map[string]any{{"a": true, "b": true, "d": true}, {"a": false, "b": false, "d": false}, {"a": true, "b": nil, "d": false}}},
		"rows": {func(db *gorm.DB) (any, error) {
			rows, err := db.Model(&state{}).Select("id", "a", "d").Order("id").Rows()
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			var all []bool
			for rows.Next() {
				var id int64
				var a, d bool
				if err := rows.Scan(&id, &a, &d); err != nil {
					return nil, err
				}
				all = append(all, a, d)
			}
			return all, rows.Err()
		}, []bool{true, true, false, false, true, false}},
		"scan rows": {func(db *gorm.DB) (any, error) {
			rows, err := db.Model(&state{}).Where("a = ?", true).Order("id").Rows()
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			out := ""
			for rows.Next() {
				var s state
				if err := db.ScanRows(rows, &s); err != nil {
					return nil, err
				}
				out += fmt.Sprint(s.ID, s.A, text(s.B), " ")
			}
			return out, rows.Err()
		}, "1 truetrue 3 true- "},
		"row": {func(db *gorm.DB) (any, error) {
			var a, d bool
			err := db.Model(&state{}).Select("a", "d").Where("id = ?", 1).Row().Scan(&a, &d)
			return []bool{a, d}, err
		}, []bool{true, true}},
		"row, none": {func(db *gorm.DB) (any, error) {
			var a bool
			err := db.Model(&state{}).Select("a").Where("a = ? AND id = 2", true).Row().Scan(&a)
			return errors.Is(err, sql.ErrNoRows), nil
		}, true},
		"preload": {func(db *gorm.DB) (any, error) {
			var s state
			err := db.Preload("Kids", "a = ?", true).First(&s).Error
			return fmt.Sprint(len(s.Kids), s.Kids[0].ID, s.Kids[0].A), err
		}, "1 3 true"},
		"association": {func(db *gorm.DB) (any, error) {
			var kids []state
			err := db.Model(&state{ID: 1}).Where("a = ?", false).Association("Kids").Find(&kids)
			return fmt.Sprint(len(kids), kids[0].ID, kids[0].A), err
		}, "1 2 false"},
		"batches": {func(db *gorm.DB) (any, error) {
			var all []bool
			var part []state
			err := db.FindInBatches(&part, 2, func(*gorm.DB, int) error {
				for _, s := range part {
					all = append(all, s.A)
				}
				return nil
			}).Error
			return all, err
		}, []bool{true, false, true}},
		"generics": {func(db *gorm.DB) (any, error) {
			g := gorm.G[state](db)
			a, err1 := g.Where("a = ?", false).First(ctx)
			z, err2 := g.Where(&state{A: true}).Last(ctx)
			k, err3 := g.Where("part_on = ?", true).Take(ctx)
			all, err4 := g.Where("a IN ?", []bool{true}).Order("id").Find(ctx)
			n, err5 := g.Where("a <> ?", true).Count(ctx, "*")
			var views []view
			err6 := g.Select("id, a, part_on AS `on`").Where("a = ?", true).Order("id").Scan(ctx, &views)
			raw, err7 := gorm.G[state](db).Raw("SELECT * FROM states WHERE a = ?", false).Find(ctx)
			var batches []bool
			err8 := g.Where("a = ?", true).FindInBatches(ctx, 1, func(data []state, _ int) error {
				batches = append(batches, data[0].A)
				return nil
			})
			var rowA bool
			err9 := g.Select("a").Where("id = 1").Row(ctx).Scan(&rowA)
			kids, err10 := g.Preload("Kids", nil).Where("id = 1").First(ctx)
			rows, err11 := g.Select("a").Order("id").Rows(ctx)
			if err := errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11); err != nil {
				return nil, err
			}
			defer rows.Close()
			var fromRows []bool
			for rows.Next() {
				var v bool
				if err := rows.Scan(&v); err != nil {
					return nil, err
				}
				fromRows = append(fromRows, v)
			}
			return fmt.Sprint(a.ID, z.ID, k.ID, len(all), all[1].A, n, views[0].A, views[1].A, raw[0].A, batches, rowA, kids.Kids[0].A, fromRows), nil
		}, "2 3 1 2 true 1 true true false [true true] true false [true false true]"},
		"types": {func(db *gorm.DB) (any, error) {
			rows, err := db.Table("states").Select("a", "c", "e").Rows()
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			types, err := rows.ColumnTypes()
			return fmt.Sprintln(types[0].DatabaseTypeName(), types[0].ScanType(), types[1].DatabaseTypeName(), types[2].DatabaseTypeName()), err
		}, "ENUM sql.NullBool CHAR TINYINT\n"},
	}
	onStates(t, func(b *bench, db *gorm.DB) {
		b.must(db.Create(&[]state{full(true), full(false), {A: true}}))
		b.exec("UPDATE states SET parent = 1 WHERE id > 1")
		for name, tc := range cases {
			b.Run(name, func(t *testing.T) {
				got, err := tc.read(db.Session(&gorm.Session{}))
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Fatal(d)
				}
			})
		}
	})
}

// TestCodecJoins: a relation's columns come under GORM's aliases.
func TestCodecJoins(t *testing.T) {
	type shop struct {
		ID   int64
		Open bool
	}
	type sale struct {
		ID     int64
		Paid   bool
		ShopID int64
		Shop   *shop
	}
	onServers(t, func(b *bench) {
		b.exec("CREATE TABLE shops (id BIGINT PRIMARY KEY, open ENUM('Y','N') NOT NULL)")
		b.exec("CREATE TABLE sales (id BIGINT PRIMARY KEY, paid ENUM('false','true') NOT NULL, shop_id BIGINT NOT NULL)")
		db := b.open(LegacyBools(), nil, "")
		b.must(db.Create(&[]sale{{ID: 1, Paid: true, Shop: &shop{ID: 1, Open: false}}, {ID: 2, Paid: false, Shop: &shop{ID: 2, Open: true}}}))
		if got := b.stored("SELECT CONCAT(s.paid, h.open) FROM sales s JOIN shops h ON h.id = s.shop_id ORDER BY s.id"); got != "trueN falseY" {
			b.Fatalf("stored %q", got)
		}
		var all []sale
		b.must(db.Joins("Shop").Order("sales.id").Find(&all))
		if !all[0].Paid || all[0].Shop.Open || all[1].Paid || !all[1].Shop.Open {
			b.Fatalf("found %+v %+v", all[0].Shop, all[1].Shop)
		}
		all = nil
		b.must(db.InnerJoins("Shop", db.Where(&shop{Open: true})).Find(&all))
		if len(all) != 1 || all[0].ID != 2 || !all[0].Shop.Open {
			b.Fatalf("found %+v", all)
		}
		all = nil
		b.must(db.Joins("Shop").Where("Shop.open = ?", false).Where("sales.paid = ?", true).Find(&all))
		if len(all) != 1 || all[0].ID != 1 {
			b.Fatalf("found %+v", all)
		}
	})
}
