package redislease

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/gormflake/gormflake/generator/lease"
)

// exact is the largest integer that the server's Lua holds exactly.
const exact = int64(1) << 53

// ReserveBlock reserves sequences for a backfill. See lease.Backfiller.
//
// No wait makes up for a reservation that is forgotten, for its times have
// passed long ago. Unless WithDurable or WithReplicas states that none is, it
// returns ErrNotDurable. A namespace that was wiped has forgotten them all:
// then import the same times no second time.
func (s *store) ReserveBlock(ctx context.Context, req lease.BlockRequest) (lease.Block, error) {
	if err := s.check(); err != nil {
		return lease.Block{}, err
	}
	if !s.own.durability() {
		return lease.Block{}, fmt.Errorf("%w: a reservation that a failover forgets would be given twice; use WithReplicas or WithDurable, or reserve in SQL", ErrNotDurable)
	}
	req.Workers = req.Workers.Intersect(s.settings.Workers)
	if err := req.Validate(); err != nil {
		return lease.Block{}, err
	}
	if req.LastTick >= exact {
		return lease.Block{}, fmt.Errorf("redislease: %w: want ticks below 2^53, got %d", lease.ErrInvalid, req.LastTick)
	}
	k := keysOf(req.Namespace)
	return on(ctx, s, k, func(ctx context.Context, conn *redis.Conn) (lease.Block, error) {
		if err := s.inspect(ctx, conn); err != nil {
			return lease.Block{}, err
		}
		r, err := reserveScript.run(ctx, conn, []string{k.meta, k.slots, k.blocks},
			req.Layout.String(), req.Workers.Lo, req.Workers.Hi, req.FirstTick, req.LastTick,
			min(req.Sequences, exact), req.Layout.LastSequence(),
			s.own.newborn(s.settings.Timing).Milliseconds(), s.generation())
		if err != nil {
			return lease.Block{}, err
		}
		switch r.word() {
		case "ok":
		case "exhausted":
			return lease.Block{}, lease.ExhaustedError(req)
		default:
			return lease.Block{}, s.refused(r, req.Namespace, req.Layout)
		}
		n, err := r.numbers(1, 2, 3)
		if err != nil {
			return lease.Block{}, err
		}
		if err := s.wait(ctx, conn); err != nil {
			return lease.Block{}, err
		}
		return lease.Block{
			Worker: n[0], FirstTick: req.FirstTick, LastTick: req.LastTick,
			FirstSequence: n[1], LastSequence: n[2],
		}, nil
	}, nil)
}
