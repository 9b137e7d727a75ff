package gormflake

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

type benchRow struct {
	ID       ID `gorm:"primaryKey"`
	Customer string
	Paid     bool
}

// inMemory is a plugin with a generator, and a database that it isn't installed
// in: its callbacks are called by hand.
func inMemory(tb testing.TB, config generator.Config) (*Plugin, *gorm.DB) {
	tb.Helper()
	config.Namespace = tb.Name()
	g, err := generator.Open(context.Background(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = g.Close(context.Background()) })
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		tb.Fatal(err)
	}
	closePool(tb, db)
	return New(Config{Generator: g}), db
}

// statement is what the callbacks of db.Create(dest) meet.
func statement(tb testing.TB, db *gorm.DB, dest any) *gorm.DB {
	tb.Helper()
	tx := db.Session(&gorm.Session{NewDB: true}).Model(&benchRow{})
	if err := tx.Statement.Parse(&benchRow{}); err != nil {
		tb.Fatal(err)
	}
	tx.Statement.Dest, tx.Statement.ReflectValue = dest, reflect.ValueOf(dest).Elem()
	return tx
}

// callbacks runs what the plugin adds to a create.
func (p *Plugin) callbacks(tx *gorm.DB) {
	p.ready(tx)
	p.assignMissing(tx)
	p.assignMissing(tx)
	p.beforeInsert(tx)
	p.afterInsert(tx)
}

// BenchmarkFill10000 fills the ids of 10,000 rows, as ready does before an
// INSERT, without the INSERT. The generator's clock runs ahead, so that its
// sequence never binds.
func BenchmarkFill10000(b *testing.B) {
	const n = 10_000
	start := time.Now()
	var steps int64
	clock := func() time.Time {
		steps++
		return start.Add(time.Duration(steps) * time.Second / 100)
	}
	p, db := inMemory(b, generator.Config{Store: lease.Fixed(1), MaxWait: time.Minute, Clock: clock, MaxSkew: -1})
	for name, rows := range map[string]any{
		"structs":  &[]benchRow{},
		"pointers": &[]*benchRow{},
	} {
		b.Run(name, func(b *testing.B) {
			list := reflect.ValueOf(rows).Elem()
			list.Set(reflect.MakeSlice(list.Type(), n, n))
			each := func(i int) reflect.Value {
				if list.Index(i).Kind() == reflect.Pointer && list.Index(i).IsNil() {
					list.Index(i).Set(reflect.New(reflect.TypeFor[benchRow]()))
				}
				return reflect.Indirect(list.Index(i)).Field(0)
			}
			tx := statement(b, db, rows)
			plan := p.planOf(tx)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for i := range n {
					each(i).SetInt(0)
				}
				b.StartTimer()
				missing := p.missing(tx, plan)
				if err := p.assign(tx, plan, p.generator.Load(), missing); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
			if each(0).Int() == 0 || each(n-1).Int() <= each(0).Int() {
				b.Fatal("want all rows filled, in order")
			}
		})
	}
}

// BenchmarkCallbacks runs what the plugin adds to a create of one row, to be
// set against BenchmarkCreate.
func BenchmarkCallbacks(b *testing.B) {
	p, db := inMemory(b, generator.Config{Store: lease.Memory()})
	row := &benchRow{}
	tx := statement(b, db, row)
	b.ReportAllocs()
	for b.Loop() {
		row.ID = 0
		p.callbacks(tx)
	}
	if tx.Error != nil || row.ID == 0 {
		b.Fatal(tx.Error)
	}
}

// BenchmarkCreate compares creates with the plugin to the same rows with ids
// that are set already, on one connection of SQLite in memory.
func BenchmarkCreate(b *testing.B) {
	for _, batch := range []int{1, 1000} {
		for _, preset := range []bool{true, false} {
			name := map[bool]string{true: "preset", false: "plugin"}[preset]
			b.Run(map[int]string{1: "single/", 1000: "batch/"}[batch]+name, func(b *testing.B) {
				db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{Logger: logger.Discard})
				if err != nil {
					b.Fatal(err)
				}
				pool, err := db.DB()
				if err != nil {
					b.Fatal(err)
				}
				pool.SetMaxOpenConns(1)
				defer pool.Close()
				if !preset {
					p := New(Config{})
					if err := db.Use(p); err != nil {
						b.Fatal(err)
					}
					defer p.Close(context.Background())
				}
				if err := db.AutoMigrate(&benchRow{}); err != nil {
					b.Fatal(err)
				}
				next := ID(0)
				b.ReportAllocs()
				for b.Loop() {
					rows := make([]benchRow, batch)
					if preset {
						for i := range rows {
							next++
							rows[i].ID = next
						}
					}
					if batch == 1 {
						err = db.Create(&rows[0]).Error
					} else {
						err = db.Create(&rows).Error
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkFind reads rows whose key GORM sets and rows whose key an ID sets.
func BenchmarkFind(b *testing.B) {
	type numbered struct {
		ID int64 `gorm:"primaryKey"`
		N  int64
	}
	type flaked struct {
		ID ID `gorm:"primaryKey"`
		N  int64
	}
	_, db := inMemory(b, generator.Config{Store: lease.Memory()})
	if err := db.AutoMigrate(&numbered{}, &flaked{}); err != nil {
		b.Fatal(err)
	}
	ints, ids := make([]numbered, 1000), make([]flaked, 1000)
	for i := range ints {
		ints[i].ID, ids[i].ID = int64(i)+1<<50, ID(i)+1<<50
	}
	for name, rows := range map[string]any{"int64": &ints, "ID": &ids} {
		if err := db.Create(rows).Error; err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := db.Find(rows).Error; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
