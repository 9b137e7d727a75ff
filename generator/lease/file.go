package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// fileTiming is short, since writing a file costs little. The expiry means
// nothing: the lock says whether the row may be taken.
var fileTiming = Timing{Window: 3 * time.Second, Interval: time.Second, Expiry: 3 * time.Second}

// fileGuard is how long a newcomer waits: the window and a second more.
const fileGuard = 4 * time.Second

// File returns a store of one worker id, whose term and high water are kept in
// the file at path: for a single machine, or for one writer on an own volume.
// The file is made at the first Acquire; its folder must be there.
//
// While a generator holds the worker id, the process keeps a lock on the file
// path.lock. A second one, in this process or in another, gets ErrWorkerInUse
// with the path and the holder's process id. The system drops the lock when
// its holder ends, however it ends. Each extension is written to a file
// beside, flushed, renamed over the old one, and the folder is flushed.
//
// It promises that no id repeats over crashes, power failures and a clock that
// was set back. Grants reach 3 s past the clock, are extended each second, and
// a newcomer waits 4 s before its first id, so that not even an older copy of
// the file, or its loss, repeats an id while the clock is right. That the
// worker id is given to no other file, the operator promises. The lock must
// work between all who could use the file: on a local disk it does, on a
// network's file system only if that passes flock on.
//
// A file that is damaged, or belongs to another worker id, namespace or
// version, is an error that wraps ErrInvalid; it is never begun anew.
func File(path string, worker int64) Store {
	absolute, err := filepath.Abs(path)
	if path == "" {
		err = fs.ErrInvalid
	}
	if err != nil {
		return &unusable{fmt.Errorf("%w: want the path of a state file, got %q: %w", ErrInvalid, path, err)}
	}
	return newFile(absolute, worker)
}

func newFile(path string, worker int64) *file {
	return &file{path: path, worker: worker, write: writeDurably}
}

// fileKey makes two stores of one path and worker id one store.
type fileKey struct {
	path   string
	worker int64
}

type file struct {
	path   string
	worker int64
	write  func(path string, content []byte) error // replaced in tests

	mu    sync.Mutex
	lock  *os.File // while a generator holds the worker id
	holds Grant    // that generator's, as it was last written for certain
}

func (f *file) Key() any { return fileKey{f.path, f.worker} }

func (f *file) Timing() Timing { return fileTiming }

// Describe says where the state is and what it rests on.
func (f *file) Describe() string {
	return fmt.Sprintf("file %s, worker %d: unique as long as no other file is given this worker id", f.path, f.worker)
}

func (f *file) Acquire(ctx context.Context, req Request) (Grant, error) {
	if err := ctx.Err(); err != nil {
		return Grant{}, fmt.Errorf("lease: file: %w", err)
	}
	if err := req.Validate(); err != nil {
		return Grant{}, err
	}
	if !req.Workers.Contains(f.worker) {
		return Grant{}, fmt.Errorf("%w: want a worker id of %v (the layout's, without those kept for backfills) for the file %s, got %d",
			ErrInvalid, req.Workers, f.path, f.worker)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock != nil {
		return Grant{}, f.inUse(os.Getpid())
	}
	lock, err := lockFile(f.path + ".lock")
	if errors.Is(err, errLocked) {
		return Grant{}, f.inUse(readHolder(f.path + ".lock"))
	}
	if err != nil {
		return Grant{}, fmt.Errorf("lease: file: lock %s.lock: %w", f.path, err)
	}
	grant, err := f.begin(req)
	if err != nil {
		_ = lock.Close()
		return Grant{}, err
	}
	f.lock, f.holds = lock, grant
	return grant, nil
}

func (f *file) inUse(pid int) error {
	holder := "this process"
	switch {
	case pid == 0:
		holder = "a process that did not say its id"
	case pid != os.Getpid():
		holder = fmt.Sprintf("process %d", pid)
	}
	return fmt.Errorf("%w: worker %d, file %s: held by %s; end it, or give this process another file and worker id",
		ErrWorkerInUse, f.worker, f.path, holder)
}

// begin takes the row while the lock is held.
func (f *file) begin(req Request) (Grant, error) {
	state, err := f.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		state = fileState{Namespace: req.Namespace, Layout: req.Layout.String(), Worker: f.worker}
	case err != nil:
		return Grant{}, err
	case state.Namespace != req.Namespace:
		return Grant{}, fmt.Errorf("%w: file %s belongs to namespace %q, got %q; give each namespace a file", ErrInvalid, f.path, state.Namespace, req.Namespace)
	case state.Layout != req.Layout.String():
		return Grant{}, &LayoutMismatchError{Namespace: req.Namespace, Recorded: state.Layout, Requested: req.Layout.String()}
	}
	// A high water within the guard is waited for anyway.
	ahead := max(req.MaxAhead, fileGuard.Milliseconds())
	if state.HighWater > req.Now+ahead {
		return Grant{}, fmt.Errorf("lease: file %s: %w", f.path, &ClockSkewError{
			HighWater: state.HighWater, StoreNow: req.Now, Allowed: time.Duration(ahead) * time.Millisecond,
		})
	}
	from := max(state.HighWater, req.Now+fileGuard.Milliseconds())
	state.Term++
	state.Owner = req.Token
	state.HighWater = max(state.HighWater, req.Now+fileTiming.Window.Milliseconds())
	if err := f.store(state); err != nil {
		return Grant{}, err
	}
	return Grant{
		Namespace: req.Namespace, Worker: f.worker, Term: state.Term, Token: req.Token,
		From: from, Through: state.HighWater, NotBefore: from, Because: "grants that an older file may lack",
	}, nil
}

