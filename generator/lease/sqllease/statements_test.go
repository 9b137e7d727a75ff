package sqllease_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
	"github.com/gormflake/gormflake/internal/servers"
)

// request asks for a worker id of the standard layout by this machine's clock.
func request(namespace string) lease.Request {
	return lease.Request{
		Namespace: namespace,
		Layout:    lease.Layout{EpochMillis: 1420070400000, TickMillis: 1, TimeBits: 41, WorkerBits: 10, SequenceBits: 12},
		Workers:   lease.Range{Lo: 0, Hi: 1007}, Token: lease.NewToken(),
		Now: time.Now().UnixMilli(), MaxAhead: 10, MaxLead: 10, Avoid: -1,
	}
}

func acquire(t *testing.T, store lease.Store, namespace string) lease.Grant {
	t.Helper()
	grant, err := store.Acquire(t.Context(), request(namespace))
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

// The steady state is one statement per extension, and nothing ever opens a
// transaction.
func TestStatements(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		db, recorder := openRecorded(t, srv, srv.Database(t))
		store := sqllease.New(db, dialectOf(srv.Kind()))
		acquire(t, store, "first")
		for _, text := range recorder.take() {
			if text == "BEGIN" {
				t.Error("the first Acquire opened a transaction")
			}
		}
		acquire(t, store, "app") // begins the namespace
		recorder.take()

		held := acquire(t, store, "app")
		texts := recorder.take()
		if got := verbs(texts); len(got) != 4 || got[0] != "SELECT" || got[1] != "SELECT" || got[3] != "SELECT" {
			t.Errorf("Acquire ran %q; want the record, candidates, one swap, the record", texts)
		}
		var err error
		for i := range 5 {
			if held, err = store.Extend(t.Context(), held, held.Through+10); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"UPDATE"}, verbs(recorder.take())); diff != "" {
				t.Errorf("extension %d (-want +got):\n%s", i, diff)
			}
		}
		if err := store.Release(t.Context(), held, held.From); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"UPDATE"}, verbs(recorder.take())); diff != "" {
			t.Errorf("Release (-want +got):\n%s", diff)
		}
	})
}

// The database's clock comes along with acquisitions and extensions.
func TestStoreNow(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		store := sqllease.New(openPool(t, srv, 2), dialectOf(srv.Kind()))
		before := time.Now().UnixMilli()
		held := acquire(t, store, "app")
		extended, err := store.Extend(t.Context(), held, held.Through+10)
		if err != nil {
			t.Fatal(err)
		}
		after := time.Now().UnixMilli()
		// The server shares this machine's clock; two milliseconds for rounding.
		for name, now := range map[string]int64{"Acquire": held.StoreNow, "Extend": extended.StoreNow} {
			if now < before-2 || now > after+2 {
				t.Errorf("%s: store's clock %d; want it from %d to %d", name, now, before, after)
			}
		}
	})
}

// 500 acquirers start at once, several pools of them, on a database without
// tables: all get a worker id of their own.
func TestManyStartAtOnce(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		const acquirers, pools = 500, 5
		dsn := srv.Database(t)
		stores := make([]lease.Store, pools)
		for i := range stores {
			db := srv.OpenSQL(t, dsn)
			db.SetMaxOpenConns(15)
			stores[i] = sqllease.New(db, dialectOf(srv.Kind()))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		grants := make([]lease.Grant, acquirers)
		errs := make([]error, acquirers)
		var group sync.WaitGroup
		start := make(chan struct{})
		for i := range acquirers {
			group.Go(func() {
				<-start
				grants[i], errs[i] = stores[i%pools].Acquire(ctx, request("app"))
			})
		}
		begun := time.Now()
		close(start)
		group.Wait()
		t.Logf("%d acquirers took %v", acquirers, time.Since(begun).Round(time.Millisecond))
		seen := map[int64]int{}
		for i, grant := range grants {
			if errs[i] != nil {
				t.Fatalf("acquirer %d: %v", i, errs[i])
			}
			if other, taken := seen[grant.Worker]; taken {
				t.Errorf("acquirers %d and %d both hold worker %d", other, i, grant.Worker)
			}
			seen[grant.Worker] = i
		}
	})
}

