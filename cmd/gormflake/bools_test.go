package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/migrate"
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
			{"a plan without decisions", []string{"plan", "--column", "paid"}, false, exitRefused, "null-values (paid): 1 rows hold NULL, which a Go bool reads as false and v <> 'Y' leaves out; decide with --map-null paid=false (or true) or --keep-null paid\nnothing was changed\n"},
			{"such a plan as json", []string{"plan", "--json", "--column", "paid"}, false, exitRefused, `"refusals":[{"code":"null-values","column":"paid","name":"","reason":"1 rows hold NULL, which a Go bool reads as false and v <> 'Y' leaves out","remedy":"decide with --map-null paid=false (or true) or --keep-null paid"}]`},
			{"cleanup too early", []string{"cleanup", "--yes"}, true, exitFailed, "call bools swap first, or bools rollback"},
			{"rollback of nothing", []string{"rollback", "--yes"}, true, exitOK, "orders: original"},
			{"run", []string{"run", "--yes"}, true, exitOK, "orders: filled and verified; next: bools swap (or bools rollback)\n"},
			{"run again", []string{"run", "--yes"}, true, exitOK, "orders: filled and verified; next: bools swap (or bools rollback)\n"},
			{"rollback", []string{"rollback", "--yes"}, true, exitOK, "orders: original"},
			{"rollback again", []string{"rollback", "--yes"}, true, exitOK, "orders: original"},
			{"run after it", []string{"run", "--yes"}, true, exitOK, "orders: filled and verified; next: bools swap (or bools rollback)\n"},
			{"verify", []string{"verify"}, true, exitOK, "old and new agree"},
			{"verify again", []string{"verify"}, true, exitOK, "old and new agree"},
			{"inspect meanwhile", []string{"inspect"}, false, exitOK, "a migration of paid, state to tinyint(1) is under way: filled and verified; next: bools swap (or bools rollback)\n"},
			{"inspect meanwhile as json", []string{"inspect", "--json"}, false, exitOK, `"migration":{"columns":["paid","state"],"target":"tinyint(1)","phase":"prepared","problem":"","filled":true}}`},
			{"plan meanwhile as json", []string{"plan", "--json"}, true, exitOK, `"phase":"prepared","resumed":true,"refusals":[],"warnings":["before bools swap, stop`},
			{"verify as json", []string{"verify", "--json"}, true, exitOK, `{"ok":true,"table":"orders","phase":"prepared","rows":3,"columns":[{"column":"paid","differ":0,"keys":[],"unmapped":0,"unmapped_keys":[]},`},
			{"swap with other decisions", []string{"swap", "--yes", "--column", "paid,state"}, false, exitFailed,
				"columns [paid state], target tinyint(1) and decisions [--map-null paid=false] of table orders, met [paid state], tinyint(1) and []; give this step the same --column, --target and decisions as run, or"},
			{"swap", []string{"swap", "--yes"}, true, exitOK, "orders: swapped; next: bools cleanup (or bools rollback)\n"},
			{"swap again", []string{"swap", "--yes"}, true, exitOK, "orders: swapped; next: bools cleanup (or bools rollback)\n"},
			{"run after the swap", []string{"run", "--yes"}, true, exitOK, "orders: swapped; next: bools cleanup (or bools rollback)\n"},
			{"inspect after the swap", []string{"inspect", "--json"}, false, exitOK, `"phase":"swapped"`},
			{"cleanup without yes", []string{"cleanup"}, true, exitRefused, "--yes"},
			{"cleanup", []string{"cleanup", "--yes"}, true, exitOK, "orders: finished"},
			{"cleanup again", []string{"cleanup", "--yes"}, true, exitOK, "nothing left to do"},
			{"cleanup of unnamed columns", []string{"cleanup", "--yes"}, false, exitOK, "nothing left to do"},
			{"swap after the cleanup", []string{"swap", "--yes"}, true, exitOK, "nothing left to do"},
			{"cleanup of no column", []string{"cleanup", "--yes", "--column", "nope"}, false, exitFailed, "expected a column nope"},
			{"verify after the cleanup", []string{"verify", "--column", "paid"}, false, exitRefused, "leave it out; should it hold numbers other than 0 and 1, correct them with an UPDATE: a changed display width would keep them\nnothing was changed\n"},
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

// TestSpell spells every decision as the flag that takes it.
func TestSpell(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{migrate.MapNull("a", true).String(), "--map-null a=true"},
		{migrate.KeepNull("a").String(), "--keep-null a"},
		{migrate.MapEmpty("a", false).String(), "--map-empty a=false"},
		{migrate.MapLabel("a", "o'k \"", true).String(), `--map-label 'a:o'\''k "=true'`},
		{migrate.MapNumber("a", -1, true).String(), "--map-number a:-1=true"},
		{migrate.Labels("a", "off", "on").String(), "--labels a=off,on"},
		{migrate.Accept("view", "v").String(), "--accept view:v"},
		{`decide with MapLabel("a", "y", ...)`, "decide with --map-label a:y=false (or true)"},
		{"Swap failed: call Swap again to resume, or Rollback", "bools swap failed: call bools swap again to resume, or bools rollback"},
		{"call Prepare and Backfill first", "call bools run first"},
		{"ALTER TABLE `Swap` and 'Cleanup', Swapped", "ALTER TABLE `Swap` and 'Cleanup', Swapped"},
	} {
		if got := spell(c.text); got != c.want {
			t.Errorf("spell(%q)\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

func TestSnake(t *testing.T) {
	type inner struct{ MaxID *int }
	got, err := json.Marshal(snake(struct {
		SQLMode string
		ID      generator.ID
		Keys    []string
		In      inner
		Named   int `json:"other"`
		hidden  int
	}{ID: 5}))
	if want := `{"sql_mode":"","id":"5","keys":[],"in":{"max_id":null},"other":0}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}
