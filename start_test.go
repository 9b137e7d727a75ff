package gormflake_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
)

// gated is a store whose Acquire waits for a gate and may fail.
type gated struct {
	lease.Store
	gate chan struct{} // closed: open

	mu       sync.Mutex
	err      error
	acquires int
}

func newGated(open bool) *gated {
	s := &gated{Store: lease.Memory(), gate: make(chan struct{})}
	if open {
		close(s.gate)
	}
	return s
}

func (s *gated) Key() any { return s }

func (s *gated) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *gated) Acquire(ctx context.Context, req lease.Request) (lease.Grant, error) {
	select {
	case <-s.gate:
	case <-ctx.Done():
		return lease.Grant{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acquires++
	if s.err != nil {
		return lease.Grant{}, s.err
	}
	return s.Store.Acquire(ctx, req)
}

// never is a MaxWait that no test sits out: what does not come at once hangs.
const never = 24 * time.Hour

func migrated(t *testing.T, db *gorm.DB) *gorm.DB {
	t.Helper()
	if err := db.AutoMigrate(&order{}); err != nil {
		t.Fatal(err)
	}
	return db
}

func wantRowCount(t *testing.T, db *gorm.DB, want int64) {
	t.Helper()
	var n int64
	if err := db.Model(&order{}).Count(&n).Error; err != nil || n != want {
		t.Errorf("want %d rows, got %d, error %v", want, n, err)
	}
}

func TestFirstCreateWaitsForTheLease(t *testing.T) {
	t.Cleanup(leakCheck(t))
	store := newGated(false)
	db := migrated(t, openMemory(t, &gorm.Config{}))
	flake := install(t, db, gormflake.Config{Store: store, MaxWait: 10 * time.Millisecond})
	err := db.Create(&order{}).Error
	if !errors.Is(err, gormflake.ErrNotStarted) || !strings.Contains(err.Error(), "Start") {
		t.Errorf("want ErrNotStarted that says Start, got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := db.WithContext(ctx).Create(&order{}).Error; !errors.Is(err, context.Canceled) || !errors.Is(err, gormflake.ErrNotStarted) {
		t.Errorf("want ErrNotStarted and the context's error, got %v", err)
	}
	if err := flake.Ready(context.Background()); !errors.Is(err, gormflake.ErrNotStarted) {
		t.Errorf("Ready: want ErrNotStarted, got %v", err)
	}
	wantRowCount(t, db, 0)
	close(store.gate)
	// The leasing has gone on, so that Start finds it done or waits for it.
	if err := flake.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := flake.Ready(context.Background()); err != nil {
		t.Errorf("Ready: %v", err)
	}
	if err := db.Create(&order{}).Error; err != nil {
		t.Error(err)
	}
	if store.acquires != 1 {
		t.Errorf("want one lease, got %d", store.acquires)
	}
}

func TestConcurrentFirstCreates(t *testing.T) {
	t.Cleanup(leakCheck(t))
	store := newGated(false)
	db := migrated(t, openMemory(t, &gorm.Config{}))
	install(t, db, gormflake.Config{Store: store, MaxWait: never})
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if err := db.Create(&order{}).Error; err != nil {
				t.Error(err)
			}
		})
	}
	close(store.gate)
	wait.Wait()
	wantRowCount(t, db, 8)
	if store.acquires != 1 {
		t.Errorf("want one lease, got %d", store.acquires)
	}
}

