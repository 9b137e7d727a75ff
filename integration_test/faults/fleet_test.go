package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// fleet is a number of generators that issue ids without a pause, one or more
// in each millisecond, so that two that share a worker id and a time at once
// give the same id.
type fleet struct {
	t       *testing.T
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	members []*member
	errs    []error
}

// member is one generator, as a process of its own would have it.
type member struct {
	fleet  *fleet
	name   string
	store  lease.Store
	clock  func() time.Time // nil: the machine's
	issued atomic.Int64
	opened atomic.Pointer[generator.Generator]

	mu       sync.Mutex
	ids      []generator.ID
	refusals []refusal
}

// refusal is a Next that returned an error.
type refusal struct {
	err       error
	at        time.Time
	highWater time.Time // of the grant when it failed
}

const (
	maxWait = 50 * time.Millisecond
	// awaited is how many ids show that a member issues ids.
	awaited = 20
	// patience is how long a recovery may take. It decides no test that works.
	patience = time.Minute
)

func newFleet(t *testing.T) *fleet {
	f := &fleet{t: t}
	f.ctx, f.cancel = context.WithCancel(t.Context())
	t.Cleanup(f.stop)
	return f
}

// add starts a member for each store.
func (f *fleet) add(stores ...lease.Store) []*member { return f.addWith(nil, stores...) }

// addWith starts a member for each store, which goes by a clock of its own.
func (f *fleet) addWith(clock func() time.Time, stores ...lease.Store) []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	var added []*member
	for _, store := range stores {
		m := &member{fleet: f, name: fmt.Sprintf("member %d", len(f.members)), store: store, clock: clock}
		f.members = append(f.members, m)
		added = append(added, m)
		f.running.Go(m.run)
	}
	return added
}

// run opens a generator, as often as it takes, and issues ids until the end.
func (m *member) run() {
	ctx := m.fleet.ctx
	config := generator.Config{
		Store: m.store, Namespace: "faults", MaxWait: maxWait, Clock: m.clock,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	var g *generator.Generator
	for g == nil {
		opening, cancel := context.WithTimeout(ctx, patience)
		opened, err := generator.Open(opening, config)
		cancel()
		if err == nil {
			g = opened
		} else if m.fleet.note(err); !pause(ctx, 20*time.Millisecond) {
			return
		}
	}
	m.opened.Store(g)
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = g.Close(closing) // the store may be broken still
	}()
	for pause(ctx, 300*time.Microsecond) {
		id, err := g.Next(ctx)
		switch {
		case err == nil:
			m.mu.Lock()
			m.ids = append(m.ids, id)
			m.mu.Unlock()
			m.issued.Add(1)
		case ctx.Err() == nil:
			m.mu.Lock()
			m.refusals = append(m.refusals, refusal{err, time.Now(), g.Stats().HighWater})
			m.mu.Unlock()
			m.fleet.note(err)
		}
	}
}

// note keeps an error for saw and for the check of types.
func (f *fleet) note(err error) {
	if f.ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

// met returns the errors so far.
func (f *fleet) met() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.errs)
}

// stop ends every member. It may be called twice.
func (f *fleet) stop() {
	f.cancel()
	f.running.Wait()
}

// awaitIssue waits until each given member, or all, has issued ids from now on.
func (f *fleet) awaitIssue(what string, members ...*member) {
	f.t.Helper()
	if len(members) == 0 {
		f.mu.Lock()
		members = append(members, f.members...)
		f.mu.Unlock()
	}
	before := make([]int64, len(members))
	for i, m := range members {
		before[i] = m.issued.Load()
	}
	eventually(f.t, what, func() bool {
		for i, m := range members {
			if m.issued.Load() < before[i]+awaited {
				return false
			}
		}
		return true
	})
}

// awaitError waits until a member has met an error that is target.
func (f *fleet) awaitError(target error) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("an error that is %q", target), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, err := range f.errs {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	})
}

