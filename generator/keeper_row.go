package generator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// attempt gives one statement half an interval, so that a store that hangs is
// noticed long before the window is used up.
func (k *keeper) attempt() (context.Context, context.CancelFunc) {
	limit := 5 * time.Second
	if k.timing.Interval > 0 {
		limit = max(attemptLeast, min(limit, k.timing.Interval/2))
	}
	return k.g.world.WithTimeout(k.ctx, limit)
}

func (k *keeper) acquire() error {
	ctx, cancel := k.attempt()
	defer cancel()
	c := &k.g.config
	now := k.g.clock.millis()
	if tick := k.g.clock.ticks(); tick < 0 {
		return fmt.Errorf("%w: the clock shows %s, the epoch is %s; correct the clock", ErrBeforeEpoch,
			time.UnixMilli(now).UTC().Format(time.RFC3339), c.Layout.Epoch.UTC().Format(time.RFC3339))
	} else if tick > k.g.lastTick {
		return fmt.Errorf("%w: the clock shows %s, the layout ends at %s", ErrTimeExhausted,
			time.UnixMilli(now).UTC().Format(time.RFC3339), c.Layout.End().Format(time.RFC3339))
	}
	grant, err := k.store.Acquire(ctx, lease.Request{
		Namespace: c.Namespace,
		Layout:    c.Layout.record(),
		Workers:   c.Layout.LiveWorkers(),
		Token:     k.token(), // a fresh one: an acquire whose reply is lost is never adopted
		Now:       now,
		MaxAhead:  c.MaxLead.Milliseconds(),
		MaxLead:   c.MaxLead.Milliseconds(),
		Avoid:     k.avoid,
	})
	if err != nil {
		return err
	}
	if !c.Layout.LiveWorkers().Contains(grant.Worker) {
		return errors.Join(&RangeError{Field: "worker", Value: grant.Worker, Max: c.Layout.LiveWorkers().Hi}, k.release(ctx, grant, 0))
	}
	if err := k.checkSkew(now, grant.StoreNow); err != nil {
		return errors.Join(err, k.release(ctx, grant, 0))
	}
	k.grant, k.held, k.unsettled, k.avoid = grant, true, nil, -1
	k.confirmed = k.g.world.Now()
	k.through.Store(grant.Through)
	k.g.counters.acquires.Add(1)
	k.g.counters.lastExtend.Store(now)
	if wait := time.Duration(grant.NotBefore-now) * time.Millisecond; grant.NotBefore != 0 && wait > c.MaxWait {
		c.Logger.InfoContext(k.ctx, "gormflake: the first id of a new lease waits", "namespace", c.Namespace,
			"worker", grant.Worker, "wait", wait, "because_of", grant.Because)
	}
	return nil
}

// bind makes the grant usable once its guard is over, and raises the limit of
// a binding that is in use.
func (k *keeper) bind() error {
	if !k.held {
		return nil
	}
	if k.binding == nil {
		if k.grant.NotBefore != 0 && k.g.clock.millis() < k.grant.NotBefore {
			return nil
		}
		k.binding = k.g.config.Layout.bind(k.grant)
		return nil
	}
	_, limit := k.g.config.Layout.words(k.grant)
	k.binding.limit.Store(limit)
	return nil
}

func (k *keeper) extend() error {
	ctx, cancel := k.attempt()
	defer cancel()
	before, began := k.g.clock.millis(), k.g.world.Now()
	through := max(k.grant.Through, before+k.timing.Window.Milliseconds())
	grant, err := k.store.Extend(ctx, k.grant, through)
	k.g.counters.extendTime.Add(int64(k.g.world.Now().Sub(began)))
	switch {
	case err == nil:
	case errors.Is(err, ErrClockSkew):
		// Refused for certain. Ids of a clock that is so far off are unique
		// still, but out of order: none are issued until it is right.
		k.suspend()
	case errors.Is(err, lease.ErrLost):
		if grant, err = k.settle(ctx); err != nil && errors.Is(err, lease.ErrLost) {
			k.lose()
			return nil
		}
	default:
		k.unsettled = append(k.unsettled, through)
		if settled, lookupErr := k.settle(ctx); lookupErr == nil {
			grant, err = settled, nil
		}
	}
	if err != nil {
		k.g.counters.extendFailures.Add(1)
		return err
	}
	k.grant.Through, k.unsettled = grant.Through, nil
	k.confirmed = k.g.world.Now()
	k.through.Store(grant.Through)
	k.g.counters.extends.Add(1)
	k.g.counters.lastExtend.Store(k.g.clock.millis())
	if err := k.checkSkew(before, grant.StoreNow); err != nil {
		k.suspend()
		return err
	}
	return nil
}

// settle finds out what became of extensions whose replies were lost. One is
// adopted only if owner, term and high water all are those of an attempt of
// ours. ErrLost says that the row is somebody else's, any other error that
// nothing is known yet.
func (k *keeper) settle(ctx context.Context) (lease.Grant, error) {
	if len(k.unsettled) == 0 {
		return lease.Grant{}, lease.ErrLost
	}
	row, ok, err := k.store.Lookup(ctx, k.grant.Namespace, k.grant.Worker)
	switch {
	case err != nil:
		return lease.Grant{}, err
	case !ok || row.Owner != k.grant.Token || row.Term != k.grant.Term:
		return lease.Grant{}, lease.ErrLost
	case slices.Contains(k.unsettled, row.HighWater):
		grant := k.grant
		grant.Through, grant.StoreNow = row.HighWater, 0
		return grant, nil
	case row.HighWater == k.grant.Through:
		return lease.Grant{}, errors.New("generator: the extension has not arrived")
	}
	return lease.Grant{}, lease.ErrLost
}

// suspend stops the issue of ids without giving up the row.
func (k *keeper) suspend() {
	if k.binding != nil {
		k.binding.limit.Store(0)
	}
}
