package generator_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// slowly is a store whose extensions take a millisecond.
type slowly struct{ *scripted }

func (s slowly) Extend(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
	elapse(time.Millisecond)
	return s.scripted.Extend(ctx, held, through)
}

// While the guard of a new lease runs, callers wait for it; the store has
// nothing to do with that.
func TestCallersThatWaitForAGuardLeaveTheStoreAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowly{inBubbleStore()}
		store.timing = lease.Timing{Window: 10 * time.Second, Interval: 2500 * time.Millisecond, Expiry: 20 * time.Second, Slack: time.Second}
		g, err := generator.Open(t.Context(), generator.Config{Store: store, Clock: bubbleNow, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close(context.Background())
		next(t, g)
		store.set(func(s *scripted) {
			row := s.rows[0]
			row.Owner, row.Term = "somebody else", row.Term+1
			s.rows[0], s.guard = row, 12*time.Second
		})
		began, refused := time.Now(), 0
		for {
			if _, err := g.Next(t.Context()); err != nil {
				refused++
			} else if refused > 0 {
				break
			}
			elapse(10 * time.Millisecond)
		}
		if waited := time.Since(began); waited < 12*time.Second || waited > 16*time.Second {
			t.Errorf("ids were back after %v; want the guard of 12s and the time until the loss is noticed", waited)
		}
		store.set(func(s *scripted) {
			// One in 2.5 s, or in a tenth of that at most, where callers ask for it.
			if s.extends > 70 {
				t.Errorf("%d extensions in %v", s.extends, time.Since(began))
			}
		})
	})
}

// SwitchWorker answers a clock that went back. A sequence that is used up, and
// a caller without patience, are no reason to give the worker id up.
func TestSwitchWorkerStaysWhileTheClockIsRight(t *testing.T) {
	edit := func(_ *scripted, c *generator.Config) { c.SwitchWorker, c.MaxWait = true, -1 }
	inBubble(t, edit, func(t *testing.T, g *generator.Generator, s *scripted, _ *testClock) {
		var err error
		for range 12 * 4096 {
			if _, err = g.Next(t.Context()); err != nil {
				break
			}
		}
		if !errors.Is(err, generator.ErrClockBehind) {
			t.Fatalf("want ErrClockBehind once the lead is used up, got %v", err)
		}
		elapse(time.Second)
		next(t, g)
		if stats := g.Stats(); stats.Acquires != 1 || stats.Waits.Clock != 0 {
			t.Errorf("want the first lease still, got %+v", stats)
		}
	})
}

// The rest of a long tick is waited for, not a whole one.
func TestALongTickIsWaitedForToItsEnd(t *testing.T) {
	edit := func(s *scripted, c *generator.Config) {
		c.Layout = generator.Layout{
			Epoch: time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC), Tick: time.Second, TimeBits: 32, WorkerBits: 10, SequenceBits: 2,
		}
		c.MaxWait = 500 * time.Millisecond
	}
	inBubble(t, edit, func(t *testing.T, g *generator.Generator, _ *scripted, clock *testClock) {
		elapse(10 * time.Second)
		elapse(clock.Now().Truncate(time.Second).Add(1900 * time.Millisecond).Sub(clock.Now()))
		began := time.Now()
		for range 5 {
			next(t, g)
		}
		if waited := time.Since(began); waited != 100*time.Millisecond {
			t.Errorf("want a wait of 100ms for the next second, waited %v", waited)
		}
	})
}

// Fill returns ids that are within MaxLead of the clock, or none.
func TestFillWithAClockThatStops(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, _ *scripted, clock *testClock) {
		ids := make([]generator.ID, 4096*1000)
		time.AfterFunc(500*time.Millisecond, func() { clock.jump(-time.Hour) })
		began := time.Now()
		err := g.Fill(t.Context(), ids)
		if !errors.Is(err, generator.ErrClockBehind) || ids[0] != 0 {
			t.Errorf("want ErrClockBehind and no id, got %v and %v", err, ids[0])
		}
		if waited := time.Since(began); waited > generator.DefaultMaxWait {
			t.Errorf("waited %v; want at most MaxWait", waited)
		}
		clock.jump(time.Hour)
	})
}