func (f *file) Extend(ctx context.Context, held Grant, through int64) (Grant, error) {
	if err := ctx.Err(); err != nil {
		return Grant{}, fmt.Errorf("lease: file: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	state, err := f.owned(held)
	if err != nil {
		return Grant{}, err
	}
	if state.HighWater != held.Through {
		return Grant{}, LostError(held)
	}
	if through > held.Through {
		state.HighWater = through
		if err := f.store(state); err != nil {
			return Grant{}, err
		}
		held.Through, f.holds.Through = through, through
	}
	return held, nil
}

// Release clears the owner, which is for people to read, and drops the lock,
// even when the owner can't be cleared.
func (f *file) Release(ctx context.Context, held Grant, _ int64) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("lease: file: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	state, err := f.owned(held)
	if errors.Is(err, ErrLost) {
		return nil
	}
	if err == nil {
		state.Owner = ""
		err = f.store(state)
	}
	return errors.Join(err, f.unlock())
}

// owned returns the state if the grant holds it. When the file is not what
// this process has written under its lock, it was changed by hand or restored:
// the lock goes, so that the generator can begin anew, after the guard. (A
// high water above the one that is known was written by an extension that
// failed late.)
func (f *file) owned(held Grant) (fileState, error) {
	if f.lock == nil || held.Worker != f.worker || held.Token != f.holds.Token {
		return fileState{}, LostError(held)
	}
	state, err := f.read()
	if err != nil {
		return fileState{}, err
	}
	if state.Namespace != f.holds.Namespace || state.Term != f.holds.Term || state.Owner != f.holds.Token || state.HighWater < f.holds.Through {
		return fileState{}, errors.Join(LostError(held), f.unlock())
	}
	if held.Namespace != state.Namespace || held.Term != state.Term {
		return fileState{}, LostError(held)
	}
	return state, nil
}

func (f *file) unlock() error {
	lock := f.lock
	f.lock, f.holds = nil, Grant{}
	if lock == nil {
		return nil
	}
	return lock.Close() // which drops it
}

// Lookup reads the file. After a crash it still names its owner and shows the
// row as held, though the lock is gone and Acquire takes it at once.
func (f *file) Lookup(ctx context.Context, namespace string, worker int64) (Row, bool, error) {
	if err := ctx.Err(); err != nil {
		return Row{}, false, fmt.Errorf("lease: file: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	state, err := f.read()
	if errors.Is(err, fs.ErrNotExist) {
		return Row{}, false, nil
	}
	if err != nil || state.Namespace != namespace || state.Worker != worker {
		return Row{}, false, err
	}
	return Row{
		Worker: worker, Term: state.Term, Owner: state.Owner, HighWater: state.HighWater,
		ExpiresAt: state.HighWater, Held: state.Owner != "",
	}, true, nil
}

// List returns the store's one row, once the file is there.
func (f *file) List(ctx context.Context, namespace string) ([]Row, error) {
	row, ok, err := f.Lookup(ctx, namespace, f.worker)
	if err != nil || !ok {
		return nil, err
	}
	return []Row{row}, nil
}
