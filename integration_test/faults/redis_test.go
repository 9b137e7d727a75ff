package faults

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/redislease"
	"github.com/gormflake/gormflake/internal/servers"
)

// short is the window where a fleet has to wait for guards or seals.
const short = 600 * time.Millisecond

// redisFleet is a fleet that leases in Redis. Every member has a client of its
// own, which goes to whatever server is the primary when it connects.
type redisFleet struct {
	*fleet
	primary atomic.Pointer[string]
	user    string
}

func newRedisFleet(t *testing.T, addr string) *redisFleet {
	r := &redisFleet{fleet: newFleet(t)}
	r.primary.Store(&addr)
	return r
}

// join adds n members.
func (r *redisFleet) join(n int, options ...redislease.Option) []*member {
	stores := make([]lease.Store, n)
	for i := range stores {
		stores[i] = r.store(options...)
	}
	return r.add(stores...)
}

func (r *redisFleet) store(options ...redislease.Option) lease.Store {
	client := redis.NewClient(&redis.Options{
		Addr: "primary", Username: r.user, Password: r.user,
		// By default a dial that is refused is repeated for half a second, which
		// is as long as the keeper waits, and the cause is hidden.
		DialerRetries: 1,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, *r.primary.Load())
		},
	})
	r.t.Cleanup(func() {
		r.stop()
		_ = client.Close()
	})
	return redislease.New(client, options...)
}

// admin returns a client of one server.
func admin(t *testing.T, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func do(t *testing.T, client *redis.Client, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := client.Do(ctx, args...).Err(); err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("%v: %v", args, err)
	}
}

// with joins options.
func with(options ...redislease.Option) []redislease.Option { return options }

var durable = with(redislease.WithDurable(), redislease.WithGuard(0))

func TestRedisKilledAndRestarted(t *testing.T) {
	t.Parallel()
	srv := servers.Private(t, servers.Redis, servers.Durable())
	f := newRedisFleet(t, srv.Process().Addr())
	monotone(t, redislease.New(admin(t, srv.Process().Addr()), durable...))
	members := f.join(4, append(durable, lease.Window(short))...)
	f.awaitIssue("the fleet starts")
	for range 3 {
		srv.Kill(t)
		f.awaitSealed(members...)
		srv.Restart(t)
		f.awaitIssue("the fleet recovers")
	}
	f.awaitError(redislease.ErrUnavailable)
	f.check()
}

// TestRedisKilledWithinItsWindow restarts Redis before the grants are used up:
// nobody notices.
func TestRedisKilledWithinItsWindow(t *testing.T) {
	t.Parallel()
	srv := servers.Private(t, servers.Redis, servers.Durable())
	f := newRedisFleet(t, srv.Process().Addr())
	monotone(t, redislease.New(admin(t, srv.Process().Addr()), durable...))
	f.join(4, append(durable, lease.Window(time.Minute))...)
	f.awaitIssue("the fleet starts")
	srv.Kill(t)
	f.awaitIssue("the fleet goes on while Redis is down")
	srv.Restart(t)
	f.awaitIssue("the fleet goes on")
	f.check()
	if len(f.errs) > 0 {
		t.Errorf("%d errors, the first: %v; want none", len(f.errs), f.errs[0])
	}
}

// TestRedisRestartedEmpty gives the fleet just as many worker ids as it has
// members, so that each of them is used before and after the loss.
func TestRedisRestartedEmpty(t *testing.T) {
	t.Parallel()
	srv := servers.Private(t, servers.Redis)
	f := newRedisFleet(t, srv.Process().Addr())
	members := f.join(4, lease.Window(short), lease.Workers(0, 3))
	f.awaitIssue("the fleet starts")
	f.awaitLosses(members, func() {
		srv.Kill(t)
		srv.Restart(t)
	})
	f.awaitIssue("the fleet recovers on an empty server")
	f.check()
}

