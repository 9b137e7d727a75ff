package lease_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/leasetest"
)

func TestFencedContract(t *testing.T) {
	unstable := leasetest.Without(leasetest.StableHighWater, "the holder sees how far both grants go, others the fence's high water")
	t.Run("equal windows", func(t *testing.T) {
		open := func(_ *testing.T, options ...lease.Option) lease.Store {
			return lease.Fenced(lease.Memory(options...), lease.Memory(options...))
		}
		leasetest.Run(t, func(t *testing.T) lease.Store { return open(t) }, leasetest.Configured(open), unstable)
	})
	t.Run("long fence", func(t *testing.T) {
		open := func(_ *testing.T, options ...lease.Option) lease.Store {
			long := append([]lease.Option{lease.Window(10 * time.Minute)}, options...)
			return lease.Fenced(lease.Memory(options...), lease.Memory(long...))
		}
		leasetest.Run(t, func(t *testing.T) lease.Store { return open(t) }, leasetest.Configured(open), unstable)
	})
	t.Run("file", func(t *testing.T) {
		leasetest.Run(t, func(t *testing.T) lease.Store {
			return lease.Fenced(lease.File(filepath.Join(t.TempDir(), "state"), 3), lease.Memory())
		}, leasetest.OneWorker(3), unstable,
			leasetest.Without(leasetest.Namespaces, "a file belongs to one namespace"))
	})
	t.Run("fixed", func(t *testing.T) {
		leasetest.Run(t, func(*testing.T) lease.Store { return lease.Fenced(lease.Fixed(5), lease.Memory()) },
			leasetest.OneWorker(5), unstable)
	})
}
