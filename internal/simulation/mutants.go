package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// Mutant is a fault in the protocol itself, which the simulation must catch.
// Mutants change the store, or stand between a generator and the store: the
// generator's code has no switches for them.
type Mutant struct {
	Name string
	What string

	shape  func(*shape) // makes episodes that can show it
	rules  func(shape) rules
	store  func(*process, lease.Store) lease.Store
	layout func(node int, l generator.Layout) generator.Layout
	past   func(*process, generator.ID) generator.ID // what a backfill returned
}

// Mutants returns all of them.
func Mutants() []Mutant {
	linearizable := func(s *shape) { s.Lossy = false }
	// contended rows change hands all the time, and their ids run ahead to the
	// very end of a grant.
	contended := func(s *shape) {
		s.Lossy, s.Nodes, s.Workers = false, 20, 4
		s.saturate()
		s.Timing = lease.Timing{Window: 3 * time.Second, Interval: time.Second, Expiry: 4500 * time.Millisecond, Slack: 3 * time.Second}
		s.Skew, s.MaxLead, s.MaxWait = 2*time.Second, s.Timing.Window/4, 0
		s.FaultEvery = 3 * s.Timing.Window
	}
	return []Mutant{
		{
			Name: "successor-starts-at-now", What: "a successor's grant begins at its own clock instead of at the high water",
			shape: contended,
			store: func(_ *process, s lease.Store) lease.Store { return startsAtNow{s} },
		},
		{
			Name: "extend-without-token", What: "an extension asks for neither owner, term nor high water",
			shape: linearizable,
			store: func(_ *process, s lease.Store) lease.Store { return withoutToken{s} },
		},
		{
			Name: "release-lowers-high-water", What: "a release sets the high water to the store's clock",
			shape: contended,
			rules: func(shape) rules { return rules{releaseLowers: true} },
		},
		{
			Name: "publish-before-reply", What: "a limit is published when the extension is sent, before its reply",
			shape: linearizable,
			store: func(p *process, s lease.Store) lease.Store { return &publishesEarly{Store: s, process: p} },
		},
		{
			Name: "lead-instead-of-waiting", What: "after a loss, newcomers lead the clock by the guard instead of waiting for it",
			shape: func(s *shape) {
				s.Lossy, s.MaxSkew = true, -1
				s.Isolation, s.Lag = max(s.Isolation, s.Timing.Window/2), max(s.Lag, s.Timing.Window/2)
				s.StoreSkew = max(s.StoreSkew, 100*time.Millisecond)
			},
			rules: func(s shape) rules { return rules{capLifted: 2 * s.guard()} },
			store: func(p *process, s lease.Store) lease.Store { return &leads{Store: s, process: p} },
		},
		{
			Name: "live-lease-on-backfill-worker", What: "backfills and live leases share worker ids",
			shape: func(s *shape) { s.Lossy, s.Imports = false, true },
			store: func(p *process, s lease.Store) lease.Store { return sharesWorkers{s.(durable)} },
			past:  revealWorker,
		},
		{
			Name: "two-layouts", What: "half of the nodes count from a later epoch, and the store does not compare layouts",
			shape: linearizable,
			layout: func(node int, l generator.Layout) generator.Layout {
				if node%2 == 1 {
					l.Epoch = l.Epoch.Add(20 * time.Second)
				}
				return l
			},
			store: func(p *process, s lease.Store) lease.Store { return forgetsLayout{s, p} },
		},
		{
			Name: "grants-share-tick", What: "the ends of a grant are rounded outwards to whole ticks",
			shape: contended,
			store: func(p *process, s lease.Store) lease.Store { return &sharesTicks{Store: s, process: p} },
		},
	}
}

type startsAtNow struct{ lease.Store }

func (s startsAtNow) Acquire(ctx context.Context, req lease.Request) (lease.Grant, error) {
	grant, err := s.Store.Acquire(ctx, req)
	grant.From = req.Now
	return grant, err
}

type withoutToken struct{ lease.Store }

