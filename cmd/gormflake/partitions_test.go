package main

import (
	"strings"
	"testing"

	"github.com/gormflake/gormflake/internal/servers"
)

func TestPartitions(t *testing.T) {
	servers.Each(t, []servers.Kind{servers.MariaDB, servers.Postgres}, func(t *testing.T, srv *servers.Server) {
		dsn := srv.Database(t)
		db := srv.OpenDSN(t, dsn, nil)
		narrow, by := "int unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY", ""
		if db.Name() == "postgres" {
			narrow, by = "integer NOT NULL PRIMARY KEY", " PARTITION BY RANGE (id)"
		}
		for _, statement := range []string{"CREATE TABLE uns (id " + narrow + ")", "CREATE TABLE orders (id bigint NOT NULL PRIMARY KEY)" + by} {
			if err := db.Exec(statement).Error; err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			name string
			args []string
			code int
			want string
		}{
			{"a narrow key", []string{"apply", "--yes", "--table", "uns"}, exitFailed, "can't hold snowflake ids; adopt the table first (gormflake adopt plan --table uns)"},
			{"a drop of the future", []string{"apply", "--yes", "--table", "orders", "--drop-before", "2083-01-01"}, exitUsage, "--drop-before wants a time that has passed, got 2083-01-01T00:00:00Z"},
			{"a width that there isn't", []string{"plan", "--table", "orders", "--width", "hour"}, exitUsage, "day, week, month or year"},
			{"plan", []string{"plan", "--table", "orders", "--width", "year", "--from", "2024-05-05"}, exitOK, "-- 2024-01-01T00:00:00Z to 20"},
			{"plan as json", []string{"plan", "--table", "orders", "--width", "year", "--from", "2024-05-05", "--json"}, exitOK, `{"table":"orders","steps":[{"comment":"2024-01-01T00:00:00Z to 20`},
			{"apply without yes", []string{"apply", "--table", "orders"}, exitRefused, "--yes"},
			{"apply", []string{"apply", "--yes", "--table", "orders", "--width", "years", "--from", "2024-05-05"}, exitOK, "20240101"},
			{"plan again", []string{"plan", "--table", "orders", "--width", "year", "--json"}, exitOK, `{"table":"orders","steps":[],"sql":"-- orders: nothing to do\n"}` + "\n"},
			{"drop", []string{"plan", "--table", "orders", "--width", "year", "--drop-before", "2025-06-01", "--json"}, exitOK, `"drop":true,"sql":["ALTER TABLE `},
		} {
			code, out, problems := command(t, "", append([]string{"partitions", c.args[0], "--dsn", dsn}, c.args[1:]...)...)
			if code != c.code || !strings.Contains(out+problems, c.want) {
				t.Fatalf("%s: want exit code %d and %q, got %d\nout: %s\nproblems: %s", c.name, c.code, c.want, code, out, problems)
			}
		}
	})
}
