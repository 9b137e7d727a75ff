package generator

import (
	"sync/atomic"
	"testing"
)

// The floor of any generator that reads the wall clock for each id: one clock
// read and one compare-and-swap.
func BenchmarkFloor(b *testing.B) {
	var word atomic.Int64
	for b.Loop() {
		old := word.Load()
		word.CompareAndSwap(old, max(wallMillis()<<12, old+1))
	}
}
