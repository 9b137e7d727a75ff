package gormflake_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
)

// stubborn is a store in a pool whose extensions wait for a gate, if there is
// one, and then for as long as it takes: the keeper's last attempt has not
// failed, it is under way.
type stubborn struct {
	lease.Store
	pool *sql.DB
	gate chan struct{}
}

func (s stubborn) Pool() *sql.DB { return s.pool }

func (s stubborn) Extend(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
	if s.gate != nil {
		<-s.gate
	}
	return s.Store.Extend(context.WithoutCancel(ctx), held, max(through, time.Now().Add(s.Timing().Window).UnixMilli()))
}

// TestCreatePastTheGrantWhileHolding creates rows once the grant is used up,
// in a transaction that began before. It must get an id where waiting helps,
// and say at once where it doesn't; MaxWait is never.
func TestCreatePastTheGrantWhileHolding(t *testing.T) {
	create := func(tx *gorm.DB) error { return tx.Create(&order{}).Error }
	batch := func(tx *gorm.DB) error { return tx.Create(&[]order{{}, {}}).Error }
	file := func(t *testing.T, connections int, config *gorm.Config) *gorm.DB {
		config.Logger = logger.Discard
		db, err := gorm.Open(sqlite.Open(filepath.Join(t.TempDir(), "test.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)"), config)
		if err != nil {
			t.Fatal(err)
		}
		closeWith(t, db)
		pool, err := db.DB()
		if err != nil {
			t.Fatal(err)
		}
		pool.SetMaxOpenConns(connections)
		return db
	}
	pool := func(t *testing.T, db *gorm.DB) *sql.DB {
		pool, err := db.DB()
		if err != nil {
			t.Fatal(err)
		}
		return pool
	}
	here := func(t *testing.T, db *gorm.DB, gate chan struct{}) lease.Store {
		p := pool(t, db)
		return stubborn{sqllease.New(p, sqllease.SQLite, lease.Window(300*time.Millisecond)), p, gate}
	}
	fenced := func(t *testing.T, db *gorm.DB, gate chan struct{}) lease.Store {
		return lease.Fenced(lease.Memory(lease.Window(200*time.Millisecond)), here(t, db, gate))
	}
	elsewhere := func(t *testing.T, _ *gorm.DB, gate chan struct{}) lease.Store {
		return here(t, file(t, 1, &gorm.Config{}), gate)
	}
	tests := map[string]struct {
		connections int
		config      gorm.Config
		flake       gormflake.Config
		store       func(*testing.T, *gorm.DB, chan struct{}) lease.Store
		connection  bool // held instead of a transaction
		create      func(*gorm.DB) error
		refused     bool
	}{
		"one connection":                       {connections: 1, store: here, create: create, refused: true},
		"one connection, rows":                 {connections: 1, store: here, create: batch, refused: true},
		"one connection, prepared statements":  {connections: 1, config: gorm.Config{PrepareStmt: true}, store: here, create: create, refused: true},
		"one connection, after hooks":          {connections: 1, flake: gormflake.Config{AfterHooks: true}, store: here, create: create, refused: true},
		"one connection, held":                 {connections: 1, store: here, connection: true, create: create, refused: true},
		"one connection, fenced":               {connections: 1, store: fenced, create: create, refused: true},
		"one connection, leases elsewhere":     {connections: 1, store: elsewhere, create: create},
		"two connections":                      {connections: 2, store: here, create: create},
		"two connections, rows":                {connections: 2, store: here, create: batch},
		"two connections, prepared statements": {connections: 2, config: gorm.Config{PrepareStmt: true}, store: here, create: create},
		"two connections, one held":            {connections: 2, store: here, connection: true, create: create},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := migrated(t, file(t, tt.connections, &tt.config))
			var gate chan struct{}
			if !tt.refused {
				gate = make(chan struct{}) // else the connection is the gate
			}
			config := tt.flake
			config.Store, config.MaxWait = tt.store(t, db, gate), never
			flake := install(t, db, config)
			if err := flake.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			within := func(tx *gorm.DB) error {
				eventually(t, "the grant is used up", func() bool { return flake.Generator().Stats().State == generator.StateSealed })
				if gate != nil {
					go func() {
						eventually(t, "the create waits", func() bool { return flake.Generator().Stats().Waits.Grant > 0 })
						close(gate)
					}()
				}
				return tt.create(tx)
			}
			hold := func(do func(*gorm.DB) error) error { return db.Transaction(do) }
			if tt.connection {
				hold = db.Connection
			}
			err := hold(within)
			if !tt.refused {
				if err != nil {
					t.Errorf("want rows, got %v", err)
				}
				return
			}
			if !errors.Is(err, gormflake.ErrSealed) || !errors.Is(err, gormflake.ErrConnectionHeld) || !strings.Contains(err.Error(), "SetMaxOpenConns") {
				t.Errorf("want ErrSealed, and ErrConnectionHeld that says what to do, got %v", err)
			}
			wantRowCount(t, db, 0)
			eventually(t, "creates go on once the connection is free", func() bool { return tt.create(db) == nil })
			if err := hold(tt.create); err != nil && !errors.Is(err, gormflake.ErrConnectionHeld) {
				t.Errorf("in another transaction: %v", err)
			}
		})
	}
}

// eventually polls a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%s: not within a minute", what)
			return
		}
	}
}
