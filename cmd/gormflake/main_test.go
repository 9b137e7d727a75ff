package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"

	"github.com/gormflake/gormflake/cmd/gormflake/internal/dsn"
	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
)

// command runs a command line and returns its exit code and what it printed.
func command(t *testing.T, in string, args ...string) (code int, out, problems string) {
	t.Helper()
	var o, p strings.Builder
	code = execute(t.Context(), args, strings.NewReader(in), &o, &p)
	return code, o.String(), p.String()
}

func TestCommands(t *testing.T) {
	t.Setenv(dsnVariable, "")
	for _, c := range []struct {
		name, in string
		args     []string
		code     int
		want     string // part of the output, or of the problems where code isn't 0
	}{
		{name: "decode", args: []string{"id", "decode", "1212730992747900970"}, want: "time      2024-02-29T12:00:00.123Z\nworker    391\nsequence  42\n"},
		{name: "decode json", args: []string{"id", "decode", "--layout", "newlife", "--json", "7193010915251875840"},
			want: `{"id":"7193010915251875840","time":"2024-05-05T22:17:21.876Z","worker":391,"sequence":0}` + "\n"},
		{name: "decode hex", args: []string{"id", "decode", "0x10d47c699ed8702a"}, want: "1212730992747900970"},
		{name: "decode base 32", args: []string{"id", "decode", "11n3wd6fdgw1a"}, want: "1212730992747900970"},
		{name: "decode stdin", in: "\"1\",\n2 3\n", args: []string{"id", "decode", "--json", "-"}, want: `{"id":"3",`},
		{name: "decode a table", args: []string{"id", "decode", "1", "4194304"}, want: "4194304              2015-01-01T00:00:00.001Z       0         0"},
		{name: "decode rubbish", args: []string{"id", "decode", "12e3"}, code: exitFailed, want: "not an id"},
		{name: "decode goes on after rubbish", in: "x 5", args: []string{"id", "decode", "--json"}, code: exitFailed, want: "gormflake: 1 of 2 words was no id\n"},
		{name: "decode two of rubbish", in: "x 5 y", args: []string{"id", "decode"}, code: exitFailed, want: "gormflake: 2 of 3 words were no id\n"},
		{name: "decode too large", args: []string{"id", "decode", "--form", "hex", "8000000000000000"}, code: exitFailed, want: "not an id"},
		{name: "unknown layout", args: []string{"id", "decode", "--layout", "x", "1"}, code: exitUsage, want: "javascriptsafe"},
		{name: "another epoch", args: []string{"id", "decode", "--epoch", "2020-01-01", "529448671641604096"}, want: "2024-01-01T00:00:00.000Z"},
		{name: "encode", args: []string{"id", "encode", "--time", "2024-02-29T12:00:00.123Z", "--worker", "391", "--sequence", "42"}, want: "1212730992747900970\n"},
		{name: "encode out of range", args: []string{"id", "encode", "--worker", "1024"}, code: exitFailed, want: "want a worker from 0 to 1023"},
		{name: "encode an argument", args: []string{"id", "encode", "5"}, code: exitUsage, want: "unknown command"},
		{name: "window", args: []string{"window", "--from", "2024-02-01", "--to", "2024-03-01"}, want: "from  1202402938060800000"},
		{name: "window of a day", args: []string{"window", "--on", "2024-03-31", "--zone", "Europe/Berlin"}, want: "  2024-03-31T00:00:00.000+01:00\nto    1224116011008000000  2024-04-01T00:00:00.000+02:00\n"},
		{name: "window json", args: []string{"window", "--on", "2024-02-29", "--dialect", "postgres", "--json"}, want: `{"from":"1212549798297600000","from_time":"2024-02-29T00:00:00.000Z","to":"1212912186163200000","to_time":"2024-03-01T00:00:00.000Z","sql":"(\"id\" >= $1 AND \"id\" < $2)","args":["1212549798297600000","1212912186163200000"]}` + "\n"},
		{name: "window without an end", args: []string{"window", "--from", "2024-03-31"}, want: "from  1223783822131200000  2024-03-31T00:00:00.000Z\nsql"},
		{name: "window without a begin", args: []string{"window", "--to", "2024-03-31"}, want: "to    1223783822131200000  2024-03-31T00:00:00.000Z\nsql"},
		{name: "window json in a zone", args: []string{"window", "--on", "2024-03-31", "--zone", "Europe/Berlin", "--json"}, want: `"to_time":"2024-04-01T00:00:00.000+02:00"`},
		{name: "two windows", args: []string{"window", "--on", "2024-02-29", "--last", "1h"}, code: exitUsage, want: "one range"},
		{name: "no window", args: []string{"window"}, code: exitUsage, want: "one range"},
		{name: "backwards", args: []string{"window", "--from", "2024-02-02", "--to", "2024-02-01"}, code: exitFailed, want: "from <= to"},
		{name: "no database", args: []string{"workers", "list"}, code: exitUsage, want: "--dsn"},
		{name: "no such file", args: []string{"workers", "list", "--dsn", "/nowhere/x.db"}, code: exitFailed, want: "there is no file of that name"},
		{name: "bools need a table", args: []string{"bools", "plan"}, code: exitUsage, want: "table"},
		{name: "bad override", args: []string{"bools", "plan", "--table", "t", "--map-null", "a"}, code: exitUsage, want: "column=true"},
		{name: "adopt needs a table", args: []string{"adopt", "plan"}, code: exitUsage, want: "table"},
		{name: "bad reference", args: []string{"adopt", "plan", "--table", "t", "--reference", "column"}, code: exitUsage, want: "table.column"},
		{name: "unknown command", args: []string{"frobnicate"}, code: exitUsage, want: "frobnicate"},
		{name: "unknown flag", args: []string{"window", "--frobnicate"}, code: exitUsage, want: "frobnicate"},
		{name: "completion", args: []string{"completion", "bash"}, want: "bash completion"},
		{name: "bench", args: []string{"bench", "--duration", "10ms", "--json"}, want: "next_per_second"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, problems := command(t, c.in, c.args...)
			got := out
			if c.code != exitOK {
				got = problems
			}
			if code != c.code || !strings.Contains(got, c.want) {
				t.Errorf("want exit code %d and %q, got %d\nout: %s\nproblems: %s", c.code, c.want, code, out, problems)
			}
		})
	}
}

