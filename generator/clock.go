package generator

import "time"

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
func (c *clock) ticks() int64 {
	since := c.millis() - c.epochMillis
	if c.tickMillis == 1 {
		return since
	}
	return floorDiv(since, c.tickMillis)
}

// Now returns the generator's clock: Config.Clock, or the machine's.
func (g *Generator) Now() time.Time {
	if g.clock.now != nil {
		return g.clock.now()
	}
	return time.Now()
}
