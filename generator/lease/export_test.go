package lease

import "time"

// MemoryWithClock is Memory with a clock of the test's.
func MemoryWithClock(clock func() time.Time, options ...Option) Store {
	return newMemory(clock, options)
}
