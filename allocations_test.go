package gormflake

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// TestCallbacksAllocateNothing runs what a create adds to GORM's own work. Under
// the race detector the pool of id buffers forgets some of them.
func TestCallbacksAllocateNothing(t *testing.T) {
	p, db := inMemory(t, generator.Config{Store: lease.Memory()})
	single, several := &benchRow{}, make([]benchRow, 1000)
	for name, dest := range map[string]any{"single": single, "batch": &several} {
		tx := statement(t, db, dest)
		allocations := testing.AllocsPerRun(100, func() {
			single.ID = 0
			clear(several)
			p.callbacks(tx)
		})
		if tx.Error != nil || single.ID == 0 && several[999].ID == 0 {
			t.Fatalf("%s: want ids, got error %v", name, tx.Error)
		}
		if allocations >= 3 || name == "single" && allocations > 0 {
			t.Errorf("%s: want no allocation per statement, got %v", name, allocations)
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
		p, _ := inMemory(t, generator.Config{Store: pooled{lease.Memory(), pool}})
		g := p.generator.Load()
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
