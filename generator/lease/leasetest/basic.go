package leasetest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gormflake/gormflake/generator/lease"
)

func (s *suite) testKey(t *testing.T) {
	store := s.open(t)
	if seen := map[any]bool{store.Key(): true}; !seen[store.Key()] {
		t.Errorf("Key() = %v, then %v; want one comparable key", store.Key(), store.Key())
	}
	if first, second := store.Timing(), store.Timing(); first != second {
		t.Errorf("Timing() = %v, then %v; want it constant", first, second)
	}
	if timing := store.Timing(); timing.Window > 0 && (timing.Interval <= 0 || timing.Interval > timing.Window/2) {
		t.Errorf("Timing() = %+v; want an interval of at most half the window", timing)
	}
	if d, ok := store.(lease.Describer); !ok || d.Describe() == "" {
		t.Error("the store does not describe itself; want lease.Describer")
	}
}

func (s *suite) testGrant(t *testing.T) {
	ctx, store, ns := newContext(t), s.open(t), newNamespace()
	if _, ok, err := store.Lookup(ctx, ns, s.worker); ok || err != nil {
		t.Fatalf("Lookup in a new namespace = ok %v, error %v; want neither", ok, err)
	}
	req := s.request(ns, 16)
	grant := acquire(t, ctx, store, req)
	if grant.Namespace != ns || grant.Token != req.Token || grant.Term != 1 || !req.Workers.Contains(grant.Worker) {
		t.Errorf("Acquire = %+v; want the request's namespace and token, term 1, a worker of %v", grant, req.Workers)
	}
	if s.oneWorker && grant.Worker != s.worker {
		t.Errorf("Acquire = worker %d; want %d", grant.Worker, s.worker)
	}
	window := store.Timing().Window.Milliseconds()
	switch {
	case window == 0 && grant.Through != lease.Unbounded:
		t.Errorf("Acquire: through %d with a window of 0; want Unbounded", grant.Through)
	case window > 0 && grant.Through != req.Now+window:
		t.Errorf("Acquire: through %d; want now + window = %d", grant.Through, req.Now+window)
	}
	row := lookup(t, ctx, store, ns, grant.Worker)
	want := lease.Row{Worker: grant.Worker, Term: 1, Owner: req.Token, HighWater: grant.Through, ExpiresAt: row.ExpiresAt, Held: true}
	if diff := cmp.Diff(want, row); diff != "" {
		t.Errorf("Lookup after Acquire (-want +got):\n%s", diff)
	}
	if row.Host() == "" || strings.Contains(row.Host(), "/") {
		t.Errorf("Row.Host() = %q; want host and process", row.Host())
	}
	second := s.request(ns, 16)
	other, err := store.Acquire(ctx, second)
	switch {
	case s.oneWorker:
		if !errors.Is(err, lease.ErrWorkerInUse) {
			t.Errorf("second Acquire: error %v; want ErrWorkerInUse", err)
		}
	case err != nil:
		t.Errorf("second Acquire: %v", err)
	case other.Worker == grant.Worker:
		t.Errorf("second Acquire got worker %d too", other.Worker)
	}
}

func (s *suite) testInvalid(t *testing.T) {
	ctx, store := newContext(t), s.open(t)
	tests := map[string]func(*lease.Request){
		"empty namespace":   func(r *lease.Request) { r.Namespace = "" },
		"long namespace":    func(r *lease.Request) { r.Namespace = strings.Repeat("n", 65) },
		"namespace's signs": func(r *lease.Request) { r.Namespace = "a{b}" },
		"namespace's space": func(r *lease.Request) { r.Namespace = "a " },
		"empty token":       func(r *lease.Request) { r.Token = "" },
		"long token":        func(r *lease.Request) { r.Token = strings.Repeat("t", 65) },
	}
	for name, spoil := range tests {
		req := s.request(newNamespace(), 4)
		spoil(&req)
		if _, err := store.Acquire(ctx, req); !errors.Is(err, lease.ErrInvalid) {
			t.Errorf("%s: error %v; want ErrInvalid", name, err)
		}
	}
	if s.oneWorker {
		req := s.request(newNamespace(), 1)
		req.Workers = lease.Range{Lo: s.worker + 1, Hi: s.worker + 8}
		if _, err := store.Acquire(ctx, req); !errors.Is(err, lease.ErrInvalid) {
			t.Errorf("worker outside the range: error %v; want ErrInvalid", err)
		}
	}
}

