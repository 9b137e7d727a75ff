package faults

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/redislease"
	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/internal/servers/proxy"
)

// network is a fleet that reaches Redis through a proxy.
func network(t *testing.T, window time.Duration) (*redisFleet, *proxy.Proxy, []*member) {
	srv := servers.Private(t, servers.Redis)
	link := proxy.New(t, srv.Process().Addr())
	f := newRedisFleet(t, link.Addr())
	monotone(t, redislease.New(admin(t, srv.Process().Addr()), durable...))
	members := f.join(3, append(durable, lease.Window(window))...)
	f.awaitIssue("the fleet starts")
	return f, link, members
}

// TestRedisNetworkFails breaks the network until the fleet is sealed.
func TestRedisNetworkFails(t *testing.T) {
	tests := []struct {
		name     string
		spoil    func(*proxy.Proxy)
		want     error
		keepsRow bool // nothing was executed that the members don't know of
	}{
		{"cut", (*proxy.Proxy).Cut, redislease.ErrUnknownOutcome, false},
		{"requests are lost", func(p *proxy.Proxy) { p.Drop(proxy.Requests) }, redislease.ErrUnknownOutcome, true},
		{"replies are lost", func(p *proxy.Proxy) { p.Drop(proxy.Replies) }, redislease.ErrUnknownOutcome, false},
		{"requests come late", func(p *proxy.Proxy) { p.Stall(proxy.Requests) }, redislease.ErrUnknownOutcome, false},
		{"replies come late", func(p *proxy.Proxy) { p.Stall(proxy.Replies) }, redislease.ErrUnknownOutcome, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, link, members := network(t, short)
			tt.spoil(link)
			f.awaitError(tt.want)
			f.awaitSealed(members...)
			link.Restore()
			f.awaitIssue("the fleet recovers")
			f.check()
			for _, m := range members {
				if n := m.opened.Load().Stats().Losses; n != 0 && tt.keepsRow {
					t.Errorf("%s lost its lease %d times; want it to go on with the one it had", m.name, n)
				}
			}
		})
	}
}

// TestRedisLosesReplies closes the connection instead of passing a reply, over
// and over: the extension took effect, and its owner finds that out.
func TestRedisLosesReplies(t *testing.T) {
	t.Parallel()
	f, link, members := network(t, 3*short)
	for range 10 {
		accepted := link.Accepted()
		link.LoseNextReply()
		eventually(t, "a reply is lost and its client is back", func() bool { return link.Accepted() > accepted })
	}
	f.awaitIssue("the fleet goes on")
	f.check()
	failures := uint64(0)
	for _, m := range members {
		s := m.opened.Load().Stats()
		failures += s.ExtendFailures
		if s.Losses != 0 {
			t.Errorf("%s lost its lease %d times; want a lost reply to be no loss", m.name, s.Losses)
		}
	}
	t.Logf("%d extensions failed for good", failures)
}

// TestRedisNetworkIsSlow delays each packet: the fleet goes on without an
// error, since nobody waits for the network to give an id.
func TestRedisNetworkIsSlow(t *testing.T) {
	t.Parallel()
	f, link, members := network(t, 6*time.Second)
	link.Delay(50 * time.Millisecond)
	awaitExtends(t, members, 2)
	f.check()
	if len(f.errs) > 0 {
		t.Errorf("%d errors, the first: %v; want none", len(f.errs), f.errs[0])
	}
}

// TestRedisNetworkFlaps cuts and restores the network many times.
func TestRedisNetworkFlaps(t *testing.T) {
	t.Parallel()
	f, link, _ := network(t, short)
	ctx, cancel := context.WithCancel(t.Context())
	var flapping sync.WaitGroup
	flapping.Go(func() { link.Flap(ctx, 70*time.Millisecond, 50*time.Millisecond) })
	eventually(t, "many reconnections", func() bool { return link.Accepted() > 60 })
	f.awaitIssue("the fleet goes on while the network flaps")
	cancel()
	flapping.Wait()
	f.awaitIssue("the fleet goes on")
	f.check()
}
