package generator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// A backfill reserves firstBlock sequences of each tick at first, then twice
// as many each time, up to lastBlock: a small import burns little, a dense
// one asks the store seldom.
const (
	firstBlock = 16
	lastBlock  = 1024
)

// ErrNoBackfill says that the store or the layout has no room for backfills.
var ErrNoBackfill = errors.New("generator: no backfill")

// ErrUnsafeBlock says that a store reserved what a backfill may not use, such
// as a live worker id: it breaks the contract of lease.Backfiller.
var ErrUnsafeBlock = errors.New("generator: the store reserved an unsafe block")

// BackfillOption is a setting of a Backfill.
type BackfillOption func(*Backfill)

// WithPrecision says that the source's times are whole multiples of d, such
// as a second: ids of one time are then spread over the ticks from t up to
// t+d, in order, where one tick would soon be full. d is at least the layout's
// tick.
func WithPrecision(d time.Duration) BackfillOption {
	return func(b *Backfill) { b.precision = d }
}

// Backfill gives ids to rows of the past, so that time windows work on
// history. Its ids carry the row's own time and are unique among all ids of
// the namespace, those of other backfills included: they come from worker ids
// that no generator leases (Layout.BackfillWorkers). A Backfill is safe for
// concurrent use and remembers each tick that it has used, about 50 bytes
// apiece.
type Backfill struct {
	generator   *Generator
	store       lease.Backfiller
	from, to    time.Time
	first, last int64 // ticks, both included
	precision   time.Duration

	// turn holds one element while a call is at work: a mutex that ends with
	// a context, since the one before may be waiting for the store.
	turn   chan struct{}
	blocks []lease.Block
	// before[i] is how many sequences the blocks before i hold.
	before []int64
	used   map[int64]int64 // by tick
	// Before tick frontier.next, the ticks from frontier.first on are full.
	frontier struct{ first, next int64 }
	closed   bool
}

// Backfill begins an import of rows whose times lie in [from, to). It asks
// the store for nothing yet. The store must be a lease.Backfiller and the
// layout must have worker ids for backfills, else ErrNoBackfill.
func (g *Generator) Backfill(ctx context.Context, from, to time.Time, options ...BackfillOption) (*Backfill, error) {
	layout := g.config.Layout
	store, ok := g.config.Store.(lease.Backfiller)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case g.status.Load().closed:
		return nil, ErrClosed
	case !ok:
		return nil, fmt.Errorf("%w: a %T keeps no record of sequences; lease in SQL or Redis", ErrNoBackfill, g.config.Store)
	case layout.BackfillWorkers().Len() == 0:
		return nil, fmt.Errorf("%w: a layout of %d worker bits keeps no worker ids for it; use one of at least 4", ErrNoBackfill, layout.WorkerBits)
	case from.IsZero() || to.IsZero() || !from.Before(to):
		return nil, fmt.Errorf("%w: a backfill wants from < to, got %s and %s", ErrInvalidWindow,
			from.UTC().Format(time.RFC3339Nano), to.UTC().Format(time.RFC3339Nano))
	}
	// The range is rounded outwards to ticks, and both ends must be in the layout.
	if _, err := layout.First(from); err != nil {
		return nil, err
	}
	if _, err := layout.First(to.Add(-1)); err != nil {
		return nil, err
	}
	b := &Backfill{
		generator: g, store: store, from: from, to: to,
		first: layout.floorTick(from), last: layout.floorTick(to.Add(-1)),
		precision: layout.Tick, used: map[int64]int64{}, turn: make(chan struct{}, 1),
	}
	for _, option := range options {
		option(b)
	}
	if b.precision < layout.Tick {
		return nil, fmt.Errorf("%w: WithPrecision wants at least the layout's tick (%v), got %v", ErrInvalidConfig, layout.Tick, b.precision)
	}
	return b, nil
}

