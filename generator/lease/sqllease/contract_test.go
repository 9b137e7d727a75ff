package sqllease_test

import (
	"database/sql"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/leasetest"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
	"github.com/gormflake/gormflake/internal/servers"
)

func TestMain(m *testing.M) {
	// GORM's cache of prepared statements has a goroutine that never ends.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

func dialectOf(kind servers.Kind) sqllease.Dialect {
	switch {
	case kind.IsMySQL():
		return sqllease.MySQL
	case kind == servers.Postgres:
		return sqllease.Postgres
	}
	return sqllease.SQLite
}

// openPool opens a fresh database with a pool small enough for many of them.
func openPool(t *testing.T, srv *servers.Server, connections int) *sql.DB {
	db := srv.OpenSQL(t, srv.Database(t))
	db.SetMaxOpenConns(connections)
	return db
}

func TestContract(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		for name, connections := range map[string]int{"OneConnection": 1, "TenConnections": 10} {
			t.Run(name, func(t *testing.T) {
				db := openPool(t, srv, connections)
				configured := func(_ *testing.T, options ...lease.Option) lease.Store {
					return sqllease.New(db, dialectOf(srv.Kind()), options...)
				}
				leasetest.Run(t, func(t *testing.T) lease.Store { return configured(t) },
					leasetest.Configured(configured))
			})
		}
	})
}

// As a fence, with a longer window than the store that it fences.
func TestFenceContract(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		db := openPool(t, srv, 10)
		open := func(_ *testing.T, options ...lease.Option) lease.Store {
			long := append([]lease.Option{lease.Window(10 * time.Minute)}, options...)
			return lease.Fenced(lease.Memory(options...), sqllease.New(db, dialectOf(srv.Kind()), long...))
		}
		leasetest.Run(t, func(t *testing.T) lease.Store { return open(t) }, leasetest.Configured(open),
			leasetest.Without(leasetest.StableHighWater, "the holder sees how far both grants go, others the fence's high water"))
	})
}
