package leasetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// testHistory runs random owners with clocks hours apart against the store,
// compares it with a model after each step, and checks at the end that no two
// grants of a worker overlap.
func (s *suite) testHistory(t *testing.T) {
	seed := s.seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d; repeat with leasetest.Seed(%d)", seed, seed)
	h := &history{
		suite: s, t: t, ctx: newContext(t), store: s.open(t), namespace: newNamespace(),
		random: rand.New(rand.NewPCG(seed, 0)), rows: map[int64]lease.Row{}, since: map[int64]time.Time{},
		workers: 4,
	}
	if h.store.Timing().Window == 0 {
		t.Skip("left out, the store's grants are unbounded")
	}
	if s.oneWorker {
		h.workers = 1
	}
	h.owners = make([]*lease.Grant, h.workers+2)
	steps := 400
	if s.oneWorker {
		steps *= 3 // one row at a time makes for fewer grants
	}
	for i := range steps {
		h.late = i > steps*3/4
		h.step()
		h.compare()
		if t.Failed() {
			t.FailNow()
		}
	}
	h.checkDisjoint()
	if len(h.grants) < 20 {
		t.Errorf("only %d grants in the whole history; want at least 20, or it shows nothing", len(h.grants))
	}
}

type history struct {
	*suite
	t         *testing.T
	ctx       context.Context
	store     lease.Store
	namespace string
	random    *rand.Rand
	workers   int
	late      bool // the last quarter of the history

	rows   map[int64]lease.Row // the model: term, owner, high water
	since  map[int64]time.Time // before the last call that put off the expiry
	owners []*lease.Grant      // what each owner believes to hold
	grants []lease.Grant       // every grant as far as it went
}

// now returns an owner's clock: hours behind, so that released rows are free
// at once, and toward the end at times ahead of the store's, which lets rows
// stay taken after their release.
func (h *history) now() int64 {
	if h.late && h.random.IntN(2) == 0 {
		return millis() + h.random.Int64N(1+h.store.Timing().Slack.Milliseconds()/4)
	}
	return millis() - 2*hour - h.random.Int64N(hour)
}

func (h *history) step() {
	i := h.random.IntN(len(h.owners))
	owner := h.owners[i]
	switch {
	case owner == nil:
		h.acquire(i)
	case h.random.IntN(3) == 0:
		h.release(i, *owner)
	case h.random.IntN(4) == 0:
		stale := *owner
		stale.Through -= 1 + h.random.Int64N(1000)
		h.extend(i, stale)
	default:
		h.extend(i, *owner)
	}
}

func (h *history) acquire(i int) {
	req := h.request(h.namespace, int64(h.workers))
	req.Now = h.now()
	begun := time.Now()
	grant, err := h.store.Acquire(h.ctx, req)
	if err != nil {
		if !errors.Is(err, lease.ErrNoWorker) && !errors.Is(err, lease.ErrWorkerInUse) {
			h.t.Errorf("Acquire: %v", err)
		}
		return
	}
	before := h.rows[grant.Worker]
	if before.Owner != "" {
		if h.oneWorker {
			h.t.Errorf("Acquire took worker %d from its owner", grant.Worker)
		}
		// Two milliseconds for clocks that are read in whole ones.
		if held := time.Since(h.since[grant.Worker]); held < h.store.Timing().Expiry-2*time.Millisecond {
			h.t.Errorf("Acquire took worker %d from its owner after %v; want at least the expiry, %v",
				grant.Worker, held, h.store.Timing().Expiry)
		}
	}
	through := max(before.HighWater, req.Now+h.store.Timing().Window.Milliseconds())
	if grant.Term != before.Term+1 || grant.From < before.HighWater || grant.Through != through || grant.Token != req.Token {
		h.t.Errorf("Acquire at %d over %+v = %+v; want the next term, from its high water on, through %d",
			req.Now, before, grant, through)
	}
	h.rows[grant.Worker] = lease.Row{Worker: grant.Worker, Term: grant.Term, Owner: grant.Token, HighWater: grant.Through}
	h.since[grant.Worker] = begun
	h.owners[i] = &grant
	h.grants = append(h.grants, grant)
}

func (h *history) extend(i int, from lease.Grant) {
	through := h.now() + h.store.Timing().Window.Milliseconds()
	row := h.rows[from.Worker]
	holds := row.Owner == from.Token && row.Term == from.Term && row.HighWater == from.Through
	begun := time.Now()
	grant, err := h.store.Extend(h.ctx, from, through)
	if !holds {
		if !errors.Is(err, lease.ErrLost) {
			h.t.Errorf("Extend of %+v while the row is %+v: error %v; want ErrLost", from, row, err)
		}
		if row.Owner != from.Token {
			h.owners[i] = nil
		}
		return
	}
	if err != nil {
		h.t.Errorf("Extend of %+v to %d: %v", from, through, err)
		return
	}
	if want := max(through, from.Through); grant.Through != want || grant.From != from.From {
		h.t.Errorf("Extend of %+v to %d = %+v; want through %d", from, through, grant, want)
	}
	row.HighWater = grant.Through
	h.rows[from.Worker] = row
	h.since[from.Worker] = begun
	h.owners[i] = &grant
	for k := range h.grants {
		if h.grants[k].Token == grant.Token {
			h.grants[k].Through = grant.Through
		}
	}
}

func (h *history) release(i int, held lease.Grant) {
	if err := h.store.Release(h.ctx, held, held.Through); err != nil {
		h.t.Errorf("Release of %+v: %v", held, err)
		return
	}
	if row := h.rows[held.Worker]; row.Owner == held.Token {
		row.Owner = ""
		h.rows[held.Worker] = row
	}
	h.owners[i] = nil
}

// compare checks every row of the store against the model, which never lets a
// term or a high water go down.
func (h *history) compare() {
	for worker, want := range h.rows {
		row, ok, err := h.store.Lookup(h.ctx, h.namespace, worker)
		if err != nil || !ok {
			h.t.Errorf("Lookup(%d) = ok %v, error %v; want the row", worker, ok, err)
			continue
		}
		same := row.Term == want.Term && row.Owner == want.Owner && row.HighWater == want.HighWater
		if !h.stable() && want.Owner == "" {
			same = row.Term == want.Term && row.Owner == want.Owner && row.HighWater >= want.HighWater
		}
		if !same {
			h.t.Errorf("Lookup(%d) = %+v; want term %d, owner %q, high water %d", worker, row, want.Term, want.Owner, want.HighWater)
		}
	}
}

func (h *history) checkDisjoint() {
	for i, a := range h.grants {
		for _, b := range h.grants[i+1:] {
			if a.Worker == b.Worker && a.From < b.Through && b.From < a.Through && a.From < a.Through && b.From < b.Through {
				h.t.Errorf("grants overlap: %+v and %+v", a, b)
			}
		}
	}
}