func (s *suite) testContext(t *testing.T) {
	store, ns := s.open(t), newNamespace()
	held := acquire(t, newContext(t), store, s.request(ns, 4))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := lookup(t, newContext(t), store, ns, held.Worker)
	_, acquireErr := store.Acquire(ctx, s.request(ns, 4))
	_, extendErr := store.Extend(ctx, held, held.Through)
	releaseErr := store.Release(ctx, held, held.From)
	_, _, lookupErr := store.Lookup(ctx, ns, held.Worker)
	for name, err := range map[string]error{"Acquire": acquireErr, "Extend": extendErr, "Release": releaseErr, "Lookup": lookupErr} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a cancelled context: error %v; want context.Canceled", name, err)
		}
	}
	if diff := cmp.Diff(before, lookup(t, newContext(t), store, ns, held.Worker)); diff != "" {
		t.Errorf("calls with a cancelled context changed the row:\n%s", diff)
	}
}

func (s *suite) testExtendLost(t *testing.T) {
	ctx, store, ns := newContext(t), s.open(t), newNamespace()
	held := acquire(t, ctx, store, s.request(ns, 4))
	through := held.Through
	if through != lease.Unbounded {
		through += 1000
	}
	spoiled := map[string]func(*lease.Grant){
		"another token":    func(g *lease.Grant) { g.Token = lease.NewToken() },
		"an empty token":   func(g *lease.Grant) { g.Token = "" },
		"an older term":    func(g *lease.Grant) { g.Term-- },
		"a later term":     func(g *lease.Grant) { g.Term++ },
		"a lower through":  func(g *lease.Grant) { g.Through-- },
		"no such row":      func(g *lease.Grant) { g.Worker += 500 },
		"no such space":    func(g *lease.Grant) { g.Namespace = newNamespace() },
		"a cloned through": func(g *lease.Grant) { g.Through = held.From },
	}
	for name, spoil := range spoiled {
		before := lookup(t, ctx, store, ns, held.Worker)
		stale := held
		spoil(&stale)
		if got, err := store.Extend(ctx, stale, through); !errors.Is(err, lease.ErrLost) {
			t.Errorf("Extend with %s = %+v, error %v; want ErrLost", name, got, err)
		}
		if diff := cmp.Diff(before, lookup(t, ctx, store, ns, held.Worker)); diff != "" {
			t.Fatalf("Extend with %s changed the row:\n%s", name, diff)
		}
		if stale.Worker != held.Worker || stale.Namespace != ns {
			if _, ok, err := store.Lookup(ctx, stale.Namespace, stale.Worker); ok || err != nil {
				t.Errorf("Extend with %s made a row (error %v)", name, err)
			}
		}
	}
	if _, err := store.Extend(ctx, held, through); err != nil {
		t.Fatalf("Extend of the held row after all these: %v", err)
	}
	if held.Through != lease.Unbounded {
		if _, err := store.Extend(ctx, held, through+1000); !errors.Is(err, lease.ErrLost) {
			t.Errorf("a second Extend from the same grant: error %v; want ErrLost, as for a clone", err)
		}
	}
}

func (s *suite) testRelease(t *testing.T) {
	ctx, store, ns := newContext(t), s.open(t), newNamespace()
	req := s.request(ns, 1)
	req.Now -= 2 * hour // so that its high water has passed by the store's clock
	first := acquire(t, ctx, store, req)
	stale := first
	stale.Token = lease.NewToken()
	release(t, ctx, store, stale, first.From)
	if row := lookup(t, ctx, store, ns, first.Worker); row.Owner != first.Token {
		t.Fatalf("Release with another token changed the owner to %q", row.Owner)
	}
	used := min(first.From+5, first.Through)
	release(t, ctx, store, first, used)
	row := lookup(t, ctx, store, ns, first.Worker)
	if row.Owner != "" || row.Term != first.Term || row.HighWater < used {
		t.Errorf("after Release: %+v; want no owner, term %d, a high water of at least %d", row, first.Term, used)
	}
	if first.Through != lease.Unbounded && s.stable() && row.HighWater != first.Through {
		t.Errorf("Release moved the high water from %d to %d", first.Through, row.HighWater)
	}
	release(t, ctx, store, first, used)
	if _, err := store.Extend(ctx, first, max(first.Through, used)); !errors.Is(err, lease.ErrLost) {
		t.Errorf("Extend after Release: error %v; want ErrLost", err)
	}

	// The successor's clock is behind: it starts where the first one ended.
	again := s.request(ns, 1)
	again.Now = first.From - hour
	second := acquire(t, ctx, store, again)
	end := row.HighWater
	if second.Worker != first.Worker || second.Term != first.Term+1 || second.From < end {
		t.Errorf("the successor of %+v got %+v; want the same worker, the next term, from %d on", first, second, end)
	}
	release(t, ctx, store, first, first.Through)
	if row := lookup(t, ctx, store, ns, first.Worker); row.Owner != second.Token {
		t.Errorf("Release of a former grant took the row from its successor: %+v", row)
	}
	if _, err := store.Extend(ctx, second, second.Through); err != nil {
		t.Errorf("Extend of the successor: %v", err)
	}
}

