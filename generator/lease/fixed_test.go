package lease_test

import (
	"testing"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/leasetest"
)

func TestFixedContract(t *testing.T) {
	for name, worker := range map[string]int64{"zero": 0, "seven": 7, "highest live worker of the layout": 1007} {
		t.Run(name, func(t *testing.T) {
			leasetest.Run(t, func(*testing.T) lease.Store { return lease.Fixed(worker) },
				leasetest.OneWorker(worker),
				leasetest.Without(leasetest.LayoutRecord, "nothing is kept outside the process"),
				leasetest.Without(leasetest.Backfill, "nothing is kept outside the process"))
		})
	}
}
