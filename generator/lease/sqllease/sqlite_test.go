package sqllease_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/leasetest"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
)

func openSQLite(t *testing.T, dsn string, connections int) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(connections)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// An in-memory database leases in memory: a second connection would see
// another, empty database.
func TestInMemoryContract(t *testing.T) {
	for name, dsn := range map[string]string{
		"private": ":memory:", "shared cache": "file:leases?mode=memory&cache=shared", "nameless": "",
	} {
		t.Run(name, func(t *testing.T) {
			open := func(t *testing.T, options ...lease.Option) lease.Store {
				return sqllease.New(openSQLite(t, dsn, 3), sqllease.SQLite, options...)
			}
			leasetest.Run(t, func(t *testing.T) lease.Store { return open(t) }, leasetest.Configured(open))
		})
	}
}

func TestInMemoryStoresOfOnePool(t *testing.T) {
	db := openSQLite(t, ":memory:", 3)
	first := sqllease.New(db, sqllease.SQLite)
	held := acquire(t, first, "app")
	second := sqllease.New(db, sqllease.SQLite)
	if first.Key() != second.Key() {
		t.Fatal("two stores of one pool and table have different keys")
	}
	row, ok, err := second.Lookup(t.Context(), "app", held.Worker)
	if err != nil || !ok || row.Owner != held.Token {
		t.Errorf("Lookup in the second store = %+v, %v, error %v; want the first one's row", row, ok, err)
	}
	other := sqllease.New(db, sqllease.SQLite, sqllease.Table("others"))
	if _, ok, err := other.Lookup(t.Context(), "app", held.Worker); ok || err != nil || other.Key() == first.Key() {
		t.Errorf("another table shares rows or key (ok %v, error %v)", ok, err)
	}
	var tables int
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM sqlite_master").Scan(&tables); err != nil || tables != 0 {
		t.Errorf("%d tables in the database (error %v); want none", tables, err)
	}
	runtime.KeepAlive(first)
}

// While another holds the only write lock of a file, the store tries again,
// even when the driver itself waits for nothing.
func TestBusyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "busy.db")
	dsn := "file:" + path + "?_pragma=busy_timeout(0)"
	store := sqllease.New(openSQLite(t, dsn, 3), sqllease.SQLite)
	held := acquire(t, store, "app")

	writer := openSQLite(t, dsn, 1)
	conn, err := writer.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := store.Extend(ctx, held, held.Through+10); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Extend on a busy file: error %v; want the context's", err)
	}
	row, ok, err := store.Lookup(t.Context(), "app", held.Worker)
	if err != nil || !ok || row.HighWater != held.Through {
		t.Errorf("Lookup on a busy file = %+v, %v, error %v; want the row as it was", row, ok, err)
	}
	extended := make(chan error, 1)
	go func() {
		_, err := store.Extend(t.Context(), held, held.Through+20)
		extended <- err
	}()
	if _, err := conn.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-extended; err != nil {
		t.Errorf("Extend once the file is free: %v", err)
	}
}

// While a transaction of the application holds the only connection, a call
// ends with its context and does not hang.
func TestOnlyConnectionIsTaken(t *testing.T) {
	db := openSQLite(t, "file:"+filepath.Join(t.TempDir(), "one.db"), 1)
	store := sqllease.New(db, sqllease.SQLite)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := store.Acquire(ctx, request("app")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire while the connection is taken: error %v; want the context's", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	acquire(t, store, "app")
}

func TestTimingOfDialects(t *testing.T) {
	db := openSQLite(t, ":memory:", 1)
	file, server := sqllease.New(db, sqllease.SQLite).Timing(), sqllease.New(db, sqllease.Postgres).Timing()
	if file.Window != 10*time.Minute || file.Interval != time.Minute || file.Expiry != 11*time.Minute {
		t.Errorf("a SQLite file has %+v", file)
	}
	if server.Window != 30*time.Second || server.Interval != 10*time.Second || server.Expiry != 45*time.Second {
		t.Errorf("a server has %+v", server)
	}
}

func openGORM(t *testing.T, config *gorm.Config) *gorm.DB {
	t.Helper()
	config.Logger = logger.Discard
	db, err := gorm.Open(sqlite.Open("file:"+filepath.Join(t.TempDir(), "gorm.db")), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pool, err := db.DB()
		if err == nil {
			err = pool.Close()
		}
		if err != nil {
			t.Error(err)
		}
	})
	return db
}