func (s *suite) testNamespaces(t *testing.T) {
	s.needs(t, Namespaces)
	ctx, store := newContext(t), s.open(t)
	lower := newNamespace() + "'\"`\\%_?:$1"
	upper := strings.ToUpper(lower)
	a := acquire(t, ctx, store, s.request(lower, 1))
	b := acquire(t, ctx, store, s.request(upper, 1))
	if a.Worker != b.Worker || a.Term != 1 || b.Term != 1 {
		t.Errorf("two namespaces share rows: %+v and %+v", a, b)
	}
	release(t, ctx, store, a, a.From)
	if row := lookup(t, ctx, store, upper, b.Worker); row.Owner != b.Token {
		t.Errorf("Release in %q reached %q", lower, upper)
	}
}

func (s *suite) testLayout(t *testing.T) {
	ctx, store, ns := newContext(t), s.open(t), newNamespace()
	held := acquire(t, ctx, store, s.request(ns, 4))
	changes := map[string]func(*lease.Layout){
		"epoch":    func(l *lease.Layout) { l.EpochMillis++ },
		"tick":     func(l *lease.Layout) { l.TickMillis = 10 },
		"time":     func(l *lease.Layout) { l.TimeBits-- },
		"worker":   func(l *lease.Layout) { l.WorkerBits++ },
		"sequence": func(l *lease.Layout) { l.SequenceBits-- },
	}
	for _, kept := range []bool{false, true} {
		if kept {
			if reason, ok := s.without[LayoutRecord]; ok {
				t.Logf("left out after the release, the store has not %s: %s", LayoutRecord, reason)
				return
			}
			release(t, ctx, store, held, held.From)
		}
		for name, change := range changes {
			if s.oneWorker && !kept && s.without[LayoutRecord] == "" {
				continue // the one row is in use, which comes first
			}
			req := s.request(ns, 4)
			change(&req.Layout)
			_, err := store.Acquire(ctx, req)
			var detail *lease.LayoutMismatchError
			if !errors.Is(err, lease.ErrLayoutMismatch) || !errors.As(err, &detail) {
				t.Errorf("another %s, released %v: error %v; want ErrLayoutMismatch with its detail", name, kept, err)
			} else if detail.Recorded != testLayout().String() || detail.Requested != req.Layout.String() {
				t.Errorf("another %s: detail %+v; want the recorded and the requested layout", name, detail)
			}
		}
	}
}

func (s *suite) testList(t *testing.T) {
	s.needs(t, List)
	ctx, store, ns := newContext(t), s.open(t), newNamespace()
	lister, ok := store.(lease.Lister)
	if !ok {
		t.Fatal("the store is no lease.Lister")
	}
	if rows, err := lister.List(ctx, ns); err != nil || len(rows) != 0 {
		t.Fatalf("List of a new namespace = %v, error %v; want none", rows, err)
	}
	n := int64(5)
	if s.oneWorker {
		n = 1
	}
	var want []lease.Row
	owners := map[int64]string{}
	for range n {
		grant := acquire(t, ctx, store, s.request(ns, n))
		owners[grant.Worker] = grant.Token
	}
	rows, err := lister.List(ctx, ns)
	if err != nil || int64(len(rows)) != n {
		t.Fatalf("List = %v, error %v; want %d rows", rows, err, n)
	}
	for i, row := range rows {
		if i > 0 && rows[i-1].Worker >= row.Worker {
			t.Errorf("List is not in order of worker ids: %v", rows)
		}
		if row.Owner != owners[row.Worker] || !row.Held {
			t.Errorf("List has %+v; want it held by %q", row, owners[row.Worker])
		}
		want = append(want, lookup(t, ctx, store, ns, row.Worker))
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("List differs from Lookup (-Lookup +List):\n%s", diff)
	}
}
