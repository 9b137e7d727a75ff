package leasetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// testBounded checks the chain of extensions and the store's cap.
func (s *suite) testBounded(t *testing.T) {
	ctx, store, ns := newContext(t), s.open(t), newNamespace()
	timing := store.Timing()
	if timing.Window == 0 {
		t.Skip("left out, the store's grants are unbounded and never extended")
	}
	held := acquire(t, ctx, store, s.request(ns, 1))
	for i := range 5 {
		through := held.Through + 7
		next, err := store.Extend(ctx, held, through)
		if err != nil {
			t.Fatalf("extension %d: %v", i, err)
		}
		want := held
		want.Through, want.StoreNow = through, next.StoreNow
		if next != want {
			t.Fatalf("extension %d = %+v; want %+v", i, next, want)
		}
		if row := lookup(t, ctx, store, ns, held.Worker); row.HighWater != through || row.Owner != held.Token || row.Term != held.Term {
			t.Fatalf("extension %d left %+v; want the high water %d", i, row, through)
		}
		held = next
	}

	// A clock that was set back asks for less: the row stays held, its high
	// water stays.
	for range 3 {
		next, err := store.Extend(ctx, held, held.Through-5000)
		if err != nil || next.Through != held.Through {
			t.Fatalf("Extend to less = %+v, error %v; want the high water kept at %d", next, err, held.Through)
		}
		held = next
	}
	if row := lookup(t, ctx, store, ns, held.Worker); row.HighWater != held.Through {
		t.Fatalf("Extend to less left %+v; want the high water %d", row, held.Through)
	}

	s.needs(t, Cap)
	before := lookup(t, ctx, store, ns, held.Worker)
	far := millis() + (timing.Window + timing.Slack).Milliseconds() + hour
	var detail *lease.ClockSkewError
	if _, err := store.Extend(ctx, held, far); !errors.Is(err, lease.ErrClockSkew) || !errors.As(err, &detail) {
		t.Errorf("Extend an hour past the cap: error %v; want ErrClockSkew with its detail", err)
	}
	if row := lookup(t, ctx, store, ns, held.Worker); row.HighWater != before.HighWater || row.Term != before.Term {
		t.Errorf("a refused Extend changed %+v to %+v", before, row)
	}
	if next, err := store.Extend(ctx, held, held.Through+1); err != nil {
		t.Errorf("Extend = %+v, %v after a refused one; want success", next, err)
	}
	fresh := newNamespace()
	req := s.request(fresh, 4)
	req.Now += timing.Slack.Milliseconds() + hour
	if got, err := store.Acquire(ctx, req); !errors.Is(err, lease.ErrClockSkew) || !errors.As(err, &detail) {
		t.Errorf("Acquire with a clock an hour ahead = %+v, error %v; want ErrClockSkew with its detail", got, err)
	}
	for w := range int64(4) {
		if row, ok, err := store.Lookup(ctx, fresh, w); ok || err != nil {
			t.Errorf("a refused Acquire made row %+v (error %v)", row, err)
		}
	}
}

func (s *suite) testFull(t *testing.T) {
	s.needsManyWorkers(t)
	ctx, store, ns := newContext(t), s.open(t), newNamespace()
	owners := map[int64]string{}
	for range 3 {
		grant := acquire(t, ctx, store, s.request(ns, 3))
		owners[grant.Worker] = grant.Token
	}
	_, err := store.Acquire(ctx, s.request(ns, 3))
	var detail *lease.NoWorkerError
	if !errors.Is(err, lease.ErrNoWorker) || !errors.As(err, &detail) {
		t.Fatalf("Acquire of a fourth row of three: error %v; want ErrNoWorker with its detail", err)
	}
	if detail.Namespace != ns || detail.Workers != (lease.Range{Lo: 0, Hi: 2}) || len(detail.Rows) != 3 {
		t.Fatalf("detail = %+v; want the namespace, workers 0 to 2, three rows", detail)
	}
	for w, row := range detail.Rows {
		if row.Worker != int64(w) || row.Owner != owners[row.Worker] {
			t.Errorf("detail's row %d = %+v; want owner %q", w, row, owners[int64(w)])
		}
	}
	none := s.request(ns, 0)
	if _, err := store.Acquire(ctx, none); !errors.Is(err, lease.ErrNoWorker) {
		t.Errorf("Acquire from an empty range: error %v; want ErrNoWorker", err)
	}
}

