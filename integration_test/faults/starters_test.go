package faults

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
	"github.com/gormflake/gormflake/internal/servers"
)

// TestSQL500Starters lets 500 generators start at once, twice, over ten pools
// that together use all of the server's connections.
func TestSQL500Starters(t *testing.T) {
	const starters, pools, connections = 500, 10, 55
	for _, kind := range sqlServers {
		t.Run(string(kind), func(t *testing.T) {
			srv := servers.Private(t, kind, servers.Setting("max_connections", "600"))
			f := newSQLFleet(t, srv)
			monotone(t, f.store())
			stores := make([]lease.Store, pools)
			for i := range stores {
				db := srv.OpenSQL(t, f.dsn)
				db.SetMaxOpenConns(connections)
				db.SetMaxIdleConns(connections)
				stores[i] = sqllease.New(db, dialect(kind))
			}
			members := make([]*member, starters)
			for i := range members {
				members[i] = f.outsider("starter")
			}
			for round := range 2 {
				last, leased, retries := startAtOnce(t, f, stores, members)
				took := leased.Sub(last)
				t.Logf("round %d: all %d leased %v after the last start, %d opened anew", round, starters, took.Round(time.Millisecond), retries)
				if took > patience {
					t.Errorf("%v; want at most %v even on a slow machine, 5 s on an idle one", took, patience)
				}
			}
			f.check()
		})
	}
}

// startAtOnce opens a generator for each member, draws ids, checks that all
// worker ids differ, and closes the generators.
func startAtOnce(t *testing.T, f *sqlFleet, stores []lease.Store, members []*member) (last, leased time.Time, retries int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var (
		all        sync.WaitGroup
		mu         sync.Mutex
		generators []*generator.Generator
		failed     []error
	)
	for i, m := range members {
		config := f.config(stores[i%len(stores)])
		all.Go(func() {
			for {
				g, err := generator.Open(ctx, config)
				mu.Lock()
				if err == nil {
					generators = append(generators, g)
					leased = time.Now()
				} else {
					failed = append(failed, err)
				}
				mu.Unlock()
				if err != nil && ctx.Err() == nil {
					continue
				}
				if err == nil {
					for range 20 {
						if id, err := g.Next(ctx); err == nil {
							m.keep(id)
						}
					}
				}
				return
			}
		})
	}
	last = time.Now()
	all.Wait()
	workers := map[int64]bool{}
	for _, g := range generators {
		workers[g.Stats().Worker] = true
	}
	if len(workers) != len(members) {
		t.Errorf("%d worker ids of %d generators; want %d; errors: %v", len(workers), len(generators), len(members), errors.Join(failed...))
	}
	for _, g := range generators {
		all.Go(func() {
			if err := g.Close(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
				t.Errorf("close: %v", err)
			}
		})
	}
	all.Wait()
	return last, leased, len(failed)
}