func TestWorkers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.db")
	db, err := gorm.Open(sqlite.Open(file), &gorm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store, err := sqllease.FromGORM(db)
	if err != nil {
		t.Fatal(err)
	}
	g, err := generator.Open(t.Context(), generator.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.Background())
	worker := generator.ID(g.Stats().Worker).String()

	code, out, problems := command(t, "", "workers", "list", "--dsn", file)
	if code != exitOK || !strings.Contains(out, "1 held") || !strings.Contains(out, worker) {
		t.Fatalf("list: exit code %d\n%s%s", code, out, problems)
	}
	if code, out, _ := command(t, "", "workers", "list", "--dsn", file, "--json"); code != exitOK || !strings.Contains(out, `"held":true`) {
		t.Fatalf("list --json: exit code %d\n%s", code, out)
	}
	if code, _, problems := command(t, "", "workers", "release", worker, "--dsn", file); code != exitRefused || !strings.Contains(problems, "--yes") {
		t.Fatalf("release without --yes: exit code %d\n%s", code, problems)
	}
	if code, _, problems := command(t, "", "workers", "release", worker, "--dsn", file, "--yes"); code != exitOK {
		t.Fatalf("release: exit code %d\n%s", code, problems)
	}
	if code, _, problems := command(t, "", "workers", "release", "5000", "--dsn", file, "--yes"); code != exitUsage || !strings.Contains(problems, "want a worker id of 0 to 1007") {
		t.Errorf("release of no worker id: exit code %d\n%s", code, problems)
	}
	// Every state, alike in text and JSON.
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	past, soon := time.Now().Add(-time.Hour).UnixMilli(), time.Now().Add(time.Hour).UnixMilli()
	for i, row := range []struct {
		owner, state string
		at           int64
	}{{"host.1/x", "held", soon}, {"host.2/x", "expired", past}, {"", "released", soon}, {"", "free", past}} {
		if err := db.Exec("DELETE FROM gormflake_leases").Error; err != nil {
			t.Fatal(err)
		}
		if err := db.Exec("INSERT INTO gormflake_leases (namespace, worker_id, term, owner, high_water, expires_at) VALUES ('default', ?, 7, ?, ?, ?)", i, row.owner, row.at, row.at).Error; err != nil {
			t.Fatal(err)
		}
		host, _, _ := strings.Cut(row.owner, "/")
		at := time.UnixMilli(row.at).UTC().Format(stamp)
		want := fmt.Sprintf(`{"worker":%d,"state":%q,"held":%t,"owner":%q,"host":%q,"term":7,"high_water":%q,"free_at":%q}`+"\n", i, row.state, row.state == "held", row.owner, host, at, at)
		if code, out, problems := command(t, "", "workers", "list", "--dsn", file, "--all", "--json"); code != exitOK || out != want {
			t.Errorf("--json: exit code %d\n got %swant %s%s", code, out, want, problems)
		}
		_, out, _ := command(t, "", "workers", "list", "--dsn", file, "--all")
		if !strings.Contains(out, fmt.Sprintf("%-6d  %-8s  ", i, row.state)) && !strings.Contains(out, fmt.Sprintf("%d       %s ", i, row.state)) {
			t.Errorf("want the state %s:\n%s", row.state, out)
		}
		_, out, _ = command(t, "", "workers", "list", "--dsn", file)
		if shown := strings.Contains(out, "host.1"); shown != (row.state == "held") {
			t.Errorf("without --all, %s:\n%s", row.state, out)
		}
	}
}

