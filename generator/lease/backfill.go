package lease

import "context"

// Backfiller is a store that can reserve worker ids and sequences of the past,
// for rows that are imported with ids of their own time.
//
// It keeps append-only rows (worker, first tick, last tick, first sequence,
// last sequence). Reserving inserts one row under a compare-and-swap on that
// worker's version, above every row whose ticks overlap, so that no
// (tick, worker, sequence) is ever given twice, whatever crashes.
type Backfiller interface {
	// ReserveBlock reserves up to req.Sequences sequences of every tick in
	// [FirstTick, LastTick], on one worker of req.Workers. It returns
	// ErrSequenceExhausted when no worker has any left for the whole range,
	// and ErrLayoutMismatch as Acquire does.
	ReserveBlock(ctx context.Context, req BlockRequest) (Block, error)
}

// BlockRequest is what a backfill asks of ReserveBlock.
type BlockRequest struct {
	Namespace string
	Layout    Layout
	// Workers is the range that is kept for backfills; no live lease uses it.
	Workers Range
	// FirstTick and LastTick are inclusive, in ticks since the layout's epoch,
	// rounded outwards from the wanted times.
	FirstTick, LastTick int64
	// Sequences is how many are wanted, at least 1. Fewer may be granted at
	// the end of a worker's sequence space, never none.
	Sequences int64
}

// Block is a reservation: these sequences, in each of these ticks, on this
// worker, belong to the caller alone. All bounds are inclusive.
type Block struct {
	Worker                      int64
	FirstTick, LastTick         int64
	FirstSequence, LastSequence int64
}

// NextFree returns the first sequence above every block that overlaps
// [firstTick, lastTick]. Stores that hold blocks as a list share it.
func NextFree(blocks []Block, firstTick, lastTick int64) int64 {
	var next int64
	for _, b := range blocks {
		if b.FirstTick <= lastTick && firstTick <= b.LastTick {
			next = max(next, b.LastSequence+1)
		}
	}
	return next
}

// Block returns the block of a request that begins at sequence first, as long
// as wanted or as the sequence space allows. Stores share it.
func (r BlockRequest) Block(worker, first int64) Block {
	return Block{
		Worker: worker, FirstTick: r.FirstTick, LastTick: r.LastTick,
		FirstSequence: first, LastSequence: first + min(r.Sequences, r.Layout.LastSequence()-first+1) - 1,
	}
}
