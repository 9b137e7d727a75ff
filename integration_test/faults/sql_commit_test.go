package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/internal/servers/proxy"
)

// TestSQLKilledBeforeTheReply kills the server when a statement has committed
// and its reply is on the way: the row shows the commit, the client never gets
// the reply. Each of a lease's three statements is hit once.
func TestSQLKilledBeforeTheReply(t *testing.T) {
	steps := map[string]func(*testing.T, *commit){
		"acquire": killedAfterAcquire, "extension": killedAfterExtension, "release": killedAfterRelease,
	}
	for _, kind := range sqlServers {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			srv := servers.Private(t, kind, servers.Durable())
			for name, test := range steps {
				t.Run(name, func(t *testing.T) {
					direct := newSQLFleet(t, srv)
					monotone(t, direct.store())
					f := sqlFleetOn(t, srv, direct.dsn)
					test(t, &commit{f, through(t, f), direct.store()})
					f.check()
				})
			}
		})
	}
}

// commit is a server whose clients lease worker 0 through a proxy, and a store
// that sees its rows directly.
type commit struct {
	*sqlFleet
	link   *proxy.Proxy
	direct lease.Store
}

func (c *commit) row() (lease.Row, bool, error) {
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	return c.direct.Lookup(ctx, "faults", 0)
}

// killWhen begins a statement and kills the server when the row shows its
// commit and the reply has come as far as the proxy. It returns that row,
// which the server has kept.
func (c *commit) killWhen(committed func(lease.Row) bool, begin func()) lease.Row {
	c.t.Helper()
	var seen lease.Row
	held := c.link.HoldReplies(func() bool {
		row, ok, err := c.row()
		if err != nil || !ok || !committed(row) {
			return false
		}
		seen = row
		return true
	})
	begin()
	select {
	case <-held:
	case <-time.After(patience):
		c.t.Fatalf("no reply of a commit within %v", patience)
	}
	c.srv.Kill(c.t)
	c.link.Reset()
	c.srv.Restart(c.t)
	c.link.Restore()
	if row := c.awaitRow(); row.Term < seen.Term || row.HighWater < seen.HighWater {
		c.t.Errorf("the row is %+v after the crash; want %+v, as it was committed", row, seen)
	}
	return seen
}

// awaitRow reads the row once the connections of before the crash are gone.
func (c *commit) awaitRow() (row lease.Row) {
	c.t.Helper()
	eventually(c.t, "the row can be read", func() (ok bool) {
		var err error
		row, ok, err = c.row()
		return ok && err == nil
	})
	return row
}

// An acquire of unknown outcome is never adopted: the row stays with nobody
// until it expires, and the next grant begins where the lost one ends.
func killedAfterAcquire(t *testing.T, c *commit) {
	m := c.outsider("the one that acquires")
	config := c.config(c.store(lease.Window(time.Second), lease.Workers(0, 0)))
	opened := make(chan *generator.Generator, 1)
	seen := c.killWhen(func(row lease.Row) bool { return row.Term > 0 }, func() {
		c.running.Go(func() {
			defer close(opened)
			for c.ctx.Err() == nil {
				g, err := generator.Open(c.ctx, config)
				if err == nil {
					opened <- g
					return
				}
				c.note(err)
				pause(c.ctx, 20*time.Millisecond)
			}
		})
	})
	g, ok := <-opened
	if !ok {
		t.Fatal("no generator was opened")
	}
	m.draw(g, 20)
	first := generator.Standard().Decompose(m.ids[0]).Time.UnixMilli()
	if s := g.Stats(); s.Term <= seen.Term || first < seen.HighWater {
		t.Errorf("term %d, first id at %d; want a later term than %d, from its high water %d on", s.Term, first, seen.Term, seen.HighWater)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// The owner finds out that its extension has taken effect, and goes on with
// its lease.
func killedAfterExtension(t *testing.T, c *commit) {
	m := c.add(c.store(lease.Window(3*time.Second), lease.Workers(0, 0)))[0]
	c.awaitIssue("the owner works", m)
	before := m.opened.Load().Stats()
	seen := c.killWhen(func(row lease.Row) bool { return row.HighWater > m.opened.Load().Stats().HighWater.UnixMilli() }, func() {})
	c.awaitIssue("the owner goes on", m)
	awaitExtends(t, []*member{m}, 1)
	if s := m.opened.Load().Stats(); s.Losses != 0 || s.Term != before.Term || s.HighWater.UnixMilli() < seen.HighWater {
		t.Errorf("%+v after the crash; want no loss, term %d, and at least the high water %d that was committed", s, before.Term, seen.HighWater)
	}
}

// The row is free: the next owner has it without a wait for the expiry.
func killedAfterRelease(t *testing.T, c *commit) {
	const window = 3 * time.Second
	first := open(t, c.config(c.store(lease.Window(window), lease.Workers(0, 0))))
	m := c.outsider("the one that releases")
	m.draw(first, 20)
	closed := make(chan error, 1)
	seen := c.killWhen(func(row lease.Row) bool { return row.Owner == "" }, func() {
		go func() { closed <- first.Close(context.WithoutCancel(t.Context())) }()
	})
	if err := <-closed; err == nil {
		t.Error("Close knows of no failure, though its reply was lost")
	}
	if row := c.awaitRow(); row.Owner != "" || row.ExpiresAt != seen.HighWater {
		t.Errorf("the row is %+v; want it free from its high water on", row)
	}
	next := c.add(c.store(lease.Window(window), lease.Workers(0, 0)))[0]
	c.awaitIssue("the next owner works", next)
	if s := next.opened.Load().Stats(); s.Term != seen.Term+1 {
		t.Errorf("the next owner's term is %d; want %d", s.Term, seen.Term+1)
	}
	if _, err := first.Next(t.Context()); !errors.Is(err, generator.ErrClosed) {
		t.Errorf("Next after Close: %v; want ErrClosed", err)
	}
}
