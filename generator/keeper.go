package generator

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
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