// awaitSealed waits until none of the members issues ids any more.
func (f *fleet) awaitSealed(members ...*member) {
	f.t.Helper()
	eventually(f.t, "every member is sealed", func() bool {
		for _, m := range members {
			if g := m.opened.Load(); g == nil || g.Stats().State != generator.StateSealed && g.Stats().State != generator.StateAcquiring {
				return false
			}
		}
		return true
	})
}

// check stops the fleet and checks all that it did.
func (f *fleet) check() {
	f.t.Helper()
	f.stop()
	ids, wrong := f.inspect()
	for i, text := range wrong {
		if i == 5 {
			f.t.Errorf("and %d more", len(wrong)-i)
			break
		}
		f.t.Error(text)
	}
	if ids == 0 {
		f.t.Error("no ids were issued; the test shows nothing")
	}
	f.t.Logf("%d ids of %d members, %d errors met", ids, len(f.members), len(f.errs))
	for _, err := range f.errs {
		if !errors.Is(err, generator.ErrSealed) && !errors.Is(err, generator.ErrNotStarted) && !errors.Is(err, generator.ErrClockBehind) {
			f.t.Errorf("an error without a type: %v", err)
			break
		}
	}
}

// inspect returns how many ids there are so far, and what is wrong with them.
func (f *fleet) inspect() (ids int, wrong []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	layout := generator.Standard()
	owners := map[generator.ID]string{}
	for _, m := range f.members {
		m.mu.Lock()
		worker, last := int64(-1), generator.ID(0)
		for _, id := range m.ids {
			if other, ok := owners[id]; ok {
				wrong = append(wrong, fmt.Sprintf("id %d (%+v) was given to %s and to %s", id, layout.Decompose(id), other, m.name))
			}
			owners[id] = m.name
			w := layout.Decompose(id).Worker
			if w == worker && id <= last {
				wrong = append(wrong, fmt.Sprintf("%s issued %d after %d under one worker id", m.name, id, last))
			}
			worker, last = w, id
		}
		m.mu.Unlock()
	}
	return len(owners), wrong
}

// awaitLosses breaks the leases of members and waits until each has noticed.
func (f *fleet) awaitLosses(members []*member, breaking func()) {
	f.t.Helper()
	before := make([]uint64, len(members))
	for i, m := range members {
		before[i] = m.opened.Load().Stats().Losses
	}
	breaking()
	eventually(f.t, "every member has lost its lease", func() bool {
		for i, m := range members {
			if m.opened.Load().Stats().Losses == before[i] {
				return false
			}
		}
		return true
	})
}

// awaitExtends waits until each member has extended its lease n times more.
func awaitExtends(t *testing.T, members []*member, n uint64) {
	t.Helper()
	extends := func(m *member) uint64 { return m.opened.Load().Stats().Extends }
	before := make([]uint64, len(members))
	for i, m := range members {
		before[i] = extends(m)
	}
	eventually(t, "every member has extended its lease", func() bool {
		for i, m := range members {
			if extends(m) < before[i]+n {
				return false
			}
		}
		return true
	})
}

// monotone polls the rows of a namespace until the test's end, and fails it if
// a term or a high water ever goes down. The stores are tried in turn, so that
// a promoted server may answer for a dead one.
func monotone(t *testing.T, stores ...lease.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	var polling sync.WaitGroup
	polls := 0
	polling.Go(func() {
		highest := map[int64]lease.Row{}
		for pause(ctx, 10*time.Millisecond) {
			for _, store := range stores {
				once, cancel := context.WithTimeout(ctx, time.Second)
				rows, err := store.(lease.Lister).List(once, "faults")
				cancel()
				if err != nil {
					continue
				}
				polls++
				for _, row := range rows {
					if before := highest[row.Worker]; row.Term < before.Term || row.HighWater < before.HighWater {
						t.Errorf("worker %d went from %+v down to %+v", row.Worker, before, row)
						return
					}
					highest[row.Worker] = row
				}
				break
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		polling.Wait()
		if polls == 0 {
			t.Error("no poll of the rows succeeded; the test shows nothing about terms and high waters")
		}
	})
}

// eventually polls a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		if !pause(t.Context(), 2*time.Millisecond) {
			t.Fatalf("%s: the test has ended", what)
		}
	}
}

// pause waits and reports whether the context is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