// testConcurrent lets more acquirers than there are rows start at once: just
// as many succeed as there are rows, each with a row of its own.
func (s *suite) testConcurrent(t *testing.T) {
	ctx, store, ns := newContext(t), s.open(t), newNamespace()
	const acquirers = 48
	rows := 20
	refusal := lease.ErrNoWorker
	if s.oneWorker {
		rows, refusal = 1, lease.ErrWorkerInUse
	}
	grants := make([]lease.Grant, acquirers)
	errs := make([]error, acquirers)
	inParallel(acquirers, func(i int) {
		grants[i], errs[i] = store.Acquire(ctx, s.request(ns, int64(rows)))
	})
	held := map[int64]lease.Grant{}
	for i, grant := range grants {
		switch other, taken := held[grant.Worker]; {
		case errs[i] != nil && !errors.Is(errs[i], refusal):
			t.Errorf("acquirer %d: error %v; want a grant or %v", i, errs[i], refusal)
		case errs[i] == nil && taken:
			t.Errorf("worker %d was granted twice: %+v and %+v", grant.Worker, other, grant)
		case errs[i] == nil:
			held[grant.Worker] = grant
		}
	}
	if len(held) != rows {
		t.Errorf("%d of %d rows were granted; want all", len(held), rows)
	}

	// The same extension, sent many times at once, succeeds just once.
	for _, grant := range held {
		if grant.Through == lease.Unbounded {
			return
		}
		won := make([]error, 16)
		inParallel(len(won), func(i int) {
			_, won[i] = store.Extend(ctx, grant, grant.Through+1)
		})
		successes := 0
		for i, err := range won {
			if err == nil {
				successes++
			} else if !errors.Is(err, lease.ErrLost) {
				t.Errorf("replayed extension %d: error %v; want ErrLost", i, err)
			}
		}
		if successes != 1 {
			t.Errorf("%d of %d replays of one extension succeeded; want 1", successes, len(won))
		}
		return
	}
}

