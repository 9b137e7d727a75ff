package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
)

func TestAdopt(t *testing.T) {
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
	for _, statement := range []string{
		"CREATE TABLE orders (id integer PRIMARY KEY AUTOINCREMENT, v text)",
		"CREATE TABLE lines (order_id integer)",
		"INSERT INTO orders (v) VALUES ('a'), ('b')",
	} {
		if err := db.Exec(statement).Error; err != nil {
			t.Fatal(err)
		}
	}
	table := []string{"--dsn", file, "--table", "orders", "--reference", "lines.order_id"}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"inspect", []string{"inspect"}, exitOK, "declared   lines.order_id"},
		{"inspect json", []string{"inspect", "--json"}, exitOK, `"numbering":"AUTOINCREMENT","declared":false,"rows":null}`},
		{"plan", []string{"plan"}, exitOK, `DROP TABLE "orders";`},
		{"plan json", []string{"plan", "--json"}, exitOK, `"statements":[{"step":"unnumber","table":"orders","sql":["CREATE`},
		{"a refused plan's json", []string{"plan", "--json", "--first-id", "2"}, exitRefused, `"refusals":[{"code":"max-id","column":"id"`},
		{"verify too early", []string{"verify"}, exitFailed, "orders: still to do:\n  unnumber orders\nsee gormflake adopt plan"},
		{"verify json too early", []string{"verify", "--json"}, exitFailed, `"max_legacy":"2","to_do":["unnumber orders"]`},
		{"rollback too early", []string{"rollback"}, exitOK, "orders: the database numbers it already"},
		{"rollback too early, with yes", []string{"rollback", "--yes"}, exitOK, "orders: the database numbers it already"},
		{"an early first id", []string{"apply", "--yes", "--first-id", "2"}, exitRefused, "max-id"},
		{"keep numbering", []string{"apply", "--yes", "--keep-numbering"}, exitRefused, "keep-numbering"},
		{"a way that there isn't", []string{"plan", "--widening", "slowly"}, exitUsage, "--widening"},
		{"apply without yes", []string{"apply"}, exitRefused, "--yes"},
		{"apply", []string{"apply", "--yes"}, exitOK, "orders: adopted; 2 old rows with keys up to 2, 0 new ones"},
		{"plan again", []string{"plan"}, exitOK, "nothing to do"},
		{"verify", []string{"verify"}, exitOK, "adopted"},
		{"verify json", []string{"verify", "--json"}, exitOK, `"ok":true,"legacy":2,"new":0,"max_legacy":"2","to_do":[],"problems":[]}`},
		{"inspect what is done", []string{"inspect"}, exitOK, "adoption   done"},
		{"rollback without yes", []string{"rollback"}, exitRefused, "--yes"},
		{"rollback", []string{"rollback", "--yes"}, exitOK, "numbers it again"},
		{"rollback again", []string{"rollback", "--yes"}, exitOK, "orders: the database numbers it already"},
		{"plan as at first", []string{"plan"}, exitOK, `DROP TABLE "orders";`},
	} {
		code, out, problems := command(t, "", append(append([]string{"adopt"}, c.args...), table...)...)
		if code != c.code || !strings.Contains(out+problems, c.want) {
			t.Fatalf("%s: want exit code %d and %q, got %d\nout: %s\nproblems: %s", c.name, c.code, c.want, code, out, problems)
		}
	}
}
