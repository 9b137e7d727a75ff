package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// fenceHold is what one generator of this process holds in both stores.
type fenceHold struct {
	mu    sync.Mutex
	inner Grant
	fence Grant
	// granted is how far the holder was told that both go. It may be less than
	// they do, after an extension that only one of them took.
	granted int64
	// High waters of extensions whose outcome is unknown.
	innerUnsettled, fenceUnsettled []int64
	// next is when the fence may be asked again before it is needed.
	next time.Time
}

// grant is the part that both grants have in common.
func (h *fenceHold) grant() Grant {
	grant := h.inner
	grant.Term = h.fence.Term
	grant.From = max(h.inner.From, h.fence.From)
	grant.Through = min(h.inner.Through, h.fence.Through)
	grant.NotBefore, grant.Because = h.inner.NotBefore, h.inner.Because
	if h.fence.NotBefore > grant.NotBefore {
		grant.NotBefore, grant.Because = h.fence.NotBefore, h.fence.Because
	}
	if grant.StoreNow == 0 {
		grant.StoreNow = h.fence.StoreNow
	}
	return grant
}

// holdOf returns what the grant holds, locked; nil when it holds nothing.
func (f *fenced) holdOf(held Grant) *fenceHold {
	f.mu.Lock()
	hold := f.holds[held.Token]
	f.mu.Unlock()
	if hold == nil {
		return nil
	}
	hold.mu.Lock()
	if hold.inner.Namespace != held.Namespace || hold.inner.Worker != held.Worker || hold.fence.Term != held.Term {
		hold.mu.Unlock()
		return nil
	}
	return hold
}

func (f *fenced) forget(token string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.holds, token)
}

func (f *fenced) Extend(ctx context.Context, held Grant, through int64) (Grant, error) {
	if err := ctx.Err(); err != nil {
		return Grant{}, fmt.Errorf("lease: fenced: %w", err)
	}
	hold := f.holdOf(held)
	if hold == nil {
		return Grant{}, LostError(held)
	}
	defer hold.mu.Unlock()
	if held.Through != hold.granted {
		return Grant{}, LostError(held)
	}
	through = max(through, held.Through)
	if err := f.extendFence(ctx, hold, through); err != nil {
		if errors.Is(err, ErrLost) {
			f.forget(held.Token)
			f.abandon(ctx, f.inner, hold.inner)
		}
		return Grant{}, fmt.Errorf("lease: fenced: %w", err)
	}
	through = max(hold.inner.Through, min(through, hold.fence.Through))
	inner, err := f.inner.Extend(ctx, hold.inner, through)
	switch {
	case err == nil:
		hold.inner, hold.innerUnsettled = inner, nil
	case errors.Is(err, ErrLost) && len(hold.innerUnsettled) == 0:
		f.forget(held.Token)
		f.abandon(ctx, f.fence, hold.fence)
		return Grant{}, err
	default:
		if through > hold.inner.Through && !errors.Is(err, ErrLost) && !errors.Is(err, ErrClockSkew) {
			hold.innerUnsettled = append(hold.innerUnsettled, through)
		}
		return Grant{}, err
	}
	grant := hold.grant()
	grant.StoreNow = inner.StoreNow
	hold.granted = grant.Through
	return grant, nil
}

// settleInner adopts an extension of inner whose reply was lost, when the row
// has the owner, term and high water of the attempt.
func (h *fenceHold) settleInner(row Row) {
	if row.Owner == h.inner.Token && row.Term == h.inner.Term && slices.Contains(h.innerUnsettled, row.HighWater) {
		h.inner.Through, h.innerUnsettled = row.HighWater, nil
		h.granted = min(h.inner.Through, h.fence.Through)
	}
}

// extendFence extends the fence when through would pass it, and before that
// when half of its window is used up. An early attempt that does not succeed
// is no error; it is not repeated before the fence's interval has passed, nor
// does it take more than a part of inner's interval. A needed one is an error
// when the grant can't grow without it.
func (f *fenced) extendFence(ctx context.Context, hold *fenceHold, through int64) error {
	timing := f.fence.Timing()
	window := timing.Window.Milliseconds()
	if window == 0 || through <= hold.fence.Through-window/2 {
		return nil
	}
	needed := through > hold.fence.Through
	if !needed {
		if time.Now().Before(hold.next) {
			return nil
		}
		hold.next = time.Now().Add(timing.Interval)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(100*time.Millisecond, f.Timing().Interval/8))
		defer cancel()
	}
	// through is the caller's clock and the window of Timing.
	err := f.tryFence(ctx, hold, max(hold.fence.Through, through-f.Timing().Window.Milliseconds()+window))
	switch {
	case errors.Is(err, ErrLost):
		return err
	case needed && (errors.Is(err, ErrClockSkew) || hold.inner.Through >= hold.fence.Through):
		return err
	}
	return nil
}

// tryFence makes one attempt. If its outcome is unknown, or an earlier one has
// arrived meanwhile, it asks what became of them, and adopts one only if
// owner, term and high water are those of the attempt.
func (f *fenced) tryFence(ctx context.Context, hold *fenceHold, through int64) error {
	fence, err := f.fence.Extend(ctx, hold.fence, through)
	switch {
	case err == nil:
		hold.fence, hold.fenceUnsettled = fence, nil
		return nil
	case errors.Is(err, ErrClockSkew):
		return err
	case !errors.Is(err, ErrLost):
		hold.fenceUnsettled = append(hold.fenceUnsettled, through)
	case len(hold.fenceUnsettled) == 0:
		return err
	}
	row, ok, lookupErr := f.fence.Lookup(ctx, hold.fence.Namespace, hold.fence.Worker)
	switch {
	case lookupErr != nil:
		return fmt.Errorf("the fence's extension is not settled: %w", lookupErr)
	case !ok || row.Owner != hold.fence.Token || row.Term != hold.fence.Term:
		return LostError(hold.fence)
	case slices.Contains(hold.fenceUnsettled, row.HighWater):
		hold.fence.Through, hold.fenceUnsettled = row.HighWater, nil
		return nil
	case row.HighWater == hold.fence.Through:
		return fmt.Errorf("the fence's extension has not arrived: %v", err) // not ErrLost, which err may be
	}
	return LostError(hold.fence)
}
