package generator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/internal/blocked"
)

var errHeld = errors.New("the caller holds it")

// asked counts how often a context is asked whether it blocks the store.
type asked struct {
	why   error
	times int
}

func (a *asked) context(t *testing.T) context.Context {
	return blocked.With(t.Context(), func() error { a.times++; return a.why })
}

// usedUp opens a generator whose grant a suspended machine has slept through,
// so that the keeper has not failed yet, with a store that hangs.
func usedUp(t *testing.T, test func(t *testing.T, g *generator.Generator, s *scripted, answer func(after time.Duration))) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, s *scripted, clock *testClock) {
		hang := make(chan struct{})
		s.set(func(s *scripted) { s.hang, s.now = hang, func() int64 { return clock.Now().UnixMilli() } })
		clock.jump(time.Minute)
		answered := make(chan struct{})
		test(t, g, s, func(after time.Duration) {
			go func() {
				defer close(answered)
				elapse(after)
				s.set(func(s *scripted) { s.hang = nil })
				close(hang)
			}()
		})
		<-answered
	})
}

// A caller that holds what the store needs is refused at once, where others
// wait for MaxWait.
func TestACallerThatBlocksTheStoreDoesNotWaitForIt(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *generator.Generator) error{
		"Next":  func(ctx context.Context, g *generator.Generator) error { _, err := g.Next(ctx); return err },
		"Fill":  func(ctx context.Context, g *generator.Generator) error { return g.Fill(ctx, make([]generator.ID, 3)) },
		"Ready": func(ctx context.Context, g *generator.Generator) error { return g.Ready(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			usedUp(t, func(t *testing.T, g *generator.Generator, s *scripted, answer func(time.Duration)) {
				held := &asked{why: errHeld}
				began := time.Now()
				err := ask(held.context(t), g)
				if !errors.Is(err, generator.ErrSealed) || !errors.Is(err, errHeld) {
					t.Errorf("want ErrSealed and why, got %v", err)
				}
				if waited := time.Since(began); waited > 20*time.Millisecond {
					t.Errorf("the call waited for %v", waited)
				}
				began = time.Now()
				if err := ask(t.Context(), g); !errors.Is(err, generator.ErrSealed) || errors.Is(err, errHeld) {
					t.Errorf("another caller: want ErrSealed alone, got %v", err)
				}
				if waited := time.Since(began); waited < generator.DefaultMaxWait {
					t.Errorf("another caller waited for %v; want MaxWait", waited)
				}
				// The attempt of half an interval has failed by then.
				elapse(10 * time.Second)
				if err := ask(held.context(t), g); !errors.Is(err, generator.ErrSealed) || !errors.Is(err, errHeld) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("once the store has failed: want ErrSealed, why, and the store's error, got %v", err)
				}
				answer(0)
				elapse(5 * time.Second)
				before := held.times
				if err := ask(held.context(t), g); err != nil || held.times != before {
					t.Errorf("with the grant renewed: error %v, asked %d times; want an id, and none", err, held.times-before)
				}
			})
		})
	}
}

// An answer that is under way when the caller comes to hold what the store
// needs is waited for.
func TestACallerThatBlocksTheStoreWaitsForAnAnswerUnderWay(t *testing.T) {
	usedUp(t, func(t *testing.T, g *generator.Generator, s *scripted, answer func(time.Duration)) {
		answer(10 * time.Millisecond)
		if _, err := g.Next((&asked{why: errHeld}).context(t)); err != nil {
			t.Errorf("want an id, got %v", err)
		}
	})
}

// Where the context says that nothing is blocked, the call waits as any other.
func TestACallerThatBlocksNothingWaits(t *testing.T) {
	usedUp(t, func(t *testing.T, g *generator.Generator, s *scripted, answer func(time.Duration)) {
		answer(time.Second)
		if _, err := g.Next((&asked{}).context(t)); err != nil {
			t.Errorf("want an id, got %v", err)
		}
	})
}

// To block the store is no reason not to wait for the clock, nor for a guard.
func TestACallerThatBlocksTheStoreWaitsForTime(t *testing.T) {
	held := &asked{why: errHeld}
	t.Run("the clock", func(t *testing.T) {
		inBubble(t, nil, func(t *testing.T, g *generator.Generator, s *scripted, clock *testClock) {
			next(t, g)
			clock.jump(-time.Second)
			if _, err := g.Next(held.context(t)); err != nil {
				t.Errorf("want an id, got %v", err)
			}
		})
	})
	t.Run("the clock, and no other worker id", func(t *testing.T) {
		edit := func(_ *scripted, c *generator.Config) { c.SwitchWorker = true }
		inBubble(t, edit, func(t *testing.T, g *generator.Generator, s *scripted, clock *testClock) {
			next(t, g)
			worker := g.Stats().Worker
			clock.jump(-3 * time.Second)
			if _, err := g.Next(held.context(t)); !errors.Is(err, generator.ErrClockBehind) {
				t.Errorf("want ErrClockBehind, got %v", err)
			}
			if now := g.Stats().Worker; now != worker {
				t.Errorf("worker %d was given up for %d, which asks the store", worker, now)
			}
			next(t, g)
		})
	})
	t.Run("a guard", func(t *testing.T) {
		edit := func(_ *scripted, c *generator.Config) { c.MaxWait = time.Minute }
		inBubble(t, edit, func(t *testing.T, g *generator.Generator, s *scripted, clock *testClock) {
			s.set(func(s *scripted) {
				row := s.rows[0]
				row.Owner = "somebody else"
				s.rows[0], s.guard = row, 12*time.Second
			})
			elapse(11 * time.Second) // the loss is noticed, another row is taken
			if n := g.Stats().Losses; n != 1 {
				t.Fatalf("%d losses; want one", n)
			}
			if _, err := g.Next(held.context(t)); err != nil {
				t.Errorf("want an id, got %v", err)
			}
		})
	})
}
