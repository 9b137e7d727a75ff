package main

import (
	"strings"
	"testing"

	"github.com/gormflake/gormflake/internal/servers"
)

// TestBools takes a table through every step twice: a step that has had its
// success says so, and does nothing.
func TestBools(t *testing.T) {
	servers.Each(t, servers.MySQLKinds(), func(t *testing.T, srv *servers.Server) {
		dsn := srv.Database(t)
		db := srv.OpenDSN(t, dsn, nil)
		for _, statement := range []string{
			"CREATE TABLE orders (id bigint NOT NULL PRIMARY KEY, paid enum('N','Y'), state char(1) NOT NULL)",
			"CREATE TABLE others (id bigint NOT NULL PRIMARY KEY)",
			"INSERT INTO orders VALUES (1, 'Y', 'Y'), (2, 'N', 'N'), (3, NULL, 'Y')",
		} {
			if err := db.Exec(statement).Error; err != nil {
				t.Fatal(err)
			}
		}
		table := []string{"--dsn", dsn, "--table", "orders"}
		spec := []string{"--column", "paid,state", "--map-null", "paid=false"}
		for _, c := range []struct {
			name  string
			args  []string
			given bool // the columns and decisions
			code  int
			want  string
		}{
			{"a table without any", []string{"inspect", "--table", "others"}, false, exitOK, "no column's type speaks for itself"},
			{"cleanup of such a table", []string{"cleanup", "--yes", "--table", "others"}, false, exitOK, "nothing left to do"},
			{"inspect", []string{"inspect"}, false, exitOK, `"Y"        true`},
			{"cleanup too early", []string{"cleanup", "--yes"}, true, exitFailed, "call Swap first"},
			{"rollback of nothing", []string{"rollback", "--yes"}, true, exitOK, "orders: original"},
			{"run", []string{"run", "--yes"}, true, exitOK, "orders: prepared"},
			{"run again", []string{"run", "--yes"}, true, exitOK, "orders: prepared"},
			{"rollback", []string{"rollback", "--yes"}, true, exitOK, "orders: original"},
			{"rollback again", []string{"rollback", "--yes"}, true, exitOK, "orders: original"},
			{"run after it", []string{"run", "--yes"}, true, exitOK, "orders: prepared"},
			{"verify", []string{"verify"}, true, exitOK, "old and new agree"},
			{"verify again", []string{"verify"}, true, exitOK, "old and new agree"},
			{"inspect meanwhile", []string{"inspect"}, false, exitOK, "a migration of paid, state to tinyint(1) is under way: prepared; next are Backfill, Verify and Swap, or Rollback"},
			{"swap", []string{"swap", "--yes"}, true, exitOK, "orders: swapped"},
			{"swap again", []string{"swap", "--yes"}, true, exitOK, "orders: swapped"},
			{"run after the swap", []string{"run", "--yes"}, true, exitOK, "orders: swapped"},
			{"inspect after the swap", []string{"inspect", "--json"}, false, exitOK, `"Phase":"swapped"`},
			{"cleanup without yes", []string{"cleanup"}, true, exitRefused, "--yes"},
			{"cleanup", []string{"cleanup", "--yes"}, true, exitOK, "orders: finished"},
			{"cleanup again", []string{"cleanup", "--yes"}, true, exitOK, "nothing left to do"},
			{"cleanup of unnamed columns", []string{"cleanup", "--yes"}, false, exitOK, "nothing left to do"},
			{"swap after the cleanup", []string{"swap", "--yes"}, true, exitOK, "nothing left to do"},
			{"cleanup of no column", []string{"cleanup", "--yes", "--column", "nope"}, false, exitFailed, "expected a column nope"},
			{"run after the cleanup", []string{"run", "--yes"}, false, exitRefused, "no column"},
			{"inspect after the cleanup", []string{"inspect"}, false, exitOK, "no column's type speaks for itself"},
		} {
			args := append(append([]string{"bools"}, c.args[0]), table...)
			if c.given {
				args = append(args, spec...)
			}
			code, out, problems := command(t, "", append(args, c.args[1:]...)...)
			if code != c.code || !strings.Contains(out+problems, c.want) {
				t.Fatalf("%s: want exit code %d and %q, got %d\nout: %s\nproblems: %s", c.name, c.code, c.want, code, out, problems)
			}
		}
	})
}
