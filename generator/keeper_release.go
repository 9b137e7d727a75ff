package generator

import (
	"context"
	"fmt"
	"math"

	"github.com/gormflake/gormflake/generator/lease"
)

// lose seals what is bound. The row is another's by now.
func (k *keeper) lose() {
	k.g.counters.losses.Add(1)
	k.g.log.Warn(k.ctx, "lost", "gormflake: the lease was lost to another owner; taking another worker id",
		"namespace", k.grant.Namespace, "worker", k.grant.Worker, "term", k.grant.Term)
	k.unbind()
	k.g.publish(func(s *status) { s.binding, s.cause, s.guard = nil, nil, nil })
}

// giveUp releases a row whose ids are too far ahead of the clock, to take
// another one.
func (k *keeper) giveUp() {
	grant := k.grant
	used := k.unbind()
	k.avoid = grant.Worker
	k.g.publish(func(s *status) { s.binding, s.cause, s.guard = nil, nil, nil })
	ctx, cancel := k.attempt()
	defer cancel()
	_ = k.release(ctx, grant, used) // else it expires
}

// unbind seals and forgets the grant, and returns the exclusive bound on the
// time of the ids that were issued under it; 0 for none.
func (k *keeper) unbind() (used int64) {
	if b := k.binding; b != nil {
		tick := b.seal(k.g.sequenceBits)
		used = k.g.clock.epochMillis + tick*k.g.clock.tickMillis
	}
	k.binding, k.held, k.unsettled = nil, false, nil
	k.through.Store(0)
	return used
}

func (k *keeper) release(ctx context.Context, grant lease.Grant, used int64) error {
	if err := k.store.Release(ctx, grant, used); err != nil {
		return fmt.Errorf("generator: worker %d of %q was not released, it is free once its lease expires: %w",
			grant.Worker, grant.Namespace, err)
	}
	return nil
}

// close ends the background work, then releases. It seals first, so that no
// id is issued once the row is free.
func (k *keeper) close(ctx context.Context) error {
	if b := k.g.bound.Load(); b != nil {
		b.limit.Store(0)
	}
	k.cancel()
	k.kick()
	err := k.g.world.Wait(ctx, math.MaxInt64, k.done)
	if err == nil {
		err = ctx.Err()
	}
	k.g.publish(func(s *status) { s.closed = true })
	if err != nil {
		k.g.world.Go(k.finish)
		return fmt.Errorf("generator: the lease was not released in time, which goes on in the background; failing that, the worker id is free once the lease expires: %w", err)
	}
	return k.letGo(ctx)
}

// finish releases after a Close that could not wait. A fixed worker id would
// stay in use for as long as the process lives.
func (k *keeper) finish() {
	ctx, cancel := k.g.world.WithTimeout(context.WithoutCancel(k.ctx), closeTimeout)
	defer cancel()
	if k.g.world.Wait(ctx, math.MaxInt64, k.done) == nil {
		_ = k.letGo(ctx)
	}
}

// letGo seals and releases. The background work has ended.
func (k *keeper) letGo(ctx context.Context) error {
	held, grant := k.held, k.grant
	used := k.unbind()
	if !held {
		return nil
	}
	return k.release(ctx, grant, used)
}
