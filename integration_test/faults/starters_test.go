package faults

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/servers"
)

// TestSQL500Starters lets 500 processes start at once, with a connection each.
// Then it kills all of them, and starts 500 more while the rows of the dead
// are held still.
func TestSQL500Starters(t *testing.T) {
	const starters = 500
	program := filepath.Join(t.TempDir(), "starter")
	build := sync.OnceValue(func() error {
		if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./starter").CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, text)
		}
		return nil
	})
	for _, kind := range sqlServers {
		t.Run(string(kind), func(t *testing.T) {
			srv := servers.Private(t, kind, servers.Setting("max_connections", "600"))
			if err := build(); err != nil {
				t.Fatal(err)
			}
			f := newSQLFleet(t, srv)
			rows := f.store().(lease.Lister)
			monotone(t, f.store())
			driver := map[servers.Kind]string{servers.Postgres: "pgx", servers.MariaDB: "mysql"}[kind]
			start := func() []*child {
				children := make([]*child, starters)
				for i := range children {
					children[i] = f.run(fmt.Sprintf("starter %d", i), exec.CommandContext(f.ctx, program,
						"-driver", driver, "-dialect", string(dialect(kind)), "-dsn", f.dsn, "-namespace", "faults"))
				}
				startAtOnce(t, children)
				return children
			}
			dead := start()
			for _, c := range dead {
				c.kill()
			}
			alive := start()
			for _, c := range alive {
				c.close()
			}
			for _, c := range alive {
				<-c.ended
				if !c.command.ProcessState.Success() {
					t.Errorf("%s ended with %v", c.name, c.command.ProcessState)
				}
			}
			// There may be more rows: an acquire whose reply came too late has left
			// one that nobody adopts.
			list, err := rows.List(t.Context(), "faults")
			if err != nil {
				t.Fatal(err)
			}
			released := map[int64]bool{}
			for _, row := range list {
				released[row.Worker] = row.Owner == ""
			}
			for _, c := range alive {
				if worker := c.worker.Load(); !released[worker] {
					t.Errorf("worker %d is not released; want it so once its process has closed", worker)
				}
			}
			f.check()
			if ids, _ := f.inspect(); ids != 2*starters*20 {
				t.Errorf("%d ids; want %d", ids, 2*starters*20)
			}
		})
	}
}

// startAtOnce tells processes that wait for it to start, and waits until each
// of them has ids of a worker id of its own.
func startAtOnce(t *testing.T, children []*child) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	await := func(what string, of func(*child) chan struct{}) {
		t.Helper()
		for _, c := range children {
			select {
			case <-of(c):
			case <-c.ended:
				t.Fatalf("%s ended before it was %s: %v", c.name, what, errors.Join(c.fleet.met()...))
			case <-ctx.Done():
				t.Fatalf("%s is not %s within %v", c.name, what, 3*patience)
			}
		}
	}
	await("ready", func(c *child) chan struct{} { return c.begun })
	first := time.Now()
	for _, c := range children {
		if _, err := fmt.Fprintln(c.stdin); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	last := time.Now()
	await("leased", func(c *child) chan struct{} { return c.leased })
	took := time.Since(last)
	await("done", func(c *child) chan struct{} { return c.drawn })
	workers := map[int64]bool{}
	for _, c := range children {
		workers[c.worker.Load()] = true
	}
	if len(workers) != len(children) {
		t.Errorf("%d worker ids of %d processes; want one each", len(workers), len(children))
	}
	retries := 0
	for _, err := range children[0].fleet.met() {
		if errors.Is(err, generator.ErrNotStarted) {
			retries++
		}
	}
	t.Logf("%d processes were told to start within %v, all had leased %v after the last one; opened anew so far: %d",
		len(children), last.Sub(first).Round(time.Millisecond), took.Round(time.Millisecond), retries)
	if took > patience {
		t.Errorf("%v; want at most %v even on a slow machine, 5 s on an idle one", took, patience)
	}
}
