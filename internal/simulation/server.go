package simulation

import (
	"fmt"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// server is the lease store. Every method is one atomic step, as a single
// statement or script is. With a guard it is a store that may lose its tail:
// its newcomers wait out whatever lost grants may hold.
type server struct {
	fleet      *fleet
	clock      *clock
	timing     lease.Timing
	guard      time.Duration
	rules      rules
	generation int
	floor      int64
	layout     lease.Layout
	rows       []lease.Row // by worker
	blocks     []lease.Block
	versions   map[int64]int // of a backfill worker's blocks

	// tail undoes the latest writes, the last one first.
	tail []undo
}

type undo struct {
	at time.Duration
	do func(*server)
}

// rules are where mutants change the store.
type rules struct {
	releaseLowers bool          // release sets the high water to the store's clock
	capLifted     time.Duration // how much further a high water may lie
}

// snapshot is what a newcomer reads before it chooses a row.
type snapshot struct {
	generation int
	now        int64
	rows       []lease.Row
}

func (s *server) read(layout lease.Layout) (snapshot, error) {
	if s.layout == (lease.Layout{}) {
		s.layout = layout
	}
	if s.layout != layout {
		return snapshot{}, fmt.Errorf("%w: want %v, got %v", lease.ErrLayoutMismatch, s.layout, layout)
	}
	return snapshot{generation: s.generation, now: s.clock.millis(), rows: append([]lease.Row(nil), s.rows...)}, nil
}

// acquire takes a row if it is as the newcomer saw it. ok is false when it is
// not.
func (s *server) acquire(req lease.Request, seen lease.Row, generation int) (grant lease.Grant, err error) {
	now, row := s.clock.millis(), s.rows[seen.Worker]
	if generation != s.generation || row.Term != seen.Term || row.HighWater != seen.HighWater || row.ExpiresAt > now {
		return lease.Grant{}, lease.ErrLost
	}
	through := max(row.HighWater, req.Now+s.timing.Window.Milliseconds())
	if err := s.cap(through, now); err != nil {
		return lease.Grant{}, err
	}
	grant = lease.Grant{
		Namespace: req.Namespace, Worker: row.Worker, Term: row.Term + 1, Token: req.Token,
		From: max(row.HighWater, req.Now), Through: through, StoreNow: now,
	}
	if s.guard > 0 {
		grant.From = max(grant.From, s.floor, now+s.guard.Milliseconds())
		grant.NotBefore = grant.From
	}
	s.write(lease.Row{
		Worker: row.Worker, Term: grant.Term, Owner: req.Token, HighWater: through,
		ExpiresAt: now + s.timing.Expiry.Milliseconds(),
	})
	s.fleet.afterAcquire()
	return grant, nil
}

func (s *server) extend(held lease.Grant, generation int, through int64) (lease.Grant, error) {
	now, row := s.clock.millis(), s.rows[held.Worker]
	if generation != s.generation || row.Owner != held.Token || row.Term != held.Term || row.HighWater != held.Through {
		return lease.Grant{}, lease.ErrLost
	}
	if err := s.cap(through, now); err != nil {
		return lease.Grant{}, err
	}
	row.HighWater, row.ExpiresAt = through, now+s.timing.Expiry.Milliseconds()
	s.write(row)
	held.Through, held.StoreNow = through, now
	return held, nil
}

func (s *server) release(held lease.Grant, generation int) {
	row := s.rows[held.Worker]
	if generation != s.generation || row.Owner != held.Token || row.Term != held.Term {
		return
	}
	if s.rules.releaseLowers {
		row.HighWater = min(row.HighWater, s.clock.millis())
	}
	row.Owner, row.ExpiresAt = "", row.HighWater
	s.write(row)
}

func (s *server) cap(through, now int64) error {
	if ahead := s.timing.Window + s.timing.Slack + s.rules.capLifted; through > now+ahead.Milliseconds() {
		return fmt.Errorf("%w: %d is more than %v past the store's %d", lease.ErrClockSkew, through, ahead, now)
	}
	return nil
}

func (s *server) write(row lease.Row) {
	old := s.rows[row.Worker]
	if row.Term < old.Term || row.HighWater < old.HighWater {
		s.fleet.fail("never down", "worker %d went from term %d, high water %d to term %d, high water %d",
			row.Worker, old.Term, old.HighWater, row.Term, row.HighWater)
	}
	s.rows[row.Worker] = row
	s.remember(func(s *server) { s.rows[row.Worker] = old })
}

// blockSeen is what a backfill reads before it inserts a block.
type blockSeen struct {
	block   lease.Block
	version int
}

// propose chooses the first worker that has a sequence left for the whole
// range.
func (s *server) propose(req lease.BlockRequest) (blockSeen, error) {
	if _, err := s.read(req.Layout); err != nil {
		return blockSeen{}, err
	}
	last := int64(1)<<req.Layout.SequenceBits - 1
	for w := req.Workers.Lo; w <= req.Workers.Hi; w++ {
		var of []lease.Block
		for _, b := range s.blocks {
			if b.Worker == w {
				of = append(of, b)
			}
		}
		if first := lease.NextFree(of, req.FirstTick, req.LastTick); first <= last {
			return blockSeen{version: s.versions[w], block: lease.Block{
				Worker: w, FirstTick: req.FirstTick, LastTick: req.LastTick,
				FirstSequence: first, LastSequence: min(last, first+req.Sequences-1),
			}}, nil
		}
	}
	return blockSeen{}, lease.ErrSequenceExhausted
}

func (s *server) insert(seen blockSeen) error {
	if s.versions[seen.block.Worker] != seen.version {
		return lease.ErrLost
	}
	s.versions[seen.block.Worker]++
	s.blocks = append(s.blocks, seen.block)
	return nil
}
