package redislease_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/leasetest"
	"github.com/gormflake/gormflake/generator/lease/redislease"
	"github.com/gormflake/gormflake/internal/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestContract runs the contract without a guard: high waters alone keep
// grants apart.
func TestContract(t *testing.T) {
	client := servers.Shared(t, servers.Redis).OpenRedis(t)
	open := func(_ *testing.T, options ...lease.Option) lease.Store {
		return redislease.New(client, append(options, redislease.WithDurable(), redislease.WithGuard(0))...)
	}
	leasetest.Run(t, func(t *testing.T) lease.Store { return open(t) }, leasetest.Configured(open))
}

// TestContractOfAsynchronousReplicas runs the contract with the default
// durability, which claims, then waits.
func TestContractOfAsynchronousReplicas(t *testing.T) {
	client := servers.Shared(t, servers.Redis).OpenRedis(t)
	open := func(_ *testing.T, options ...lease.Option) lease.Store { return redislease.New(client, options...) }
	leasetest.Run(t, func(t *testing.T) lease.Store { return open(t) }, leasetest.Configured(open),
		leasetest.Without(leasetest.Backfill, "a failover may forget what was reserved"))
}
