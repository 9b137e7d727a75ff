package lease_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/leasetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryContract(t *testing.T) {
	leasetest.Run(t, func(*testing.T) lease.Store { return lease.Memory() },
		leasetest.Configured(func(_ *testing.T, options ...lease.Option) lease.Store { return lease.Memory(options...) }))
}

func TestMemoryStoresAreApart(t *testing.T) {
	if a, b := lease.Memory(), lease.Memory(); a.Key() == b.Key() {
		t.Error("two Memory stores have one key; want each to be its own")
	}
}
