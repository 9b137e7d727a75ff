package servers_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gormflake/gormflake/internal/servers"
)

// started are the kinds that the harness can start itself.
var started = []servers.Kind{servers.MariaDB, servers.MySQL57, servers.MySQL56, servers.Postgres, servers.Redis}

func TestEachSQLGivesEveryTestADatabaseOfItsOwn(t *testing.T) {
	type row struct {
		ID   int64 `gorm:"primaryKey;autoIncrement:false"`
		Name string
	}
	prefixes := map[servers.Kind]string{servers.SQLite: "3.", servers.MariaDB: "", servers.MySQL57: "5.7.", servers.MySQL56: "5.6.", servers.Postgres: "PostgreSQL "}
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		version := srv.Version(t)
		t.Logf("%s: %s", srv.Kind(), version)
		if !strings.HasPrefix(version, prefixes[srv.Kind()]) {
			t.Errorf("version %q, expected it to begin with %q", version, prefixes[srv.Kind()])
		}
		if srv.Kind() == servers.MariaDB && !strings.Contains(version, "MariaDB") {
			t.Errorf("version %q isn't MariaDB's", version)
		}
		for range 2 { // the second would fail on the first's table
			db := srv.Open(t, nil)
			if err := db.Migrator().CreateTable(&row{}); err != nil {
				t.Fatal(err)
			}
			if err := db.Create(&row{ID: 1, Name: "größer ☃"}).Error; err != nil {
				t.Fatal(err)
			}
			var got row
			if err := db.Take(&got, 1).Error; err != nil || got.Name != "größer ☃" {
				t.Errorf("read back %+v, %v", got, err)
			}
		}
	})
}

func TestADatabaseIsDroppedAtTheEnd(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		if srv.Kind() == servers.SQLite {
			return // t.TempDir removes the file
		}
		var dsn string
		t.Run("use", func(t *testing.T) {
			dsn = srv.Database(t)
			if err := srv.OpenSQL(t, dsn).Ping(); err != nil {
				t.Fatal(err)
			}
		})
		if err := srv.OpenSQL(t, dsn).Ping(); err == nil {
			t.Errorf("%s is still there", dsn)
		}
	})
}

// keeper writes a value to a server and reads it back.
type keeper interface {
	write(ctx context.Context, value string) error
	read(ctx context.Context) (string, error)
}

type sqlKeeper struct{ db *sql.DB }

func (k sqlKeeper) write(ctx context.Context, value string) error {
	_, err := k.db.ExecContext(ctx, "INSERT INTO kept (v) VALUES ('"+value+"')")
	return err
}

func (k sqlKeeper) read(ctx context.Context) (v string, err error) {
	err = k.db.QueryRowContext(ctx, "SELECT max(v) FROM kept").Scan(&v)
	return v, err
}

type redisKeeper struct{ client *redis.Client }

func (k redisKeeper) write(ctx context.Context, value string) error {
	return k.client.Set(ctx, "kept", value, 0).Err()
}

func (k redisKeeper) read(ctx context.Context) (string, error) {
	return k.client.Get(ctx, "kept").Result()
}

func newKeeper(t *testing.T, srv *servers.Server) keeper {
	if srv.Kind() == servers.Redis {
		return redisKeeper{srv.OpenRedis(t)}
	}
	db := srv.OpenSQL(t, srv.Database(t))
	if _, err := db.Exec("CREATE TABLE kept (v varchar(20))"); err != nil {
		t.Fatal(err)
	}
	return sqlKeeper{db}
}

func TestFaultsKeepWhatWasCommitted(t *testing.T) {
	for _, kind := range started {
		t.Run(string(kind), func(t *testing.T) {
			begin := time.Now()
			srv := servers.Private(t, kind, servers.Durable())
			t.Logf("%s started in %v", kind, time.Since(begin).Round(time.Millisecond))
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			data := newKeeper(t, srv)
			addr := srv.Process().Addr()

			write := func(value string) {
				t.Helper()
				eventually(t, func() error { return data.write(ctx, value) })
			}
			expect := func(value string) {
				t.Helper()
				var got string
				eventually(t, func() (err error) { got, err = data.read(ctx); return err })
				if got != value {
					t.Errorf("read %q, expected %q", got, value)
				}
			}

			write("1 kill")
			srv.Kill(t)
			if err := data.write(ctx, "9 killed"); err == nil {
				t.Error("a killed server took a write")
			}
			begin = time.Now()
			srv.Restart(t)
			t.Logf("%s restarted after kill -9 in %v", kind, time.Since(begin).Round(time.Millisecond))
			expect("1 kill")

			write("2 stop")
			srv.Stop(t)
			if err := data.write(ctx, "9 stopped"); err == nil {
				t.Error("a stopped server took a write")
			}
			srv.Restart(t)
			expect("2 stop")

			srv.Pause(t)
			short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			if err := data.write(short, "3 paused"); err == nil {
				t.Error("a paused server took a write")
			}
			srv.Resume(t)
			write("4 resumed")
			expect("4 resumed")

			srv.Pause(t)
			srv.Kill(t)
			srv.Restart(t)
			expect("4 resumed")
			if got := srv.Process().Addr(); got != addr {
				t.Errorf("the address went from %s to %s", addr, got)
			}
		})
	}
}