func (s withoutToken) Extend(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
	row, ok, err := s.Lookup(ctx, held.Namespace, held.Worker)
	if err != nil || !ok {
		return lease.Grant{}, errors.Join(err, lease.ErrLost)
	}
	present := held
	present.Token, present.Term, present.Through = row.Owner, row.Term, row.HighWater
	grant, err := s.Store.Extend(ctx, present, max(through, row.HighWater))
	held.Through, held.StoreNow = grant.Through, grant.StoreNow
	return held, err
}

// publishesEarly sends the extension and lets the generator go on at once. It
// learns of a lost row at the next extension.
type publishesEarly struct {
	lease.Store
	process   *process
	confirmed lease.Grant
	busy      bool
	lost      error
}

func (s *publishesEarly) Extend(_ context.Context, held lease.Grant, through int64) (lease.Grant, error) {
	if s.confirmed.Token != held.Token {
		s.confirmed, s.lost, s.busy = held, nil, false
	}
	if s.lost != nil {
		return lease.Grant{}, s.lost
	}
	if !s.busy {
		s.busy = true
		s.process.Go(func() {
			ctx, cancel := s.process.WithTimeout(context.Background(), s.Timing().Interval/2)
			defer cancel()
			from := s.confirmed
			grant, err := s.Store.Extend(ctx, from, through)
			if s.confirmed.Token != from.Token {
				return
			}
			s.busy = false
			switch {
			case err == nil:
				s.confirmed = grant
			case errors.Is(err, lease.ErrLost):
				s.lost = err
			}
		})
	}
	held.Through, held.StoreNow = through, 0
	return held, nil
}

// leads takes a newcomer's wait away and moves its clock to the wait's end
// instead.
type leads struct {
	lease.Store
	process *process
}

func (s *leads) Acquire(ctx context.Context, req lease.Request) (lease.Grant, error) {
	grant, err := s.Store.Acquire(ctx, req)
	if err == nil && grant.NotBefore > req.Now {
		s.process.node.clock.jump(time.Duration(grant.NotBefore-req.Now) * time.Millisecond)
		grant.NotBefore = 0
	}
	return grant, err
}

// sharesWorkers reserves live worker ids, and hides them from the generator,
// which would refuse them, behind those that are kept for backfills.
// revealWorker puts them into the ids that come of it.
type sharesWorkers struct{ durable }

func (s sharesWorkers) ReserveBlock(ctx context.Context, req lease.BlockRequest) (lease.Block, error) {
	kept := req.Workers
	req.Workers = lease.Range{Lo: 0, Hi: min(int64(s.process.fleet.shape.Workers), kept.Len()) - 1}
	block, err := s.durable.ReserveBlock(ctx, req)
	block.Worker += kept.Lo
	return block, err
}

func revealWorker(p *process, id generator.ID) generator.ID {
	layout := p.node.layout
	return id - generator.ID(layout.BackfillWorkers().Lo<<layout.SequenceBits)
}

type forgetsLayout struct {
	lease.Store
	process *process
}

func (s forgetsLayout) Acquire(ctx context.Context, req lease.Request) (lease.Grant, error) {
	req.Layout.EpochMillis = s.process.fleet.shape.Layout.Epoch.UnixMilli()
	return s.Store.Acquire(ctx, req)
}

// sharesTicks undoes the generator's rounding by rounding the other way first.
type sharesTicks struct {
	lease.Store
	process *process
	through int64 // as the store has it
}

func (s *sharesTicks) outwards(g lease.Grant) lease.Grant {
	layout := s.process.node.layout
	epoch, tick := layout.Epoch.UnixMilli(), layout.Tick.Milliseconds()
	g.From -= (g.From - epoch) % tick
	if over := (g.Through - epoch) % tick; over > 0 {
		g.Through += tick - over
	}
	return g
}

func (s *sharesTicks) Acquire(ctx context.Context, req lease.Request) (lease.Grant, error) {
	grant, err := s.Store.Acquire(ctx, req)
	if err != nil {
		return grant, err
	}
	s.through = grant.Through
	return s.outwards(grant), nil
}

func (s *sharesTicks) Extend(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
	held.Through = s.through
	grant, err := s.Store.Extend(ctx, held, through)
	if err != nil {
		return grant, err
	}
	s.through = grant.Through
	return s.outwards(grant), nil
}
