package generator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/world"
)

// The keeper asks a store that failed again after retryFirst, then after
// twice as long, up to retryLast.
const (
	retryFirst = 50 * time.Millisecond
	retryLast  = 2 * time.Second
	// attemptLeast is the least time that one statement is given.
	attemptLeast = 500 * time.Millisecond
)

// keeper holds a generator's lease in the background: it acquires, extends,
// seals what is lost, acquires again, and releases. All its state but the
// atomics belongs to its one goroutine, and after that to close.
type keeper struct {
	g      *Generator
	store  lease.Store
	timing lease.Timing

	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}
	done   chan struct{}

	grant   lease.Grant
	held    bool
	binding *binding // nil until the grant's guard is over
	// unsettled are the high waters of extensions whose outcome is unknown.
	unsettled []int64
	failures  int
	avoid     int64
	confirmed time.Time // the world's time when the grant was last confirmed

	through    atomic.Int64 // of the grant, for Stats
	switchFor  atomic.Pointer[binding]
	lastMillis int64     // the clock at the last step
	lastStep   time.Time // the world's time of it
}

func newKeeper(g *Generator) *keeper {
	k := &keeper{
		g: g, store: g.config.Store, timing: g.config.Store.Timing(),
		wake: make(chan struct{}, 1), done: make(chan struct{}), avoid: -1,
	}
	base := context.Background()
	if _, ok := g.world.(world.Real); !ok {
		base = world.With(base, g.world)
	}
	k.ctx, k.cancel = context.WithCancel(base)
	return k
}

// kick asks for a step now.
func (k *keeper) kick() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// switchFrom asks for another worker id than b's, and reports whether that is
// worth waiting for.
func (k *keeper) switchFrom(b *binding) bool {
	if k.timing.Window == 0 {
		return false
	}
	k.switchFor.Store(b)
	k.kick()
	return true
}

func (k *keeper) run() {
	defer close(k.done)
	for k.ctx.Err() == nil {
		k.watchClock()
		err := k.step()
		if k.ctx.Err() != nil {
			return
		}
		if err != nil {
			k.failures++
			k.g.log.Warn(k.ctx, "lease", "gormflake: the lease store refused or did not answer",
				"namespace", k.g.config.Namespace, "error", err, "failures", k.failures)
		} else {
			k.failures = 0
		}
		k.g.publish(func(s *status) {
			s.binding, s.cause, s.failures = k.binding, err, k.failures
			s.guard = k.guard()
		})
		k.rest(err)
	}
}

// rest waits until the next step is due. Callers that find no id ask for one
// sooner, and all of them again whenever the status changes: the store is
// asked only where that can help them.
func (k *keeper) rest(err error) {
	until := k.g.world.Now().Add(k.pause(err))
	for {
		left := until.Sub(k.g.world.Now())
		if left <= 0 || k.ctx.Err() != nil {
			return
		}
		_ = k.g.world.Wait(k.ctx, left, k.wake)
		if err == nil && k.urgent() {
			return
		}
	}
}

// urgent reports whether a step that was asked for brings anything.
func (k *keeper) urgent() bool {
	switch b := k.switchFor.Load(); {
	case b != nil && b == k.binding, !k.held:
		return true
	case k.binding == nil:
		return k.g.clock.millis() >= k.grant.NotBefore
	}
	return k.gains()
}

// gains reports whether an extension would raise the high water by a tenth of
// an interval or more.
func (k *keeper) gains() bool {
	gain := k.g.clock.millis() + k.timing.Window.Milliseconds() - k.grant.Through
	return k.timing.Window > 0 && gain >= k.timing.Interval.Milliseconds()/10
}

// stale reports whether the row wants an extension.
func (k *keeper) stale() bool {
	return k.failures > 0 || k.gains() || k.g.world.Now().Sub(k.confirmed) >= k.timing.Interval/2
}

// step does whatever is due: one statement of the store in the steady state.
func (k *keeper) step() error {
	if b := k.switchFor.Swap(nil); b != nil && b == k.binding {
		k.giveUp()
	}
	if !k.held {
		if err := k.acquire(); err != nil {
			return err
		}
		return k.bind()
	}
	if k.timing.Window > 0 && k.stale() {
		if err := k.extend(); err != nil {
			return err
		}
		if !k.held {
			// Lost: take another row at once, the old one is sealed.
			if err := k.acquire(); err != nil {
				return err
			}
		}
	}
	return k.bind()
}

