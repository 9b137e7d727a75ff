package lease_test

import (
	"path/filepath"
	"testing"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/leasetest"
)

func TestFileContract(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) lease.Store {
		return lease.File(filepath.Join(t.TempDir(), "state"), 3)
	},
		leasetest.OneWorker(3),
		leasetest.Without(leasetest.Cap, "the caller's clock is the only one there is"),
		leasetest.Without(leasetest.Namespaces, "a file belongs to one namespace"),
		leasetest.Without(leasetest.Backfill, "the file holds one row"))
}
