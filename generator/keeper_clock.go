package generator

import (
	"fmt"
	"time"
)

// checkSkew compares the clock, read before the statement and now, with the
// store's clock during it.
func (k *keeper) checkSkew(before, storeNow int64) error {
	if storeNow == 0 {
		return nil
	}
	after := k.g.clock.millis()
	k.g.counters.skew.Store(before + (after-before)/2 - storeNow)
	limit := k.g.config.MaxSkew
	if limit < 0 {
		return nil
	}
	if ms := limit.Milliseconds(); storeNow < min(before, after)-ms || storeNow > max(before, after)+ms {
		return fmt.Errorf("%w: want at most %v, the clock shows %s, the store's %s; correct the clock that is wrong or raise MaxSkew",
			ErrClockSkew, limit, time.UnixMilli(before).UTC().Format(time.RFC3339Nano), time.UnixMilli(storeNow).UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// rollbackNoise is what a clock that is being slewed may lose between two
// steps.
const rollbackNoise = 5 * time.Millisecond

// watchClock counts rollbacks: between two steps the wall clock should move
// as far as the timers do.
func (k *keeper) watchClock() {
	now, step := k.g.clock.millis(), k.g.world.Now()
	if !k.lastStep.IsZero() {
		elapsed := step.Sub(k.lastStep)
		moved := time.Duration(now-k.lastMillis) * time.Millisecond
		if back := elapsed - moved; back > rollbackNoise+elapsed/1000 {
			k.g.counters.rollbacks.Add(1)
			k.g.log.Warn(k.ctx, "rollback", "gormflake: the clock went back", "by", back)
		}
	}
	k.lastMillis, k.lastStep = now, step
}
