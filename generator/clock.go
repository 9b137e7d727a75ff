package generator

import (
	"math"
	"time"
)

// clock counts ticks of a layout. now is nil for the machine's wall clock,
// which is read faster without a call through a func value.
type clock struct {
	now         func() time.Time
	epochMillis int64
	tickMillis  int64
}

// millis returns Unix milliseconds.
func (c *clock) millis() int64 {
	if c.now != nil {
		return c.now().UnixMilli()
	}
	return wallMillis()
}

// ticks returns whole ticks since the epoch, rounded down.
func (c *clock) ticks() int64 { return c.tickOf(c.millis()) }

// tickOf returns the tick that holds a time.
func (c *clock) tickOf(millis int64) int64 {
	since := millis - c.epochMillis
	if c.tickMillis == 1 {
		return since
	}
	return floorDiv(since, c.tickMillis)
}

// until returns how long after a time the tick begins; 0 or less when it has.
func (c *clock) until(tick, millis int64) time.Duration {
	return times(tick*c.tickMillis+c.epochMillis-millis, time.Millisecond)
}

// times returns n times d, d being positive, or the nearest Duration there is:
// a clock that is centuries off must not look like one that is right.
func times(n int64, d time.Duration) time.Duration {
	most := math.MaxInt64 / int64(d)
	return time.Duration(max(-most, min(most, n))) * d
}

// Now returns the generator's clock: Config.Clock, or the machine's.
func (g *Generator) Now() time.Time {
	if g.clock.now != nil {
		return g.clock.now()
	}
	return time.Now()
}
