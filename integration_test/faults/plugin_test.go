package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
	"github.com/gormflake/gormflake/internal/servers"
)

type order struct {
	ID       gormflake.ID
	Customer string
}

var errRollBack = errors.New("the application changes its mind")

// install opens a database with the plugin and as many connections, leasing in
// the database itself.
func install(t *testing.T, f *sqlFleet, connections int, window, maxWait time.Duration) (*gorm.DB, *gormflake.Plugin) {
	t.Helper()
	db := f.srv.OpenDSN(t, f.dsn, nil)
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxOpenConns(connections)
	plugin := gormflake.New(gormflake.Config{
		Store: sqllease.New(pool, dialect(f.srv.Kind()), lease.Window(window)), Namespace: "faults",
		MaxWait: maxWait, Logger: silent,
	})
	if err := db.Use(plugin); err != nil {
		t.Fatal(err)
	}
	if err := db.AutoMigrate(&order{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plugin.Close(context.Background()) })
	return db, plugin
}

func start(t *testing.T, plugin *gormflake.Plugin) {
	t.Helper()
	eventually(t, "the plugin starts", func() bool {
		err := plugin.Start(t.Context())
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// TestSQLTransactionRolledBack rolls the application's transactions back after
// their ids have escaped. The lease lives outside of them: no id comes again,
// of this plugin, of one that starts anew, or of one beside.
func TestSQLTransactionRolledBack(t *testing.T) {
	servers.Each(t, withFile, func(t *testing.T, srv *servers.Server) {
		t.Parallel()
		f := newSQLFleet(t, srv)
		rows := f.store().(lease.Lister)
		monotone(t, f.store())
		for range 3 {
			db, plugin := install(t, f, 4, short, maxWait)
			start(t, plugin)
			m := f.outsider("the application")
			for range 5 {
				err := db.Transaction(func(tx *gorm.DB) error {
					orders := make([]order, 20)
					if err := tx.Create(&orders).Error; err != nil {
						return err
					}
					for _, o := range orders {
						m.keep(o.ID)
					}
					if srv.Kind() != servers.SQLite { // one writer at a time: no extension while this one is open
						before := plugin.Generator().Stats().Extends
						eventually(t, "the lease is extended meanwhile", func() bool {
							return plugin.Generator().Stats().Extends > before
						})
					}
					return errRollBack
				})
				if errors.Is(err, generator.ErrSealed) {
					continue // a slow machine
				}
				if !errors.Is(err, errRollBack) {
					t.Fatal(err)
				}
				stats := plugin.Generator().Stats()
				list, err := rows.List(t.Context(), "faults")
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range list {
					if row.Worker == stats.Worker && (row.Term < stats.Term || row.HighWater < stats.HighWater.UnixMilli()) {
						t.Errorf("the row is %+v after the rollback; want at least what was granted: %+v", row, stats)
					}
				}
				m.mu.Lock()
				last := generator.Standard().Decompose(m.ids[len(m.ids)-1]).Time
				m.mu.Unlock()
				if !last.Before(stats.HighWater) {
					t.Errorf("an id of %v escaped beyond the high water %v", last, stats.HighWater)
				}
			}
			var left int64
			if err := db.Model(&order{}).Count(&left).Error; err != nil || left != 0 {
				t.Errorf("%d rows are left, %v; want none after rollbacks", left, err)
			}
			f.join(1, lease.Window(short)) // beside the next ones
			if err := plugin.Close(t.Context()); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		f.awaitIssue("members beside", f.members[1])
		f.check()
	})
}

// TestSQLOneConnection gives the application and the lease one connection in
// all. Whoever holds it starves the lease: creates then fail, typed and at
// once, whatever MaxWait allows, and go on by themselves when it is free.
func TestSQLOneConnection(t *testing.T) {
	servers.Each(t, withFile, func(t *testing.T, srv *servers.Server) {
		t.Parallel()
		f := newSQLFleet(t, srv)
		const never = 24 * time.Hour // a create that waits for the store hangs
		db, _ := install(t, f, 1, time.Second, never)
		m := f.outsider("the application")
		create := func(tx *gorm.DB) error {
			o := order{}
			err := tx.Create(&o).Error
			if err == nil {
				m.keep(o.ID)
			} else {
				f.note(err)
			}
			return err
		}
		err := db.Transaction(create)
		if !errors.Is(err, gormflake.ErrNotStarted) {
			t.Errorf("a create in a transaction before the lease: %v; want ErrNotStarted", err)
		}
		eventually(t, "the lease is had once the connection is free", func() bool { return create(db) == nil })

		monotone(t, f.store())
		for range 2 {
			refused := errors.New("no create was refused")
			err = db.Transaction(func(tx *gorm.DB) error {
				eventually(t, "the transaction outlasts the grant", func() bool {
					if err := create(tx); err != nil {
						refused = err
						return true
					}
					return false
				})
				return errRollBack
			})
			if !errors.Is(err, errRollBack) || !errors.Is(refused, generator.ErrSealed) || !errors.Is(refused, gormflake.ErrConnectionHeld) {
				t.Errorf("got %v, and %v of a create past the grant; want ErrSealed and ErrConnectionHeld", err, refused)
			}
			eventually(t, "creates go on once the connection is free", func() bool { return create(db) == nil })
		}
		for range 20 {
			if err := db.Transaction(create); err != nil && !errors.Is(err, generator.ErrSealed) {
				t.Error(err)
			}
		}
		f.check()
	})
}
