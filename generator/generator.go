package generator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/ratelog"
	"github.com/gormflake/gormflake/internal/world"
)

// closeTimeout bounds Close where its context has no deadline.
const closeTimeout = 5 * time.Second

// openAttempts is how often Open asks a store that does not answer.
const openAttempts = 3

// Generator issues ids. One per process, store and namespace is enough: it is
// safe for concurrent use and takes about as long as reading the clock.
type Generator struct {
	// What Next reads comes first and never changes, but for bound.
	bound        atomic.Pointer[binding] // nil while there is no lease
	wall         bool                    // the clock is the machine's and the tick a millisecond
	rolling      bool
	sequenceBits int
	workerBits   int
	sequenceMask int64
	lastTick     int64
	leadTicks    int64
	clock        clock

	status atomic.Pointer[status] // never nil

	config   Config
	world    world.World
	keeper   *keeper
	counters counters
	log      *ratelog.Logger

	publishing sync.Mutex
	closing    sync.Once
	closeErr   error
	share      *share // nil unless it comes from Shared
}

// status is what the keeper has to say. Each change replaces it and closes
// changed of the old one.
type status struct {
	binding  *binding
	cause    error // the last failure since the last success
	failures int
	guard    error // there is a lease, and this says until when its guard lasts
	closed   bool
	changed  chan struct{}
}

// Open leases a worker id and returns a generator that keeps it, in the
// background, until Close. It waits, within ctx, for the lease and for the
// guard that some stores put before the first id. A store that refuses
// (ErrNoWorker, ErrWorkerInUse, ErrLayoutMismatch, ErrClockSkew,
// lease.ErrInvalid) is an error at once; one that does not answer is asked
// three times.
func Open(ctx context.Context, config Config) (*Generator, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	g := start(ctx, config)
	if err := g.opened(ctx); err != nil {
		closing := context.WithoutCancel(ctx)
		return nil, errors.Join(err, g.shut(closing))
	}
	return g, nil
}

// start returns a generator whose keeper is at work. config has its defaults.
func start(ctx context.Context, config Config) *Generator {
	g := &Generator{
		clock: clock{
			now:         config.Clock,
			epochMillis: config.Layout.epochMillis(),
			tickMillis:  config.Layout.tickMillis(),
		},
		wall:         config.Clock == nil && config.Layout.tickMillis() == 1,
		sequenceBits: config.Layout.SequenceBits,
		workerBits:   config.Layout.WorkerBits,
		sequenceMask: 1<<config.Layout.SequenceBits - 1,
		lastTick:     config.Layout.lastTick(),
		leadTicks:    int64(config.MaxLead / config.Layout.Tick),
		rolling:      config.RollingSequence,
		config:       config,
		log:          &ratelog.Logger{To: config.Logger},
	}
	if w, ok := world.From(ctx); ok {
		g.world = w
	} else {
		g.world = world.Real{}
	}
	g.status.Store(&status{changed: make(chan struct{})})
	g.keeper = newKeeper(g)
	g.world.Go(g.keeper.run)
	return g
}

// opened waits for the first lease.
func (g *Generator) opened(ctx context.Context) error {
	for {
		switch st := g.status.Load(); {
		case st.closed:
			return ErrClosed
		case st.binding != nil:
			return nil
		case st.cause != nil && (refused(st.cause) || st.failures >= openAttempts):
			return fmt.Errorf("%w: %w", ErrNotStarted, st.cause)
		default:
			if err := g.world.Wait(ctx, time.Hour, st.changed); err != nil {
				return fmt.Errorf("%w: waited for the lease: %w", ErrNotStarted, errors.Join(err, st.guard, st.cause))
			}
		}
	}
}

