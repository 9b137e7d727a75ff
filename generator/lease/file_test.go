package lease_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/leasetest"
)

func TestFileContract(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) lease.Store {
		return lease.File(filepath.Join(t.TempDir(), "state"), 3)
	},
		leasetest.OneWorker(3),
		leasetest.Without(leasetest.Cap, "the caller's clock is the only one there is"),
		leasetest.Without(leasetest.Namespaces, "a file belongs to one namespace"),
		leasetest.Without(leasetest.Backfill, "the file holds one row"))
}

const (
	fileNow    = int64(1_700_000_000_000)
	fileWindow = int64(3000)
	fileGuard  = int64(4000)
)

// A restored older file, or a lost one, must not repeat ids while the clock is
// right: every id of the last run lies before its last extension plus the
// window, and a newcomer starts at its own clock plus the guard.
func TestFileRestoredFromACopy(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "state")
	store := lease.File(path, 3)
	grant, err := store.Acquire(ctx, request("files", fileNow))
	if err != nil {
		t.Fatal(err)
	}
	if grant.From != fileNow+fileGuard || grant.NotBefore != grant.From || grant.Through != fileNow+fileWindow {
		t.Fatalf("first grant %+v; want from and not before now+4s, through now+3s", grant)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := fileNow + 60_000
	if grant, err = store.Extend(ctx, grant, last+fileWindow); err != nil {
		t.Fatal(err)
	}
	if err := store.Release(ctx, grant, last); err != nil {
		t.Fatal(err)
	}
	for name, restore := range map[string]func() error{
		"an older copy": func() error { return os.WriteFile(path, old, 0o600) },
		"no file":       func() error { return os.Remove(path) },
	} {
		if err := restore(); err != nil {
			t.Fatal(err)
		}
		next, err := store.Acquire(ctx, request("files", last))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if next.From < grant.Through || next.NotBefore < grant.Through {
			t.Errorf("%s: grant %+v after one through %d; want it to start later", name, next, grant.Through)
		}
		if err := store.Release(ctx, next, last); err != nil {
			t.Fatal(err)
		}
	}
}

// An older copy, put back while an owner lives: it has lost the row, and may
// begin anew after the guard.
func TestFileRestoredUnderItsOwner(t *testing.T) {
	for _, name := range []string{"of the owner before", "of its own"} {
		t.Run(name, func(t *testing.T) {
			ctx, path := t.Context(), filepath.Join(t.TempDir(), "state")
			store := lease.File(path, 3)
			now := fileNow
			grant, err := store.Acquire(ctx, request("files", now))
			if err != nil {
				t.Fatal(err)
			}
			old, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			now += 60_000
			if name != "of its own" {
				if err := store.Release(ctx, grant, now); err != nil {
					t.Fatal(err)
				}
				if grant, err = store.Acquire(ctx, request("files", now)); err != nil {
					t.Fatal(err)
				}
			}
			if grant, err = store.Extend(ctx, grant, now+fileWindow+1); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, old, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Extend(ctx, grant, now+2*fileWindow); !errors.Is(err, lease.ErrLost) {
				t.Errorf("extend: %v; want ErrLost", err)
			}
			next, err := store.Acquire(ctx, request("files", now))
			if err != nil {
				t.Fatalf("acquire anew: %v", err)
			}
			if next.From < grant.Through || next.NotBefore < grant.Through {
				t.Errorf("grant %+v after one through %d; want it to start later", next, grant.Through)
			}
		})
	}
}

func TestFileKeepsHighWaterOverARollback(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "state")
	first, err := lease.File(path, 3).Acquire(ctx, request("files", fileNow))
	if err != nil {
		t.Fatal(err)
	}
	store := lease.File(path, 3)
	if _, err := store.Acquire(ctx, request("files", fileNow)); !errors.Is(err, lease.ErrWorkerInUse) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "this process") {
		t.Fatalf("second store of the file: error %v; want ErrWorkerInUse with path and holder", err)
	}
	_ = first
	// The clock is an hour back: more than the request wants to lead.
	other := filepath.Join(t.TempDir(), "state")
	store = lease.File(other, 3)
	held, err := store.Acquire(ctx, request("files", fileNow))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Release(ctx, held, fileNow); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Acquire(ctx, request("files", fileNow-3_600_000)); !errors.Is(err, lease.ErrClockSkew) {
		t.Errorf("an hour back: %+v, error %v; want ErrClockSkew", got, err)
	}
	got, err := store.Acquire(ctx, request("files", fileNow))
	if err != nil || got.Term != 2 || got.From < held.Through {
		t.Errorf("with the clock right again: %+v, error %v; want term 2 from the high water on", got, err)
	}
}

