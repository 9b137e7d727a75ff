//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gormflake/gormflake/internal/servers"
)

// The fleet is made of processes of its own program, so the test builds it.
func TestFleet(t *testing.T) {
	program := filepath.Join(t.TempDir(), "fleet")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, kind := range []servers.Kind{servers.SQLite, servers.Redis, servers.Postgres, servers.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			if kind != servers.SQLite {
				process, err := servers.Start(t.Context(), kind)
				if errors.Is(err, servers.ErrUnavailable) && os.Getenv("GORMFLAKE_REQUIRE_SERVERS") == "" {
					t.Skipf("no fleet on %s: %v", kind, err)
				}
				if err != nil {
					t.Fatal(err)
				}
				_ = process.Close()
			}
			out, err := exec.CommandContext(t.Context(), program, "-on", string(kind), "-pause", "100ms").CombinedOutput()
			if err != nil || !strings.Contains(string(out), "10 processes on 8 worker ids: no id twice") {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}
