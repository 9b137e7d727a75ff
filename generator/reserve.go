package generator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gormflake/gormflake/internal/blocked"
)

// handover is how long a call that blocks the lease store waits for the keeper
// even so: the store may have answered before the call came to hold what it
// needs, a moment ago.
const handover = 20 * time.Millisecond

// reserve takes n words in a row, waiting as Next and Fill say, and returns
// the first; with n == 0 it waits for one and takes none. It is the path of
// bursts and of whatever Next can't do at once.
func (g *Generator) reserve(ctx context.Context, n int64) (*binding, int64, error) {
	if err := g.checkBurst(n); err != nil {
		return nil, 0, err
	}
	patience := patience{generator: g, left: g.config.MaxWait}
	for {
		st := g.status.Load()
		b := st.binding
		if b == nil {
			if err := patience.forKeeper(ctx, st); err != nil {
				return nil, 0, err
			}
			continue
		}
		millis := g.clock.millis()
		now := g.clock.tickOf(millis)
		// In this order: whoever sees the word of a sealed binding sees its limit.
		old, limit := b.word.Load(), b.limit.Load()
		first := g.after(old, min(now, g.lastTick))
		last := first + max(0, n-1)
		switch past := last < first || last>>g.sequenceBits > g.lastTick; {
		case now > g.lastTick, past && limit > 0:
			g.counters.refusals.exhausted.Add(1)
			return nil, 0, fmt.Errorf("%w: it ended at %s; move to a layout with more time bits or a later epoch",
				ErrTimeExhausted, g.config.Layout.End().Format(time.RFC3339))
		case past || last >= limit:
			if err := patience.forKeeper(ctx, st); err != nil {
				return nil, 0, err
			}
			continue
		}
		due := last>>g.sequenceBits - g.leadTicks
		wait := g.clock.until(due, millis)
		if wait > 0 {
			behind := times(old>>g.sequenceBits-now, g.config.Layout.Tick)
			switch err := patience.allows(ctx, wait, behind); {
			case err == nil:
			case g.config.SwitchWorker && errors.Is(err, ErrClockBehind) && wait > g.config.MaxWait &&
				g.wentBack(b, old, now) && blocked.Why(ctx) == nil && g.keeper.switchFrom(b):
				if err := patience.forKeeper(ctx, st); err != nil {
					return nil, 0, err
				}
				continue
			default:
				g.counters.refusals.clock.Add(1)
				g.log.Warn(ctx, "clock_behind", "gormflake: an id was refused because the clock is behind", "error", err)
				return nil, 0, err
			}
		}
		if n > 1 {
			raise(&b.burst, last)
		}
		if n > 1 || wait <= 0 {
			if n > 0 && !b.word.CompareAndSwap(old, last) {
				continue
			}
			if wait > 0 {
				g.countWait(b, old, now, wait)
				if err := patience.reach(ctx, due, wait); err != nil {
					return nil, 0, err
				}
			}
			return b, first, nil
		}
		g.countWait(b, old, now, wait)
		if err := patience.forClock(ctx, wait); err != nil {
			return nil, 0, err
		}
	}
}

// checkBurst refuses a burst that no waiting could bring home.
func (g *Generator) checkBurst(n int64) error {
	span := times(n>>g.sequenceBits, g.config.Layout.Tick)
	allowed := max(g.config.MaxWait, g.config.MaxWait+g.config.MaxLead) // the sum may pass the largest Duration
	if window := g.config.Store.Timing().Window; window > 0 {
		allowed = min(allowed, window/2)
	}
	if n <= 1 || span <= max(allowed, g.config.Layout.Tick) {
		return nil
	}
	g.counters.refusals.burst.Add(1)
	return fmt.Errorf("%w: %d ids span %v of id time, MaxWait, MaxLead and half of the lease's window allow %v; split it, or raise MaxWait",
		ErrBurstTooLarge, n, span, allowed)
}

// patience is what one call may still wait.
type patience struct {
	generator *Generator
	left      time.Duration
	handed    time.Duration // what was waited of handover
}

