package generator

import (
	"math"
	"sync/atomic"

	"github.com/gormflake/gormflake/generator/lease"
)

// binding is a generator's hold on one worker row. Its state is one atomic
// word, (tick << SequenceBits) | sequence, the last one issued; a full
// sequence carries into the next tick, and a clock that went back is just a
// lead. Stragglers of an earlier binding stay inside its old grant.
type binding struct {
	worker int64
	base   int64 // worker, shifted into its place
	term   int64

	_    [40]byte // word has a cache line of its own
	word atomic.Int64
	_    [56]byte

	// limit is the exclusive bound on word: the end of the confirmed grant,
	// 0 when sealed. It only grows until the seal.
	limit atomic.Int64
	// burst is the end of the farthest Fill; a word up to here is ahead of
	// the clock because of a burst, not of a rollback.
	burst atomic.Int64
}

// words turns the ends of a grant into words. Both are rounded inwards to
// whole ticks, so that two grants never share a tick.
func (l Layout) words(g lease.Grant) (from, limit int64) {
	last := l.lastTick()
	fromTick := min(last+1, max(0, ceilDiv(max(g.From, math.MinInt64/2)-l.epochMillis(), l.tickMillis())))
	throughTick := last + 1
	if g.Through != lease.Unbounded {
		throughTick = min(last+1, max(0, floorDiv(g.Through-l.epochMillis(), l.tickMillis())))
	}
	return shiftOrMax(fromTick, l.SequenceBits), shiftOrMax(throughTick, l.SequenceBits)
}

// shiftOrMax keeps 2^63 from coming about where time and sequence fill all
// 63 bits.
func shiftOrMax(tick int64, bits int) int64 {
	if tick > math.MaxInt64>>bits {
		return math.MaxInt64
	}
	return tick << bits
}

func (l Layout) bind(g lease.Grant) *binding {
	b := &binding{worker: g.Worker, base: g.Worker << l.SequenceBits, term: g.Term}
	from, limit := l.words(g)
	b.word.Store(from - 1)
	b.limit.Store(limit)
	return b
}

// spent is the word of a sealed binding. What follows it is at no limit's
// disposal.
const spent = math.MaxInt64 - 1

// seal ends the issue of ids for good and returns the exclusive bound, in
// ticks, on what was issued. Taking the word away fails the compare-and-swap
// of a call that has seen the limit and not swapped yet, so that nothing is
// issued past the bound: a store without a high water of its own lets the
// next owner begin there.
func (b *binding) seal(sequenceBits int) int64 {
	b.limit.Store(0)
	return b.word.Swap(spent)>>sequenceBits + 1
}
