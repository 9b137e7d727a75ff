package simulation

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// process is one incarnation of a node: the world that its generator, keeper
// and callers run in. Each of these is a task, a coroutine that runs until it
// waits and then gives way; one task runs at any moment, so a run depends on
// its seed alone.
type process struct {
	fleet  *fleet
	node   *node
	number int
	client *client

	tasks  []*task
	dead   bool
	paused bool
	held   []*task // whatever came due during the pause
	pauses int

	stop      chan struct{} // closed to ask for an orderly end
	stopping  bool
	generator *generator.Generator
	// generatorStore is the client, as its generator sees it.
	generatorStore lease.Store
	last           map[int64]int64 // by worker, the largest word that was returned
}

type task struct {
	process *process
	next    func() (struct{}, bool)
	end     func()
	yield   func(struct{}) bool

	waiting bool
	queued  bool // an event that resumes it is on its way
	ctx     context.Context
	wake    <-chan struct{}
	timer   *event
	err     error
}

// crashed unwinds the tasks of a process that is dead.
type crashed struct{}

func (p *process) String() string { return fmt.Sprintf("node %d.%d", p.node.index, p.number) }

// Now is true time: timers are not what goes wrong with a machine's time.
func (p *process) Now() time.Time { return start.Add(p.fleet.now) }

// Float64 and Token are the keeper's randomness.
func (p *process) Float64() float64 { return p.fleet.random.Float64() }

func (p *process) Token() string {
	return fmt.Sprintf("node%d.%d/%016x%016x", p.node.index, p.number, p.fleet.random.Uint64(), p.fleet.random.Uint64())
}

// Go begins a task. It runs once the present one waits.
func (p *process) Go(f func()) {
	p.check()
	t := &task{process: p}
	t.next, t.end = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil && r != (crashed{}) {
				panic(r)
			}
		}()
		t.yield = yield
		f()
	})
	p.tasks = append(p.tasks, t)
	t.queue()
}

// Wait gives way to the schedule. What wakes the task is looked at after each
// step of the same process, for nothing else can have changed it.
func (p *process) Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	p.check()
	if d <= 0 {
		return ctx.Err()
	}
	t := p.fleet.current
	t.ctx, t.wake, t.err = ctx, wake, nil
	if t.ready() {
		return t.err
	}
	if d < forever {
		t.timer = p.fleet.after(d, func() {
			if !t.queued {
				t.queued = true
				t.resume()
			}
		})
	}
	t.waiting = true
	if !t.yield(struct{}{}) {
		panic(crashed{})
	}
	if t.timer != nil {
		t.timer.dead, t.timer = true, nil
	}
	return t.err
}

// WithTimeout is context.WithTimeout in virtual time.
func (p *process) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	deadline := p.Now().Add(d)
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(deadline) {
		return context.WithCancel(ctx)
	}
	inner, cancel := context.WithCancel(ctx)
	c := &timeout{Context: inner, deadline: deadline}
	timer := p.fleet.after(d, func() {
		c.passed = inner.Err() == nil
		cancel()
		p.poll()
	})
	return c, func() {
		timer.dead = true
		cancel()
	}
}

type timeout struct {
	context.Context
	deadline time.Time
	passed   bool
}

func (c *timeout) Deadline() (time.Time, bool) { return c.deadline, true }
func (c *timeout) Err() error {
	if c.passed {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// check keeps a dead process from doing anything while its tasks unwind.
func (p *process) check() {
	if p.dead {
		panic(crashed{})
	}
}

// poll queues the tasks that something has woken.
func (p *process) poll() {
	if p.dead {
		return
	}
	for _, t := range p.tasks {
		if t.waiting && !t.queued && t.ready() {
			t.queue()
		}
	}
}

// ready reports whether the task's wait is over, and sets its outcome. Where
// both the context and the wake-up are due, either may come first.
func (t *task) ready() bool {
	ended := t.ctx.Err()
	if ended != nil && t.process.fleet.random.IntN(2) == 0 {
		t.err = ended
		return true
	}
	select {
	case <-t.wake:
		t.err = nil
		return true
	default:
		t.err = ended
		return ended != nil
	}
}

func (t *task) queue() {
	t.queued = true
	t.process.fleet.after(0, t.resume)
}

// resume runs the task until it waits again.
func (t *task) resume() {
	p := t.process
	switch {
	case p.dead:
		return
	case p.paused:
		p.held = append(p.held, t)
		return
	}
	t.queued, t.waiting = false, false
	p.fleet.current = t
	_, more := t.next()
	p.fleet.current = nil
	if !more {
		p.tasks = slices.DeleteFunc(p.tasks, func(o *task) bool { return o == t })
	}
	p.poll()
}

// crash ends the process between two of its steps. Its tasks unwind without
// reaching the network.
func (p *process) crash() {
	p.dead = true
	for _, t := range p.tasks {
		t.end()
	}
	p.tasks, p.held = nil, nil
}

// pause stops the process, not its clock.
func (p *process) pause() {
	p.paused = true
	p.pauses++
}

func (p *process) unpause() {
	p.paused = false
	held := p.held
	p.held = nil
	for _, t := range held {
		p.fleet.after(0, t.resume)
	}
}

// close asks for an orderly end.
func (p *process) close() {
	if !p.stopping {
		p.stopping = true
		close(p.stop)
		p.poll()
	}
}
