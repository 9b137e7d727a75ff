package simulation

import "time"

// start is the true time at an episode's start.
var start = time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)

// clock is a wall clock that may be wrong: ahead or behind, too fast, too
// slow, or stopped.
type clock struct {
	schedule *schedule
	offset   time.Duration // from the true time, at anchor
	anchor   time.Duration
	ppm      int64 // how much too fast
	frozen   bool
}

func (c *clock) error() time.Duration {
	elapsed := c.schedule.now - c.anchor
	if c.frozen {
		return c.offset - elapsed
	}
	return c.offset + elapsed/1_000_000*time.Duration(c.ppm)
}

func (c *clock) now() time.Time {
	return start.Add(c.schedule.now + c.error())
}

func (c *clock) millis() int64 { return c.now().UnixMilli() }

// set changes the clock's error and rate from now on.
func (c *clock) set(offset time.Duration, ppm int64) {
	c.offset, c.anchor, c.ppm, c.frozen = offset, c.schedule.now, ppm, false
}

func (c *clock) jump(by time.Duration) { c.set(c.error()+by, c.ppm) }

// freeze stops the clock until it is set or thawed.
func (c *clock) freeze() {
	c.set(c.error(), c.ppm)
	c.frozen = true
}

// thaw lets a stopped clock go on from where it stands.
func (c *clock) thaw() { c.set(c.error(), c.ppm) }
