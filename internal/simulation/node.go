package simulation

import (
	"log/slog"
	"slices"
	"time"

	"github.com/gormflake/gormflake/generator"
)

// healedIDs is what a node issues after the faults are healed, before it
// leaves its worker id to the next node.
const healedIDs = 20

// node is a machine: its clock outlives its processes.
type node struct {
	fleet   *fleet
	index   int
	clock   *clock
	layout  generator.Layout
	process *process // nil while none runs
	started int

	cutIn, cutOut time.Duration // until when replies and requests are lost
	stuck         time.Duration // until when it talks to an isolated primary
	issued        int           // since the faults were healed
	done          bool
}

func newProcess(n *node) *process {
	n.started++
	p := &process{fleet: n.fleet, node: n, number: n.started, stop: make(chan struct{}), last: map[int64]int64{}}
	p.client = &client{process: p, generations: map[string]int{}}
	return p
}

func (n *node) start() {
	if n.process != nil || n.done {
		return
	}
	n.process = newProcess(n)
	n.process.Go(n.process.main)
}

func (n *node) startAfter(d time.Duration) { n.fleet.after(d, n.start) }

// ended is the last that a process does in an orderly end. Whatever it began
// must be over soon.
func (n *node) ended(p *process) {
	f := n.fleet
	n.process = nil
	f.ending = append(f.ending, p)
	f.after(time.Minute, func() {
		if !p.dead && !p.paused && len(p.tasks) > 0 {
			f.fail(CheckClosed, "%v: %d of its tasks run on a minute after Close", p, len(p.tasks))
		}
		f.ending = slices.DeleteFunc(f.ending, func(o *process) bool { return o == p && len(p.tasks) == 0 })
	})
	switch {
	case !f.healed:
		n.startAfter(f.between(0, f.shape.Timing.Expiry))
	case n.issued >= healedIDs:
		n.done = true
		f.done++
	default:
		n.startAfter(f.between(0, time.Second))
	}
}

// skew is how wrong a node's clock is in ordinary times.
func (n *node) skew() time.Duration {
	most := n.fleet.shape.Skew
	return n.fleet.between(0, 2*most) - most
}

func (p *process) config() generator.Config {
	s := p.fleet.shape
	p.generatorStore = p.fleet.store(p)
	return generator.Config{
		Store:           p.generatorStore,
		Layout:          p.node.layout,
		MaxLead:         s.MaxLead,
		MaxWait:         s.MaxWait,
		MaxSkew:         s.MaxSkew,
		Clock:           p.node.clock.now,
		RollingSequence: s.Rolling,
		SwitchWorker:    s.Switch,
		Logger:          slog.New(slog.DiscardHandler),
	}
}
