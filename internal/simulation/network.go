package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// network carries requests to the store and its replies back. Each may be
// late, lost or, for requests, doubled; a lost reply is a loss after commit.
type network struct {
	fleet  *fleet
	faults networkFaults
}

type networkFaults struct {
	LoseRequest, LoseReply, Double, Delay float64 // probabilities
	Longest                               time.Duration
}

var errUnavailable = errors.New("simulation: the store is down")

// latency is mostly that of a data centre.
func (n *network) latency() time.Duration {
	d := 100*time.Microsecond + time.Duration(n.fleet.random.ExpFloat64()*float64(400*time.Microsecond))
	if n.fleet.chance(n.faults.Delay) {
		n.fleet.count("message delayed")
		d += n.fleet.between(time.Millisecond, n.faults.Longest)
	}
	return d
}

func (n *network) request(from *node, arrive func()) {
	if from.cutOut > n.fleet.now || n.fleet.chance(n.faults.LoseRequest) {
		n.fleet.count("request lost")
		return
	}
	if n.fleet.chance(n.faults.Double) {
		n.fleet.count("request doubled")
		late := n.latency() + n.fleet.between(0, n.faults.Longest)
		n.fleet.after(late, arrive)
	}
	n.fleet.after(n.latency(), arrive)
}

func (n *network) reply(to *node, arrive func()) {
	if to.cutIn > n.fleet.now || n.fleet.chance(n.faults.LoseReply) {
		n.fleet.count("reply lost")
		return
	}
	n.fleet.after(n.latency(), arrive)
}

// call has the store execute something and waits for the first reply. When
// ctx ends first, the request may still be on its way, or done.
func call[T any](ctx context.Context, p *process, execute func(*server) (T, error)) (T, error) {
	var (
		value    T
		failure  error
		answered bool
		done     = make(chan struct{})
		f        = p.fleet
	)
	answer := func(v T, err error) {
		f.network.reply(p.node, func() {
			if !answered && !p.dead {
				answered = true
				value, failure = v, err
				close(done)
				p.poll()
			}
		})
	}
	f.network.request(p.node, func() {
		f.reach(p.node, func(s *server) {
			if s == nil {
				var none T
				answer(none, errUnavailable)
				return
			}
			answer(execute(s))
		})
	})
	if err := p.Wait(ctx, forever, done); err != nil {
		answered = true
		var none T
		return none, fmt.Errorf("simulation: no reply: %w", err)
	}
	return value, failure
}