// allows reports whether a wait for the clock fits into what is left of
// MaxWait and of the context's time. When it does not, the call fails at once
// instead of waiting in vain.
func (p *patience) allows(ctx context.Context, wait, behind time.Duration) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("generator: an id needs a wait of %v for the clock: %w", wait, err)
	}
	err := &ClockBehindError{Behind: behind, Wait: wait, Allowed: p.left}
	if wait > p.left {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if left := deadline.Sub(p.generator.world.Now()); wait > left {
			err.Allowed = max(0, left)
			return fmt.Errorf("%w: %w", err, context.DeadlineExceeded)
		}
	}
	return nil
}

// forClock waits for the clock.
func (p *patience) forClock(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	p.left -= wait
	if err := p.generator.world.Wait(ctx, wait, nil); err != nil {
		return fmt.Errorf("generator: stopped while waiting %v for the clock: %w", wait, err)
	}
	return nil
}

// reach waits until the clock has reached a tick, for ids that are taken
// already. The clock may go back meanwhile, or stand still; what is left of
// MaxWait covers that, and no more.
func (p *patience) reach(ctx context.Context, tick int64, wait time.Duration) error {
	clock := &p.generator.clock
	for wait > 0 {
		if err := p.forClock(ctx, wait); err != nil {
			return err
		}
		wait = clock.until(tick, clock.millis())
		if err := p.allows(ctx, wait, wait+p.generator.config.MaxLead); wait > 0 && err != nil {
			p.generator.counters.refusals.clock.Add(1)
			return err
		}
	}
	return nil
}

// forKeeper waits for the keeper to change the status. When the keeper's last
// attempt failed, there is nothing to wait for: it tries again by itself. Nor
// is there when the caller itself holds what the store needs, unless the time
// of a guard is all that is missing.
func (p *patience) forKeeper(ctx context.Context, st *status) error {
	g := p.generator
	var vain error
	if st.guard == nil {
		vain = blocked.Why(ctx)
	}
	sealed := func(why error) error {
		g.counters.refusals.sealed.Add(1)
		err := fmt.Errorf("%w: %w; it recovers by itself when the lease store answers", ErrSealed, why)
		switch {
		case vain != nil && why != nil:
			err = fmt.Errorf("%w: %w; the store's last answer: %w", ErrSealed, vain, why)
		case vain != nil:
			err = fmt.Errorf("%w: %w", ErrSealed, vain)
		case st.guard != nil:
			err = fmt.Errorf("%w: %w: %w", ErrSealed, st.guard, why)
		}
		g.log.Warn(ctx, "sealed", "gormflake: an id was refused because the lease is not renewed", "error", err)
		return err
	}
	left := p.left
	if vain != nil {
		left = min(left, handover-p.handed)
	}
	switch {
	case st.closed:
		return ErrClosed
	case st.cause != nil:
		return sealed(st.cause)
	case left <= 0:
		g.keeper.kick()
		if vain != nil {
			return sealed(nil)
		}
		if st.guard != nil {
			return sealed(fmt.Errorf("that is not within MaxWait (%v)", g.config.MaxWait))
		}
		return sealed(fmt.Errorf("no answer from the store within MaxWait (%v)", g.config.MaxWait))
	}
	g.keeper.kick()
	wait, before := left, g.world.Now()
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, deadline.Sub(before))
	}
	g.counters.waits.grant.Add(1)
	err := g.world.Wait(ctx, max(wait, 1), st.changed)
	waited := g.world.Now().Sub(before)
	g.counters.waited.Add(int64(waited))
	if vain != nil {
		p.handed += waited
	}
	// The timer may fire a moment before the clock shows all of it.
	if p.left -= waited; p.left < time.Millisecond {
		p.left = 0
	}
	if err != nil {
		return sealed(err)
	}
	return nil
}

// countWait tells a rollback from a sequence that is used up.
func (g *Generator) countWait(b *binding, old, now int64, wait time.Duration) {
	g.counters.waited.Add(int64(wait))
	if g.wentBack(b, old, now) {
		g.counters.waits.clock.Add(1)
		return
	}
	g.counters.waits.sequence.Add(1)
}

// wentBack reports whether a word is further ahead of the clock than any call
// may put it.
func (g *Generator) wentBack(b *binding, old, now int64) bool {
	ahead := g.leadTicks + 1
	if old <= b.burst.Load() {
		ahead += int64(g.config.MaxWait / g.config.Layout.Tick)
	}
	return old>>g.sequenceBits-now > ahead
}
