package simulation

import (
	"context"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// disturb brings a fault to a node, and the next one later.
func (f *fleet) disturb(n *node) {
	if f.healed {
		return
	}
	f.after(time.Duration(f.random.ExpFloat64()*float64(f.shape.FaultEvery)), func() { f.disturb(n) })
	w := f.shape.Timing.Window
	long := f.between(0, 2*f.shape.Timing.Expiry)
	switch f.random.IntN(13) {
	case 0, 1:
		n.crash(f.between(0, 2*f.shape.Timing.Expiry))
	case 2:
		if n.process != nil {
			f.count("orderly restart")
			n.process.close()
		}
	case 3, 4:
		n.pause(long)
	case 5:
		n.clone()
	case 6:
		f.count("request path cut")
		n.cutOut = f.now + long
	case 7:
		f.count("reply path cut")
		n.cutIn = f.now + long
	case 8:
		f.count("node partitioned")
		n.cutIn, n.cutOut = f.now+long, f.now+long
	case 9:
		f.count("clock jump")
		far := f.far()
		n.clock.jump([]time.Duration{
			-5 * time.Millisecond, 5 * time.Millisecond, -f.between(0, w), f.between(0, w), -far, far,
		}[f.random.IntN(6)])
		n.correctLater(f.between(0, 4*w))
		if f.chance(0.3) {
			n.crash(f.between(0, time.Second))
		}
	case 10:
		f.count("clock drift")
		n.clock.set(n.clock.error(), int64(f.random.IntN(100_000))-50_000)
		n.correctLater(f.between(0, 20*w))
	case 11:
		f.count("clock frozen")
		n.clock.freeze()
		f.later(f.between(0, w), n.clock.thaw)
		n.correctLater(f.between(0, 4*w))
	case 12:
		f.count("clock oscillating")
		swing := f.between(time.Millisecond, 200*time.Millisecond)
		for i := range 20 {
			f.later(time.Duration(i)*swing, func() { n.clock.jump(swing); swing = -swing })
		}
		n.correctLater(30 * swing)
	}
}

// disturbStore brings a fault to the store and to the network as a whole.
func (f *fleet) disturbStore() {
	if f.healed {
		return
	}
	f.after(time.Duration(f.random.ExpFloat64()*float64(f.shape.FaultEvery)), f.disturbStore)
	expiry := f.shape.Timing.Expiry
	switch draw := f.random.IntN(6); {
	case draw == 0:
		f.count("store down")
		f.downUntil = f.now + f.between(0, expiry)
	case draw == 1:
		f.count("store hung")
		f.hungUntil = f.now + f.between(0, expiry)
	case draw == 2:
		f.count("network bad")
		f.network.faults = networkFaults{LoseRequest: 0.3, LoseReply: 0.3, Double: 0.3, Delay: 0.3, Longest: 2 * expiry}
		f.later(f.between(0, expiry), func() { f.network.faults = f.shape.Network })
	case draw == 3 && f.shape.Lossy && f.isolated == nil && f.chance(0.3):
		f.count("store wiped")
		f.server.wipe()
	case draw >= 4 && f.shape.Lossy:
		f.failover()
	case draw == 4:
		f.count("store clock jump")
		far := f.far()
		jump := []time.Duration{time.Second, -time.Second, far, -far}[f.random.IntN(4)]
		c := f.server.clock
		c.jump(jump)
		f.later(f.between(0, 2*expiry), func() { c.jump(-jump) })
	}
}

// far is a jump beyond all bounds. It is seldom an hour, which costs an hour
// of virtual time in which the rows that it poisoned are of no use.
func (f *fleet) far() time.Duration {
	if f.chance(0.02) {
		return time.Hour
	}
	return 10*time.Second + 10*f.shape.Timing.Window
}

func (n *node) crash(down time.Duration) {
	if n.process == nil {
		return
	}
	n.fleet.count("crash")
	n.process.crash()
	n.process = nil
	n.startAfter(down)
}

func (n *node) pause(span time.Duration) {
	p := n.process
	if p == nil || p.paused {
		return
	}
	n.fleet.count("pause")
	p.pause()
	n.fleet.after(span, func() {
		if !p.dead {
			p.unpause()
		}
	})
}

func (n *node) correctLater(d time.Duration) {
	n.fleet.later(d, func() { n.clock.set(n.skew(), n.clock.ppm/100) })
}

// clone starts a second process from a copy of the grant that the node's
// generator holds. It extends as its original does, chained on the high water
// that both remember. Only on a linearizable store: a failover that loses the
// original's extension lets the clone's win too, on the new primary, and no
// rule of the protocol tells them apart before their next extension.
func (n *node) clone() {
	p, f := n.process, n.fleet
	if p == nil || f.shape.Lossy {
		return
	}
	held, ok := f.checker.holding(p)
	if !ok {
		return
	}
	f.count("clone")
	twin := newProcess(n)
	for token, generation := range p.client.generations {
		twin.client.generations[token] = generation
	}
	f.clones = append(f.clones, twin)
	twin.Go(func() {
		background := context.Background()
		for range 4 {
			_ = twin.Wait(background, f.between(0, f.shape.Timing.Interval), nil)
			ctx, cancel := twin.WithTimeout(background, f.shape.Timing.Interval/2)
			// A little less than the original asks for: two copies that write the
			// same high water by chance can't be told apart by anybody.
			through := max(held.Through+1, n.clock.millis()+f.shape.Timing.Window.Milliseconds()-50)
			for f.checker.tried(p, held, through) {
				through++
			}
			grant, err := twin.client.Extend(ctx, held, through)
			cancel()
			if err != nil {
				f.count("clone lost")
				return
			}
			f.count("clone extended")
			held = grant
		}
	})
}

// holding returns the latest grant that a process was told of.
func (c *checker) holding(p *process) (lease.Grant, bool) {
	var latest *record
	for worker := range int64(c.fleet.shape.Workers) {
		for _, r := range c.grants[worker] {
			if r.process == p && (latest == nil || r.through > latest.through) {
				latest = r
			}
		}
	}
	if latest == nil {
		return lease.Grant{}, false
	}
	return lease.Grant{
		Worker: latest.worker, Term: latest.term, Token: latest.token, From: latest.from, Through: latest.through,
	}, true
}
