package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Fenced returns a store that leases from inner, and lets a grant reach only
// as far as a coarse grant of fence on the same worker id does. It is for a
// store that is quick and may forget, such as a Redis whose replicas are
// asynchronous, together with one that does not forget:
//
//	store := lease.Fenced(
//		redislease.New(client),
//		sqllease.New(db, sqllease.Postgres, lease.Window(10*time.Minute)))
//
// The fence's row is extended when half of its window is used up, every five
// minutes here, and its outage does no harm for as long. Give it a window that
// is many times inner's, and a table that no other generator of the namespace
// leases from without the fence: all must use both.
//
// # Why it is safe
//
// Every grant of Fenced is the part that a grant of inner and a grant of fence
// on the same worker id have in common, and both were taken for one generator
// under fresh tokens. Let two generators hold fenced grants of one worker id,
// at whatever times. Each lies within its own grant of fence. The grants of
// fence on one worker id are disjoint, by the rules of this package, so the
// fenced ones are. Nothing is asked of inner: it may lose its last writes or
// all of its rows, grant a worker id twice or lower a high water, and no id
// repeats. All that is asked of fence is what a store promises by itself.
//
// What inner adds is a short window: a generator whose memory was cloned can
// repeat at most the rest of inner's window, not of fence's, as long as inner
// keeps its rows.
//
// An extension beyond the fence's high water first extends the fence and waits
// for its reply. When that does not succeed, inner's grant ends at the fence's
// high water, and the generator runs dry there.
//
// Timing is that of the store with the shorter window, inner as a rule, and
// fence where inner's grants are unbounded. A grant's term is fence's, which
// never goes down. Lookup shows fence's high water, but to the holder how far
// its own grant goes. Backfills go to fence, if it is a Backfiller.
//
// Where inner is Fixed, Ordinal or File, fence holds the same worker id, so
// that a second process which was given it by mistake gets ErrWorkerInUse.
func Fenced(inner, fence Store) Store {
	if inner == nil || fence == nil {
		return &unusable{fmt.Errorf("%w: Fenced wants two stores, got inner %T and fence %T", ErrInvalid, inner, fence)}
	}
	f := &fenced{inner: inner, fence: fence, holds: map[string]*fenceHold{}}
	if backfiller, ok := fence.(Backfiller); ok {
		return &fencedBackfiller{fenced: f, Backfiller: backfiller}
	}
	return f
}

// fencedKey makes two stores over the same two stores one store.
type fencedKey struct{ inner, fence any }

type fenced struct {
	inner, fence Store

	mu    sync.Mutex
	holds map[string]*fenceHold // by the token of the fenced grant
}

type fencedBackfiller struct {
	*fenced
	Backfiller
}

func (f *fenced) Key() any { return fencedKey{f.inner.Key(), f.fence.Key()} }

func (f *fenced) Timing() Timing {
	inner, fence := f.inner.Timing(), f.fence.Timing()
	if inner.Window == 0 || 0 < fence.Window && fence.Window < inner.Window {
		return fence
	}
	return inner
}

// Stores returns the two stores that a lease needs.
func (f *fenced) Stores() []Store { return []Store{f.inner, f.fence} }

// Describe says what both stores are.
func (f *fenced) Describe() string {
	return fmt.Sprintf("%s; fenced by %s", describe(f.inner), describe(f.fence))
}

func describe(s Store) string {
	if d, ok := s.(Describer); ok {
		return d.Describe()
	}
	return fmt.Sprintf("%T", s)
}

func (f *fenced) Release(ctx context.Context, held Grant, used int64) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("lease: fenced: %w", err)
	}
	hold := f.holdOf(held)
	if hold == nil {
		return nil
	}
	defer hold.mu.Unlock()
	err := errors.Join(f.inner.Release(ctx, hold.inner, used), f.fence.Release(ctx, hold.fence, used))
	if err == nil {
		f.forget(held.Token)
	}
	return err
}

func (f *fenced) Lookup(ctx context.Context, namespace string, worker int64) (Row, bool, error) {
	fence, ok, err := f.fence.Lookup(ctx, namespace, worker)
	if err != nil || !ok {
		return Row{}, false, err
	}
	inner, known, err := f.inner.Lookup(ctx, namespace, worker)
	if err != nil {
		return Row{}, false, err
	}
	if !known {
		return fence, true, nil
	}
	return f.join(namespace, inner, fence), true, nil
}

// List returns the rows of the fence, and of inner what it knows of them. A
// fence that can't list gives ErrInvalid.
func (f *fenced) List(ctx context.Context, namespace string) ([]Row, error) {
	lister, ok := f.fence.(Lister)
	if !ok {
		return nil, fmt.Errorf("%w: want a fence that lists its rows, got %T", ErrInvalid, f.fence)
	}
	rows, err := lister.List(ctx, namespace)
	if err != nil {
		return nil, err
	}
	for i, fence := range rows {
		inner, known, err := f.inner.Lookup(ctx, namespace, fence.Worker)
		if err != nil {
			return nil, err
		}
		if known {
			rows[i] = f.join(namespace, inner, fence)
		}
	}
	return rows, nil
}

// join makes one row of two. A row that one of this process's generators holds
// shows its grant: that is how it settles an extension whose reply was lost.
func (f *fenced) join(namespace string, inner, fence Row) Row {
	row := fence
	row.ExpiresAt = max(inner.ExpiresAt, fence.ExpiresAt)
	row.Held = inner.Held || fence.Held
	if fence.Owner == "" {
		return row
	}
	row.Owner = inner.Owner
	hold := f.holdOf(Grant{Namespace: namespace, Worker: fence.Worker, Term: fence.Term, Token: inner.Owner})
	if hold == nil {
		return row
	}
	defer hold.mu.Unlock()
	if fence.Owner == hold.fence.Token {
		hold.settleInner(inner)
		row.HighWater = min(inner.HighWater, hold.fence.Through)
		if inner.HighWater == hold.inner.Through {
			row.HighWater = hold.granted
		}
	}
	return row
}
