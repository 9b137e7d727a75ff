package faults

import (
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/redislease"
)

// TestRedisFenced promotes a replica that has heard of no lease, with no guard
// at all, but with a store beside Redis that does not forget: what
// TestRedisGuardIsNeeded shows to go wrong does not.
func TestRedisFenced(t *testing.T) {
	t.Parallel()
	c := newChain(t, 2)
	f := newRedisFleet(t, c.servers[0].Process().Addr())
	fence := lease.Memory(lease.Window(time.Minute))
	join := func(n int) []*member {
		stores := make([]lease.Store, n)
		for i := range stores {
			stores[i] = lease.Fenced(f.store(lease.Window(3*time.Second), redislease.WithGuard(0)), fence)
		}
		return f.add(stores...)
	}
	c.cut(0)
	members := join(3)
	f.awaitIssue("the fleet starts")
	f.awaitLosses(members, func() {
		c.servers[0].Kill(t)
		c.promote(t, f, 1)
		f.awaitIssue("newcomers start beside them", join(3)...)
	})
	f.awaitIssue("the fleet recovers")
	f.check()
}
