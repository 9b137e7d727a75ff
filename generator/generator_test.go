package generator_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gormflake/gormflake/generator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubbleNow moves a bubble's time, which begins in 2000, past the layouts' epoch.
func bubbleNow() time.Time { return time.Now().Add(24 * 365 * 24 * time.Hour) }

// elapse lets a bubble's virtual time go on.
func elapse(d time.Duration) { time.Sleep(d) }

// testClock is bubbleNow plus an offset that a test may change.
type testClock struct {
	mu     sync.Mutex
	offset time.Duration
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bubbleNow().Add(c.offset)
}

func (c *testClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func inBubbleStore() *scripted {
	s := newScripted()
	s.now = func() int64 { return bubbleNow().UnixMilli() }
	return s
}

// inBubble opens a generator on a scripted store inside a bubble of virtual
// time and closes it after the test.
func inBubble(t *testing.T, edit func(*scripted, *generator.Config), test func(*testing.T, *generator.Generator, *scripted, *testClock)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, clock := inBubbleStore(), &testClock{}
		config := generator.Config{Store: store, Clock: clock.Now, Logger: quiet}
		if edit != nil {
			edit(store, &config)
		}
		g, err := generator.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := g.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		test(t, g, store, clock)
	})
}

func next(t *testing.T, g *generator.Generator) generator.ID {
	t.Helper()
	id, err := g.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestNextCarriesTimeWorkerAndSequence(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, _ *scripted, clock *testClock) {
		for sequence := range int64(5) {
			want := generator.Parts{Time: clock.Now().UTC(), Worker: 0, Sequence: sequence}
			if got := g.Layout().Decompose(next(t, g)); got != want {
				t.Fatalf("want %+v, got %+v", want, got)
			}
		}
	})
}

func TestAFullSequenceCarriesIntoTheNextTick(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, _ *scripted, clock *testClock) {
		began := clock.Now()
		last := generator.ID(0)
		// The present tick and the lead of 10 more are free of any wait.
		for range 11 * 4096 {
			id := next(t, g)
			if id <= last {
				t.Fatalf("%v does not follow %v", id, last)
			}
			last = id
		}
		if waited := clock.Now().Sub(began); waited != 0 {
			t.Fatalf("11 full ticks within the lead must not wait, waited %v", waited)
		}
		next(t, g)
		if waited := clock.Now().Sub(began); waited != time.Millisecond {
			t.Fatalf("the next id must wait for one tick, waited %v", waited)
		}
		if s := g.Stats(); s.Waits.Sequence == 0 || s.Waits.Clock != 0 || s.Rollbacks != 0 {
			t.Fatalf("want a wait for the sequence only, got %+v", s)
		}
	})
}

func TestFillIsOneBurst(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, _ *scripted, clock *testClock) {
		first := next(t, g)
		ids := make([]generator.ID, 10_000)
		if err := g.Fill(t.Context(), ids); err != nil {
			t.Fatal(err)
		}
		word := func(id generator.ID) int64 {
			p := g.Layout().Decompose(id)
			return p.Time.UnixMilli()<<12 | p.Sequence
		}
		previous := word(first)
		for i, id := range ids {
			if word(id) != previous+1 {
				t.Fatalf("element %d does not follow its predecessor", i)
			}
			previous = word(id)
		}
		if end := g.Layout().Decompose(ids[len(ids)-1]).Time; end.Sub(clock.Now()) > generator.DefaultMaxLead {
			t.Fatalf("Fill returned while its end is %v ahead", end.Sub(clock.Now()))
		}
		if err := g.Fill(t.Context(), nil); err != nil {
			t.Fatalf("an empty Fill: %v", err)
		}
	})
}

func TestFillTooLarge(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, _ *scripted, clock *testClock) {
		began := clock.Now()
		ids := make([]generator.ID, 4096*2100)
		if err := g.Fill(t.Context(), ids); !errors.Is(err, generator.ErrBurstTooLarge) {
			t.Fatalf("want ErrBurstTooLarge, got %v", err)
		}
		if clock.Now() != began || ids[0] != 0 {
			t.Fatal("a refused burst must neither wait nor write")
		}
		if s := g.Stats(); s.Refusals.Burst != 1 {
			t.Fatalf("want one refusal, got %+v", s.Refusals)
		}
	})
}

func TestACancelledFillWritesNothing(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, _ *scripted, _ *testClock) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		ids := make([]generator.ID, 4096*1000)
		if err := g.Fill(ctx, ids); !errors.Is(err, context.Canceled) {
			t.Fatalf("want context.Canceled, got %v", err)
		}
		if slices.ContainsFunc(ids, func(id generator.ID) bool { return id != 0 }) {
			t.Fatal("a Fill that failed must write nothing")
		}
	})
}

func TestClockRollback(t *testing.T) {
	for _, c := range []struct {
		name  string
		back  time.Duration
		waits time.Duration
		fails bool
	}{
		{"within the lead", 5 * time.Millisecond, 0, false},
		{"within MaxWait", time.Second, time.Second - generator.DefaultMaxLead, false},
		{"beyond MaxWait", time.Hour, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, g *generator.Generator, _ *scripted, clock *testClock) {
				before := next(t, g)
				clock.jump(-c.back)
				began := time.Now()
				after, err := g.Next(t.Context())
				if waited := time.Since(began); waited != c.waits {
					t.Errorf("want a wait of %v, waited %v", c.waits, waited)
				}
				if c.fails {
					var behind *generator.ClockBehindError
					if !errors.As(err, &behind) || !errors.Is(err, generator.ErrClockBehind) || behind.Behind != c.back {
						t.Fatalf("want a ClockBehindError of %v, got %v", c.back, err)
					}
					// A refused call changed nothing: with the clock right the next id follows.
					clock.jump(c.back)
					if id := next(t, g); id != before+1 {
						t.Fatalf("want %v after the refusal, got %v", before+1, id)
					}
					return
				}
				if err != nil || after <= before {
					t.Fatalf("want an id after %v, got %v, %v", before, after, err)
				}
			})
		})
	}
}