// Next returns an id whose time is the tick of t or, with WithPrecision, one of
// the ticks that follow within the precision. t must lie in the backfill's
// range, else ErrOutOfRange. ErrSequenceExhausted says that these ticks are
// full on every worker id that backfills have; nothing wraps. It asks the
// store only when the sequences reserved so far are used up. A store that
// reserves a worker id of live leases is ErrUnsafeBlock.
func (b *Backfill) Next(ctx context.Context, t time.Time) (ID, error) {
	if t.Before(b.from) || !t.Before(b.to) {
		return 0, fmt.Errorf("%w: want a time in the backfill's range, %s up to %s, got %s", ErrOutOfRange,
			b.from.UTC().Format(time.RFC3339Nano), b.to.UTC().Format(time.RFC3339Nano), t.UTC().Format(time.RFC3339Nano))
	}
	layout := b.generator.config.Layout
	first := layout.floorTick(t)
	last := min(b.last, layout.floorTick(t.Add(b.precision-1)))
	if err := b.enter(ctx); err != nil {
		return 0, err
	}
	defer b.leave()
	for {
		if b.closed {
			return 0, fmt.Errorf("%w: the backfill", ErrClosed)
		}
		if b.frontier.first != first {
			b.frontier.first, b.frontier.next = first, first
		}
		for ; b.frontier.next <= last; b.frontier.next++ {
			if id, ok := b.take(b.frontier.next); ok {
				return id, nil
			}
		}
		if err := b.reserve(ctx); err != nil {
			return 0, err
		}
		b.frontier.next = first
	}
}

// Close ends the backfill. Sequences that were reserved and not used are
// burned. It fails only when ctx ends while another call waits for the store.
func (b *Backfill) Close(ctx context.Context) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	defer b.leave()
	b.closed, b.used, b.blocks, b.before = true, nil, nil, nil
	return nil
}

// enter waits for the call before, within ctx.
func (b *Backfill) enter(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case b.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("generator: a backfill waited for another call, which waits for the store: %w", ctx.Err())
	}
}

func (b *Backfill) leave() { <-b.turn }

// take uses the next sequence of a tick that a block has.
func (b *Backfill) take(tick int64) (ID, bool) {
	n := b.used[tick]
	i := len(b.blocks) - 1
	if i < 0 || n >= b.before[i]+size(b.blocks[i]) {
		return 0, false
	}
	for b.before[i] > n {
		i--
	}
	b.used[tick] = n + 1
	layout := b.generator.config.Layout
	block := b.blocks[i]
	sequence := block.FirstSequence + n - b.before[i]
	return ID(tick<<(layout.WorkerBits+layout.SequenceBits) | block.Worker<<layout.SequenceBits | sequence), true
}

// reserve adds a block that covers the whole range.
func (b *Backfill) reserve(ctx context.Context) error {
	layout := b.generator.config.Layout
	want := min(int64(lastBlock), int64(1)<<layout.SequenceBits, int64(firstBlock)<<min(len(b.blocks), 30))
	block, err := b.store.ReserveBlock(ctx, lease.BlockRequest{
		Namespace: b.generator.config.Namespace, Layout: layout.record(), Workers: layout.BackfillWorkers(),
		FirstTick: b.first, LastTick: b.last, Sequences: want,
	})
	if err != nil {
		return err
	}
	if err := b.check(block); err != nil {
		return err
	}
	var before int64
	if i := len(b.blocks) - 1; i >= 0 {
		before = b.before[i] + size(b.blocks[i])
	}
	b.blocks, b.before = append(b.blocks, block), append(b.before, before)
	return nil
}

// check fails closed on a block that live ids or this backfill's own could
// come from too.
func (b *Backfill) check(block lease.Block) error {
	layout := b.generator.config.Layout
	workers, last := layout.BackfillWorkers(), layout.record().LastSequence()
	unsafe := func(what string) error {
		return fmt.Errorf("%w: want a worker id of %v, ticks %d to %d and sequences of 0 to %d that were not reserved before, got %+v, %s; let %T pass leasetest",
			ErrUnsafeBlock, workers, b.first, b.last, last, block, what, b.store)
	}
	switch {
	case !workers.Contains(block.Worker):
		return unsafe("whose worker id is kept for live leases or not the layout's")
	case block.FirstTick > b.first || block.LastTick < b.last:
		return unsafe("which does not cover the ticks")
	case block.FirstSequence < 0 || block.FirstSequence > block.LastSequence || block.LastSequence > last:
		return unsafe("whose sequences are not the layout's")
	}
	for _, o := range b.blocks {
		if o.Worker == block.Worker && o.FirstSequence <= block.LastSequence && block.FirstSequence <= o.LastSequence {
			return unsafe("which this backfill has already")
		}
	}
	return nil
}

func size(b lease.Block) int64 { return b.LastSequence - b.FirstSequence + 1 }
