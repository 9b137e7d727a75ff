//go:build unix

package main

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/glebarez/sqlite"
)

func TestLocked(t *testing.T) {
	f := &fleet{dsn: filepath.Join(t.TempDir(), "fleet.db")}
	pool, err := sql.Open(sqlite.DriverName, f.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if f.locked(t.Context()) {
		t.Error("a file without a writer is not locked")
	}
	writer, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := writer.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if !f.locked(t.Context()) {
		t.Error("a file in the middle of a write is locked")
	}
}
