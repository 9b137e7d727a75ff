// Package leasetest holds the contract that every lease store passes.
//
//	func TestContract(t *testing.T) {
//		leasetest.Run(t, func(t *testing.T) lease.Store { return open(t) },
//			leasetest.Configured(func(t *testing.T, options ...lease.Option) lease.Store {
//				return open(t, options...)
//			}))
//	}
//
// Each case works in a namespace of its own, so open may return stores on one
// shared database. What a store can't do is said with Without and OneWorker,
// and is printed.
package leasetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// Capability is something that a store may lack by its nature.
type Capability string

// What a store may lack. The value is how it is named in the output.
const (
	// Cap is the refusal of a high water far past the store's own clock.
	Cap Capability = "a cap by the store's clock"
	// LayoutRecord is the layout kept with the namespace after all its
	// holders are gone.
	LayoutRecord Capability = "a kept layout record"
	// Namespaces is more than one namespace in one store.
	Namespaces Capability = "several namespaces"
	// StableHighWater is that Lookup shows the same high water to all, which
	// never goes down and is where the next grant starts. Grants are disjoint
	// in any case.
	StableHighWater Capability = "one high water for all"
	// Backfill is lease.Backfiller.
	Backfill Capability = "backfills"
	// List is lease.Lister.
	List Capability = "a list of rows"
)

// Option tells Run about a store.
type Option func(*suite)

// Without leaves out the cases that need a capability; the reason is printed.
// A store that reserves blocks or is a lease.Lister all the same fails.
func Without(c Capability, reason string) Option {
	return func(s *suite) { s.without[c] = reason }
}

// OneWorker says that the store always grants this worker id, and refuses a
// second holder with lease.ErrWorkerInUse.
func OneWorker(worker int64) Option {
	return func(s *suite) { s.oneWorker, s.worker = true, worker }
}

// Configured says how to open the store with options of package lease. The
// cases for lease.Workers and for the takeover of an expired row need it.
func Configured(open func(t *testing.T, options ...lease.Option) lease.Store) Option {
	return func(s *suite) { s.configured = open }
}

// Seed repeats the random histories of an earlier run; 0 means a fresh seed.
// The seed is always printed.
func Seed(seed uint64) Option {
	return func(s *suite) { s.seed = seed }
}

// Run checks the contract of lease.Store on the stores that open returns.
func Run(t *testing.T, open func(t *testing.T) lease.Store, options ...Option) {
	s := &suite{open: open, without: map[Capability]string{}}
	for _, option := range options {
		option(s)
	}
	t.Run("Key", s.testKey)
	t.Run("Grant", s.testGrant)
	t.Run("Invalid", s.testInvalid)
	t.Run("Context", s.testContext)
	t.Run("ExtendLost", s.testExtendLost)
	t.Run("Release", s.testRelease)
	t.Run("Namespaces", s.testNamespaces)
	t.Run("Layout", s.testLayout)
	t.Run("List", s.testList)
	t.Run("Bounded", s.testBounded)
	t.Run("Full", s.testFull)
	t.Run("Concurrent", s.testConcurrent)
	t.Run("Avoid", s.testAvoid)
	t.Run("MaxAhead", s.testMaxAhead)
	t.Run("Workers", s.testWorkers)
	t.Run("Expiry", s.testExpiry)
	t.Run("History", s.testHistory)
	t.Run("Backfill", s.testBackfill)
}

type suite struct {
	open       func(t *testing.T) lease.Store
	configured func(t *testing.T, options ...lease.Option) lease.Store
	without    map[Capability]string
	oneWorker  bool
	worker     int64
	seed       uint64
}

// needs skips the case when the store lacks a capability.
func (s *suite) needs(t *testing.T, c Capability) {
	t.Helper()
	if reason, ok := s.without[c]; ok {
		if has := s.has(t, c); has {
			t.Fatalf("the store has %s, yet the suite is told that it has not: %s", c, reason)
		}
		t.Skipf("left out, the store has not %s: %s", c, reason)
	}
}

// has asks the store for what it may implement. A Backfiller may refuse every
// reservation, because of how it is configured.
func (s *suite) has(t *testing.T, c Capability) (has bool) {
	switch c {
	case Backfill:
		b, able := s.open(t).(lease.Backfiller)
		if able {
			_, err := b.ReserveBlock(newContext(t), blockRequest(newNamespace(), 1, 2, 1))
			has = err == nil
		}
	case List:
		_, has = s.open(t).(lease.Lister)
	}
	return has
}

// needsManyWorkers skips the case when the store has one worker id.
func (s *suite) needsManyWorkers(t *testing.T) {
	t.Helper()
	if s.oneWorker {
		t.Skipf("left out, the store has one worker id, %d", s.worker)
	}
}

// stable reports whether Lookup shows just one high water.
func (s *suite) stable() bool {
	_, without := s.without[StableHighWater]
	return !without
}

// deadline bounds every case; it never decides one.
const deadline = 2 * time.Minute

func newContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

// newNamespace returns a namespace that nobody used before.
func newNamespace() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return "leasetest-" + hex.EncodeToString(b[:])
}

func testLayout() lease.Layout {
	return lease.Layout{EpochMillis: 1420070400000, TickMillis: 1, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}
}

func millis() int64 { return time.Now().UnixMilli() }

const hour = int64(time.Hour / time.Millisecond)

// request returns a request of the standard layout on n workers, or on the
// store's one worker, by this machine's clock.
func (s *suite) request(namespace string, n int64) lease.Request {
	workers := lease.Range{Lo: 0, Hi: n - 1}
	if s.oneWorker {
		workers = lease.Range{Lo: 0, Hi: 1007}
	}
	return lease.Request{
		Namespace: namespace, Layout: testLayout(), Workers: workers, Token: lease.NewToken(),
		Now: millis(), MaxAhead: 24 * hour, MaxLead: 10, Avoid: -1,
	}
}

func acquire(t *testing.T, ctx context.Context, store lease.Store, req lease.Request) lease.Grant {
	t.Helper()
	grant, err := store.Acquire(ctx, req)
	if err != nil {
		t.Fatalf("Acquire(now %+d ms): %v", req.Now-millis(), err)
	}
	return grant
}

func lookup(t *testing.T, ctx context.Context, store lease.Store, namespace string, worker int64) lease.Row {
	t.Helper()
	row, ok, err := store.Lookup(ctx, namespace, worker)
	if err != nil || !ok {
		t.Fatalf("Lookup(%q, %d) = ok %v, error %v; want the row", namespace, worker, ok, err)
	}
	return row
}

func release(t *testing.T, ctx context.Context, store lease.Store, held lease.Grant, used int64) {
	t.Helper()
	if err := store.Release(ctx, held, used); err != nil {
		t.Fatalf("Release(worker %d, term %d): %v", held.Worker, held.Term, err)
	}
}