// Whatever session FromGORM is given, it leases on the pool.
func TestFromGORM(t *testing.T) {
	for name, config := range map[string]*gorm.Config{"plain": {}, "prepared statements": {PrepareStmt: true}} {
		t.Run(name, func(t *testing.T) {
			db := openGORM(t, config)
			pool, err := db.DB()
			if err != nil {
				t.Fatal(err)
			}
			want := sqllease.New(pool, sqllease.SQLite).Key()
			for session, db := range map[string]*gorm.DB{
				"the database": db, "a session": db.Session(&gorm.Session{NewDB: true}), "a dry run": db.Session(&gorm.Session{DryRun: true}),
			} {
				store, err := sqllease.FromGORM(db)
				if err != nil || store.Key() != want {
					t.Errorf("%s: store %v, error %v; want the pool's", session, store, err)
				}
			}
			tx := db.Begin()
			store, err := sqllease.FromGORM(tx)
			if err != nil || store.Key() != want {
				t.Errorf("a transaction: store %v, error %v; want the pool's", store, err)
			}
			held := acquire(t, store, "app")
			if err := tx.Rollback().Error; err != nil {
				t.Fatal(err)
			}
			if _, err := store.Extend(t.Context(), held, held.Through+10); err != nil {
				t.Errorf("Extend after the rollback: %v; want the lease kept", err)
			}
		})
	}
}

func TestFromGORMRefuses(t *testing.T) {
	for name, db := range map[string]*gorm.DB{"nil": nil, "empty": {}, "no dialector": {Config: &gorm.Config{}}} {
		if _, err := sqllease.FromGORM(db); !errors.Is(err, lease.ErrInvalid) {
			t.Errorf("%s: error %v; want ErrInvalid", name, err)
		}
	}
	db := openGORM(t, &gorm.Config{})
	foreign := *db.Config
	foreign.Dialector = foreignDialector{db.Dialector}
	if _, err := sqllease.FromGORM(&gorm.DB{Config: &foreign}); !errors.Is(err, lease.ErrInvalid) {
		t.Errorf("a foreign dialect: error %v; want ErrInvalid", err)
	}
}

type foreignDialector struct{ gorm.Dialector }

func (foreignDialector) Name() string { return "clickhouse" }

func TestOptionsThatCannotBe(t *testing.T) {
	db := openSQLite(t, ":memory:", 1)
	for name, option := range map[string]lease.Option{
		"an empty table": sqllease.Table(""), "a quoted table": sqllease.Table(`a"b`), "two dots": sqllease.Table("a.b.c"),
		"a long table":     sqllease.Table("t1234567890123456789012345678901234567890123456789"),
		"a negative guard": sqllease.WithGuard(-1), "a guard of years": sqllease.WithGuard(1e6 * time.Hour),
	} {
		if _, err := sqllease.New(db, sqllease.SQLite, option).Acquire(t.Context(), request("app")); !errors.Is(err, lease.ErrInvalid) {
			t.Errorf("%s: error %v; want ErrInvalid", name, err)
		}
	}
	if _, err := sqllease.New(nil, sqllease.SQLite).Acquire(t.Context(), request("app")); !errors.Is(err, lease.ErrInvalid) {
		t.Errorf("no pool: error %v; want ErrInvalid", err)
	}
	for name, option := range map[string]lease.Option{
		"Table": sqllease.Table("t"), "WithGuard": sqllease.WithGuard(0), "WithoutCreate": sqllease.WithoutCreate(),
	} {
		if _, err := lease.Memory(option).Acquire(t.Context(), request("app")); !errors.Is(err, lease.ErrInvalid) {
			t.Errorf("%s given to Memory: error %v; want ErrInvalid", name, err)
		}
	}
}
