package sqllease_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
	"github.com/gormflake/gormflake/internal/servers"
)

func pretendPromotion(t *testing.T, db *sql.DB) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), "UPDATE gormflake_leases_namespaces SET identity='the former primary'"); err != nil {
		t.Fatal(err)
	}
}

// After a change of the server's identity newcomers start above every time
// that the former server can have granted, until that time has passed.
func TestIdentityChange(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		if srv.Kind() == servers.SQLite {
			t.Skip("left out: a SQLite file has no replicas that could be promoted")
		}
		db := openPool(t, srv, 3)
		store := sqllease.New(db, dialectOf(srv.Kind()))
		first := acquire(t, store, "app")
		if first.NotBefore != 0 {
			t.Errorf("the first grant waits: %+v", first)
		}
		if again := acquire(t, sqllease.New(db, dialectOf(srv.Kind())), "app"); again.NotBefore != 0 {
			t.Errorf("a grant on the same server waits: %+v", again)
		}
		pretendPromotion(t, db)
		const reach = 35_000
		promoted := acquire(t, store, "app")
		if promoted.From < first.Through || promoted.NotBefore != promoted.From ||
			promoted.From < first.StoreNow+reach || promoted.From > promoted.StoreNow+reach {
			t.Errorf("first grant after the promotion: %+v; want from and not before the database's clock then plus %d ms", promoted, reach)
		}
		later := acquire(t, store, "app")
		if later.NotBefore != promoted.NotBefore {
			t.Errorf("second grant after the promotion is not before %d; want %d, the same floor", later.NotBefore, promoted.NotBefore)
		}
		if held, err := store.Extend(t.Context(), first, first.Through+10); err != nil {
			t.Errorf("an owner whose row is intact: %+v, error %v; want it to go on", held, err)
		}
		if _, err := db.ExecContext(t.Context(), "UPDATE gormflake_leases_namespaces SET identity_floor=identity_floor-40000"); err != nil {
			t.Fatal(err)
		}
		if passed := acquire(t, store, "app"); passed.NotBefore != 0 {
			t.Errorf("once the floor has passed: %+v; want no wait", passed)
		}
	})
}

// The longest window that any store of the namespace used sets the floor.
func TestIdentityChangeWithALongerWindow(t *testing.T) {
	servers.Each(t, []servers.Kind{servers.Postgres, servers.MariaDB}, func(t *testing.T, srv *servers.Server) {
		db := openPool(t, srv, 3)
		long := acquire(t, sqllease.New(db, dialectOf(srv.Kind()), lease.Window(10*time.Minute)), "app")
		store := sqllease.New(db, dialectOf(srv.Kind()))
		acquire(t, store, "app")
		pretendPromotion(t, db)
		if short := acquire(t, store, "app"); short.From < long.Through {
			t.Errorf("after a promotion %+v starts below %d, which a store with a longer window was granted", short, long.Through)
		}
	})
}

func TestWithGuard(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		db := openPool(t, srv, 3)
		acquire(t, sqllease.New(db, dialectOf(srv.Kind())), "app")
		pretendPromotion(t, db)
		if none := acquire(t, sqllease.New(db, dialectOf(srv.Kind()), sqllease.WithGuard(0)), "app"); none.NotBefore != 0 {
			t.Errorf("with a guard of 0: %+v; want no wait, whatever the identity", none)
		}
		guarded := acquire(t, sqllease.New(db, dialectOf(srv.Kind()), sqllease.WithGuard(time.Minute)), "app")
		if guarded.From != guarded.StoreNow+60_000 || guarded.NotBefore != guarded.From {
			t.Errorf("with a guard of a minute: %+v; want from and not before the database's clock plus a minute", guarded)
		}
	})
}

// A connection that does not commit by itself would lose every grant.
func TestAutocommitOff(t *testing.T) {
	servers.Each(t, servers.MySQLKinds(), func(t *testing.T, srv *servers.Server) {
		config, err := mysql.ParseDSN(srv.Database(t))
		if err != nil {
			t.Fatal(err)
		}
		config.Params = map[string]string{"autocommit": "0"}
		db := srv.OpenSQL(t, config.FormatDSN())
		if _, err := sqllease.New(db, sqllease.MySQL).Acquire(t.Context(), request("app")); !errors.Is(err, lease.ErrInvalid) {
			t.Errorf("error %v; want ErrInvalid", err)
		}
	})
}

// MySQL counts matched rows instead of changed ones when told so. Both do.
func TestClientFoundRows(t *testing.T) {
	servers.Each(t, servers.MySQLKinds(), func(t *testing.T, srv *servers.Server) {
		config, err := mysql.ParseDSN(srv.Database(t))
		if err != nil {
			t.Fatal(err)
		}
		config.ClientFoundRows, config.InterpolateParams = true, true
		store := sqllease.New(srv.OpenSQL(t, config.FormatDSN()), sqllease.MySQL)
		req := request("app")
		req.Workers = lease.Range{Lo: 0, Hi: 0}
		held, err := store.Acquire(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		req.Token = lease.NewToken()
		if got, err := store.Acquire(t.Context(), req); !errors.Is(err, lease.ErrNoWorker) {
			t.Errorf("second Acquire = %+v, error %v; want ErrNoWorker", got, err)
		}
		extended, err := store.Extend(t.Context(), held, held.Through+10)
		if err != nil || extended.StoreNow == 0 {
			t.Errorf("Extend = %+v, error %v; want it extended", extended, err)
		}
		if _, err := store.Extend(t.Context(), held, held.Through+20); !errors.Is(err, lease.ErrLost) {
			t.Errorf("Extend from a former grant: error %v; want ErrLost", err)
		}
	})
}

// A row whose high water a wrong clock has set far ahead is passed over.
func TestPoisonedRow(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		db := openPool(t, srv, 3)
		store := sqllease.New(db, dialectOf(srv.Kind()))
		req := request("app")
		req.Workers = lease.Range{Lo: 0, Hi: 0}
		if _, err := store.Acquire(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		const year2099 = 4_070_908_800_000
		if _, err := db.ExecContext(t.Context(), "UPDATE gormflake_leases SET high_water=4070908800000, expires_at=0, owner=''"); err != nil {
			t.Fatal(err)
		}
		for name, ahead := range map[string]int64{"by the caller's bound": 10, "by the store's cap": year2099} {
			req.Token, req.MaxAhead, req.Workers.Hi = lease.NewToken(), ahead, 0
			if got, err := store.Acquire(t.Context(), req); !errors.Is(err, lease.ErrNoWorker) {
				t.Errorf("%s: %+v, error %v; want ErrNoWorker", name, got, err)
			}
		}
		req.Token, req.Workers.Hi = lease.NewToken(), 1
		if got, err := store.Acquire(t.Context(), req); err != nil || got.Worker != 1 {
			t.Errorf("with another row: %+v, error %v; want worker 1", got, err)
		}
	})
}
