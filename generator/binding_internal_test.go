package generator

import (
	"math"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// A call that has seen the limit of a binding and is held up before its
// compare-and-swap must not issue an id after the seal: the next owner of a
// fixed worker id begins at the bound that seal returns.
func TestNothingIsIssuedPastTheSeal(t *testing.T) {
	layout := Standard()
	bits := layout.SequenceBits
	g := &Generator{sequenceBits: bits}
	b := layout.bind(lease.Grant{From: layout.epochMillis() + 1000, Through: lease.Unbounded})
	if !b.word.CompareAndSwap(1000<<bits-1, 1000<<bits) {
		t.Fatal("the first id is not at the start of the grant")
	}
	// The straggler reads the clock, the word and the limit ...
	now, old := int64(2000), b.word.Load()
	next := g.after(old, now)
	if next >= b.limit.Load() {
		t.Fatal("the straggler was refused before the seal")
	}
	used := b.seal(bits)
	if used != 1001 {
		t.Errorf("seal returned %d; want 1001, the tick after the last id's", used)
	}
	// ... and swaps only now.
	if b.word.CompareAndSwap(old, next) && next>>bits >= used {
		t.Errorf("an id of tick %d was issued after a seal that returned %d", next>>bits, used)
	}
	for _, now := range []int64{-5000, 0, 2000, layout.lastTick()} {
		if next := g.after(b.word.Load(), now); next < b.limit.Load() {
			t.Errorf("a sealed binding lets a call at tick %d go on with the word %d", now, next)
		}
	}
}

// In a layout whose time and sequence fill all 63 bits, the tick after the
// last has no word.
func TestWordsAtTheEndOfAFullLayout(t *testing.T) {
	layout := Layout{Epoch: time.Unix(0, 0), Tick: time.Millisecond, TimeBits: 32, SequenceBits: 31}
	if err := layout.Validate(); err != nil {
		t.Fatal(err)
	}
	end := layout.End().UnixMilli()
	from, limit := layout.words(lease.Grant{From: end + 5, Through: lease.Unbounded})
	if from < limit {
		t.Errorf("a grant from after the end permits the words from %d to %d; want none", from, limit)
	}
}

func TestTimes(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int64
		d    time.Duration
		want time.Duration
	}{
		{"plain", 3, time.Millisecond, 3 * time.Millisecond},
		{"negative", -3, time.Second, -3 * time.Second},
		{"too large", 1 << 62, time.Second, math.MaxInt64 / time.Second * time.Second},
		{"too small", math.MinInt64, time.Second, -(math.MaxInt64 / time.Second * time.Second)},
	} {
		if got := times(c.n, c.d); got != c.want {
			t.Errorf("%s: want %v, got %v", c.name, c.want, got)
		}
	}
}
