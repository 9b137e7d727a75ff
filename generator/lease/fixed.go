package lease

import (
	"context"
	"fmt"
	"sync"
)

// Fixed returns a store that always grants one worker id, which the operator
// promises to give to nobody else: no other process, and no process that may
// still run after its host was declared dead. 0 is a worker id as good as any.
//
// The store keeps nothing outside the process. Within it, a namespace's worker
// id is held once, over all Fixed and Ordinal stores: a second Acquire is
// ErrWorkerInUse. The process remembers up to which time ids were issued, and
// the next grant starts there. A grant to a fresh process starts MaxLead after
// its clock, and is waited for, since the process before it may have led its
// clock by as much. What no store can tell is whether the clock was set back
// while no process ran: then ids repeat.
//
// A worker id outside the layout, or among those kept for backfills, is
// ErrInvalid at Acquire.
func Fixed(worker int64) Store {
	return &fixed{worker: worker}
}

// fixedKey makes two stores of one worker id one store.
type fixedKey struct{ worker int64 }

type fixed struct {
	worker int64
	source string // where the worker id was found, for error texts
}

// fixedWorkers is what this process knows of its fixed worker ids.
var fixedWorkers = struct {
	mu      sync.Mutex
	entries map[fixedID]*fixedEntry
}{entries: map[fixedID]*fixedEntry{}}

type fixedID struct {
	namespace string
	worker    int64
}

type fixedEntry struct {
	term   int64
	token  string // the holder's; "" when nobody holds it
	layout Layout
	used   int64 // exclusive upper bound on the time of all ids of former holders
}

func (f *fixed) Key() any { return fixedKey{f.worker} }

// Timing returns zeros but for the window, which is 0: grants are Unbounded.
func (f *fixed) Timing() Timing { return Timing{} }

// Describe says whose promise makes the ids unique.
func (f *fixed) Describe() string {
	return fmt.Sprintf("fixed worker %d%s: unique as long as nobody else is given it and the clock is not set back between two processes", f.worker, f.source)
}

func (f *fixed) Acquire(ctx context.Context, req Request) (Grant, error) {
	if err := ctx.Err(); err != nil {
		return Grant{}, fmt.Errorf("lease: fixed: %w", err)
	}
	if err := req.Validate(); err != nil {
		return Grant{}, err
	}
	if !req.Workers.Contains(f.worker) {
		return Grant{}, fmt.Errorf("%w: want a fixed worker id of %v (the layout's, without those kept for backfills), got %d%s",
			ErrInvalid, req.Workers, f.worker, f.source)
	}
	fixedWorkers.mu.Lock()
	defer fixedWorkers.mu.Unlock()
	for id, other := range fixedWorkers.entries {
		if id.namespace == req.Namespace && other.token != "" && other.layout != req.Layout {
			return Grant{}, &LayoutMismatchError{Namespace: req.Namespace, Recorded: other.layout.String(), Requested: req.Layout.String()}
		}
	}
	entry := fixedWorkers.entries[fixedID{req.Namespace, f.worker}]
	grant := Grant{
		Namespace: req.Namespace, Worker: f.worker, Token: req.Token, Through: Unbounded,
	}
	switch {
	case entry == nil:
		entry = &fixedEntry{}
		fixedWorkers.entries[fixedID{req.Namespace, f.worker}] = entry
		grant.From = req.Now + req.MaxLead
		grant.NotBefore = grant.From
	case entry.token != "":
		return Grant{}, fmt.Errorf("%w: worker %d of namespace %q has a generator in this process; close it first, or share it",
			ErrWorkerInUse, f.worker, req.Namespace)
	default:
		grant.From = max(req.Now, entry.used)
	}
	entry.term++
	entry.token = req.Token
	entry.layout = req.Layout
	// Until the holder says how far it went, the start is all that is known.
	entry.used = max(entry.used, grant.From)
	grant.Term = entry.term
	return grant, nil
}

func (f *fixed) Extend(ctx context.Context, held Grant, _ int64) (Grant, error) {
	if err := ctx.Err(); err != nil {
		return Grant{}, fmt.Errorf("lease: fixed: %w", err)
	}
	fixedWorkers.mu.Lock()
	defer fixedWorkers.mu.Unlock()
	entry := fixedWorkers.entries[fixedID{held.Namespace, held.Worker}]
	if entry == nil || held.Token == "" || entry.token != held.Token || entry.term != held.Term || held.Through != Unbounded {
		return Grant{}, LostError(held)
	}
	return held, nil
}

func (f *fixed) Release(ctx context.Context, held Grant, used int64) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("lease: fixed: %w", err)
	}
	fixedWorkers.mu.Lock()
	defer fixedWorkers.mu.Unlock()
	entry := fixedWorkers.entries[fixedID{held.Namespace, held.Worker}]
	if entry != nil && entry.token == held.Token && entry.term == held.Term {
		entry.token = ""
		entry.used = max(entry.used, used)
	}
	return nil
}

// Lookup returns what this process knows. The high water of a held row is
// Unbounded, and that of a released row is how far its ids went.
func (f *fixed) Lookup(ctx context.Context, namespace string, worker int64) (Row, bool, error) {
	if err := ctx.Err(); err != nil {
		return Row{}, false, fmt.Errorf("lease: fixed: %w", err)
	}
	fixedWorkers.mu.Lock()
	defer fixedWorkers.mu.Unlock()
	entry := fixedWorkers.entries[fixedID{namespace, worker}]
	if entry == nil || worker != f.worker {
		return Row{}, false, nil
	}
	row := Row{Worker: worker, Term: entry.term, Owner: entry.token, HighWater: entry.used, ExpiresAt: entry.used}
	if entry.token != "" {
		row.HighWater, row.ExpiresAt, row.Held = Unbounded, Unbounded, true
	}
	return row, true, nil
}

// List returns the store's one row, once it was held in this process.
func (f *fixed) List(ctx context.Context, namespace string) ([]Row, error) {
	row, ok, err := f.Lookup(ctx, namespace, f.worker)
	if err != nil || !ok {
		return nil, err
	}
	return []Row{row}, nil
}