func TestABoundlessMaxWaitAllowsBursts(t *testing.T) {
	edit := func(_ *scripted, c *generator.Config) { c.MaxWait = 1<<63 - 1 }
	inBubble(t, edit, func(t *testing.T, g *generator.Generator, _ *scripted, _ *testClock) {
		if err := g.Fill(t.Context(), make([]generator.ID, 3*4096)); err != nil {
			t.Error(err)
		}
	})
}

// A clock that is centuries back must not pass for one that is right.
func TestAClockThatIsFarBack(t *testing.T) {
	for year := 1; year < 2000; year += 37 {
		var back atomic.Bool
		edit := func(_ *scripted, c *generator.Config) {
			c.Clock = func() time.Time {
				if back.Load() {
					return bubbleNow().AddDate(year-2024, 0, 0)
				}
				return bubbleNow()
			}
		}
		inBubble(t, edit, func(t *testing.T, g *generator.Generator, _ *scripted, _ *testClock) {
			next(t, g)
			back.Store(true)
			if id, err := g.Next(t.Context()); !errors.Is(err, generator.ErrClockBehind) {
				t.Errorf("a clock in the year %d: want ErrClockBehind, got %v, %v", year, id, err)
			}
			back.Store(false)
		})
	}
}

func TestTheEndOfTimeInAFullLayout(t *testing.T) {
	layout := generator.Layout{Epoch: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), Tick: time.Millisecond, TimeBits: 32, SequenceBits: 31}
	edit := func(s *scripted, c *generator.Config) {
		shift := layout.End().Add(-10 * time.Second).Sub(bubbleNow())
		c.Layout = layout
		c.Clock = func() time.Time { return bubbleNow().Add(shift) }
		s.now = func() int64 { return c.Clock().UnixMilli() }
	}
	inBubble(t, edit, func(t *testing.T, g *generator.Generator, _ *scripted, _ *testClock) {
		next(t, g)
		elapse(11 * time.Second)
		if id, err := g.Next(t.Context()); !errors.Is(err, generator.ErrTimeExhausted) {
			t.Fatalf("want ErrTimeExhausted, got %v, %v", id, err)
		}
	})
}

// A program that shuts down with a context that has ended gets an error, and
// the worker id is released all the same.
func TestCloseWithAnEndedContextReleases(t *testing.T) {
	config := generator.Config{Store: lease.Fixed(77), Namespace: "ended-context", Logger: quiet}
	g, err := generator.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Close(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("want context.Canceled, got %v", err)
	}
	for {
		row, _, err := config.Store.Lookup(t.Context(), config.Namespace, 77)
		if err != nil {
			t.Fatal(err)
		}
		if !row.Held || row.Owner == "" {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the worker id is held still")
		case <-time.After(time.Millisecond):
		}
	}
}

// Whoever is refused because of a guard reads until when it lasts, and why, and
// nothing about a store that does not answer.
func TestARefusalSaysWhatAGuardWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := because{inBubbleStore()}
		store.guard = 12 * time.Second
		config := generator.Config{Store: store, Clock: bubbleNow, Logger: quiet}
		due := bubbleNow().Add(store.guard).UTC().Format("2006-01-02T15:04:05.000Z")
		check := func(err error, want ...error) {
			t.Helper()
			for _, target := range want {
				if !errors.Is(err, target) {
					t.Errorf("want %v, got %v", target, err)
				}
			}
			if err == nil || !strings.Contains(err.Error(), due) || !strings.Contains(err.Error(), "the tail of a failover") || strings.Contains(err.Error(), "answer") {
				t.Errorf("want the time %s and what for, got %v", due, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := generator.Open(ctx, config)
		check(err, generator.ErrNotStarted, context.DeadlineExceeded)

		store.guard = 0
		g, err := generator.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close(context.Background())
		lost := g.Stats().Worker
		store.set(func(s *scripted) {
			row := s.rows[lost]
			row.Owner = "somebody else"
			s.rows[lost], s.guard = row, time.Minute
		})
		for g.Stats().Losses == 0 {
			elapse(100 * time.Millisecond)
		}
		synctest.Wait()
		due = bubbleNow().Add(time.Minute).UTC().Format("2006-01-02T15:04")
		_, err = g.Next(t.Context())
		check(err, generator.ErrSealed)
	})
}

// because is a store that says what its guard is for.
type because struct{ *scripted }

func (s because) Acquire(ctx context.Context, req lease.Request) (lease.Grant, error) {
	grant, err := s.scripted.Acquire(ctx, req)
	grant.Because = "the tail of a failover"
	return grant, err
}