// TestRedisFlushed deletes everything under live owners, over and over.
func TestRedisFlushed(t *testing.T) {
	tests := []struct {
		name    string
		options []redislease.Option
	}{
		{"asynchronous", with(lease.Window(short), lease.Workers(0, 3))},
		{"durable", with(lease.Window(short), lease.Workers(0, 3), redislease.WithDurable())},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := servers.Private(t, servers.Redis)
			client := admin(t, srv.Process().Addr())
			f := newRedisFleet(t, srv.Process().Addr())
			members := f.join(4, tt.options...)
			f.awaitIssue("the fleet starts")
			for range 2 {
				f.awaitLosses(members, func() { do(t, client, "FLUSHALL") })
				f.awaitIssue("the fleet recovers")
			}
			f.check()
		})
	}
}

func TestRedisWithoutBootstrap(t *testing.T) {
	t.Parallel()
	srv := servers.Private(t, servers.Redis)
	f := newRedisFleet(t, srv.Process().Addr())
	first := f.join(1, append(durable, lease.Window(short))...)
	f.awaitIssue("the namespace is begun", first...)
	f.join(3, append(durable, lease.Window(short), redislease.WithoutBootstrap())...)
	f.awaitIssue("the fleet starts")
	f.stop()

	g := newRedisFleet(t, srv.Process().Addr())
	do(t, admin(t, srv.Process().Addr()), "FLUSHALL")
	g.join(2, append(durable, lease.Window(short), redislease.WithoutBootstrap())...)
	g.awaitError(redislease.ErrNotBootstrapped)
	g.stop()
	if ids, _ := g.inspect(); ids != 0 {
		t.Errorf("%d ids were issued in a namespace that is missing", ids)
	}
	f.check()
}

// refusing gathers the errors of extensions.
type refusing struct {
	lease.Store
	mu   sync.Mutex
	errs []error
}

func (r *refusing) Extend(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
	grant, err := r.Store.Extend(ctx, held, through)
	if err != nil {
		r.mu.Lock()
		r.errs = append(r.errs, err)
		r.mu.Unlock()
	}
	return grant, err
}

// TestRedisScriptsFlushed makes the server forget the scripts: no extension
// fails for it.
func TestRedisScriptsFlushed(t *testing.T) {
	t.Parallel()
	srv := servers.Private(t, servers.Redis)
	client := admin(t, srv.Process().Addr())
	f := newRedisFleet(t, srv.Process().Addr())
	monotone(t, redislease.New(client, durable...))
	stores := make([]*refusing, 4)
	var members []*member
	for i := range stores {
		stores[i] = &refusing{Store: f.store(append(durable, lease.Window(short))...)}
		members = append(members, f.add(stores[i])...)
	}
	f.awaitIssue("the fleet starts")
	for range 5 {
		do(t, client, "SCRIPT", "FLUSH")
		awaitExtends(t, members, 2)
	}
	f.check()
	for i, m := range members {
		if s := m.opened.Load().Stats(); s.Losses != 0 {
			t.Errorf("%s lost %d leases; want none", m.name, s.Losses)
		}
		for _, err := range stores[i].errs {
			// A slow machine may answer too late for a short window.
			if !errors.Is(err, redislease.ErrUnknownOutcome) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("an extension of %s failed: %v; want none to", m.name, err)
			}
		}
	}
}

// TestRedisHung freezes the server: ids go on until the grants end, and no
// call of Next fails before.
func TestRedisHung(t *testing.T) {
	t.Parallel()
	srv := servers.Private(t, servers.Redis)
	f := newRedisFleet(t, srv.Process().Addr())
	monotone(t, redislease.New(admin(t, srv.Process().Addr()), durable...))
	members := f.join(4, append(durable, lease.Window(8*time.Second))...)
	f.awaitIssue("the fleet starts")
	srv.Pause(t)
	f.awaitIssue("the fleet goes on while the server hangs")
	f.awaitSealed(members...)
	for _, m := range members {
		eventually(t, "a refusal", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.refusals) > 0 })
		m.mu.Lock()
		if first := m.refusals[0]; first.at.Before(first.highWater.Add(-maxWait)) {
			t.Errorf("%s was refused an id at %v, its grant ends at %v: %v", m.name, first.at, first.highWater, first.err)
		}
		m.mu.Unlock()
	}
	f.awaitError(redislease.ErrUnknownOutcome)
	srv.Resume(t)
	f.awaitIssue("the fleet recovers")
	f.check()
}
