package faults

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/internal/servers/proxy"
)

// breakable runs a test on a private server of each kind.
func breakable(t *testing.T, test func(*testing.T, *servers.Server)) {
	for _, kind := range sqlServers {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, servers.Private(t, kind))
		})
	}
}

func TestSQLServer(t *testing.T) {
	breakable(t, func(t *testing.T, srv *servers.Server) {
		t.Run("killed within its window", func(t *testing.T) { killedWithinItsWindow(t, srv) })
		t.Run("killed in commits", func(t *testing.T) { killedInCommits(t, srv) })
		t.Run("paused", func(t *testing.T) { paused(t, srv) })
	})
}

// killedWithinItsWindow restarts the server before the grants are used up:
// nobody notices.
func killedWithinItsWindow(t *testing.T, srv *servers.Server) {
	f := newSQLFleet(t, srv)
	monotone(t, f.store())
	f.join(4, lease.Window(time.Minute))
	f.awaitIssue("the fleet starts")
	srv.Kill(t)
	f.awaitIssue("the fleet goes on while the server is down")
	srv.Restart(t)
	f.awaitIssue("the fleet goes on")
	f.check()
	if len(f.errs) > 0 {
		t.Errorf("%d errors, the first: %v; want none", len(f.errs), f.errs[0])
	}
}

// killedInCommits kills the server while members extend and others acquire and
// release without a pause, so that statements of each sort are under way.
func killedInCommits(t *testing.T, srv *servers.Server) {
	f := newSQLFleet(t, srv)
	monotone(t, f.store())
	members := f.join(4, lease.Window(short))
	for range 3 {
		f.churn(lease.Window(short))
	}
	for range 2 {
		f.awaitIssue("the fleet works")
		srv.Kill(t)
		f.awaitSealed(members...)
		srv.Restart(t)
	}
	f.awaitIssue("the fleet recovers")
	f.awaitError(generator.ErrSealed)
	f.awaitError(generator.ErrNotStarted)
	f.check()
}

// paused freezes the server: ids go on until the grants end, no call fails
// before, and the members go on with their rows afterwards. The window leaves a
// slow machine time to show it.
func paused(t *testing.T, srv *servers.Server) {
	f := newSQLFleet(t, srv)
	monotone(t, f.store())
	members := f.join(4, lease.Window(8*time.Second))
	f.awaitIssue("the fleet starts")
	srv.Pause(t)
	f.awaitIssue("the fleet goes on while the server hangs")
	f.awaitSealed(members...)
	awaitRefusals(t, members)
	f.awaitError(generator.ErrSealed)
	srv.Resume(t)
	f.awaitIssue("the fleet recovers")
	f.check()
	for _, m := range members {
		if n := m.opened.Load().Stats().Losses; n != 0 {
			t.Errorf("%s lost its lease %d times; want it to keep the row that nobody else could take", m.name, n)
		}
	}
}

// sqlNetwork is a fleet that reaches its database through a proxy.
func sqlNetwork(t *testing.T, kind servers.Kind, window time.Duration) (*sqlFleet, *proxy.Proxy, []*member) {
	f := newSQLFleet(t, servers.Shared(t, kind))
	monotone(t, f.store())
	link := through(t, f)
	members := f.join(3, lease.Window(window))
	f.awaitIssue("the fleet starts")
	return f, link, members
}

// TestSQLNetworkFails breaks the network until the fleet is sealed. Each
// member finds out what became of its statements and keeps its row, which no
// one else asked for.
func TestSQLNetworkFails(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*proxy.Proxy)
	}{
		{"cut", (*proxy.Proxy).Cut},
		{"half open", func(p *proxy.Proxy) { p.Hold(); p.Reset() }},
		{"requests are lost", func(p *proxy.Proxy) { p.Drop(proxy.Requests) }},
		{"replies are lost", func(p *proxy.Proxy) { p.Drop(proxy.Replies) }},
		{"requests come late", func(p *proxy.Proxy) { p.Stall(proxy.Requests) }},
		{"replies come late", func(p *proxy.Proxy) { p.Stall(proxy.Replies) }},
	}
	for _, tt := range tests {
		for _, kind := range sqlServers {
			t.Run(tt.name+"/"+string(kind), func(t *testing.T) {
				t.Parallel()
				f, link, members := sqlNetwork(t, kind, short)
				tt.spoil(link)
				f.awaitSealed(members...)
				f.awaitError(generator.ErrSealed)
				link.Restore()
				f.awaitIssue("the fleet recovers")
				f.check()
				for _, m := range members {
					if n := m.opened.Load().Stats().Losses; n != 0 {
						t.Errorf("%s lost its lease %d times; want it to settle what was unknown and to go on", m.name, n)
					}
				}
			})
		}
	}
}

// TestSQLLosesReplies closes the connection instead of passing a reply, over
// and over: the extension took effect, and its owner finds that out.
func TestSQLLosesReplies(t *testing.T) {
	for _, kind := range sqlServers {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f, link, members := sqlNetwork(t, kind, 3*short)
			for range 8 {
				accepted := link.Accepted()
				link.LoseNextReply()
				eventually(t, "a reply is lost and its client is back", func() bool { return link.Accepted() > accepted })
			}
			awaitExtends(t, members, 1)
			f.awaitIssue("the fleet goes on")
			f.check()
			for _, m := range members {
				if s := m.opened.Load().Stats(); s.Losses != 0 {
					t.Errorf("%s lost its lease %d times; want a lost reply to be no loss", m.name, s.Losses)
				}
			}
		})
	}
}

// TestSQLNetworkIsSlow delays each packet: the fleet goes on without an error,
// since nobody waits for the network to give an id.
func TestSQLNetworkIsSlow(t *testing.T) {
	for _, kind := range sqlServers {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f, link, members := sqlNetwork(t, kind, 6*time.Second)
			link.Delay(50 * time.Millisecond)
			awaitExtends(t, members, 2)
			f.check()
			if len(f.errs) > 0 {
				t.Errorf("%d errors, the first: %v; want none", len(f.errs), f.errs[0])
			}
		})
	}
}

// TestSQLNetworkFlaps cuts and restores the network many times.
func TestSQLNetworkFlaps(t *testing.T) {
	for _, kind := range sqlServers {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f, link, _ := sqlNetwork(t, kind, short)
			ctx, cancel := context.WithCancel(t.Context())
			var flapping sync.WaitGroup
			flapping.Go(func() { link.Flap(ctx, 70*time.Millisecond, 50*time.Millisecond) })
			eventually(t, "many reconnections", func() bool { return link.Accepted() > 40 })
			f.awaitIssue("the fleet goes on while the network flaps")
			cancel()
			flapping.Wait()
			f.awaitIssue("the fleet goes on")
			f.check()
		})
	}
}
