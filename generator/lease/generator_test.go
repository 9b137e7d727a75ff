package lease_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// A generator opens on each store, makes ids past several of its windows,
// closes, and a successor goes on above them. Time is virtual.
func TestGeneratorOnEachStore(t *testing.T) {
	stores := map[string]struct {
		open func(t *testing.T) lease.Store
		wait time.Duration // before a fresh process's first id
	}{
		"memory": {open: func(*testing.T) lease.Store { return lease.Memory() }},
		"fixed":  {open: func(*testing.T) lease.Store { return lease.Fixed(3) }, wait: 10 * time.Millisecond},
		"file": {open: func(t *testing.T) lease.Store {
			return lease.File(filepath.Join(t.TempDir(), "state"), 3)
		}, wait: 4 * time.Second},
		"fenced": {open: func(*testing.T) lease.Store {
			return lease.Fenced(lease.Memory(), lease.Memory(lease.Window(10*time.Minute)))
		}},
		"fixed and fenced": {open: func(*testing.T) lease.Store { return lease.Fenced(lease.Fixed(4), lease.Memory()) }, wait: 10 * time.Millisecond},
	}
	layout := generator.Standard()
	layout.Epoch = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC) // before virtual time begins
	for name, test := range stores {
		t.Run(name, func(t *testing.T) {
			store := test.open(t)
			namespace := newNamespace()
			synctest.Test(t, func(t *testing.T) {
				seen := map[generator.ID]bool{}
				for process := range 3 {
					begun := time.Now()
					g, err := generator.Open(t.Context(), generator.Config{
						Store: store, Layout: layout, Namespace: namespace, Clock: time.Now, MaxWait: 10 * time.Second,
					})
					if err != nil {
						t.Fatal(err)
					}
					if waited := time.Since(begun); process == 0 && waited < test.wait {
						t.Errorf("opened after %v; want a wait of %v", waited, test.wait)
					}
					defer g.Close(context.Background()) // a failed test must end its background work
					var last generator.ID
					for range 200 {
						time.Sleep(time.Second) // virtual: past several windows
						id, err := g.Next(t.Context())
						if err != nil {
							t.Fatalf("process %d, %v after its start: %v", process, time.Since(begun), err)
						}
						if id <= last || seen[id] {
							t.Fatalf("process %d: id %d after %d, seen before %v", process, id, last, seen[id])
						}
						last = id
						seen[id] = true
					}
					if err := g.Close(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute) // virtual: a fixed row is free once its high water has passed
				}
			})
		})
	}
}
