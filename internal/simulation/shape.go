package simulation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// shape is what an episode is drawn with.
type shape struct {
	Nodes, Workers int
	Layout         generator.Layout
	Timing         lease.Timing

	// Lossy stores lose their tail: at most Lag of it, and what an isolated
	// primary takes for at most Isolation. The clocks of two primaries differ
	// by at most StoreSkew.
	Lossy                     bool
	Lag, Isolation, StoreSkew time.Duration

	MaxLead, MaxWait, MaxSkew time.Duration // as in generator.Config
	Rolling, Switch           bool
	Skew                      time.Duration // of a node's clock in ordinary times

	Callers    int
	Saturated  bool          // the callers ask for more than there is
	Gap        time.Duration // mean time between two calls of one caller
	Imports    bool          // every process begins a backfill
	FaultEvery time.Duration // mean time between two faults of one node
	Network    networkFaults
}

// draw makes an episode of about that many ids.
func draw(r *rand.Rand, ids int64) shape {
	between := func(lo, hi time.Duration) time.Duration { return lo + time.Duration(r.Int64N(int64(hi-lo)+1)) }
	pick := func(of ...time.Duration) time.Duration { return of[r.IntN(len(of))] }
	s := shape{
		Nodes:   int(math.Round(3 * math.Pow(64.0/3, r.Float64()))),
		Workers: 4 + r.IntN(13),
		Layout:  layouts()[r.IntN(4)],
		Lossy:   r.IntN(2) == 0,
		MaxWait: pick(0, 0, 300*time.Millisecond, -1),
		MaxSkew: pick(0, 0, -1),
		Rolling: r.IntN(4) == 0,
		Switch:  r.IntN(4) == 0,
		Callers: 1 + r.IntN(3),
	}
	window := pick(1500*time.Millisecond, 3*time.Second, 3*time.Second, 10*time.Second, 30*time.Second)
	s.Timing = lease.Timing{Window: window, Interval: window / 3, Expiry: window + window/2, Slack: between(window/10, min(window, 5*time.Second))}
	if r.IntN(2) == 0 {
		s.Timing.Interval, s.Timing.Expiry = window/4, 2*window
	}
	s.MaxLead = pick(0, 0, -1, 50*time.Millisecond, window/4)
	s.Skew = between(0, s.Timing.Slack*3/4)
	if s.Lossy {
		s.Lag, s.Isolation, s.StoreSkew = between(100*time.Millisecond, window), between(100*time.Millisecond, window), between(0, time.Second)
	}
	s.FaultEvery = between(4*window, 20*window)
	s.Network = networkFaults{
		LoseRequest: 0.03 * r.Float64(), LoseReply: 0.05 * r.Float64(), Double: 0.05 * r.Float64(), Delay: 0.05 * r.Float64(),
		Longest: between(10*time.Millisecond, 2*s.Timing.Expiry),
	}
	if r.IntN(4) == 0 {
		s.saturate()
	}
	s.pace(ids)
	return s
}

// saturate makes the callers ask for more ids than the ticks have room for,
// so that generators run ahead of the clock as far as they may.
func (s *shape) saturate() {
	s.Saturated = true
	s.Layout = layouts()[4]
	s.MaxWait = max(0, s.MaxWait) // without a wait most calls would fail
}

// pace sets the callers' speed so that an episode lasts about 100 windows,
// which is time for faults.
func (s *shape) pace(ids int64) {
	const idsPerCall = 8
	if s.Saturated {
		s.Gap = s.Layout.Tick / 2 * idsPerCall * time.Duration(s.Callers) >> s.Layout.SequenceBits
		return
	}
	callers := float64(min(s.Nodes, s.Workers)*s.Callers) * 0.6
	gap := float64(100*s.Timing.Window) * callers * idsPerCall / float64(ids)
	s.Gap = max(time.Millisecond, min(2*time.Second, time.Duration(gap)))
}

// layouts are the usual one; one whose ticks are soon full; one of 10 ms
// ticks whose epoch is no multiple of them; one of 53 bits; and one of 80 ids
// a second.
func layouts() []generator.Layout {
	narrow, coarse, scarce := generator.Standard(), generator.Standard(), generator.Standard()
	narrow.SequenceBits = 3
	coarse.Tick, coarse.TimeBits, coarse.SequenceBits = 10*time.Millisecond, 39, 8
	coarse.Epoch = coarse.Epoch.Add(3 * time.Millisecond)
	scarce.Tick, scarce.TimeBits, scarce.SequenceBits = 100*time.Millisecond, 37, 3
	scarce.Epoch = scarce.Epoch.Add(31 * time.Millisecond)
	return []generator.Layout{generator.Standard(), narrow, coarse, generator.JavaScriptSafe(), scarce}
}

// guard is what a lossy store's newcomers wait: longer than anything that was
// granted and then lost can last.
func (s *shape) guard() time.Duration {
	if !s.Lossy {
		return 0
	}
	return s.Timing.Window + s.Timing.Slack + s.Isolation + s.Lag + s.StoreSkew + time.Millisecond
}

func (s *shape) maxLead() time.Duration { return orDefault(s.MaxLead, generator.DefaultMaxLead) }
func (s *shape) maxWait() time.Duration { return orDefault(s.MaxWait, generator.DefaultMaxWait) }

func orDefault(d, standard time.Duration) time.Duration {
	if d == 0 {
		return standard
	}
	return max(0, d)
}

// String is one line for people.
func (s *shape) String() string {
	store := "linearizable store"
	if s.Lossy {
		store = fmt.Sprintf("store that loses its tail (guard %v)", s.guard().Round(time.Millisecond))
	}
	return fmt.Sprintf("%d nodes on %d workers, %s, window %v, extended every %v, slack %v, %v, lead %v, wait %v, %d callers every %v, a fault every %v a node",
		s.Nodes, s.Workers, store, s.Timing.Window, s.Timing.Interval, s.Timing.Slack.Round(time.Millisecond), s.Layout,
		s.maxLead(), s.maxWait(), s.Callers, s.Gap.Round(time.Microsecond), s.FaultEvery.Round(time.Millisecond))
}
