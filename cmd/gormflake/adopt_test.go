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
		{"inspect json", []string{"inspect", "--json"}, exitOK, `"Numbering":"AUTOINCREMENT"`},
		{"plan", []string{"plan"}, exitOK, `DROP TABLE "orders";`},
		{"verify too early", []string{"verify"}, exitFailed, "to do: unnumber orders"},
		{"rollback too early", []string{"rollback"}, exitFailed, "nothing to roll back"},
		{"an early first id", []string{"apply", "--yes", "--first-id", "2"}, exitRefused, "max-id"},
		{"keep numbering", []string{"apply", "--yes", "--keep-numbering"}, exitRefused, "keep-numbering"},
		{"a way that there isn't", []string{"plan", "--widening", "slowly"}, exitUsage, "--widening"},
		{"apply without yes", []string{"apply"}, exitRefused, "--yes"},
		{"apply", []string{"apply", "--yes"}, exitOK, "orders: adopted; 2 old rows with keys up to 2, 0 new ones"},
		{"plan again", []string{"plan"}, exitOK, "nothing to do"},
		{"verify", []string{"verify"}, exitOK, "adopted"},
		{"rollback without yes", []string{"rollback"}, exitRefused, "--yes"},
		{"rollback", []string{"rollback", "--yes"}, exitOK, "numbers it again"},
		{"plan as at first", []string{"plan"}, exitOK, `DROP TABLE "orders";`},
	} {
		code, out, problems := command(t, "", append(append([]string{"adopt"}, c.args...), table...)...)
		if code != c.code || !strings.Contains(out+problems, c.want) {
			t.Fatalf("%s: want exit code %d and %q, got %d\nout: %s\nproblems: %s", c.name, c.code, c.want, code, out, problems)
		}
	}
}