// pause is the time until the next step is due.
func (k *keeper) pause(err error) time.Duration {
	jitter := 0.9 + 0.2*k.random()
	if err != nil {
		backoff := min(retryLast, retryFirst<<min(k.failures-1, 10))
		if k.timing.Interval > 0 {
			backoff = min(backoff, k.timing.Interval)
		}
		return time.Duration(float64(backoff) * jitter)
	}
	next := time.Duration(math.MaxInt64)
	if k.timing.Window > 0 {
		next = time.Duration(float64(k.timing.Interval) * jitter)
	}
	if k.binding == nil && k.held {
		// The guard ends before the next extension.
		guard := time.Duration(k.grant.NotBefore-k.g.clock.millis()) * time.Millisecond
		next = min(next, max(time.Millisecond, guard))
	}
	return next
}

// guard says until when the guard of a grant lasts, and is nil without one.
func (k *keeper) guard() error {
	if !k.held || k.binding != nil {
		return nil
	}
	because := k.grant.Because
	if because == "" {
		because = "ids of former owners"
	}
	return fmt.Errorf("generator: worker %d is leased and its first id is due at %s; the store waits out %s", k.grant.Worker,
		time.UnixMilli(k.grant.NotBefore).UTC().Format("2006-01-02T15:04:05.000Z"), because)
}

// random is drawn from the world where that has a source, so that simulations
// can be replayed.
func (k *keeper) random() float64 {
	if w, ok := k.g.world.(interface{ Float64() float64 }); ok {
		return w.Float64()
	}
	return rand.Float64()
}

// token is drawn likewise.
func (k *keeper) token() string {
	if w, ok := k.g.world.(interface{ Token() string }); ok {
		return w.Token()
	}
	return lease.NewToken()
}

// attempt gives one statement half an interval, so that a store that hangs is
// noticed long before the window is used up.
func (k *keeper) attempt() (context.Context, context.CancelFunc) {
	limit := 5 * time.Second
	if k.timing.Interval > 0 {
		limit = max(attemptLeast, min(limit, k.timing.Interval/2))
	}
	return k.g.world.WithTimeout(k.ctx, limit)
}

func (k *keeper) acquire() error {
	ctx, cancel := k.attempt()
	defer cancel()
	c := &k.g.config
	now := k.g.clock.millis()
	if tick := k.g.clock.ticks(); tick < 0 {
		return fmt.Errorf("%w: the clock shows %s, the epoch is %s; correct the clock", ErrBeforeEpoch,
			time.UnixMilli(now).UTC().Format(time.RFC3339), c.Layout.Epoch.UTC().Format(time.RFC3339))
	} else if tick > k.g.lastTick {
		return fmt.Errorf("%w: the clock shows %s, the layout ends at %s", ErrTimeExhausted,
			time.UnixMilli(now).UTC().Format(time.RFC3339), c.Layout.End().Format(time.RFC3339))
	}
	grant, err := k.store.Acquire(ctx, lease.Request{
		Namespace: c.Namespace,
		Layout:    c.Layout.record(),
		Workers:   c.Layout.LiveWorkers(),
		Token:     k.token(), // a fresh one: an acquire whose reply is lost is never adopted
		Now:       now,
		MaxAhead:  c.MaxLead.Milliseconds(),
		MaxLead:   c.MaxLead.Milliseconds(),
		Avoid:     k.avoid,
	})
	if err != nil {
		return err
	}
	if !c.Layout.LiveWorkers().Contains(grant.Worker) {
		return errors.Join(&RangeError{Field: "worker", Value: grant.Worker, Max: c.Layout.LiveWorkers().Hi}, k.release(ctx, grant, 0))
	}
	if err := k.checkSkew(now, grant.StoreNow); err != nil {
		return errors.Join(err, k.release(ctx, grant, 0))
	}
	k.grant, k.held, k.unsettled, k.avoid = grant, true, nil, -1
	k.confirmed = k.g.world.Now()
	k.through.Store(grant.Through)
	k.g.counters.acquires.Add(1)
	k.g.counters.lastExtend.Store(now)
	if wait := time.Duration(grant.NotBefore-now) * time.Millisecond; grant.NotBefore != 0 && wait > c.MaxWait {
		c.Logger.InfoContext(k.ctx, "gormflake: the first id of a new lease waits", "namespace", c.Namespace,
			"worker", grant.Worker, "wait", wait, "because_of", grant.Because)
	}
	return nil
}