func TestFileDamaged(t *testing.T) {
	good := func(t *testing.T) (path string, content []byte) {
		path = filepath.Join(t.TempDir(), "state")
		store := lease.File(path, 3)
		grant, err := store.Acquire(t.Context(), request("files", fileNow))
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Release(t.Context(), grant, fileNow); err != nil {
			t.Fatal(err)
		}
		content, err = os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return path, content
	}
	tests := map[string]func(content string) string{
		"empty":             func(string) string { return "" },
		"torn":              func(c string) string { return c[:len(c)/2] },
		"zeros":             func(c string) string { return strings.Repeat("\x00", len(c)) },
		"lowered by hand":   func(c string) string { return strings.Replace(c, "170000000", "160000000", 1) },
		"a later format":    func(c string) string { return strings.Replace(c, `"format":1`, `"format":2`, 1) },
		"an unknown member": func(c string) string { return strings.Replace(c, `"format":1`, `"format":1,"more":1`, 1) },
		"another's content": func(string) string { return "hello\n" },
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			path, content := good(t)
			damaged := damage(string(content))
			if damaged == string(content) {
				t.Fatal("the test damaged nothing")
			}
			if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := lease.File(path, 3).Acquire(t.Context(), request("files", fileNow+60_000))
			if !errors.Is(err, lease.ErrInvalid) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v; want ErrInvalid with the path", err)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != damaged {
				t.Errorf("the file was changed to %q (error %v)", after, err)
			}
		})
	}
	t.Run("another worker", func(t *testing.T) {
		path, _ := good(t)
		if _, err := lease.File(path, 4).Acquire(t.Context(), request("files", fileNow)); !errors.Is(err, lease.ErrInvalid) {
			t.Errorf("error %v; want ErrInvalid", err)
		}
	})
	t.Run("another namespace", func(t *testing.T) {
		path, _ := good(t)
		if _, err := lease.File(path, 3).Acquire(t.Context(), request("others", fileNow)); !errors.Is(err, lease.ErrInvalid) {
			t.Errorf("error %v; want ErrInvalid", err)
		}
	})
	t.Run("no folder", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "absent", "state")
		if _, err := lease.File(path, 3).Acquire(t.Context(), request("files", fileNow)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error %v; want os.ErrNotExist", err)
		}
	})
}

// What a crash leaves behind, a half-written new file, is no obstacle.
func TestFileAfterACrashWhileWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path+".new", []byte(`{"format":1,"na`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lease.File(path, 3).Acquire(t.Context(), request("files", fileNow)); err != nil {
		t.Fatal(err)
	}
}

// TestFileTwoProcesses lets another process hold the file, and end by a kill.
func TestFileTwoProcesses(t *testing.T) {
	if path := os.Getenv("LEASE_TEST_FILE"); path != "" {
		if _, err := lease.File(path, 3).Acquire(t.Context(), request("files", fileNow)); err != nil {
			t.Fatal(err)
		}
		fmt.Println("\nheld")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the end
		return
	}
	path := filepath.Join(t.TempDir(), "state")
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFileTwoProcesses$")
	other.Env = append(os.Environ(), "LEASE_TEST_FILE="+path)
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "held" {
	}
	if lines.Text() != "held" {
		t.Fatalf("the other process did not get the file: %v", other.Wait())
	}
	store := lease.File(path, 3)
	_, err = store.Acquire(t.Context(), request("files", fileNow))
	if want := fmt.Sprintf("held by process %d", other.Process.Pid); !errors.Is(err, lease.ErrWorkerInUse) ||
		!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v; want ErrWorkerInUse with the path and %q", err, want)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // says that it was killed
	grant, err := store.Acquire(t.Context(), request("files", fileNow))
	if err != nil || grant.Term != 2 {
		t.Errorf("after the kill: %+v, error %v; want term 2", grant, err)
	}
}
