package lease_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

var errLink = errors.New("link is down")

// link stands between a generator and a store: it loses requests before they
// arrive and replies after they were carried out.
type link struct {
	lease.Store
	random     *rand.Rand
	lossy      bool
	down       bool
	extensions int
}

func (l *link) call(do func() error) error {
	switch {
	case l.down, l.lossy && l.random.IntN(8) == 0:
		return errLink
	}
	if err := do(); err != nil {
		return err
	}
	if l.lossy && l.random.IntN(8) == 0 {
		return errLink
	}
	return nil
}

func (l *link) Acquire(ctx context.Context, req lease.Request) (g lease.Grant, err error) {
	err = l.call(func() error { g, err = l.Store.Acquire(ctx, req); return err })
	return g, err
}

func (l *link) Extend(ctx context.Context, held lease.Grant, through int64) (g lease.Grant, err error) {
	l.extensions++
	err = l.call(func() error { g, err = l.Store.Extend(ctx, held, through); return err })
	return g, err
}

func (l *link) Release(ctx context.Context, held lease.Grant, used int64) error {
	return l.call(func() error { return l.Store.Release(ctx, held, used) })
}

func (l *link) Lookup(ctx context.Context, namespace string, worker int64) (row lease.Row, ok bool, err error) {
	err = l.call(func() error { row, ok, err = l.Store.Lookup(ctx, namespace, worker); return err })
	return row, ok, err
}

// TestFencedWithAnInnerStoreThatForgets runs owners as a keeper does, loses
// requests and replies on both links, and wipes inner again and again. The
// grants stay disjoint; those of inner alone do not.
func TestFencedWithAnInnerStoreThatForgets(t *testing.T) {
	if overlaps := countOverlaps(t, true); overlaps > 0 {
		t.Errorf("%d pairs of fenced grants overlap", overlaps)
	}
	if overlaps := countOverlaps(t, false); overlaps == 0 {
		t.Error("without the fence no grants overlap, so the test shows nothing")
	}
}

func countOverlaps(t *testing.T, fenced bool) (overlaps int) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	ctx := t.Context()
	clock := int64(1_500_000_000_000)
	now := func() time.Time { return time.UnixMilli(clock) }
	fenceStore := lease.MemoryWithClock(now, lease.Window(10*time.Minute))
	type owner struct {
		store     lease.Store
		held      *lease.Grant
		unsettled []int64
	}
	var inners []*link
	owners := make([]*owner, 4)
	inner := lease.MemoryWithClock(now)
	for i := range owners {
		link1 := &link{Store: inner, random: random, lossy: true}
		inners = append(inners, link1)
		owners[i] = &owner{store: link1}
		if fenced {
			owners[i].store = lease.Fenced(link1, &link{Store: fenceStore, random: random, lossy: true})
		}
	}
	var grants []lease.Grant
	record := func(g lease.Grant) {
		for i := range grants {
			if grants[i].Token == g.Token {
				grants[i] = g
				return
			}
		}
		grants = append(grants, g)
	}
	extensions, wipes := 0, 0
	for range 6000 {
		clock += random.Int64N(8_000)
		if random.IntN(150) == 0 {
			inner = lease.MemoryWithClock(now)
			for _, l := range inners {
				l.Store = inner
			}
			wipes++
		}
		o := owners[random.IntN(len(owners))]
		if o.held == nil {
			req := request("fenced", clock-random.Int64N(5000))
			req.Workers.Hi = 5
			req.MaxAhead = 3_600_000
			if g, err := o.store.Acquire(ctx, req); err == nil {
				o.held, o.unsettled = &g, nil
				record(g)
			}
			continue
		}
		if random.IntN(20) == 0 {
			_ = o.store.Release(ctx, *o.held, o.held.Through)
			o.held = nil
			continue
		}
		through := clock + 30_000
		g, err := o.store.Extend(ctx, *o.held, through)
		if err != nil {
			if !errors.Is(err, lease.ErrLost) {
				o.unsettled = append(o.unsettled, through)
			}
			row, ok, lookupErr := o.store.Lookup(ctx, o.held.Namespace, o.held.Worker)
			switch {
			case lookupErr != nil:
				continue
			case ok && row.Owner == o.held.Token && row.Term == o.held.Term && slices.Contains(o.unsettled, row.HighWater):
				g = *o.held
				g.Through = row.HighWater
			case ok && row.Owner == o.held.Token && row.Term == o.held.Term && row.HighWater == o.held.Through:
				continue
			default:
				o.held = nil
				continue
			}
		}
		extensions++
		o.held, o.unsettled = &g, nil
		record(g)
	}
	for i, a := range grants {
		for _, b := range grants[i+1:] {
			if a.Worker == b.Worker && a.From < b.Through && b.From < a.Through && a.From < a.Through && b.From < b.Through {
				overlaps++
			}
		}
	}
	t.Logf("fenced %v, seed %d: %d grants, %d extensions, %d wipes, %d overlaps", fenced, seed, len(grants), extensions, wipes, overlaps)
	if len(grants) < 50 || extensions < 500 || wipes < 5 {
		t.Error("too little happened to show anything")
	}
	return overlaps
}

