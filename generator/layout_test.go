package generator_test

import (
	"encoding/csv"
	"errors"
	"io"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gormflake/gormflake/generator"
)

func TestVectors(t *testing.T) {
	file, err := os.Open("testdata/vectors.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows := csv.NewReader(file)
	rows.Comma, rows.Comment = '\t', '#'
	if _, err := rows.Read(); err != nil {
		t.Fatal(err)
	}
	count := 0
	for {
		row, err := rows.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		count++
		t.Run(row[0], func(t *testing.T) {
			number := func(s string) int64 {
				n, err := strconv.ParseInt(s, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			layout := generator.Standard()
			layout.Epoch = time.UnixMilli(number(row[1]))
			at, err := time.Parse(time.RFC3339Nano, row[2])
			if err != nil {
				t.Fatal(err)
			}
			want := generator.Parts{Time: at, Worker: number(row[3]), Sequence: number(row[4])}
			id := generator.ID(number(row[5]))
			if got, err := layout.Compose(want.Time, want.Worker, want.Sequence); err != nil || got != id {
				t.Errorf("Compose: want %v, got %v, %v", id, got, err)
			}
			if got := layout.Decompose(id); got != want {
				t.Errorf("Decompose: want %+v, got %+v", want, got)
			}
			business := want.Worker<<layout.SequenceBits | want.Sequence
			if got, err := layout.ComposeBusiness(want.Time, business); err != nil || got != id {
				t.Errorf("ComposeBusiness: want %v, got %v, %v", id, got, err)
			}
		})
	}
	if count != 16 {
		t.Fatalf("want 16 vectors, got %d", count)
	}
}

func TestPresets(t *testing.T) {
	for _, c := range []struct {
		name   string
		layout generator.Layout
		end    string
		live   string
	}{
		{"Standard", generator.Standard(), "2084-09-06T15:47:35.552Z", "0 to 1007"},
		{"Twitter", generator.Twitter(), "2080-07-10T17:30:30.209Z", "0 to 1007"},
		{"NewLife", generator.NewLife(), "2039-09-07T15:47:35.552Z", "0 to 1007"},
		{"HeTu", generator.HeTu(), "2095-08-24T11:20:55.552Z", "0 to 1007"},
		{"JavaScriptSafe", generator.JavaScriptSafe(), "2084-09-06T15:47:35.552Z", "0 to 27"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.layout.Validate(); err != nil {
				t.Fatal(err)
			}
			if got := c.layout.End().Format(time.RFC3339Nano); got != c.end {
				t.Errorf("want the end %s, got %s", c.end, got)
			}
			if got := c.layout.LiveWorkers().String(); got != c.live {
				t.Errorf("want the live workers %s, got %s", c.live, got)
			}
		})
	}
	last, err := generator.JavaScriptSafe().Compose(generator.JavaScriptSafe().End().Add(-1), 31, 127)
	if err != nil || last != 1<<53-1 {
		t.Errorf("want the largest JavaScript-safe id to be 2^53-1, got %v, %v", last, err)
	}
}

func TestInvalidLayouts(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*generator.Layout)
	}{
		{"zero", func(l *generator.Layout) { *l = generator.Layout{} }},
		{"64 bits", func(l *generator.Layout) { l.SequenceBits++ }},
		{"no time", func(l *generator.Layout) { l.TimeBits = 0 }},
		{"negative worker bits", func(l *generator.Layout) { l.WorkerBits = -1 }},
		{"negative sequence bits", func(l *generator.Layout) { l.SequenceBits = -1 }},
		{"wide worker", func(l *generator.Layout) { l.TimeBits, l.WorkerBits, l.SequenceBits = 20, 32, 1 }},
		{"no tick", func(l *generator.Layout) { l.Tick = 0 }},
		{"negative tick", func(l *generator.Layout) { l.Tick = -time.Millisecond }},
		{"tick below a millisecond", func(l *generator.Layout) { l.Tick = time.Microsecond }},
		{"tick with a fraction", func(l *generator.Layout) { l.Tick = 1500 * time.Microsecond }},
		{"no epoch", func(l *generator.Layout) { l.Epoch = time.Time{} }},
		{"epoch with a fraction", func(l *generator.Layout) { l.Epoch = l.Epoch.Add(time.Microsecond) }},
		{"epoch too far", func(l *generator.Layout) { l.Epoch = l.Epoch.AddDate(9000, 0, 0) }},
		{"ends past any time", func(l *generator.Layout) {
			l.TimeBits, l.WorkerBits, l.SequenceBits, l.Tick = 62, 0, 1, time.Hour
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			layout := generator.Standard()
			c.edit(&layout)
			if err := layout.Validate(); !errors.Is(err, generator.ErrInvalidLayout) {
				t.Fatalf("want ErrInvalidLayout, got %v", err)
			}
			if _, err := layout.Compose(time.Now(), 0, 0); !errors.Is(err, generator.ErrInvalidLayout) {
				t.Fatalf("want ErrInvalidLayout from Compose, got %v", err)
			}
			if _, _, err := layout.Bounds(time.Now(), time.Now()); !errors.Is(err, generator.ErrInvalidLayout) {
				t.Fatalf("want ErrInvalidLayout from Bounds, got %v", err)
			}
		})
	}
}

