package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// fleet is one episode: a store, a network and the nodes, in one id space.
type fleet struct {
	schedule
	current *task // the one that runs
	random  *rand.Rand
	shape   shape
	mutant  *Mutant
	only    string // the one check that counts; "" for all

	network   network
	server    *server
	isolated  *server // a primary that was replaced and does not know it
	promoted  time.Duration
	hungUntil time.Duration
	downUntil time.Duration
	acquired  int
	nodes     []*node
	clones    []*process
	checker   *checker
	counts    map[string]int64
	healed    bool
	done      int        // nodes that issued again after the faults were healed
	ending    []*process // closed, and perhaps not quite over
	violation *Violation
}

func newFleet(r *rand.Rand, s shape, m *Mutant, only string) *fleet {
	f := &fleet{random: r, shape: s, mutant: m, only: only, counts: map[string]int64{}}
	f.network = network{fleet: f, faults: s.Network}
	f.checker = newChecker(f)
	f.server = &server{
		fleet: f, clock: &clock{schedule: &f.schedule}, timing: s.Timing, guard: s.guard(),
		rows: emptyRows(s.Workers), versions: map[int64]int{},
	}
	f.server.clock.set(f.between(0, s.StoreSkew)-s.StoreSkew/2, 0)
	if f.server.guard > 0 {
		f.server.floor = f.server.clock.millis() + f.server.guard.Milliseconds()
	}
	if m != nil && m.rules != nil {
		f.server.rules = m.rules(s)
	}
	for i := range s.Nodes {
		n := &node{fleet: f, index: i, clock: &clock{schedule: &f.schedule}, layout: s.Layout}
		n.clock.set(n.skew(), 0)
		if m != nil && m.layout != nil {
			n.layout = m.layout(i, n.layout)
		}
		f.nodes = append(f.nodes, n)
		n.startAfter(f.between(0, 2*time.Second))
		f.after(f.between(0, s.FaultEvery), func() { f.disturb(n) })
	}
	f.after(f.between(0, s.FaultEvery), f.disturbStore)
	return f
}

// store is the lease.Store of a process's generator.
func (f *fleet) store(p *process) lease.Store {
	var s lease.Store = p.client
	if !f.shape.Lossy {
		s = durable{p.client}
	}
	if f.mutant != nil && f.mutant.store != nil {
		s = f.mutant.store(p, s)
	}
	return s
}

// run plays the episode: faults until that many ids are issued, or until many
// windows have passed where few calls succeed; then healing, until every node
// has issued again.
func (f *fleet) run(ids int64) *Violation {
	defer f.end()
	longest := 500 * f.shape.Timing.Window
	for f.violation == nil && f.checker.ids < ids && f.now < longest {
		f.schedule.step()
	}
	if f.violation != nil {
		return f.violation
	}
	deadline := f.now + f.heal()
	for f.violation == nil && f.done < len(f.nodes) {
		if f.now > deadline {
			f.fail(CheckLiveness, "%d of %d nodes issue again %v after all faults were healed; node %d does not",
				f.done, len(f.nodes), f.now, f.waiting())
			break
		}
		f.schedule.step()
	}
	return f.violation
}

// heal ends all faults and returns how long it may take until every node has
// had its turn: rows that a wrong clock took into the future come back first.
func (f *fleet) heal() time.Duration {
	f.healed = true
	f.network.faults = networkFaults{}
	f.hungUntil, f.downUntil, f.isolated = 0, 0, nil
	f.server.clock.set(0, 0)
	for _, clone := range f.clones {
		clone.crash()
	}
	for _, n := range f.nodes {
		n.cutIn, n.cutOut, n.stuck, n.issued = 0, 0, 0, 0
		n.clock.set(f.between(0, 200*time.Millisecond)-100*time.Millisecond, 0)
		if n.process != nil && n.process.paused {
			n.process.unpause()
		}
		n.start()
	}
	now := f.server.clock.millis()
	var poisoned time.Duration
	for _, row := range f.server.rows {
		poisoned = max(poisoned, time.Duration(max(row.HighWater, row.ExpiresAt)-now)*time.Millisecond)
	}
	t := f.shape.Timing
	turn := f.shape.guard() + t.Window + t.Slack + t.Expiry + 10*time.Second + 3*patience + healedIDs*f.shape.Gap
	turns := time.Duration(len(f.nodes)/f.shape.Workers + 2)
	return poisoned + 3*turns*turn
}

func (f *fleet) waiting() int {
	for _, n := range f.nodes {
		if !n.done {
			return n.index
		}
	}
	return -1
}

// end unwinds whatever runs, so that no coroutine is left behind.
func (f *fleet) end() {
	for _, n := range f.nodes {
		if n.process != nil {
			n.process.crash()
		}
	}
	for _, p := range f.ending {
		p.crash()
	}
	for _, clone := range f.clones {
		clone.crash()
	}
}

func (f *fleet) fail(check, format string, args ...any) {
	if f.violation == nil && (f.only == "" || f.only == check) {
		f.violation = &Violation{Check: check, Detail: fmt.Sprintf(format, args...), At: f.now}
	}
}

func (f *fleet) count(what string) { f.counts[what]++ }

// later runs a part of a fault, unless the faults are healed by then.
func (f *fleet) later(d time.Duration, do func()) {
	f.after(d, func() {
		if !f.healed {
			do()
		}
	})
}

func (f *fleet) chance(p float64) bool { return p > 0 && f.random.Float64() < p }

// between draws a duration from lo to hi.
func (f *fleet) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(f.random.Int64N(int64(hi-lo)+1))
}
