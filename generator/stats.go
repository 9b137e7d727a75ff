package generator

import (
	"sync/atomic"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// Stats is a picture of a generator at one moment. Counters begin at 0 when
// the generator is opened and only grow.
type Stats struct {
	Namespace string
	State     State
	Worker    int64 // -1 without a lease
	Term      int64 // the lease's fencing number; 0 without a lease
	// HighWater is the exclusive end of the confirmed grant; zero for a grant
	// without end and without a lease.
	HighWater time.Time
	// Remaining is how far the grant reaches past the clock; 0 when it is used
	// up, the largest Duration for a grant without end.
	Remaining time.Duration
	// Lead is how far the last id is ahead of the clock; negative while no ids
	// are asked for.
	Lead time.Duration
	// Skew is this machine's clock less the store's, at the last extension.
	Skew time.Duration
	// EpochEnd is the first time that the layout can't hold.
	EpochEnd time.Time

	Rollbacks uint64        // times that the clock was seen to go back
	Waits     WaitCounts    // calls that waited, by reason
	Waited    time.Duration // time spent waiting, over all calls
	Refusals  RefusalCounts // calls that returned an error, by reason

	Acquires       uint64        // leases taken
	Losses         uint64        // leases lost to another owner
	Extends        uint64        // extensions that succeeded
	ExtendFailures uint64        // extensions that failed or whose outcome is unknown
	ExtendTime     time.Duration // time spent in extensions, over all
	LastExtend     time.Time     // when the grant was last confirmed
	// Cause is the last failure of the store since its last success, or nil.
	Cause error
}

// WaitCounts counts calls that waited, by reason.
type WaitCounts struct {
	Sequence uint64 // the ticks up to MaxLead were full
	Clock    uint64 // the clock had gone back
	Grant    uint64 // the grant was used up
}

// RefusalCounts counts calls that returned an error, by reason.
type RefusalCounts struct {
	Clock     uint64 // ErrClockBehind
	Sealed    uint64 // ErrSealed
	Burst     uint64 // ErrBurstTooLarge
	Exhausted uint64 // ErrTimeExhausted
}

// State says what a generator does.
type State string

// The states of a generator.
const (
	StateAcquiring State = "acquiring" // it has no lease and asks for one
	StateLeased    State = "leased"    // it issues ids
	StateSealed    State = "sealed"    // its grant is used up
	StateClosed    State = "closed"
)

// counters is touched only by calls that wait or fail, and by the keeper.
type counters struct {
	rollbacks atomic.Uint64
	waits     struct{ sequence, clock, grant atomic.Uint64 }
	waited    atomic.Int64
	refusals  struct{ clock, sealed, burst, exhausted atomic.Uint64 }

	acquires, losses, extends, extendFailures atomic.Uint64
	extendTime, lastExtend, skew              atomic.Int64
}

// Stats returns a picture of the generator. It is cheap and may be called at
// any time, also after Close.
func (g *Generator) Stats() Stats {
	c := &g.counters
	s := Stats{
		Namespace: g.config.Namespace,
		State:     StateAcquiring,
		Worker:    -1,
		Skew:      time.Duration(c.skew.Load()) * time.Millisecond,
		EpochEnd:  g.config.Layout.End(),
		Rollbacks: c.rollbacks.Load(),
		Waits: WaitCounts{
			Sequence: c.waits.sequence.Load(), Clock: c.waits.clock.Load(), Grant: c.waits.grant.Load(),
		},
		Waited: time.Duration(c.waited.Load()),
		Refusals: RefusalCounts{
			Clock: c.refusals.clock.Load(), Sealed: c.refusals.sealed.Load(),
			Burst: c.refusals.burst.Load(), Exhausted: c.refusals.exhausted.Load(),
		},
		Acquires: c.acquires.Load(), Losses: c.losses.Load(),
		Extends: c.extends.Load(), ExtendFailures: c.extendFailures.Load(),
		ExtendTime: time.Duration(c.extendTime.Load()),
	}
	if ms := c.lastExtend.Load(); ms != 0 {
		s.LastExtend = time.UnixMilli(ms).UTC()
	}
	st := g.status.Load()
	s.Cause = st.cause
	switch {
	case st.closed:
		s.State = StateClosed
	case st.binding != nil:
		g.bindingStats(&s, st.binding)
	}
	return s
}

func (g *Generator) bindingStats(s *Stats, b *binding) {
	tick := g.config.Layout.Tick
	now, limit := g.clock.ticks(), b.limit.Load()
	s.Worker, s.Term = b.worker, b.term
	if word := b.word.Load(); word != spent {
		s.Lead = times(word>>g.sequenceBits-now, tick)
	}
	through := g.keeper.through.Load()
	switch {
	case through == lease.Unbounded:
		s.Remaining = 1<<63 - 1
	default:
		s.HighWater = time.UnixMilli(through).UTC()
		s.Remaining = max(0, times(limit>>g.sequenceBits-now, tick))
	}
	if s.State = StateLeased; s.Remaining == 0 {
		s.State = StateSealed
	}
}

// raise makes a at least v.
func raise(a *atomic.Int64, v int64) {
	for {
		old := a.Load()
		if old >= v || a.CompareAndSwap(old, v) {
			return
		}
	}
}