// TestFirstCreateWhileHolding begins with a create that holds what leasing may
// need. It must work or say so at once; MaxWait is never.
func TestFirstCreateWhileHolding(t *testing.T) {
	single := func(t *testing.T, db *gorm.DB) *gorm.DB {
		pool, err := db.DB()
		if err != nil {
			t.Fatal(err)
		}
		pool.SetMaxOpenConns(1)
		return db
	}
	create := func(tx *gorm.DB) error { return tx.Create(&order{}).Error }
	transaction := func(db *gorm.DB) error { return db.Transaction(create) }
	connection := func(db *gorm.DB) error { return db.Connection(create) }
	skip := func() *gorm.Config { return &gorm.Config{SkipDefaultTransaction: true} }
	for name, c := range map[string]struct {
		open   func(t *testing.T) *gorm.DB
		create func(*gorm.DB) error
		want   error
	}{
		"memory":                           {func(t *testing.T) *gorm.DB { return openMemory(t, &gorm.Config{}) }, create, nil},
		"memory, transaction":              {func(t *testing.T) *gorm.DB { return openMemory(t, &gorm.Config{}) }, transaction, nil},
		"memory, connection":               {func(t *testing.T) *gorm.DB { return openMemory(t, &gorm.Config{}) }, connection, nil},
		"memory, no transactions":          {func(t *testing.T) *gorm.DB { return openMemory(t, skip()) }, create, nil},
		"one connection":                   {func(t *testing.T) *gorm.DB { return single(t, openFile(t, &gorm.Config{})) }, create, nil},
		"one connection, no transactions":  {func(t *testing.T) *gorm.DB { return single(t, openFile(t, skip())) }, create, nil},
		"one connection, transaction":      {func(t *testing.T) *gorm.DB { return single(t, openFile(t, &gorm.Config{})) }, transaction, gormflake.ErrNotStarted},
		"one connection, held":             {func(t *testing.T) *gorm.DB { return single(t, openFile(t, &gorm.Config{})) }, connection, gormflake.ErrNotStarted},
		"many connections, one held":       {func(t *testing.T) *gorm.DB { return openFile(t, skip()) }, connection, nil},
		"many connections, transaction":    {func(t *testing.T) *gorm.DB { return openFile(t, &gorm.Config{}) }, transaction, gormflake.ErrNotStarted},
		"prepared statements, transaction": {func(t *testing.T) *gorm.DB { return openFile(t, &gorm.Config{PrepareStmt: true}) }, transaction, gormflake.ErrNotStarted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(leakCheck(t))
			db := migrated(t, c.open(t))
			flake := install(t, db, gormflake.Config{MaxWait: never})
			if err := c.create(db); !errors.Is(err, c.want) {
				t.Fatalf("want %v, got %v", c.want, err)
			}
			if c.want == nil {
				wantRowCount(t, db, 1)
				return
			}
			wantRowCount(t, db, 0)
			if err := flake.Start(context.Background()); err != nil {
				t.Fatal(err)
			}
			if err := c.create(db); err != nil {
				t.Errorf("once started: %v", err)
			}
			wantRowCount(t, db, 1)
		})
	}
}

func TestStartFails(t *testing.T) {
	t.Cleanup(leakCheck(t))
	store := newGated(true)
	store.fail(&lease.NoWorkerError{Namespace: "default", Workers: lease.Range{Hi: 3}})
	db := migrated(t, openMemory(t, &gorm.Config{}))
	flake := install(t, db, gormflake.Config{Store: store})
	for _, err := range []error{flake.Start(context.Background()), db.Create(&order{}).Error} {
		if !errors.Is(err, gormflake.ErrNotStarted) || !errors.Is(err, gormflake.ErrNoWorker) {
			t.Errorf("want ErrNotStarted and ErrNoWorker, got %v", err)
		}
	}
	row := order{ID: 7}
	if err := db.Create(&row).Error; err != nil {
		t.Errorf("want a row with an id of its own to need no lease, got %v", err)
	}
	if err := db.Create(&[]worded{{ID: "w"}}).Error; err == nil {
		t.Error("want the missing table's error") // and not the plugin's
	} else if errors.Is(err, gormflake.ErrNotStarted) {
		t.Errorf("want a model without snowflake keys left alone, got %v", err)
	}
	store.fail(nil)
	if err := db.Create(&order{}).Error; err != nil {
		t.Errorf("want the next create to lease, got %v", err)
	}
	wantRowCount(t, db, 2)
}

type worded struct {
	ID string `gorm:"primaryKey"`
}

func TestStartGivesUp(t *testing.T) {
	t.Cleanup(leakCheck(t))
	flake := gormflake.New(gormflake.Config{Store: newGated(false)})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	err := flake.Start(ctx)
	if !errors.Is(err, gormflake.ErrNotStarted) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("want ErrNotStarted and the deadline, got %v", err)
	}
}

func TestStartWithoutADatabase(t *testing.T) {
	flake := gormflake.New(gormflake.Config{})
	if err := flake.Start(context.Background()); !errors.Is(err, gormflake.ErrNotStarted) || !strings.Contains(err.Error(), "db.Use") {
		t.Errorf("want ErrNotStarted that says db.Use, got %v", err)
	}
	wrong := gormflake.New(gormflake.Config{Layout: generator.Layout{TimeBits: 70}})
	for _, err := range []error{wrong.Start(context.Background()), wrong.Ready(context.Background())} {
		if !errors.Is(err, gormflake.ErrInvalidLayout) {
			t.Errorf("want ErrInvalidLayout, got %v", err)
		}
	}
}