func inParallel(n int, do func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			do(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

func (s *suite) testAvoid(t *testing.T) {
	s.needsManyWorkers(t)
	ctx, store, ns := newContext(t), s.open(t), newNamespace()
	for avoid := range int64(3) {
		req := s.request(fmt.Sprintf("%s-%d", ns, avoid), 3)
		req.Avoid = avoid
		for range 2 {
			req.Token = lease.NewToken()
			if grant := acquire(t, ctx, store, req); grant.Worker == avoid {
				t.Fatalf("Acquire took worker %d, which was to be avoided, while others were free", avoid)
			}
		}
		req.Token = lease.NewToken()
		if grant := acquire(t, ctx, store, req); grant.Worker != avoid {
			t.Fatalf("Acquire = worker %d; want %d, the only one left", grant.Worker, avoid)
		}
	}
}

// testMaxAhead checks that a row whose high water is too far ahead is passed
// over, and is taken above its high water when the request allows it.
func (s *suite) testMaxAhead(t *testing.T) {
	s.needsManyWorkers(t)
	ctx, store, ns := newContext(t), s.open(t), newNamespace()
	req := s.request(ns, 1)
	req.Now -= 2 * hour
	ahead := acquire(t, ctx, store, req)
	release(t, ctx, store, ahead, ahead.From)
	end := lookup(t, ctx, store, ns, ahead.Worker).HighWater

	late := s.request(ns, 1)
	late.Now = end - hour
	late.MaxAhead = hour - 1
	_, err := store.Acquire(ctx, late)
	var detail *lease.NoWorkerError
	if !errors.As(err, &detail) {
		t.Fatalf("Acquire of a row %d ms ahead, 1 ms more than MaxAhead: error %v; want ErrNoWorker", hour, err)
	}
	two := late
	two.Workers.Hi = 1
	two.Token = lease.NewToken()
	if grant := acquire(t, ctx, store, two); grant.Worker != 1 {
		t.Errorf("Acquire took worker %d; want 1, the row that is not ahead", grant.Worker)
	}
	late.MaxAhead = hour
	late.Token = lease.NewToken()
	grant := acquire(t, ctx, store, late)
	if grant.From < end || s.stable() && grant.Through != max(end, late.Now+store.Timing().Window.Milliseconds()) {
		t.Errorf("Acquire = %+v; want it to start at the high water %d or later and never to lower it", grant, end)
	}
}

func (s *suite) testWorkers(t *testing.T) {
	s.needsManyWorkers(t)
	if s.configured == nil {
		t.Skip("left out, the suite was not told how to open the store with options (leasetest.Configured)")
	}
	ctx, store, ns := newContext(t), s.configured(t, lease.Workers(3, 5)), newNamespace()
	seen := map[int64]bool{}
	for range 3 {
		grant := acquire(t, ctx, store, s.request(ns, 5)) // 0 to 4
		if len(seen) == 2 {
			t.Fatalf("a third row of 3 to 4: %+v", grant)
		}
		seen[grant.Worker] = true
		if grant.Worker < 3 || grant.Worker > 4 {
			t.Fatalf("Acquire = worker %d; want 3 or 4, which the option and the request allow", grant.Worker)
		}
		if len(seen) == 2 {
			break
		}
	}
	if _, err := store.Acquire(ctx, s.request(ns, 5)); !errors.Is(err, lease.ErrNoWorker) {
		t.Errorf("Acquire with 3 and 4 held: error %v; want ErrNoWorker", err)
	}
	if _, err := store.Acquire(ctx, s.request(ns, 3)); !errors.Is(err, lease.ErrNoWorker) {
		t.Errorf("Acquire where option and request have no worker in common: error %v; want ErrNoWorker", err)
	}
	for name, option := range map[string]lease.Option{"Workers": lease.Workers(5, 3), "Window": lease.Window(time.Nanosecond)} {
		if _, err := s.configured(t, option).Acquire(ctx, s.request(newNamespace(), 5)); !errors.Is(err, lease.ErrInvalid) {
			t.Errorf("Acquire with a wrong option %s: error %v; want ErrInvalid", name, err)
		}
	}
}

// testExpiry waits until the row of an owner that stopped extending may be
// taken, and checks that the former owner is fenced off.
func (s *suite) testExpiry(t *testing.T) {
	s.needsManyWorkers(t)
	if s.configured == nil {
		t.Skip("left out, the suite was not told how to open the store with options (leasetest.Configured)")
	}
	ctx, store, ns := newContext(t), s.configured(t, lease.Window(300*time.Millisecond)), newNamespace()
	begun := time.Now()
	first := acquire(t, ctx, store, s.request(ns, 1))
	var second lease.Grant
	for {
		var err error
		second, err = store.Acquire(ctx, s.request(ns, 1))
		if err == nil {
			break
		}
		if !errors.Is(err, lease.ErrNoWorker) {
			t.Fatalf("Acquire before the expiry: error %v; want ErrNoWorker", err)
		}
		wait(t, ctx, 20*time.Millisecond)
	}
	// Clocks are read in whole milliseconds, which may hide one at each end.
	if waited := time.Since(begun); waited < store.Timing().Expiry-2*time.Millisecond {
		t.Errorf("the row was taken %v after it was acquired; want at least its expiry, %v", waited, store.Timing().Expiry)
	}
	if second.Term != first.Term+1 || second.From < first.Through {
		t.Errorf("%+v was followed by %+v; want the next term, from its high water on", first, second)
	}
	if _, err := store.Extend(ctx, first, millis()+300); !errors.Is(err, lease.ErrLost) {
		t.Errorf("Extend by the former owner: error %v; want ErrLost", err)
	}
	release(t, ctx, store, first, first.Through)
	if row := lookup(t, ctx, store, ns, 0); row.Owner != second.Token {
		t.Errorf("Release by the former owner freed its successor's row: %+v", row)
	}
}

func wait(t *testing.T, ctx context.Context, d time.Duration) {
	t.Helper()
	select {
	case <-ctx.Done():
		t.Fatalf("waited too long: %v", ctx.Err())
	case <-time.After(d):
	}
}