func TestComposeRefuses(t *testing.T) {
	layout := generator.Standard()
	noon := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name             string
		at               time.Time
		worker, sequence int64
		want             error
	}{
		{"before the epoch", layout.Epoch.Add(-1), 0, 0, generator.ErrBeforeEpoch},
		{"zero time", time.Time{}, 0, 0, generator.ErrBeforeEpoch},
		{"the year -290000000", time.Unix(math.MinInt64, 0), 0, 0, generator.ErrBeforeEpoch},
		{"past the last tick", layout.End(), 0, 0, generator.ErrTimeExhausted},
		{"the year 290000000", time.Unix(math.MaxInt64, 0), 0, 0, generator.ErrTimeExhausted},
		{"worker too large", noon, 1024, 0, generator.ErrOutOfRange},
		{"worker negative", noon, -1, 0, generator.ErrOutOfRange},
		{"sequence too large", noon, 0, 4096, generator.ErrOutOfRange},
		{"sequence negative", noon, 0, -1, generator.ErrOutOfRange},
	} {
		t.Run(c.name, func(t *testing.T) {
			if id, err := layout.Compose(c.at, c.worker, c.sequence); !errors.Is(err, c.want) || id != 0 {
				t.Fatalf("want %v, got %v, %v", c.want, id, err)
			}
		})
	}
	if _, err := layout.ComposeBusiness(noon, 1<<22); !errors.Is(err, generator.ErrOutOfRange) {
		t.Fatalf("want ErrOutOfRange for a business number of 23 bits, got %v", err)
	}
}

// A time one nanosecond before a millisecond's end belongs to that
// millisecond; through a float64 it would round up.
func TestTimesRoundDown(t *testing.T) {
	layout := generator.NewLife()
	at := time.Date(2024, 5, 5, 22, 17, 21, 876_999_999, time.UTC)
	id, err := layout.Compose(at, 391, 0)
	if err != nil || id != 7193010915251875840 {
		t.Fatalf("want 7193010915251875840, got %v, %v", id, err)
	}
}

func TestBounds(t *testing.T) {
	layout := generator.Standard()
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	first := func(at time.Time) generator.ID {
		id, err := layout.First(at)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for _, c := range []struct {
		name     string
		from, to time.Time
		lo, hi   generator.ID
		bad      bool
	}{
		{name: "a day", from: day, to: day.AddDate(0, 0, 1), lo: first(day), hi: first(day.AddDate(0, 0, 1))},
		{name: "empty", from: day, to: day, lo: first(day), hi: first(day)},
		{name: "rounded up", from: day.Add(1), to: day.Add(time.Millisecond + 1),
			lo: first(day.Add(time.Millisecond)), hi: first(day.Add(2 * time.Millisecond))},
		{name: "from before the epoch", from: layout.Epoch.AddDate(-50, 0, 0), to: day, lo: 0, hi: first(day)},
		{name: "all before the epoch", from: layout.Epoch.AddDate(-50, 0, 0), to: layout.Epoch, lo: 0, hi: 0},
		{name: "past the end", from: day, to: layout.End().AddDate(1, 0, 0), lo: first(day), hi: math.MaxInt64},
		{name: "all past the end", from: layout.End(), to: layout.End().AddDate(1, 0, 0), lo: math.MaxInt64, hi: math.MaxInt64},
		{name: "backwards", from: day, to: day.Add(-1), bad: true},
		{name: "zero from", to: day, bad: true},
		{name: "zero to", from: day, bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			lo, hi, err := layout.Bounds(c.from, c.to)
			if c.bad != errors.Is(err, generator.ErrInvalidWindow) || lo != c.lo || hi != c.hi {
				t.Fatalf("got %v, %v, %v", lo, hi, err)
			}
		})
	}
	narrow := generator.JavaScriptSafe()
	if _, hi, err := narrow.Bounds(day, narrow.End().AddDate(1, 0, 0)); err != nil || hi != 1<<53 {
		t.Fatalf("a narrow layout has a bound past its end: want 2^53, got %v, %v", hi, err)
	}
}

