package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/world"
)

// patience is the longest pause between two calls of one caller.
const patience = 5 * time.Second

// main is what a process does: it opens a generator, again and again if need
// be, lets its callers use it, and closes it when it is asked to end.
func (p *process) main() {
	f := p.fleet
	background := world.With(context.Background(), p)
	for !p.stopping {
		ctx, cancel := p.WithTimeout(background, f.shape.guard()+f.between(5*time.Second, 30*time.Second))
		g, err := generator.Open(ctx, p.config())
		cancel()
		if err != nil {
			f.count("open refused")
			p.expect(err)
			_ = p.Wait(context.Background(), f.between(100*time.Millisecond, 3*time.Second), p.stop)
			continue
		}
		f.count("open")
		p.generator = g
		for range f.shape.Callers {
			p.Go(p.call)
		}
		if f.chance(0.2) || f.shape.Imports {
			p.Go(p.importHistory)
		}
		_ = p.Wait(context.Background(), forever, p.stop)
		if err := g.Close(background); err != nil {
			f.count("close without release")
		}
		if _, err := g.Next(context.Background()); !errors.Is(err, generator.ErrClosed) {
			f.fail(CheckClosed, "%v: Next after Close returned %v", p, err)
		}
	}
	p.node.ended(p)
}

// call is one caller of the generator.
func (p *process) call() {
	f := p.fleet
	failures := 0
	for first := true; ; first = false {
		if !first {
			// Callers that fail try less and less often, up to a pause of seconds.
			gap := time.Duration(f.random.ExpFloat64() * float64(f.shape.Gap<<min(failures, 10)))
			_ = p.Wait(context.Background(), max(time.Microsecond, min(gap, patience)), nil)
		}
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if f.chance(0.2) {
			ctx, cancel = p.WithTimeout(ctx, f.between(time.Millisecond, 3*time.Second))
		}
		began, pauses := p.Now(), p.pauses
		var err error
		switch draw := f.random.Float64(); {
		case draw < 0.75:
			err = p.next(ctx)
		case draw < 0.80:
			for range f.random.IntN(40) {
				if err = p.next(ctx); err != nil {
					break
				}
				began = p.Now()
			}
		case draw < 0.97:
			err = p.fill(ctx, 1+f.random.IntN(12))
		case draw < 0.985:
			err = p.fill(ctx, 1+f.random.IntN(600))
		default:
			err = p.generator.Ready(ctx)
		}
		cancel()
		if waited := p.Now().Sub(began); p.pauses == pauses && waited > f.shape.maxWait()+2*time.Millisecond {
			f.fail(CheckWait, "%v waited %v where MaxWait is %v", p, waited, f.shape.maxWait())
		}
		if err == nil {
			failures = 0
		} else {
			failures++
			p.expect(err)
			if errors.Is(err, generator.ErrClosed) {
				return
			}
		}
		if f.healed && p.node.issued >= healedIDs {
			p.close()
		}
	}
}

func (p *process) next(ctx context.Context) error {
	id, err := p.generator.Next(ctx)
	if err != nil {
		return err
	}
	f, layout := p.fleet, p.node.layout
	worker, word := f.checker.issued(p, id)
	if last, ok := p.last[worker]; ok && word <= last {
		f.fail(CheckOrder, "%v: Next returned word %d of worker %d after %d", p, word, worker, last)
	}
	p.last[worker] = word
	lead := layout.Decompose(id).Time.Sub(p.node.clock.now().Truncate(time.Millisecond))
	if lead > f.shape.maxLead() {
		f.fail(CheckLead, "%v: Next is %v ahead of the clock, MaxLead is %v", p, lead, f.shape.maxLead())
	}
	return nil
}

func (p *process) fill(ctx context.Context, n int) error {
	f := p.fleet
	ids := make([]generator.ID, n)
	before := make(map[int64]int64, len(p.last))
	for worker, word := range p.last {
		before[worker] = word
	}
	if err := p.generator.Fill(ctx, ids); err != nil {
		if slices.ContainsFunc(ids, func(id generator.ID) bool { return id != 0 }) {
			f.fail(CheckErrors, "%v: Fill failed with %v and left ids behind", p, err)
		}
		return err
	}
	var previous int64
	for i, id := range ids {
		worker, word := f.checker.issued(p, id)
		if last, ok := before[worker]; i == 0 && ok && word <= last {
			f.fail(CheckOrder, "%v: Fill returned word %d of worker %d after %d", p, word, worker, last)
		}
		if i > 0 && word != previous+1 {
			f.fail(CheckOrder, "%v: Fill returned word %d after %d", p, word, previous)
		}
		previous = word
		p.last[worker] = max(p.last[worker], word)
	}
	return nil
}

// expect counts an error, which must be one of those that are documented.
func (p *process) expect(err error) {
	for _, known := range []struct {
		name string
		err  error
	}{
		{"closed", generator.ErrClosed},
		{"layout mismatch", generator.ErrLayoutMismatch},
		{"clock skew", generator.ErrClockSkew},
		{"no worker", generator.ErrNoWorker},
		{"sealed", generator.ErrSealed},
		{"clock behind", generator.ErrClockBehind},
		{"burst too large", generator.ErrBurstTooLarge},
		{"sequence exhausted", generator.ErrSequenceExhausted},
		{"not started", generator.ErrNotStarted},
		{"deadline", context.DeadlineExceeded},
		{"store down", errUnavailable},
	} {
		if errors.Is(err, known.err) {
			p.fleet.count("error: " + known.name)
			return
		}
	}
	p.fleet.fail(CheckErrors, "%v: an error that no caller can tell: %v", p, err)
}

// importHistory runs a backfill over a range that live ids lie in as well.
func (p *process) importHistory() {
	f := p.fleet
	from := start.Add(f.between(0, f.now))
	span := f.between(50*time.Millisecond, 20*time.Second)
	if f.chance(0.5) {
		from = p.Now().Add(-span) // where live ids are being issued
	}
	precision := p.node.layout.Tick
	if f.chance(0.3) {
		precision = time.Second
	}
	b, err := p.generator.Backfill(context.Background(), from, from.Add(span), generator.WithPrecision(precision))
	if _, ok := p.generatorStore.(lease.Backfiller); !ok {
		if err == nil || !errors.Is(err, generator.ErrNoBackfill) {
			f.fail(CheckErrors, "%v: a backfill on a store that may lose its tail: %v", p, err)
		}
		return
	}
	if err != nil {
		p.expect(err)
		return
	}
	f.count("backfill")
	for range 20 + f.random.IntN(200) {
		at := from.Add(f.between(0, span-1)).Truncate(precision)
		if at.Before(from) {
			at = from
		}
		ctx, cancel := p.WithTimeout(context.Background(), 5*time.Second)
		id, err := b.Next(ctx, at)
		cancel()
		if err != nil {
			p.expect(err)
			if errors.Is(err, generator.ErrSequenceExhausted) {
				break
			}
		} else {
			if f.mutant != nil && f.mutant.past != nil {
				id = f.mutant.past(p, id)
			}
			f.checker.backfilled(p, id, at, precision)
		}
		if f.chance(0.2) && p.Wait(context.Background(), f.between(1, 100*time.Millisecond), p.stop) == nil && p.stopping {
			break
		}
	}
	_ = b.Close(context.Background())
}