// While the fence is down, extensions go on until its high water, then fail;
// afterwards they go on.
func TestFencedWhileTheFenceIsDown(t *testing.T) {
	ctx, now := t.Context(), time.Now().UnixMilli()
	fence := &link{Store: lease.Memory(lease.Window(2 * time.Minute))}
	inner := &link{Store: lease.Memory(func(s *lease.Settings) { s.Timing.Slack = time.Hour })}
	fence.Store = lease.Memory(func(s *lease.Settings) {
		s.Timing = lease.Timing{Window: 2 * time.Minute, Interval: time.Minute, Expiry: time.Hour, Slack: time.Hour}
	})
	store := lease.Fenced(inner, fence)
	held, err := store.Acquire(ctx, request("fenced", now))
	if err != nil {
		t.Fatal(err)
	}
	end := now + 120_000
	fence.down = true
	for step := int64(1); held.Through < end; step++ {
		next, err := store.Extend(ctx, held, now+30_000+step*10_000)
		if err != nil {
			t.Fatalf("extension %d while the fence is down, with %d ms of its grant left: %v", step, end-held.Through, err)
		}
		if want := min(end, now+30_000+step*10_000); next.Through != want {
			t.Fatalf("extension %d through %d; want %d", step, next.Through, want)
		}
		held = next
	}
	if fence.extensions == 0 || fence.extensions > 3 {
		t.Errorf("the fence was asked %d times; want one early attempt in its interval, and one when needed", fence.extensions)
	}
	if got, err := store.Extend(ctx, held, end+1); !errors.Is(err, errLink) {
		t.Errorf("past the fence's high water: %+v, error %v; want its error", got, err)
	}
	fence.down = false
	if got, err := store.Extend(ctx, held, end+1000); err != nil || got.Through != end+1000 {
		t.Errorf("with the fence back: %+v, error %v; want it extended", got, err)
	}
}