// bind makes the grant usable once its guard is over, and raises the limit of
// a binding that is in use.
func (k *keeper) bind() error {
	if !k.held {
		return nil
	}
	if k.binding == nil {
		if k.grant.NotBefore != 0 && k.g.clock.millis() < k.grant.NotBefore {
			return nil
		}
		k.binding = k.g.config.Layout.bind(k.grant)
		return nil
	}
	_, limit := k.g.config.Layout.words(k.grant)
	k.binding.limit.Store(limit)
	return nil
}

func (k *keeper) extend() error {
	ctx, cancel := k.attempt()
	defer cancel()
	before, began := k.g.clock.millis(), k.g.world.Now()
	through := max(k.grant.Through, before+k.timing.Window.Milliseconds())
	grant, err := k.store.Extend(ctx, k.grant, through)
	k.g.counters.extendTime.Add(int64(k.g.world.Now().Sub(began)))
	switch {
	case err == nil:
	case errors.Is(err, ErrClockSkew):
		// Refused for certain. Ids of a clock that is so far off are unique
		// still, but out of order: none are issued until it is right.
		k.suspend()
	case errors.Is(err, lease.ErrLost):
		if grant, err = k.settle(ctx); err != nil && errors.Is(err, lease.ErrLost) {
			k.lose()
			return nil
		}
	default:
		k.unsettled = append(k.unsettled, through)
		if settled, lookupErr := k.settle(ctx); lookupErr == nil {
			grant, err = settled, nil
		}
	}
	if err != nil {
		k.g.counters.extendFailures.Add(1)
		return err
	}
	k.grant.Through, k.unsettled = grant.Through, nil
	k.confirmed = k.g.world.Now()
	k.through.Store(grant.Through)
	k.g.counters.extends.Add(1)
	k.g.counters.lastExtend.Store(k.g.clock.millis())
	if err := k.checkSkew(before, grant.StoreNow); err != nil {
		k.suspend()
		return err
	}
	return nil
}

// settle finds out what became of extensions whose replies were lost. One is
// adopted only if owner, term and high water all are those of an attempt of
// ours. ErrLost says that the row is somebody else's, any other error that
// nothing is known yet.
func (k *keeper) settle(ctx context.Context) (lease.Grant, error) {
	if len(k.unsettled) == 0 {
		return lease.Grant{}, lease.ErrLost
	}
	row, ok, err := k.store.Lookup(ctx, k.grant.Namespace, k.grant.Worker)
	switch {
	case err != nil:
		return lease.Grant{}, err
	case !ok || row.Owner != k.grant.Token || row.Term != k.grant.Term:
		return lease.Grant{}, lease.ErrLost
	case slices.Contains(k.unsettled, row.HighWater):
		grant := k.grant
		grant.Through, grant.StoreNow = row.HighWater, 0
		return grant, nil
	case row.HighWater == k.grant.Through:
		return lease.Grant{}, errors.New("generator: the extension has not arrived")
	}
	return lease.Grant{}, lease.ErrLost
}

// suspend stops the issue of ids without giving up the row.
func (k *keeper) suspend() {
	if k.binding != nil {
		k.binding.limit.Store(0)
	}
}

// lose seals what is bound. The row is another's by now.
func (k *keeper) lose() {
	k.g.counters.losses.Add(1)
	k.g.log.Warn(k.ctx, "lost", "gormflake: the lease was lost to another owner; taking another worker id",
		"namespace", k.grant.Namespace, "worker", k.grant.Worker, "term", k.grant.Term)
	k.unbind()
	k.g.publish(func(s *status) { s.binding, s.cause, s.guard = nil, nil, nil })
}