func TestADeadlineNearerThanTheWaitFailsAtOnce(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, _ *scripted, clock *testClock) {
		next(t, g)
		clock.jump(-time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := g.Next(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, generator.ErrClockBehind) || time.Since(began) != 0 {
			t.Fatalf("want both errors at once, got %v after %v", err, time.Since(began))
		}
	})
}

func TestSwitchWorkerAfterARollback(t *testing.T) {
	edit := func(_ *scripted, c *generator.Config) { c.SwitchWorker, c.MaxSkew = true, -1 }
	inBubble(t, edit, func(t *testing.T, g *generator.Generator, _ *scripted, clock *testClock) {
		before := g.Layout().Decompose(next(t, g))
		clock.jump(-time.Hour)
		after := g.Layout().Decompose(next(t, g))
		if after.Worker == before.Worker || !after.Time.Equal(clock.Now().UTC()) {
			t.Fatalf("want an id of another worker at %v, got %+v", clock.Now(), after)
		}
	})
}

// A process that was stopped past its expiry must not issue one id more than
// its own grant has.
func TestTheEndOfTime(t *testing.T) {
	layout := generator.Standard()
	edit := func(s *scripted, c *generator.Config) {
		base := bubbleNow()
		shift := layout.End().Add(-10 * time.Second).Sub(base)
		c.Clock = func() time.Time { return bubbleNow().Add(shift) }
		s.now = func() int64 { return c.Clock().UnixMilli() }
	}
	inBubble(t, edit, func(t *testing.T, g *generator.Generator, _ *scripted, _ *testClock) {
		next(t, g)
		elapse(10 * time.Second)
		if id, err := g.Next(t.Context()); !errors.Is(err, generator.ErrTimeExhausted) {
			t.Fatalf("want ErrTimeExhausted, got %v, %v", id, err)
		}
	})
}

func TestRollingSequenceSpreadsTheRemainders(t *testing.T) {
	edit := func(_ *scripted, c *generator.Config) { c.RollingSequence = true }
	inBubble(t, edit, func(t *testing.T, g *generator.Generator, _ *scripted, _ *testClock) {
		const shards, rounds = 16, 1600
		var counts [shards]int
		last := generator.ID(0)
		for range rounds {
			id := next(t, g)
			if id <= last {
				t.Fatalf("%v does not follow %v", id, last)
			}
			last = id
			counts[id%shards]++
			elapse(7 * time.Millisecond)
		}
		for shard, n := range counts {
			if n < rounds/shards*8/10 || n > rounds/shards*12/10 {
				t.Errorf("shard %d got %d of %d ids", shard, n, rounds)
			}
		}
	})
}

func TestGrantsAreRoundedInwards(t *testing.T) {
	layout := generator.Standard()
	layout.Tick = 10 * time.Millisecond
	edit := func(s *scripted, c *generator.Config) {
		c.Layout = layout
		elapse(3 * time.Millisecond) // begin inside a tick
	}
	inBubble(t, edit, func(t *testing.T, g *generator.Generator, s *scripted, clock *testClock) {
		opened := clock.Now()
		if at := g.Layout().Decompose(next(t, g)).Time; at.Before(opened) {
			t.Fatalf("the first id's tick, %v, began before the grant, %v", at, opened)
		}
	})
}

func TestConcurrentCallersNeverShareAnID(t *testing.T) {
	g, err := generator.Open(t.Context(), generator.Config{Store: newScripted(), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.Background())
	const callers, rounds, burst = 8, 500, 30
	var wg sync.WaitGroup
	all := make([][]generator.ID, callers)
	for c := range callers {
		wg.Go(func() {
			ids := make([]generator.ID, burst)
			last := generator.ID(0)
			for range rounds {
				id, err := g.Next(t.Context())
				if err == nil {
					err = g.Fill(t.Context(), ids)
				}
				if err != nil {
					t.Error(err)
					return
				}
				for _, next := range append([]generator.ID{id}, ids...) {
					if next <= last {
						t.Errorf("%v does not follow %v", next, last)
					}
					last = next
					all[c] = append(all[c], next)
				}
			}
		})
	}
	wg.Wait()
	merged := slices.Sorted(slices.Values(slices.Concat(all...)))
	if unique := slices.Compact(slices.Clone(merged)); len(unique) != callers*rounds*(burst+1) {
		t.Fatalf("want %d ids, got %d distinct ones", callers*rounds*(burst+1), len(unique))
	}
}

func TestNoAllocation(t *testing.T) {
	g, err := generator.Open(t.Context(), generator.Config{Store: unbounded{}, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.Background())
	ids := make([]generator.ID, 100)
	if n := testing.AllocsPerRun(1000, func() { _, _ = g.Next(context.Background()) }); n != 0 {
		t.Errorf("Next allocates %v times", n)
	}
	if n := testing.AllocsPerRun(1000, func() { _ = g.Fill(context.Background(), ids) }); n != 0 {
		t.Errorf("Fill allocates %v times", n)
	}
}