// Many create the tables at the same time, each on a connection of its own.
func TestCreationAtOnce(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		for range 3 {
			dsn := srv.Database(t)
			var group sync.WaitGroup
			start := make(chan struct{})
			for range 8 {
				db := srv.OpenSQL(t, dsn)
				if err := db.PingContext(t.Context()); err != nil {
					t.Fatal(err)
				}
				group.Go(func() {
					<-start
					if _, err := sqllease.New(db, dialectOf(srv.Kind())).Acquire(t.Context(), request("app")); err != nil {
						t.Error(err)
					}
				})
			}
			close(start)
			group.Wait()
		}
	})
}

// A program that may not run DDL works on tables made from Schema, by an
// account that may only read, insert and update; without them the error says
// what to do.
func TestSchemaAndWithoutCreate(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		dialect, dsn := dialectOf(srv.Kind()), srv.Database(t)
		admin := srv.OpenSQL(t, dsn)
		options := []sqllease.Option{sqllease.WithoutCreate(), sqllease.Table("worker_ids")}
		store := sqllease.New(admin, dialect, options...)
		_, err := store.Acquire(t.Context(), request("app"))
		if err == nil || !strings.Contains(err.Error(), "sqllease.Schema") || !strings.Contains(err.Error(), "worker_ids") {
			t.Fatalf("without tables: error %v; want one that names the table and sqllease.Schema", err)
		}
		if _, _, err := store.Lookup(t.Context(), "app", 1); err == nil {
			t.Error("Lookup without tables that must be there: want an error")
		}
		for _, statement := range strings.SplitAfter(sqllease.Schema(dialect, options...), ";\n") {
			if statement == "" {
				continue
			}
			if _, err := admin.ExecContext(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
		user := admin
		if srv.Kind() != servers.SQLite {
			user = srv.OpenSQL(t, restricted(t, srv, dsn))
		}
		store = sqllease.New(user, dialect, options...)
		held := acquire(t, store, "app")
		if _, err := store.Extend(t.Context(), held, held.Through+10); err != nil {
			t.Error(err)
		}
		block := lease.BlockRequest{
			Namespace: "app", Layout: request("app").Layout, Workers: lease.Range{Lo: 1008, Hi: 1023},
			FirstTick: 1, LastTick: 1000, Sequences: 10,
		}
		if _, err := store.(lease.Backfiller).ReserveBlock(t.Context(), block); err != nil {
			t.Error(err)
		}
		if err := store.Release(t.Context(), held, held.From); err != nil {
			t.Error(err)
		}
		var identity string
		if err := user.QueryRowContext(t.Context(), "SELECT identity FROM worker_ids_namespaces").Scan(&identity); err != nil {
			t.Fatal(err)
		}
		if (identity == "") != (srv.Kind() == servers.SQLite) {
			t.Errorf("the server's identity is %q to an account without privileges", identity)
		}
		t.Logf("identity %q", identity)
	})
}

// restricted makes an account that may read, insert and update, and returns
// the data source name with it.
func restricted(t *testing.T, srv *servers.Server, dsn string) string {
	admin := srv.OpenSQL(t, dsn)
	name := fmt.Sprintf("gf_%d", time.Now().UnixNano()%1e12)
	run := func(statements ...string) {
		for _, statement := range statements {
			if _, err := admin.ExecContext(context.Background(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	if srv.Kind() == servers.Postgres {
		run("CREATE ROLE "+name+" LOGIN PASSWORD 'secret'", "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO "+name)
		t.Cleanup(func() { run("DROP OWNED BY "+name, "DROP ROLE "+name) })
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(name, "secret")
		return u.String()
	}
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	run("CREATE USER '"+name+"'@'%' IDENTIFIED BY 'Secret-1-word'",
		"CREATE USER '"+name+"'@'localhost' IDENTIFIED BY 'Secret-1-word'",
		"GRANT SELECT, INSERT, UPDATE ON `"+config.DBName+"`.* TO '"+name+"'@'%'",
		"GRANT SELECT, INSERT, UPDATE ON `"+config.DBName+"`.* TO '"+name+"'@'localhost'")
	t.Cleanup(func() { run("DROP USER '"+name+"'@'%'", "DROP USER '"+name+"'@'localhost'") })
	config.User, config.Passwd = name, "Secret-1-word"
	return config.FormatDSN()
}

func TestSchemaOfAnUnknownDialect(t *testing.T) {
	if text := sqllease.Schema("oracle"); text != "" {
		t.Errorf("Schema = %q; want nothing", text)
	}
	if _, err := sqllease.New(nil, "oracle").Acquire(t.Context(), request("app")); !errors.Is(err, lease.ErrInvalid) {
		t.Errorf("Acquire with an unknown dialect: error %v; want ErrInvalid", err)
	}
}