func TestPasswordsAreNeverPrinted(t *testing.T) {
	t.Setenv(dsnVariable, "")
	// A refusal of the DSN itself comes before any connection.
	const refused, tried = "want a valid DSN", ""
	for _, c := range []struct{ name, want string }{
		{"postgres://app:s3cret%21@127.0.0.1:1/shop", tried},
		{" postgres://app:s3cret%21@127.0.0.1:1/shop", tried},
		{`"postgres://app:s3cret%21@127.0.0.1:1/shop"`, tried},
		{"POSTGRES://app:s3cret%21@127.0.0.1:1/shop", tried},
		{"postgres://app:s3cret%21@127.0.0.1:1,127.0.0.1:2/shop", tried},
		{"host=127.0.0.1 port=1 user=app password=s3cret! dbname=shop", tried},
		{"host=127.0.0.1 port=1 user=app password='s3cret!' dbname=shop", tried},
		{"host=127.0.0.1 port=1 user=app password='s3c ret!' dbname=shop", tried},
		{"host=127.0.0.1 port=1 user=app password=s3c ret! dbname=shop", refused},
		{"host=127.0.0.1;port=1;user=app;password=s3cret!", refused},
		{"Server=h;User=app;Password=s3cret!", refused},
		{"app:s3cret!@tcp(127.0.0.1:1)/shop", tried},
		{"'app:s3cret!@tcp(127.0.0.1:1)/shop'", tried},
		{"app:s3cret!@(127.0.0.1:1)/shop", tried},
		{"app:s3c@ret!@tcp(127.0.0.1:1)/shop", tried},
		{"app:s3c/ret!@tcp(127.0.0.1:1)/shop", tried},
		{"app:s3c/ret!@tcp(127.0.0.1:1)", refused},
		{"app:s3cret!@127.0.0.1:23306/shop", "MySQL's form is user:password@tcp(host:3306)/name"},
		{"app:s3cret!@db.internal", "MySQL's form is"},
		{"mysql://app:s3cret%21@127.0.0.1:1/shop", tried},
		{"mysql://app:s3c@ret!@127.0.0.1:1/shop", tried},
		{"mysql://app:s3c/ret!@127.0.0.1:1/shop", "percent-encode"},
		{"mysql://app:s3c/ret!@PW@127.0.0.1:1/shop", "percent-encode"},
		{"mysql://app:s3c#ret!@127.0.0.1:1/shop", "percent-encode"},
		{"mysql://app:s3c?ret!@127.0.0.1:1/shop", "percent-encode"},
		{"mysql://app:s3c%ret!@127.0.0.1:1/shop", "percent-encode"},
		{"mysql://app:s3cret!@tcp(127.0.0.1:1)/shop", "percent-encode"},
		{"postgres://app:12/s3cret!@127.0.0.1:1/shop", "percent-encode"},
		{"postgres:app:s3cret!@127.0.0.1/shop", refused},
		{"pgsql://app:s3cret!@127.0.0.1/shop", refused},
		{"sqlite://app:s3cret!@/shop", refused},
		{"redis://app:s3cret!@127.0.0.1:1/0", tried},
		{"redis://app:s3c/ret!@127.0.0.1:1/0", "percent-encode"},
		{"redis://app:s3cret!@127.0.0.1:1/zero", tried},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, problems := command(t, "", "workers", "list", "--dsn", c.name)
			if code != exitFailed || problems == "" {
				t.Errorf("want a failure and its reason, got exit code %d", code)
			}
			if c.want == tried && strings.Contains(problems, refused) || !strings.Contains(problems, c.want) {
				t.Errorf("want %q, got %s", c.want, problems)
			}
			checkUnshown(t, out+problems)
			if c.want == tried {
				checkUnshown(t, dsn.Redact(dsn.Clean(c.name)))
			}
		})
	}
	// At the wrong place, too.
	const name = "app:s3cret!@tcp(127.0.0.1:1)/shop"
	for _, args := range [][]string{
		{name}, {"workers", name}, {"workers", "list", name}, {"workers", "list", "-dsn=" + name}, {"workers", "list", "-dsn", name},
		{"workers", "list", "--dsn-file", name}, {"workers", "release", name}, {"partitions", "plan", "--table", "t", name},
	} {
		code, out, problems := command(t, "", args...)
		if code == exitOK || problems == "" {
			t.Errorf("%q: want a failure and its reason, got exit code %d", args, code)
		}
		checkUnshown(t, out+problems)
	}
}

// checkUnshown looks for parts of the passwords above.
func checkUnshown(t *testing.T, printed string) {
	t.Helper()
	for _, secret := range []string{"s3c", "ret!", "ret%21"} {
		if strings.Contains(printed, secret) {
			t.Errorf("%q was printed: %s", secret, printed)
		}
	}
}
