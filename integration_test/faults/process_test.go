package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/servers"
)

// TestProcessKilled kills a process with SIGKILL at each step, and starts
// another one that can have the same worker id alone.
func TestProcessKilled(t *testing.T) {
	steps := []string{"while it issues", beforeAcquire, afterAcquire, beforeExtend, afterExtend, beforeRelease, afterRelease}
	for _, kind := range sqlServers {
		t.Run(string(kind), func(t *testing.T) {
			srv := servers.Shared(t, kind)
			dsn := srv.Database(t)
			for i, step := range steps {
				t.Run(step, func(t *testing.T) {
					t.Parallel()
					f := sqlFleetOn(t, srv, dsn)
					monotone(t, f.store())
					worker := int64(i)
					config := childConfig{Kind: kind, DSN: dsn, Fixed: -1, Lo: worker, Hi: worker, Window: time.Second, Stop: step}
					first := f.spawn("the killed process", config)
					switch step {
					case beforeAcquire, afterAcquire:
					default:
						f.awaitIssue("the process works", first.member)
					}
					switch step {
					case beforeRelease, afterRelease:
						first.close()
					}
					if step != steps[0] {
						first.awaitStep(step)
					}
					first.kill()
					config.Stop = ""
					second := f.spawn("the one after it", config)
					f.awaitIssue("another process has the worker id", second.member)
					second.close()
					<-second.ended
					row, ok, err := f.store().Lookup(t.Context(), "faults", worker)
					if err != nil || !ok || row.Owner != "" {
						t.Errorf("the row is %+v (%v, %v) after the process closed; want it released", row, ok, err)
					}
					f.check()
				})
			}
		})
	}
}

// TestProcessStopped stops a process with SIGSTOP until another has its worker
// id, lets it go on, and does so again with the other.
func TestProcessStopped(t *testing.T) {
	for _, kind := range sqlServers {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := newSQLFleet(t, servers.Shared(t, kind))
			monotone(t, f.store())
			config := childConfig{Kind: kind, DSN: f.dsn, Fixed: -1, Window: time.Second}
			owner := f.spawn("first", config)
			f.awaitIssue("the first works", owner.member)
			other := f.spawn("second", config)
			f.awaitError(generator.ErrNoWorker)
			for range 3 {
				owner.freeze()
				f.awaitIssue("the other takes over", other.member)
				before := owner.sealed.Load()
				owner.thaw()
				eventually(t, "the one that was stopped is sealed", func() bool { return owner.sealed.Load() > before })
				owner, other = other, owner
			}
			owner.close()
			<-owner.ended
			f.awaitIssue("the one that was stopped goes on by itself", other.member)
			f.check()
		})
	}
}

// TestProcessesOnOneFixedID gives two processes the same fixed worker id by
// mistake, which a fence notices.
func TestProcessesOnOneFixedID(t *testing.T) {
	for _, kind := range sqlServers {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := newSQLFleet(t, servers.Shared(t, kind))
			monotone(t, f.store())
			config := childConfig{Kind: kind, DSN: f.dsn, Fixed: 3, Hi: 1000, Window: time.Second}
			first := f.spawn("first", config)
			f.awaitIssue("the first works", first.member)
			second := f.spawn("second", config)
			f.awaitError(generator.ErrWorkerInUse)
			before := second.issued.Load()
			f.awaitIssue("the first goes on", first.member)
			if n := second.issued.Load(); before != 0 || n != 0 {
				t.Errorf("the second issued %d ids beside the first; want none", n)
			}
			first.kill()
			f.awaitIssue("the second has it once the first is dead", second.member)
			f.check()
		})
	}
}

// TestTwoGeneratorsOnOneFixedID claims a fixed worker id twice in one process.
func TestTwoGeneratorsOnOneFixedID(t *testing.T) {
	t.Parallel()
	const worker = 1001
	f := newFleet(t)
	config := f.config(lease.Fixed(worker))
	first := open(t, config)
	f.outsider("first").draw(first, 100)
	other := f.config(lease.Fixed(worker))
	if g, err := generator.Open(t.Context(), other); !errors.Is(err, generator.ErrWorkerInUse) {
		t.Errorf("a second generator: %v, %v; want ErrWorkerInUse", g, err)
	}
	f.outsider("first").draw(first, 100)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := open(t, other)
	f.outsider("second").draw(second, 100)

	shared := f.config(lease.Memory())
	a, err := generator.Shared(t.Context(), shared)
	if err != nil {
		t.Fatal(err)
	}
	b, err := generator.Shared(t.Context(), shared)
	if err != nil {
		t.Fatal(err)
	}
	if a != b {
		t.Error("two callers of Shared have two generators; want one")
	}
	if err := errors.Join(a.Close(t.Context()), b.Close(t.Context())); err != nil {
		t.Error(err)
	}
	f.check()
}
