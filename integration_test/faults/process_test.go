package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/redislease"
	"github.com/gormflake/gormflake/internal/servers"
)

// steps are where processes are killed.
var steps = []string{whileItIssues, beforeAcquire, afterAcquire, beforeExtend, afterExtend, beforeRelease, afterRelease}

// TestProcessKilled kills a process with SIGKILL at each step, and starts
// another one that can have the same worker id alone.
func TestProcessKilled(t *testing.T) {
	for _, kind := range sqlServers {
		t.Run(string(kind), func(t *testing.T) {
			srv := servers.Shared(t, kind)
			dsn := srv.Database(t)
			for i, step := range steps {
				t.Run(step, func(t *testing.T) {
					t.Parallel()
					f := sqlFleetOn(t, srv, dsn)
					killedAt(t, f.fleet, f.store(), childConfig{Kind: kind, DSN: dsn, Fixed: -1, Lo: int64(i), Hi: int64(i), Stop: step})
				})
			}
		})
	}
}

// TestRedisProcessKilled does the same to processes that lease in Redis,
// without a guard and with the one that an asynchronous replica wants.
func TestRedisProcessKilled(t *testing.T) {
	for name, stated := range map[string]bool{"durable": true, "asynchronous": false} {
		t.Run(name, func(t *testing.T) {
			srv := servers.Private(t, servers.Redis, servers.Durable())
			addr := srv.Process().Addr()
			for i, step := range steps {
				t.Run(step, func(t *testing.T) {
					t.Parallel()
					killedAt(t, newFleet(t), redislease.New(admin(t, addr), durable...),
						childConfig{Kind: servers.Redis, DSN: addr, Stated: stated, Fixed: -1, Lo: int64(i), Hi: int64(i), Stop: step})
				})
			}
		})
	}
}

// killedAt kills a process at its step and lets another follow on its only
// worker id. rows shows the rows.
func killedAt(t *testing.T, f *fleet, rows lease.Store, config childConfig) {
	monotone(t, rows)
	step, worker := config.Stop, config.Lo
	config.Window = time.Second
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
	if step != whileItIssues {
		first.awaitStep(step)
	}
	first.kill()
	killed, existed, err := rows.Lookup(t.Context(), "faults", worker)
	if err != nil {
		t.Fatal(err)
	}
	config.Stop = ""
	second := f.spawn("the one after it", config)
	f.awaitIssue("another process has the worker id", second.member)
	second.close()
	<-second.ended
	row, ok, err := rows.Lookup(t.Context(), "faults", worker)
	if err != nil || !ok || row.Owner != "" || row.Term <= killed.Term {
		t.Errorf("the row is %+v (%v, %v) after the process closed; want it released, after term %d (%v)", row, ok, err, killed.Term, existed)
	}
	for _, id := range second.ids {
		if at := generator.Standard().Decompose(id).Time.UnixMilli(); at < killed.HighWater {
			t.Errorf("id %d of the second process is of %d, below the high water %d of the first", id, at, killed.HighWater)
			break
		}
	}
	f.check()
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