func TestClose(t *testing.T) {
	t.Run("started", func(t *testing.T) {
		t.Cleanup(leakCheck(t))
		db := migrated(t, openMemory(t, &gorm.Config{}))
		flake := install(t, db, gormflake.Config{})
		if err := db.Create(&order{}).Error; err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := flake.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
		for _, err := range []error{
			db.Create(&order{}).Error, db.Create(&[]order{{}, {}}).Error,
			flake.Start(context.Background()), flake.Ready(context.Background()),
		} {
			if !errors.Is(err, gormflake.ErrClosed) {
				t.Errorf("want ErrClosed, got %v", err)
			}
		}
		wantRowCount(t, db, 1)
		if flake.Generator() != nil {
			t.Error("want no generator")
		}
	})
	t.Run("while it leases", func(t *testing.T) {
		t.Cleanup(leakCheck(t))
		db := migrated(t, openMemory(t, &gorm.Config{}))
		flake := install(t, db, gormflake.Config{Store: newGated(false), MaxWait: never})
		created := make(chan error)
		go func() { created <- db.Create(&order{}).Error }()
		err := db.Transaction(func(tx *gorm.DB) error { return tx.Create(&order{}).Error })
		if !errors.Is(err, gormflake.ErrNotStarted) {
			t.Errorf("want ErrNotStarted in a transaction, got %v", err)
		}
		if err := flake.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-created; !errors.Is(err, gormflake.ErrClosed) {
			t.Errorf("want ErrClosed, got %v", err)
		}
	})
	t.Run("leaves a generator of the application's open", func(t *testing.T) {
		t.Cleanup(leakCheck(t))
		g, err := generator.Open(context.Background(), generator.Config{Store: lease.Memory()})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close(context.Background())
		db := migrated(t, openMemory(t, &gorm.Config{}))
		flake := install(t, db, gormflake.Config{Generator: g})
		wantFilled(t, db)
		if err := flake.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := g.Next(context.Background()); err != nil {
			t.Errorf("want the generator open, got %v", err)
		}
		if err := db.Create(&order{}).Error; !errors.Is(err, gormflake.ErrClosed) {
			t.Errorf("want ErrClosed, got %v", err)
		}
	})
}

func TestDryRunWithoutALease(t *testing.T) {
	t.Cleanup(leakCheck(t))
	store := newGated(true)
	store.fail(errors.New("the store is away"))
	db := migrated(t, openMemory(t, &gorm.Config{}))
	install(t, db, gormflake.Config{Store: store})
	row := order{Customer: "dry"}
	stmt := db.Session(&gorm.Session{DryRun: true}).Create(&row).Statement
	if stmt.Error != nil || row.ID != 0 || !strings.Contains(stmt.SQL.String(), "INSERT") {
		t.Errorf("want an INSERT without an id, got %s, id %d, error %v", stmt.SQL.String(), row.ID, stmt.Error)
	}
	wantRowCount(t, db, 0)
}

// leakCheck returns a check that what the test has started is gone.
func leakCheck(t *testing.T) func() {
	running := goleak.IgnoreCurrent()
	statements := goleak.IgnoreAnyFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1") // GORM never ends it
	return func() { goleak.VerifyNone(t, running, statements) }
}

func TestWorkerOfTheEnvironment(t *testing.T) {
	t.Cleanup(leakCheck(t))
	t.Setenv("GORMFLAKE_WORKER_ID", "5")
	db := migrated(t, openFile(t, &gorm.Config{}))
	flake := install(t, db, gormflake.Config{Namespace: "environment"})
	if worker := flake.Layout().Decompose(wantFilled(t, db)).Worker; worker != 5 {
		t.Errorf("want worker id 5, got %d", worker)
	}
	for _, name := range tables(t, db) {
		if strings.Contains(name, "gormflake") {
			t.Errorf("want no lease table, got %s", name)
		}
	}
}

// A generator beside the plugin that leases in the same in-memory database
// leases the same rows.
func TestAnInMemoryDatabaseHasOneStore(t *testing.T) {
	db := openMemory(t, &gorm.Config{})
	flake := gormflake.New(gormflake.Config{})
	if err := db.Use(flake); err != nil {
		t.Fatal(err)
	}
	if err := flake.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer flake.Close(context.Background())
	store, err := sqllease.FromGORM(db)
	if err != nil {
		t.Fatal(err)
	}
	worker := flake.Generator().Stats().Worker
	row, ok, err := store.Lookup(t.Context(), flake.Generator().Namespace(), worker)
	if err != nil || !ok || !row.Held {
		t.Errorf("the plugin's worker %d in the store of its database: want a row that is held, got %+v, %v, %v", worker, row, ok, err)
	}
}
