package faults

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/redislease"
	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/internal/servers/proxy"
)

// chain is a primary with replicas behind each other, each link of which can
// be cut.
type chain struct {
	servers []*servers.Server
	admins  []*redis.Client
	links   []*proxy.Proxy // links[i] leads from server i to server i+1
}

func newChain(t *testing.T, length int) *chain {
	c := &chain{}
	for i := range length {
		options := []servers.Option{
			servers.Setting("repl-diskless-sync-delay", "0"),
			servers.Setting("repl-timeout", "3600"),
		}
		if i > 0 {
			link := proxy.New(t, c.servers[i-1].Process().Addr())
			c.links = append(c.links, link)
			host, port, _ := strings.Cut(link.Addr(), ":")
			options = append(options, servers.Args("--replicaof", host, port))
		}
		srv := servers.Private(t, servers.Redis, options...)
		c.servers = append(c.servers, srv)
		c.admins = append(c.admins, admin(t, srv.Process().Addr()))
		if i > 0 {
			c.awaitReplica(t, i-1)
		}
	}
	return c
}

// awaitReplica waits until a server's replica is in step.
func (c *chain) awaitReplica(t *testing.T, i int) {
	t.Helper()
	eventually(t, "the replica is in step", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		text, err := c.admins[i].Info(ctx, "replication").Result()
		return err == nil && strings.Contains(text, "state=online")
	})
}

// cut stops replication from server i on: what it is told after that, its
// replica never hears.
func (c *chain) cut(i int) { c.links[i].Stall() }

// promote makes server i a primary that the fleet connects to.
func (c *chain) promote(t *testing.T, f *redisFleet, i int) {
	do(t, c.admins[i], "REPLICAOF", "NO", "ONE")
	addr := c.servers[i].Process().Addr()
	f.primary.Store(&addr)
}

// TestRedisReplicaPromoted promotes a replica that has not heard of the last
// writes, once and twice, while the owners of the time before go on until their
// grants end. The fleet then has as many members as there are worker ids, so
// that each of them is used again.
func TestRedisReplicaPromoted(t *testing.T) {
	tests := []struct {
		name    string
		times   int
		arrived bool // the leases did reach the replica, their last extensions did not
	}{
		{"once", 1, false},
		{"twice", 2, false},
		{"with older rows", 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newChain(t, tt.times+1)
			f := newRedisFleet(t, c.servers[0].Process().Addr())
			options := with(lease.Window(short), lease.Workers(0, 5))
			if !tt.arrived {
				c.cut(0)
			}
			members := f.join(3, options...)
			f.awaitIssue("the fleet starts")
			if tt.arrived {
				c.cut(0)
				awaitExtends(t, members, 2)
			}
			for i := range tt.times {
				if i+1 < tt.times {
					c.cut(i + 1)
				}
				f.awaitLosses(members, func() {
					c.servers[i].Kill(t)
					c.promote(t, f, i+1)
					if i == 0 {
						f.join(3, options...)
					}
				})
				f.awaitIssue("the fleet recovers")
				members = f.members
			}
			f.check()
		})
	}
}

// TestRedisGuardIsNeeded repeats the promotion with a guard of nothing, which
// is a lie where a replica is asynchronous, until an id is given twice: the
// checks of this package do notice what the guard prevents.
func TestRedisGuardIsNeeded(t *testing.T) {
	t.Parallel()
	c := newChain(t, 2)
	f := newRedisFleet(t, c.servers[0].Process().Addr())
	options := with(lease.Window(time.Hour), lease.Workers(0, 0), redislease.WithGuard(0))
	c.cut(0)
	f.join(1, options...)
	f.awaitIssue("the first starts")
	c.servers[0].Kill(t)
	c.promote(t, f, 1)
	f.join(1, options...)
	eventually(t, "an id is given twice", func() bool {
		_, wrong := f.inspect()
		return len(wrong) > 0
	})
}

// TestRedisSplitBrain promotes the replica while the old primary lives on and
// takes writes, for less than the isolation time, from members that don't
// learn of it.
func TestRedisSplitBrain(t *testing.T) {
	t.Parallel()
	const isolation = 5 * time.Second
	c := newChain(t, 2)
	f := newRedisFleet(t, c.servers[0].Process().Addr())
	workers := lease.Workers(0, 2)
	c.cut(0)
	// They are the first ever and need no guard.
	isolated := f.join(3, lease.Window(short), workers, redislease.WithGuard(0))
	f.awaitIssue("the fleet starts")
	begun := time.Now()
	c.promote(t, f, 1)
	newcomers := f.join(3, lease.Window(short), workers, redislease.WithIsolation(isolation))
	eventually(t, "the newcomers claim the same worker ids", func() bool {
		rows, err := redislease.New(c.admins[1]).(lease.Lister).List(t.Context(), "faults")
		return err == nil && len(rows) == 3
	})
	awaitExtends(t, isolated, 2)
	c.servers[0].Kill(t) // or any fence: it answers nobody from here on
	if took := time.Since(begun); took > isolation {
		t.Skipf("the old primary took writes for %v on this slow machine, the test states %v", took, isolation)
	}
	f.awaitIssue("newcomers start", newcomers...)
	f.check()
}

// TestRedisWaitsForReplicas cuts the only replica off: nothing is issued past
// the confirmed grants. Then it is promoted, and knows every grant: the members
// keep their leases, newcomers need no guard, and no term or high water goes
// down.
func TestRedisWaitsForReplicas(t *testing.T) {
	t.Parallel()
	c := newChain(t, 3)
	f := newRedisFleet(t, c.servers[0].Process().Addr())
	options := with(lease.Window(1500*time.Millisecond), redislease.WithReplicas(1))
	members := f.join(4, options...)
	f.awaitIssue("the fleet starts")

	c.cut(0)
	f.awaitError(redislease.ErrNotReplicated)
	f.awaitSealed(members...)
	c.links[0].Restore()
	f.awaitIssue("the fleet recovers")

	c.cut(0)
	f.awaitSealed(members...)
	promoted := redislease.New(c.admins[1])
	for _, m := range members {
		s := m.opened.Load().Stats()
		row, ok, err := promoted.Lookup(t.Context(), "faults", s.Worker)
		if err != nil || !ok || row.Term != s.Term || row.HighWater < s.HighWater.UnixMilli() {
			t.Errorf("the replica has %+v (%v, %v) of a lease that was confirmed up to %v: %+v", row, ok, err, s.HighWater, s)
		}
	}
	monotone(t, promoted)
	c.servers[0].Kill(t)
	c.promote(t, f, 1)
	f.awaitIssue("the fleet recovers with the promoted replica")
	for _, m := range members {
		if n := m.opened.Load().Stats().Losses; n != 0 {
			t.Errorf("%s lost its lease %d times; want it to keep what all replicas have", m.name, n)
		}
	}
	begun := time.Now()
	f.awaitIssue("newcomers start", f.join(2, options...)...)
	t.Logf("newcomers started within %v", time.Since(begun))
	f.check()
}