// refused reports whether a store's answer will not change by asking again
// right away.
func refused(err error) bool {
	for _, final := range []error{
		ErrNoWorker, ErrWorkerInUse, ErrLayoutMismatch, ErrClockSkew, ErrInvalidConfig, lease.ErrInvalid,
		ErrOutOfRange, ErrTimeExhausted, ErrBeforeEpoch,
	} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// Layout returns the layout of the ids.
func (g *Generator) Layout() Layout { return g.config.Layout }

// Namespace returns the id space.
func (g *Generator) Namespace() string { return g.config.Namespace }

// Store returns the lease store.
func (g *Generator) Store() lease.Store { return g.config.Store }

// Next returns an id that is larger than all that this generator has returned
// under its present worker id. It does not wait, nor look at ctx, unless the
// id would be further ahead of the clock than MaxLead, or the grant is used
// up; then it waits at most MaxWait and not past ctx's deadline. Errors:
// ErrClockBehind, ErrSealed, ErrClockSkew, ErrTimeExhausted, ErrNotStarted,
// ErrClosed, and ctx's own.
func (g *Generator) Next(ctx context.Context) (ID, error) {
	if b := g.bound.Load(); b != nil {
		var now int64
		if g.wall {
			now = wallMillis() - g.clock.epochMillis
		} else {
			now = g.clock.ticks()
		}
		for now <= g.lastTick {
			old := b.word.Load()
			next := g.after(old, now)
			if next >= b.limit.Load() || next>>(g.sequenceBits&63) > now+g.leadTicks {
				break
			}
			if b.word.CompareAndSwap(old, next) {
				return g.compose(b, next), nil
			}
		}
	}
	b, word, err := g.reserve(ctx, 1)
	if err != nil {
		return 0, err
	}
	return g.compose(b, word), nil
}

// Fill sets every element of ids, strictly increasing and, in id time, without
// a gap: no other call's ids lie between them. It is all or nothing: on an
// error ids is unchanged. It returns once the burst's end is within MaxLead of
// the clock; a burst that would wait longer than MaxWait, or that needs more
// than half of the lease's window, is ErrBurstTooLarge. Other errors as Next.
func (g *Generator) Fill(ctx context.Context, ids []ID) error {
	if len(ids) == 0 {
		return nil
	}
	b, word, err := g.reserve(ctx, int64(len(ids)))
	if err != nil {
		return err
	}
	for i := range ids {
		ids[i] = g.compose(b, word)
		word++
	}
	return nil
}

// Ready returns nil when an id can be had now, and otherwise waits for that as
// Next does, without taking one. Its errors are Next's.
func (g *Generator) Ready(ctx context.Context) error {
	_, _, err := g.reserve(ctx, 0)
	return err
}

// Close seals the generator, ends its background work and releases the worker
// id. After it Next returns ErrClosed. Without a deadline in ctx it takes at
// most 5 s; when the store does not answer by then, the worker id is free once
// its lease expires. A generator from Shared closes when every caller of
// Shared has closed it.
func (g *Generator) Close(ctx context.Context) error {
	if g.share == nil {
		return g.shut(ctx)
	}
	if !g.share.leave() {
		return nil
	}
	defer g.share.forget()
	return g.shut(ctx)
}

func (g *Generator) shut(ctx context.Context) error {
	g.closing.Do(func() {
		if _, ok := ctx.Deadline(); !ok {
			var cancel context.CancelFunc
			ctx, cancel = g.world.WithTimeout(ctx, closeTimeout)
			defer cancel()
		}
		g.closeErr = g.keeper.close(ctx)
	})
	return g.closeErr
}

// after returns the word that follows old at the tick now.
func (g *Generator) after(old, now int64) int64 {
	first := now << (g.sequenceBits & 63)
	if g.rolling && first > old {
		// Half of the sequence stays free, for more ids in this tick.
		first |= (old + 1) & (g.sequenceMask >> 1)
	}
	return max(first, old+1)
}

// compose puts the worker id between the word's tick and sequence.
func (g *Generator) compose(b *binding, word int64) ID {
	return ID((word&^g.sequenceMask)<<(g.workerBits&63) | b.base | word&g.sequenceMask)
}

// publish replaces the status; edit changes a copy of the present one.
func (g *Generator) publish(edit func(*status)) {
	g.publishing.Lock()
	defer g.publishing.Unlock()
	old := g.status.Load()
	next := *old
	next.changed = make(chan struct{})
	edit(&next)
	if next.closed {
		next.binding = nil
	}
	g.bound.Store(next.binding)
	g.status.Store(&next)
	close(old.changed)
}