// giveUp releases a row whose ids are too far ahead of the clock, to take
// another one.
func (k *keeper) giveUp() {
	grant := k.grant
	used := k.unbind()
	k.avoid = grant.Worker
	k.g.publish(func(s *status) { s.binding, s.cause, s.guard = nil, nil, nil })
	ctx, cancel := k.attempt()
	defer cancel()
	_ = k.release(ctx, grant, used) // else it expires
}

// unbind seals and forgets the grant, and returns the exclusive bound on the
// time of the ids that were issued under it; 0 for none.
func (k *keeper) unbind() (used int64) {
	if b := k.binding; b != nil {
		tick := b.seal(k.g.sequenceBits)
		used = k.g.clock.epochMillis + tick*k.g.clock.tickMillis
	}
	k.binding, k.held, k.unsettled = nil, false, nil
	k.through.Store(0)
	return used
}

func (k *keeper) release(ctx context.Context, grant lease.Grant, used int64) error {
	if err := k.store.Release(ctx, grant, used); err != nil {
		return fmt.Errorf("generator: worker %d of %q was not released, it is free once its lease expires: %w",
			grant.Worker, grant.Namespace, err)
	}
	return nil
}

// close ends the background work, then releases. It seals first, so that no
// id is issued once the row is free.
func (k *keeper) close(ctx context.Context) error {
	if b := k.g.bound.Load(); b != nil {
		b.limit.Store(0)
	}
	k.cancel()
	k.kick()
	err := k.g.world.Wait(ctx, math.MaxInt64, k.done)
	if err == nil {
		err = ctx.Err()
	}
	k.g.publish(func(s *status) { s.closed = true })
	if err != nil {
		k.g.world.Go(k.finish)
		return fmt.Errorf("generator: the lease was not released in time, which goes on in the background; failing that, the worker id is free once the lease expires: %w", err)
	}
	return k.letGo(ctx)
}

// finish releases after a Close that could not wait. A fixed worker id would
// stay in use for as long as the process lives.
func (k *keeper) finish() {
	ctx, cancel := k.g.world.WithTimeout(context.WithoutCancel(k.ctx), closeTimeout)
	defer cancel()
	if k.g.world.Wait(ctx, math.MaxInt64, k.done) == nil {
		_ = k.letGo(ctx)
	}
}

// letGo seals and releases. The background work has ended.
func (k *keeper) letGo(ctx context.Context) error {
	held, grant := k.held, k.grant
	used := k.unbind()
	if !held {
		return nil
	}
	return k.release(ctx, grant, used)
}

// checkSkew compares the clock, read before the statement and now, with the
// store's clock during it.
func (k *keeper) checkSkew(before, storeNow int64) error {
	if storeNow == 0 {
		return nil
	}
	after := k.g.clock.millis()
	k.g.counters.skew.Store(before + (after-before)/2 - storeNow)
	limit := k.g.config.MaxSkew
	if limit < 0 {
		return nil
	}
	if ms := limit.Milliseconds(); storeNow < min(before, after)-ms || storeNow > max(before, after)+ms {
		return fmt.Errorf("%w: want at most %v, the clock shows %s, the store's %s; correct the clock that is wrong or raise MaxSkew",
			ErrClockSkew, limit, time.UnixMilli(before).UTC().Format(time.RFC3339Nano), time.UnixMilli(storeNow).UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// rollbackNoise is what a clock that is being slewed may lose between two
// steps.
const rollbackNoise = 5 * time.Millisecond

// watchClock counts rollbacks: between two steps the wall clock should move
// as far as the timers do.
func (k *keeper) watchClock() {
	now, step := k.g.clock.millis(), k.g.world.Now()
	if !k.lastStep.IsZero() {
		elapsed := step.Sub(k.lastStep)
		moved := time.Duration(now-k.lastMillis) * time.Millisecond
		if back := elapsed - moved; back > rollbackNoise+elapsed/1000 {
			k.g.counters.rollbacks.Add(1)
			k.g.log.Warn(k.ctx, "rollback", "gormflake: the clock went back", "by", back)
		}
	}
	k.lastMillis, k.lastStep = now, step
}
