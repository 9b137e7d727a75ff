package gormflake

import (
	"context"
	"database/sql"
	"path/filepath"
	"reflect"
	"strconv"
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
	g, err := generator.Open(context.Background(), generator.Config{Store: lease.Fixed(1), MaxWait: time.Minute, Clock: clock, MaxSkew: -1, Namespace: b.Name()})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close(context.Background())
	p := New(Config{Generator: g})
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		b.Fatal(err)
	}
	for name, rows := range map[string]any{
		"structs":  &[]benchRow{},
		"pointers": &[]*benchRow{},
	} {
		b.Run(name, func(b *testing.B) {
			tx := db.Session(&gorm.Session{NewDB: true}).Model(&benchRow{})
			if err := tx.Statement.Parse(&benchRow{}); err != nil {
				b.Fatal(err)
			}
			list := reflect.ValueOf(rows).Elem()
			list.Set(reflect.MakeSlice(list.Type(), n, n))
			each := func(i int) reflect.Value {
				if list.Index(i).Kind() == reflect.Pointer && list.Index(i).IsNil() {
					list.Index(i).Set(reflect.New(reflect.TypeFor[benchRow]()))
				}
				return reflect.Indirect(list.Index(i)).Field(0)
			}
			tx.Statement.Dest, tx.Statement.ReflectValue = rows, list
			plan := p.planOf(tx)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for i := range n {
					each(i).SetInt(0)
				}
				b.StartTimer()
				missing := p.missing(tx, plan)
				if err := p.assign(tx, plan, g, missing); err != nil {
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

// TestReadyAllocatesNothing runs what a create adds to GORM's own work.
func TestReadyAllocatesNothing(t *testing.T) {
	g, err := generator.Open(context.Background(), generator.Config{Store: lease.Memory()})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.Background())
	p := New(Config{Generator: g})
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	single, several := &benchRow{}, make([]benchRow, 1000)
	for name, dest := range map[string]any{"single": single, "batch": &several} {
		tx := db.Session(&gorm.Session{NewDB: true}).Model(&benchRow{})
		if err := tx.Statement.Parse(&benchRow{}); err != nil {
			t.Fatal(err)
		}
		tx.Statement.Dest, tx.Statement.ReflectValue = dest, reflect.ValueOf(dest).Elem()
		allocations := testing.AllocsPerRun(100, func() {
			single.ID = 0
			clear(several)
			for _, callback := range []func(*gorm.DB){p.ready, p.assignMissing, p.assignMissing, p.beforeInsert, p.afterInsert} {
				callback(tx)
			}
		})
		if tx.Error != nil || single.ID == 0 && several[999].ID == 0 {
			t.Fatalf("%s: want ids, got error %v", name, tx.Error)
		}
		if allocations >= 3 {
			t.Errorf("%s: want fewer than 3 allocations per statement, got %v", name, allocations)
		}
	}
}

// pooled is a store that works through a pool.
type pooled struct {
	lease.Store
	pool *sql.DB
}

func (s pooled) Pool() *sql.DB { return s.pool }

// TestTransactionAllocatesNoMore draws ids in a transaction, which might hold the
// connection that the lease is renewed on: with a second one in the pool there is
// nothing to prepare for.
func TestTransactionAllocatesNoMore(t *testing.T) {
	for connections, want := range map[int]bool{1: true, 2: false, 0: false} {
		db, err := gorm.Open(sqlite.Open(filepath.Join(t.TempDir(), "test.db")), &gorm.Config{Logger: logger.Discard})
		if err != nil {
			t.Fatal(err)
		}
		pool, err := db.DB()
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		pool.SetMaxOpenConns(connections)
		g, err := generator.Open(t.Context(), generator.Config{Store: pooled{lease.Memory(), pool}, Namespace: t.Name() + strconv.Itoa(connections)})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close(context.Background())
		p := New(Config{Generator: g})
		tx := db.Begin()
		defer tx.Rollback()
		ctx := tx.Statement.Context
		if got := p.patient(tx, g) != ctx; got != want {
			t.Errorf("%d connections: want a context of its own %t, got %t", connections, want, got)
		}
		if allocations := testing.AllocsPerRun(100, func() { p.patient(tx, g) }); !want && allocations != 0 {
			t.Errorf("%d connections: want no allocation, got %v", connections, allocations)
		}
	}
}

// BenchmarkCallbacks runs what the plugin adds to a create of one row, to be
// set against BenchmarkCreate.
func BenchmarkCallbacks(b *testing.B) {
	g, err := generator.Open(context.Background(), generator.Config{Store: lease.Memory()})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close(context.Background())
	p := New(Config{Generator: g})
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		b.Fatal(err)
	}
	row := &benchRow{}
	tx := db.Session(&gorm.Session{NewDB: true}).Model(row)
	if err := tx.Statement.Parse(row); err != nil {
		b.Fatal(err)
	}
	tx.Statement.Dest, tx.Statement.ReflectValue = row, reflect.ValueOf(row).Elem()
	b.ReportAllocs()
	for b.Loop() {
		row.ID = 0
		p.ready(tx)
		p.assignMissing(tx)
		p.assignMissing(tx)
		p.beforeInsert(tx)
		p.afterInsert(tx)
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