// eventually repeats what a broken connection in a pool may fail once or
// twice.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	var err error
	for range 20 {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

func TestMisuseIsRefused(t *testing.T) {
	p, err := servers.Start(t.Context(), servers.Redis)
	if errors.Is(err, servers.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name string
		do   func() error
		want string
	}{
		{"start a running one", func() error { return p.Restart(t.Context()) }, "it is running"},
		{"resume a running one", p.Resume, "it is running"},
		{"kill", p.Kill, ""},
		{"kill twice", p.Kill, "it is stopped"},
		{"pause a killed one", p.Pause, "it is stopped"},
		{"stop a killed one", p.Stop, "it is stopped"},
		{"close", p.Close, ""},
		{"close twice", p.Close, ""},
		{"start a closed one", func() error { return p.Restart(t.Context()) }, "it is closed"},
	}
	for _, step := range steps {
		err := step.do()
		if step.want == "" && err != nil || step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)) {
			t.Errorf("%s: %v, expected %q", step.name, err, step.want)
		}
	}
}

func TestABadSettingIsReportedWithTheLog(t *testing.T) {
	_, err := servers.Start(t.Context(), servers.Redis, servers.Setting("no-such-setting", "1"))
	if errors.Is(err, servers.ErrUnavailable) {
		t.Skip(err)
	}
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("got %v, expected an error that quotes the server's complaint", err)
	}
}

func TestSettings(t *testing.T) {
	tests := []struct {
		kind         servers.Kind
		name, value  string
		query, wants string
	}{
		{servers.MariaDB, "max-connections", "77", "SELECT @@max_connections", "77"},
		{servers.MySQL57, "sql-mode", "", "SELECT @@sql_mode", ""},
		{servers.Postgres, "max_connections", "77", "SHOW max_connections", "77"},
	}
	for _, tt := range tests {
		t.Run(string(tt.kind), func(t *testing.T) {
			srv := servers.Private(t, tt.kind, servers.Setting(tt.name, tt.value))
			var got string
			if err := srv.OpenSQL(t, srv.Database(t)).QueryRow(tt.query).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if got != tt.wants {
				t.Errorf("%s is %q, expected %q", tt.name, got, tt.wants)
			}
		})
	}
	t.Run("redis", func(t *testing.T) {
		srv := servers.Private(t, servers.Redis, servers.Setting("maxmemory", "5mb"), servers.Setting("save", "60 1"),
			servers.Args("--user", "worker", "on", ">secret", "~*", "+@all", "--user", "other", "on", "nopass", "~*", "+get"))
		client := srv.OpenRedis(t)
		settings, err := client.ConfigGet(t.Context(), "maxmemory").Result()
		if err != nil || settings["maxmemory"] != "5242880" {
			t.Errorf("maxmemory is %v, %v", settings, err)
		}
		users, err := client.Do(t.Context(), "ACL", "USERS").StringSlice()
		if err != nil || len(users) != 3 {
			t.Errorf("users %v, %v", users, err)
		}
	})
}

func TestStandbyOf(t *testing.T) {
	primary := servers.Private(t, servers.Postgres) // skips where there are no servers
	if _, err := servers.Start(t.Context(), servers.Redis, servers.StandbyOf("127.0.0.1:1")); err == nil || errors.Is(err, servers.ErrUnavailable) || !strings.Contains(err.Error(), "wants a Postgres") {
		t.Errorf("a standby of another kind: %v; want it refused", err)
	}
	standby := servers.Private(t, servers.Postgres, servers.StandbyOf(primary.Process().Addr()))
	dsn := primary.Database(t)
	name, _, _ := strings.Cut(dsn[strings.LastIndex(dsn, "/")+1:], "?")
	db := standby.OpenSQL(t, standby.Process().DSN(""))
	recovering := func() (recovering bool) {
		if err := db.QueryRowContext(t.Context(), "SELECT pg_is_in_recovery()").Scan(&recovering); err != nil {
			t.Fatal(err)
		}
		return recovering
	}
	if !recovering() {
		t.Error("the standby is none")
	}
	arrived := func() (n int) {
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM pg_database WHERE datname=$1", name).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for deadline := time.Now().Add(time.Minute); arrived() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the primary's database did not arrive within a minute")
		}
	}
	if _, err := db.ExecContext(t.Context(), "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
	if recovering() {
		t.Error("the standby was promoted and recovers still")
	}
}
