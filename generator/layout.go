package generator

import (
	"fmt"
	"math"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// Layout says which bits of an ID hold what: from the top, an unused sign
// bit, the time in ticks since the epoch, the worker id, the sequence within
// the tick. The zero value is no layout; Config takes it as Standard.
type Layout struct {
	Epoch        time.Time     // time part 0; a whole Unix millisecond
	Tick         time.Duration // unit of the time part; whole milliseconds, at least 1
	TimeBits     int           // 1 to 62
	WorkerBits   int           // 0 to 31
	SequenceBits int           // 0 to 31; all three at most 63 together
}

// Parts is what an ID holds.
type Parts struct {
	Time     time.Time // UTC, the start of the id's tick
	Worker   int64
	Sequence int64
}

// Validate returns ErrInvalidLayout with what is wrong, or nil.
func (l Layout) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalidLayout, fmt.Sprintf(format, args...))
	}
	switch sum := l.TimeBits + l.WorkerBits + l.SequenceBits; {
	case l.TimeBits < 1 || l.TimeBits > 62:
		return fail("want 1 to 62 time bits, got %d", l.TimeBits)
	case l.WorkerBits < 0 || l.WorkerBits > 31:
		return fail("want 0 to 31 worker bits, got %d", l.WorkerBits)
	case l.SequenceBits < 0 || l.SequenceBits > 31:
		return fail("want 0 to 31 sequence bits, got %d", l.SequenceBits)
	case sum > 63:
		return fail("want at most 63 bits in all, got %d+%d+%d = %d; make one narrower",
			l.TimeBits, l.WorkerBits, l.SequenceBits, sum)
	case l.Tick < time.Millisecond || l.Tick%time.Millisecond != 0:
		return fail("want a tick of whole milliseconds, at least 1ms, got %v", l.Tick)
	case l.Epoch.IsZero():
		return fail("the epoch is not set; choose a date before the first id, such as 2015-01-01T00:00:00Z")
	case l.Epoch.Nanosecond()%int(time.Millisecond) != 0:
		return fail("want an epoch of whole milliseconds, got %s", l.Epoch.Format(time.RFC3339Nano))
	case l.Epoch.Year() < 1 || l.Epoch.Year() > 9999:
		return fail("want an epoch in the years 1 to 9999, got %d", l.Epoch.Year())
	case l.lastTick() > (math.MaxInt64-max(0, l.epochMillis()))/l.tickMillis()-1:
		return fail("%d time bits of %v after %s end past the last representable millisecond; use fewer time bits",
			l.TimeBits, l.Tick, l.Epoch.Format(time.RFC3339))
	}
	return nil
}

// End returns the first time that the layout can't hold any more.
func (l Layout) End() time.Time { return l.tickTime(l.lastTick() + 1) }

// String returns the layout as "41/10/12 bits of 1ms since 2015-01-01T00:00:00Z".
func (l Layout) String() string {
	return fmt.Sprintf("%d/%d/%d bits of %v since %s",
		l.TimeBits, l.WorkerBits, l.SequenceBits, l.Tick, l.Epoch.UTC().Format(time.RFC3339Nano))
}

// Compose returns the id with these parts. A time before the epoch is
// ErrBeforeEpoch, one past the last tick is ErrTimeExhausted, a worker id or
// sequence that does not fit its bits is ErrOutOfRange. Compose alone does
// not make ids unique: that is its caller's task.
func (l Layout) Compose(t time.Time, worker, sequence int64) (ID, error) {
	first, err := l.First(t)
	if err != nil {
		return 0, err
	}
	if err := inBits("worker", worker, l.WorkerBits); err != nil {
		return 0, err
	}
	if err := inBits("sequence", sequence, l.SequenceBits); err != nil {
		return 0, err
	}
	return first | ID(worker<<l.SequenceBits|sequence), nil
}

// ComposeBusiness returns the id of a time and a business number, which fills
// the bits of worker and sequence: 0 to 4,194,303 in the Standard layout. Two
// calls with the same tick and number give the same id, and nothing keeps it
// apart from a generator's ids: use it for tables of its own, where that is
// the point (one row per sensor and tick). Errors are Compose's.
func (l Layout) ComposeBusiness(t time.Time, business int64) (ID, error) {
	first, err := l.First(t)
	if err != nil {
		return 0, err
	}
	if err := inBits("business", business, l.WorkerBits+l.SequenceBits); err != nil {
		return 0, err
	}
	return first | ID(business), nil
}

// Decompose returns an id's parts. It never fails: a negative id gives a time
// before the epoch, and an id of another layout gives nonsense.
func (l Layout) Decompose(id ID) Parts {
	return Parts{
		Time:     l.tickTime(int64(id) >> (l.WorkerBits + l.SequenceBits)),
		Worker:   int64(id) >> l.SequenceBits & (1<<l.WorkerBits - 1),
		Sequence: int64(id) & (1<<l.SequenceBits - 1),
	}
}