// An extension that the fence took and inner did not is no loss: the holder
// goes on from the grant that it knows.
func TestFencedExtensionThatOnlyTheFenceTook(t *testing.T) {
	ctx, now := t.Context(), time.Now().UnixMilli()
	inner := &link{Store: lease.Memory(lease.Window(2 * time.Minute))}
	store := lease.Fenced(inner, lease.Memory())
	if store.Timing() != lease.Memory().Timing() {
		t.Errorf("Timing = %+v; want the fence's, whose window is shorter", store.Timing())
	}
	held, err := store.Acquire(ctx, request("fenced", now))
	if err != nil {
		t.Fatal(err)
	}
	if held.Through != now+30_000 {
		t.Fatalf("Acquire through now%+d; want the fence's, now+30000", held.Through-now)
	}
	inner.down = true
	if got, err := store.Extend(ctx, held, held.Through+1000); !errors.Is(err, errLink) {
		t.Fatalf("Extend with inner down = %+v, error %v; want its error", got, err)
	}
	inner.down = false
	row, ok, err := store.Lookup(ctx, "fenced", held.Worker)
	if err != nil || !ok || row.Owner != held.Token || row.Term != held.Term || row.HighWater != held.Through {
		t.Errorf("Lookup = %+v, %v, error %v; want the row as the holder knows it, through %d", row, ok, err, held.Through)
	}
	if got, err := store.Extend(ctx, held, held.Through+1000); err != nil || got.Through != held.Through+1000 {
		t.Errorf("Extend once inner is back = %+v, error %v; want it extended", got, err)
	}
}

// A second process with the same fixed worker id is refused by the fence.
func TestFencedFixedWorkerOfAnotherProcess(t *testing.T) {
	ctx, ns := t.Context(), newNamespace()
	fence := lease.Memory()
	req := request(ns, time.Now().UnixMilli())
	req.Workers = lease.Range{Lo: 9, Hi: 9}
	if _, err := fence.Acquire(ctx, req); err != nil { // the other process
		t.Fatal(err)
	}
	_, err := lease.Fenced(lease.Fixed(9), fence).Acquire(ctx, request(ns, time.Now().UnixMilli()))
	if !errors.Is(err, lease.ErrWorkerInUse) || !errors.Is(err, lease.ErrNoWorker) || !strings.Contains(err.Error(), "fence") {
		t.Errorf("error %v; want ErrWorkerInUse and the holder's row", err)
	}
	if _, err := lease.Fixed(9).Acquire(ctx, request(ns, 1000)); err != nil {
		t.Errorf("the refused one keeps the worker id: %v", err)
	}
}

// Inner may hold rows that are free in the fence; Acquire goes on to others,
// and gives back what it passed.
func TestFencedPassesRowsThatInnerHolds(t *testing.T) {
	ctx, now := t.Context(), time.Now().UnixMilli()
	inner, fence := lease.Memory(), lease.Memory()
	for range 3 {
		req := request("fenced", now)
		req.Workers = lease.Range{Lo: 0, Hi: 2}
		if _, err := inner.Acquire(ctx, req); err != nil {
			t.Fatal(err)
		}
	}
	req := request("fenced", now)
	req.Workers = lease.Range{Lo: 0, Hi: 3}
	grant, err := lease.Fenced(inner, fence).Acquire(ctx, req)
	if err != nil || grant.Worker != 3 {
		t.Fatalf("Acquire = %+v, error %v; want worker 3, the only one that inner has free", grant, err)
	}
	rows, err := fence.(lease.Lister).List(ctx, "fenced")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.Worker != 3 && row.Owner != "" {
			t.Errorf("the fence's row %+v was not given back", row)
		}
	}
}

func TestFencedBackfillGoesToTheFence(t *testing.T) {
	if _, ok := lease.Fenced(lease.Memory(), lease.Fixed(1)).(lease.Backfiller); ok {
		t.Error("a fence without backfills gives a store with them")
	}
	fence := lease.Memory()
	store, ok := lease.Fenced(lease.Fixed(1), fence).(lease.Backfiller)
	if !ok {
		t.Fatal("a fence with backfills gives a store without them")
	}
	req := lease.BlockRequest{
		Namespace: "fenced", Layout: request("fenced", 0).Layout, Workers: lease.Range{Lo: 1008, Hi: 1008},
		FirstTick: 1, LastTick: 2, Sequences: 10,
	}
	first, err := store.ReserveBlock(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	second, err := fence.(lease.Backfiller).ReserveBlock(t.Context(), req)
	if err != nil || second.FirstSequence != first.LastSequence+1 {
		t.Errorf("the fence's own next block is %+v (error %v); want it after %+v", second, err, first)
	}
}
