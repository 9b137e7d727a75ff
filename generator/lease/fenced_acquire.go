package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// oneWorker is a store that has one worker id to give.
type oneWorker interface{ only() int64 }

func (f *fixed) only() int64 { return f.worker }

func (f *file) only() int64 { return f.worker }

// Acquire takes the fence's row first, since it is the one that others may
// hold for long after a crash, and then the same row of inner.
func (f *fenced) Acquire(ctx context.Context, req Request) (Grant, error) {
	if err := req.Validate(); err != nil {
		return Grant{}, err
	}
	one, single := f.inner.(oneWorker)
	if single {
		if !req.Workers.Contains(one.only()) {
			return f.inner.Acquire(ctx, req) // which says what is wrong
		}
		req.Workers = Range{Lo: one.only(), Hi: one.only()}
	}
	// A few rows may be free in fence and held in inner, where inner's rows
	// expire later or generators without a fence use it by mistake. The
	// fence's are held until the end, so that each try meets another.
	const tries = 8
	var passed []Grant
	defer func() {
		for _, grant := range passed {
			f.abandon(ctx, f.fence, grant)
		}
	}()
	for {
		hold, err := f.tryRow(ctx, req)
		switch {
		case err == nil:
			f.mu.Lock()
			f.holds[req.Token] = hold
			f.mu.Unlock()
			return hold.grant(), nil
		case hold == nil && single && heldByAnother(err):
			return Grant{}, fmt.Errorf("%w: another generator holds worker %d in the fence: %w", ErrWorkerInUse, one.only(), err)
		case hold == nil || len(passed) == tries:
			return Grant{}, err
		}
		passed = append(passed, hold.fence)
	}
}

// heldByAnother tells a row that somebody holds from one that was released
// and whose time has yet to pass.
func heldByAnother(err error) bool {
	var detail *NoWorkerError
	return errors.As(err, &detail) && slices.ContainsFunc(detail.Rows, func(r Row) bool { return r.Owner != "" })
}

// tryRow tries one row. With an error it returns a hold only when the fence's
// row was taken and inner had not that worker id to give.
func (f *fenced) tryRow(ctx context.Context, req Request) (*fenceHold, error) {
	fence, err := f.fence.Acquire(ctx, req)
	if err != nil {
		return nil, err
	}
	req.Workers = Range{Lo: fence.Worker, Hi: fence.Worker}
	req.Avoid = -1
	inner, err := f.inner.Acquire(ctx, req)
	hold := &fenceHold{inner: inner, fence: fence}
	switch {
	case errors.Is(err, ErrNoWorker):
		return hold, err
	case err == nil && inner.Worker != fence.Worker:
		f.abandon(ctx, f.inner, inner)
		err = fmt.Errorf("%w: want worker %d of the inner store, got %d", ErrInvalid, fence.Worker, inner.Worker)
	}
	if err != nil {
		f.abandon(ctx, f.fence, fence)
		return nil, err
	}
	hold.granted = hold.grant().Through
	return hold, nil
}

// abandon frees a row that nobody will use; when that fails it expires. Its
// high water stays, so that nothing depends on it.
func (f *fenced) abandon(ctx context.Context, store Store, grant Grant) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = store.Release(ctx, grant, max(grant.From, grant.NotBefore))
}