// First returns the smallest id of the tick that holds t, its time part alone.
// A time before the epoch is ErrBeforeEpoch, one past the last tick is
// ErrTimeExhausted.
func (l Layout) First(t time.Time) (ID, error) {
	if err := l.Validate(); err != nil {
		return 0, err
	}
	tick := l.floorTick(t)
	switch {
	case tick < 0:
		return 0, fmt.Errorf("%w: want a time from %s on, got %s", ErrBeforeEpoch,
			l.Epoch.UTC().Format(time.RFC3339Nano), t.UTC().Format(time.RFC3339Nano))
	case tick > l.lastTick():
		return 0, fmt.Errorf("%w: want a time before %s, got %s", ErrTimeExhausted,
			l.End().UTC().Format(time.RFC3339Nano), t.UTC().Format(time.RFC3339Nano))
	}
	return ID(tick << (l.WorkerBits + l.SequenceBits)), nil
}

// Bounds returns the half-open id range [lo, hi) that holds just the ids whose
// time lies in [from, to). Both bounds are rounded up to whole ticks, so that
// neighbouring ranges tile. A from before the epoch gives lo 0; a to past the
// last tick gives the first id past the layout or, where that is 2^63,
// math.MaxInt64, which then means that there is no upper bound. lo == hi is
// an empty range. A zero time, or a from after to, is an error.
func (l Layout) Bounds(from, to time.Time) (lo, hi ID, err error) {
	if err := l.Validate(); err != nil {
		return 0, 0, err
	}
	switch {
	case from.IsZero() || to.IsZero():
		return 0, 0, fmt.Errorf("%w: want two times, got a zero time.Time", ErrInvalidWindow)
	case from.After(to):
		return 0, 0, fmt.Errorf("%w: want from <= to, got %s and %s", ErrInvalidWindow,
			from.UTC().Format(time.RFC3339Nano), to.UTC().Format(time.RFC3339Nano))
	}
	return l.firstFrom(from), l.firstFrom(to), nil
}

// firstFrom returns the smallest id whose time is at or after t, clamped to
// the layout.
func (l Layout) firstFrom(t time.Time) ID {
	shift := l.WorkerBits + l.SequenceBits
	tick := l.ceilTick(t)
	switch {
	case tick <= 0:
		return 0
	case tick > math.MaxInt64>>shift:
		return math.MaxInt64
	case tick > l.lastTick():
		return ID((l.lastTick() + 1) << shift)
	}
	return ID(tick << shift)
}

// LiveWorkers returns the worker ids that generators may lease: all but those
// kept for backfills.
func (l Layout) LiveWorkers() lease.Range {
	return lease.Range{Lo: 0, Hi: 1<<l.WorkerBits - 1 - l.backfillWorkers()}
}

// BackfillWorkers returns the worker ids kept for backfills: the top
// min(16, workers/8), and none where there are fewer than 16 workers.
func (l Layout) BackfillWorkers() lease.Range {
	return lease.Range{Lo: 1<<l.WorkerBits - l.backfillWorkers(), Hi: 1<<l.WorkerBits - 1}
}

func (l Layout) backfillWorkers() int64 {
	workers := int64(1) << l.WorkerBits
	if workers < 16 {
		return 0
	}
	return min(16, workers/8)
}

// record is the layout as stores keep it.
func (l Layout) record() lease.Layout {
	return lease.Layout{
		EpochMillis: l.epochMillis(), TickMillis: l.tickMillis(),
		TimeBits: l.TimeBits, WorkerBits: l.WorkerBits, SequenceBits: l.SequenceBits,
	}
}

func (l Layout) epochMillis() int64 { return l.Epoch.UnixMilli() }
func (l Layout) tickMillis() int64  { return l.Tick.Milliseconds() }
func (l Layout) lastTick() int64    { return 1<<l.TimeBits - 1 }

func (l Layout) tickTime(tick int64) time.Time {
	return time.UnixMilli(l.epochMillis() + tick*l.tickMillis()).UTC()
}

// floorTick returns the tick that holds t, by integer arithmetic: through a
// float64 the last microsecond of a millisecond would round up.
func (l Layout) floorTick(t time.Time) int64 {
	return floorDiv(floorMillis(t)-l.epochMillis(), l.tickMillis())
}

// ceilTick returns the first tick that starts at or after t.
func (l Layout) ceilTick(t time.Time) int64 {
	ms := floorMillis(t)
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return ceilDiv(ms-l.epochMillis(), l.tickMillis())
}

// floorMillis is UnixMilli kept within bounds that leave room to subtract an
// epoch: no layout reaches that far.
func floorMillis(t time.Time) int64 {
	const far = math.MaxInt64 / 4 / 1000
	return max(-far, min(far, t.Unix()))*1000 + int64(t.Nanosecond())/int64(time.Millisecond)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }

func inBits(field string, value int64, bits int) error {
	if last := int64(1)<<bits - 1; value < 0 || value > last {
		return &RangeError{Field: field, Value: value, Max: last}
	}
	return nil
}
