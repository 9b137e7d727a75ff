package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/internal/servers/proxy"
)

// sqlServers are the SQL servers that are processes of their own.
var sqlServers = []servers.Kind{servers.MariaDB, servers.Postgres}

// withFile are all SQL databases that these tests know.
var withFile = append([]servers.Kind{servers.SQLite}, sqlServers...)

// sqlFleet is a fleet that leases in one database. Every member has a pool of
// its own, as a process has.
type sqlFleet struct {
	*fleet
	srv *servers.Server
	dsn string
}

// newSQLFleet makes a database for the fleet.
func newSQLFleet(t *testing.T, srv *servers.Server) *sqlFleet {
	return sqlFleetOn(t, srv, srv.Database(t))
}

func sqlFleetOn(t *testing.T, srv *servers.Server, dsn string) *sqlFleet {
	return &sqlFleet{fleet: newFleet(t), srv: srv, dsn: dsn}
}

// pool opens another pool. The fleet is stopped before it is closed.
func (f *sqlFleet) pool() *sql.DB {
	db := f.srv.OpenSQL(f.t, f.dsn)
	db.SetMaxOpenConns(4)
	f.t.Cleanup(f.stop)
	return db
}

func (f *sqlFleet) store(options ...lease.Option) lease.Store {
	return sqllease.New(f.pool(), dialect(f.srv.Kind()), options...)
}

// join adds n members.
func (f *sqlFleet) join(n int, options ...lease.Option) []*member {
	stores := make([]lease.Store, n)
	for i := range stores {
		stores[i] = f.store(options...)
	}
	return f.add(stores...)
}

// churn adds a member that opens and closes generators without a pause, so
// that the database is always in the middle of a statement.
func (f *sqlFleet) churn(options ...lease.Option) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := &member{fleet: f.fleet, name: fmt.Sprintf("churning member %d", len(f.members)), store: f.store(options...)}
	f.members = append(f.members, m)
	f.running.Go(func() {
		for pause(f.ctx, time.Millisecond) {
			g, err := generator.Open(f.ctx, f.config(m.store))
			if err != nil {
				f.note(err)
				continue
			}
			for range 5 {
				if id, err := g.Next(f.ctx); err == nil {
					m.keep(id)
				} else if f.ctx.Err() == nil {
					f.note(err)
				}
			}
			closing, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), time.Second)
			_ = g.Close(closing) // the server may be down
			cancel()
		}
	})
	return m
}

// config is a generator's config, as members have it.
func (f *fleet) config(store lease.Store) generator.Config {
	return generator.Config{Store: store, Namespace: "faults", MaxWait: maxWait, Logger: silent}
}

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

// keep gathers an id.
func (m *member) keep(id generator.ID) {
	m.mu.Lock()
	m.ids = append(m.ids, id)
	m.mu.Unlock()
	m.issued.Add(1)
}

// outsider adds a member whose ids are given by the test itself.
func (f *fleet) outsider(name string) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := &member{fleet: f, name: name}
	f.members = append(f.members, m)
	return m
}

// draw takes n ids from a generator for a member.
func (m *member) draw(g *generator.Generator, n int) {
	m.fleet.t.Helper()
	for range n {
		eventually(m.fleet.t, m.name+" gets an id", func() bool {
			id, err := g.Next(m.fleet.t.Context())
			if errors.Is(err, generator.ErrSealed) {
				return false // a slow machine, which a short window does not cover
			}
			if err != nil {
				m.fleet.t.Fatalf("%s: %v", m.name, err)
			}
			m.keep(id)
			return true
		})
	}
}

// awaitRefusals waits until each member was refused an id, and checks that no
// call failed before its grant was used up.
func awaitRefusals(t *testing.T, members []*member) {
	t.Helper()
	for _, m := range members {
		eventually(t, "a refusal", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.refusals) > 0 })
		m.mu.Lock()
		if first := m.refusals[0]; first.at.Before(first.highWater.Add(-maxWait)) {
			t.Errorf("%s was refused an id at %v, its grant ends at %v: %v", m.name, first.at, first.highWater, first.err)
		}
		m.mu.Unlock()
	}
}

// open opens a generator that is closed at the test's end.
func open(t *testing.T, config generator.Config) *generator.Generator {
	t.Helper()
	var g *generator.Generator
	eventually(t, "a generator opens", func() bool {
		opened, err := tryOpen(t, config)
		// On a slow machine an acquire whose reply came too late holds a row.
		if err != nil && !errors.Is(err, generator.ErrNoWorker) {
			t.Fatal(err)
		}
		g = opened
		return err == nil
	})
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	return g
}

// tryOpen opens a generator, again and again while the machine is too slow for
// the store to answer in the time that a short window leaves it.
func tryOpen(t *testing.T, config generator.Config) (*generator.Generator, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		g, err := generator.Open(ctx, config)
		if err == nil || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return g, err
		}
	}
}

func dialect(kind servers.Kind) sqllease.Dialect {
	switch {
	case kind.IsMySQL():
		return sqllease.MySQL
	case kind == servers.Postgres:
		return sqllease.Postgres
	}
	return sqllease.SQLite
}

// address finds host and port in a data source name of MySQL or Postgres.
var address = regexp.MustCompile(`@(?:tcp\()?([^@/()]+:\d+)`)

// through leads a fleet through a proxy.
func through(t *testing.T, f *sqlFleet) *proxy.Proxy {
	t.Helper()
	found := address.FindStringSubmatch(f.dsn)
	if found == nil {
		t.Fatalf("%s: the data source name has no host and port", f.srv.Kind())
	}
	link := proxy.New(t, found[1])
	f.dsn = strings.Replace(f.dsn, found[1], link.Addr(), 1)
	return link
}
