package gormflake

import (
	"context"
	"testing"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

type (
	lonely  struct{ ID ID }
	related struct {
		ID    ID
		Parts []lonely `gorm:"foreignKey:ID"`
	}
	serial  struct{ ID int64 }
	twofold struct{ ID, Other ID }
	pointed struct{ ID *ID }
)

// TestOnlyRow says which statements take the short way, and for which the plugin
// looks at everything.
func TestOnlyRow(t *testing.T) {
	g, err := generator.Open(t.Context(), generator.Config{Store: lease.Memory(), Namespace: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.Background())
	for name, c := range map[string]struct {
		dest       any
		afterHooks bool
		want       bool
	}{
		"a row":                           {dest: &lonely{}, want: true},
		"a row with relations":            {dest: &related{}, want: true},
		"several rows":                    {dest: &[]lonely{{}}},
		"a row by value":                  {dest: lonely{}},
		"a key that the database numbers": {dest: &serial{}},
		"a pointer for a key":             {dest: &pointed{}},
		"after hooks":                     {dest: &lonely{}, afterHooks: true},
		"two ids, one by the tag of its own": {dest: &struct {
			ID    ID
			Other ID `gormflake:"fill"`
		}{}},
		"two ids, one plain": {dest: &twofold{}, want: true},
	} {
		p := New(Config{Generator: g, AfterHooks: c.afterHooks})
		db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{Logger: logger.Discard, DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		closePool(t, db)
		if err := db.Use(p); err != nil {
			t.Fatal(err)
		}
		var took bool
		if err := db.Callback().Create().After(readyCallback).Register("look", func(db *gorm.DB) {
			plan, id := p.only(db.Statement)
			took = id != nil
			if took && (plan.schema != db.Statement.Schema || *id == 0) {
				t.Errorf("%s: want the statement's own plan and an id", name)
			}
		}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first one makes the plan
			db.Create(c.dest)
		}
		if took != c.want {
			t.Errorf("%s: want the short way %t, got %t", name, c.want, took)
		}
	}
}

// TestOnlyRowAgain creates rows of two models by turns, upserts among them: no
// statement may take another's place for its own.
func TestOnlyRowAgain(t *testing.T) {
	p, db := inMemory(t, generator.Config{Store: lease.Memory()})
	if err := db.Use(p); err != nil {
		t.Fatal(err)
	}
	type email struct {
		ID   ID
		Name string `gorm:"uniqueIndex"`
	}
	type phone struct {
		Name string
		ID   ID
	}
	if err := db.AutoMigrate(&email{}, &phone{}); err != nil {
		t.Fatal(err)
	}
	first := email{Name: "a"}
	if err := db.Create(&first).Error; err != nil {
		t.Fatal(err)
	}
	for range 3 {
		call := phone{Name: "p"}
		if err := db.Create(&call).Error; err != nil || call.ID == 0 || call.Name != "p" {
			t.Fatalf("want an id and the name, got %+v, %v", call, err)
		}
		again := email{Name: "a"}
		upsert := clause.OnConflict{Columns: []clause.Column{{Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"name"})}
		if err := db.Clauses(upsert).Create(&again).Error; err != nil || again.ID != first.ID {
			t.Fatalf("want the id of the row that is there, %d, got %+v, %v", first.ID, again, err)
		}
		omitted := email{Name: "b" + again.ID.String()}
		if err := db.Omit("id").Create(&omitted).Error; err != nil {
			t.Fatal(err)
		}
		var stored email
		if err := db.Take(&stored, "name = ?", omitted.Name).Error; err != nil || stored.ID != omitted.ID || stored.ID == 0 {
			t.Fatalf("want the struct's id %d in the row, got %+v, %v", omitted.ID, stored, err)
		}
		if err := db.Delete(&stored).Error; err != nil {
			t.Fatal(err)
		}
	}
}

func closePool(tb testing.TB, db *gorm.DB) {
	tb.Helper()
	pool, err := db.DB()
	if err != nil {
		tb.Fatal(err)
	}
	pool.SetMaxOpenConns(1)
	tb.Cleanup(func() { _ = pool.Close() })
}