// layouts draws valid layouts of all shapes.
func layouts(t *rapid.T) generator.Layout {
	l := generator.Layout{
		TimeBits:     rapid.IntRange(1, 45).Draw(t, "time bits"),
		WorkerBits:   rapid.IntRange(0, 31).Draw(t, "worker bits"),
		SequenceBits: rapid.IntRange(0, 31).Draw(t, "sequence bits"),
		Tick:         time.Duration(rapid.IntRange(1, 1000).Draw(t, "tick")) * time.Millisecond,
		Epoch:        time.UnixMilli(rapid.Int64Range(-2e12, 2e12).Draw(t, "epoch")).UTC(),
	}
	if l.Validate() != nil {
		t.Skip("not a layout")
	}
	return l
}

func TestComposeAndDecomposeAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := layouts(t)
		tick := rapid.Int64Range(0, 1<<l.TimeBits-1).Draw(t, "tick number")
		want := generator.Parts{
			Time:     l.Epoch.Add(0),
			Worker:   rapid.Int64Range(0, 1<<l.WorkerBits-1).Draw(t, "worker"),
			Sequence: rapid.Int64Range(0, 1<<l.SequenceBits-1).Draw(t, "sequence"),
		}
		want.Time = time.UnixMilli(l.Epoch.UnixMilli() + tick*l.Tick.Milliseconds()).UTC()
		id, err := l.Compose(want.Time.Add(l.Tick-1), want.Worker, want.Sequence)
		if err != nil || id < 0 {
			t.Fatalf("Compose: %v, %v", id, err)
		}
		if got := l.Decompose(id); got != want {
			t.Fatalf("want %+v, got %+v", want, got)
		}
		if !l.LiveWorkers().Contains(want.Worker) && !l.BackfillWorkers().Contains(want.Worker) {
			t.Fatalf("worker %d is neither live nor for backfills", want.Worker)
		}
		if l.LiveWorkers().Len()+l.BackfillWorkers().Len() != 1<<l.WorkerBits || l.LiveWorkers().Intersect(l.BackfillWorkers()).Len() != 0 {
			t.Fatal("live and backfill workers must part the worker ids between them")
		}
	})
}

// An id lies within Bounds exactly when its decoded time lies in the window.
func TestBoundsAgreeWithDecodedTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := layouts(t)
		span := l.End().Sub(l.Epoch)
		if span <= 0 || span > 100*365*24*time.Hour {
			span = 100 * 365 * 24 * time.Hour
		}
		offsets := rapid.Int64Range(-int64(span)/10, int64(span)/10*11)
		at := func(name string) time.Time { return l.Epoch.Add(time.Duration(offsets.Draw(t, name))) }
		from, to := at("from"), at("to")
		if to.Before(from) {
			from, to = to, from
		}
		lo, hi, err := l.Bounds(from, to)
		if err != nil {
			t.Fatal(err)
		}
		id := generator.ID(rapid.Int64Range(0, 1<<(l.TimeBits+l.WorkerBits+l.SequenceBits)-1).Draw(t, "id"))
		when := l.Decompose(id).Time
		want := !when.Before(from) && when.Before(to)
		got := lo < hi && id >= lo && (id < hi || hi == math.MaxInt64)
		if got != want {
			t.Fatalf("id %v of %v in [%v, %v): want %v, got %v (lo %v, hi %v)", id, when, from, to, want, got, lo, hi)
		}
	})
}

func FuzzLayout(f *testing.F) {
	f.Add(int64(1420070400000), int64(1), 41, 10, 12, int64(1700000000000), int64(1), int64(0))
	f.Add(int64(0), int64(10), 39, 16, 8, int64(-5), int64(1<<40), int64(-1))
	f.Fuzz(func(t *testing.T, epoch, tick int64, timeBits, workerBits, sequenceBits int, at, worker, sequence int64) {
		l := generator.Layout{
			Epoch: time.UnixMilli(epoch), Tick: time.Duration(tick) * time.Millisecond,
			TimeBits: timeBits, WorkerBits: workerBits, SequenceBits: sequenceBits,
		}
		id, err := l.Compose(time.UnixMilli(at), worker, sequence)
		if err != nil {
			return
		}
		if got := l.Decompose(id); got.Worker != worker || got.Sequence != sequence || got.Time.After(time.UnixMilli(at)) {
			t.Fatalf("%+v: (%d, %d, %d) became %v and then %+v", l, at, worker, sequence, id, got)
		}
	})
}
