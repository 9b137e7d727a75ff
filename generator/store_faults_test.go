package generator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

func TestTheStoreIsNotOnTheCreatePath(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, s *scripted, clock *testClock) {
		hang := make(chan struct{})
		s.set(func(s *scripted) { s.hang = hang })
		opened := clock.Now()
		for clock.Now().Sub(opened) < 29*time.Second {
			before := time.Now()
			next(t, g)
			if waited := time.Since(before); waited != 0 {
				t.Fatalf("a store that hangs held Next for %v", waited)
			}
			elapse(100 * time.Millisecond)
		}
		elapse(2 * time.Second)
		if _, err := g.Next(t.Context()); !errors.Is(err, generator.ErrSealed) {
			t.Fatalf("want ErrSealed after the window, got %v", err)
		}
		if s := g.Stats(); s.State != generator.StateSealed || s.Cause == nil {
			t.Fatalf("want the sealed state and its cause, got %+v", s)
		}
		s.set(func(s *scripted) { s.hang = nil })
		close(hang)
		elapse(3 * time.Second)
		next(t, g)
		if s := g.Stats(); s.State != generator.StateLeased || s.Cause != nil {
			t.Fatalf("want recovery by itself, got %+v", s)
		}
	})
}

func TestOneStatementPerInterval(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, s *scripted, _ *testClock) {
		for range 1000 {
			next(t, g)
			elapse(100 * time.Millisecond)
		}
		s.set(func(s *scripted) {
			// 100 s at an interval of 10 s with a jitter of a tenth.
			if s.extends < 9 || s.extends > 12 || s.acquires != 1 {
				t.Errorf("want about 10 extensions and 1 acquire, got %d and %d", s.extends, s.acquires)
			}
		})
	})
}

func TestALostReplyIsSettledByLookup(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, s *scripted, _ *testClock) {
		s.set(func(s *scripted) { s.failLate = errors.New("reply lost") })
		for range 600 {
			next(t, g)
			elapse(100 * time.Millisecond)
		}
		if stats := g.Stats(); stats.Losses != 0 || stats.Acquires != 1 {
			t.Fatalf("extensions that took effect must be adopted, got %+v", stats)
		}
	})
}

func TestAnUnsettledExtensionIsNotUsed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, s *scripted, _ *testClock) {
		s.set(func(s *scripted) { s.failLate, s.notLooks = errors.New("reply lost"), true })
		elapse(31 * time.Second)
		if _, err := g.Next(t.Context()); !errors.Is(err, generator.ErrSealed) {
			t.Fatalf("want ErrSealed while nothing is known, got %v", err)
		}
		s.set(func(s *scripted) { s.failLate, s.notLooks = nil, false })
		elapse(5 * time.Second)
		next(t, g)
	})
}

func TestALostRowIsReplaced(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, s *scripted, _ *testClock) {
		before := next(t, g)
		s.set(func(s *scripted) {
			row := s.rows[0]
			row.Owner, row.Term = "somebody else", row.Term+1
			s.rows[0] = row
		})
		elapse(12 * time.Second)
		after := next(t, g)
		if got := g.Layout().Decompose(after).Worker; got != 1 {
			t.Fatalf("want worker 1 after the loss of 0, got %d", got)
		}
		if s := g.Stats(); s.Losses != 1 || s.Acquires != 2 || after == before {
			t.Fatalf("want one loss and two acquires, got %+v", s)
		}
	})
}

func TestAPausedOwner(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, s *scripted, clock *testClock) {
		var highWater int64
		s.set(func(s *scripted) {
			row := s.rows[0]
			highWater = row.HighWater
			row.Owner, row.Term, row.HighWater = "somebody else", row.Term+1, row.HighWater+150_000
			row.ExpiresAt = row.HighWater
			s.rows[0] = row
		})
		clock.jump(2 * time.Minute)
		s.set(func(s *scripted) { s.now = func() int64 { return clock.Now().UnixMilli() } })
		id := next(t, g)
		if p := g.Layout().Decompose(id); p.Worker == 0 && p.Time.UnixMilli() >= highWater {
			t.Fatalf("%+v lies past the grant's end", p)
		}
	})
}

func TestTheGuardIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := inBubbleStore()
		store.guard = 12 * time.Second
		store.timing = lease.Timing{Window: 10 * time.Second, Interval: 2500 * time.Millisecond, Expiry: 20 * time.Second, Slack: time.Second}
		began := bubbleNow()
		g, err := generator.Open(t.Context(), generator.Config{Store: store, Clock: bubbleNow, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close(context.Background())
		if waited := bubbleNow().Sub(began); waited < store.guard || waited > store.guard+50*time.Millisecond {
			t.Fatalf("want a wait of the guard, %v, waited %v", store.guard, waited)
		}
		if at := g.Layout().Decompose(next(t, g)).Time; at.Before(began.Add(store.guard).Truncate(time.Millisecond)) {
			t.Fatalf("the first id, %v, lies within the guard", at)
		}
	})
}

func TestClockSkewSeals(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, s *scripted, _ *testClock) {
		s.set(func(s *scripted) { s.now = func() int64 { return bubbleNow().Add(-time.Hour).UnixMilli() } })
		elapse(12 * time.Second)
		_, err := g.Next(t.Context())
		if !errors.Is(err, generator.ErrSealed) || !errors.Is(err, generator.ErrClockSkew) {
			t.Fatalf("want ErrSealed for ErrClockSkew, got %v", err)
		}
		s.set(func(s *scripted) { s.now = func() int64 { return bubbleNow().UnixMilli() } })
		elapse(5 * time.Second)
		next(t, g)
	})
}

func TestOpenFails(t *testing.T) {
	away := errors.New("connection refused")
	for _, c := range []struct {
		name string
		edit func(*scripted, *generator.Config)
		want error
	}{
		{"store away", func(s *scripted, _ *generator.Config) { s.fail = away }, away},
		{"store hangs", func(s *scripted, _ *generator.Config) { s.hang = make(chan struct{}) }, context.DeadlineExceeded},
		{"no worker", func(s *scripted, _ *generator.Config) {
			for w := range int64(1024) {
				s.rows[w] = lease.Row{Worker: w, Owner: "x", ExpiresAt: 1 << 60}
			}
		}, generator.ErrNoWorker},
		{"clock an hour ahead", func(_ *scripted, c *generator.Config) {
			c.Clock = func() time.Time { return bubbleNow().Add(time.Hour) }
		}, generator.ErrClockSkew},
		{"clock an hour behind", func(_ *scripted, c *generator.Config) {
			c.Clock = func() time.Time { return bubbleNow().Add(-time.Hour) }
		}, generator.ErrClockSkew},
		{"clock before the epoch", func(_ *scripted, c *generator.Config) {
			c.Clock = func() time.Time { return time.Unix(0, 0) }
		}, generator.ErrBeforeEpoch},
		{"clock past the end", func(_ *scripted, c *generator.Config) {
			c.Clock = func() time.Time { return generator.Standard().End() }
		}, generator.ErrTimeExhausted},
		{"a setting that can't be right", func(s *scripted, _ *generator.Config) {
			s.fail = fmt.Errorf("%w: once", lease.ErrInvalid)
			s.failures = 1
		}, lease.ErrInvalid},
		{"no store", func(_ *scripted, c *generator.Config) { c.Store = nil }, generator.ErrInvalidConfig},
		{"lead above a quarter of the window", func(_ *scripted, c *generator.Config) { c.MaxLead = 8 * time.Second }, generator.ErrInvalidConfig},
		{"namespace with braces", func(_ *scripted, c *generator.Config) { c.Namespace = "{a}" }, generator.ErrInvalidConfig},
		{"bad layout", func(_ *scripted, c *generator.Config) { c.Layout.TimeBits = 41 }, generator.ErrInvalidLayout},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := inBubbleStore()
				config := generator.Config{Store: store, Clock: bubbleNow, Logger: quiet}
				c.edit(store, &config)
				if _, err := generator.Open(t.Context(), config); !errors.Is(err, c.want) {
					t.Fatalf("want %v, got %v", c.want, err)
				}
			})
		})
	}
}

func TestClose(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, g *generator.Generator, s *scripted, _ *testClock) {
		next(t, g)
		if err := g.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, call := range map[string]func() error{
			"Next":  func() error { _, err := g.Next(t.Context()); return err },
			"Fill":  func() error { return g.Fill(t.Context(), make([]generator.ID, 2)) },
			"Ready": func() error { return g.Ready(t.Context()) },
		} {
			if err := call(); !errors.Is(err, generator.ErrClosed) {
				t.Errorf("%s after Close: want ErrClosed, got %v", name, err)
			}
		}
		s.set(func(s *scripted) {
			if row := s.rows[0]; row.Owner != "" || row.ExpiresAt != row.HighWater {
				t.Errorf("want a released row that keeps its high water, got %+v", row)
			}
		})
		if got := g.Stats().State; got != generator.StateClosed {
			t.Errorf("want the state closed, got %v", got)
		}
	})
}

func TestCloseIsBoundedWhenTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := inBubbleStore()
		g, err := generator.Open(t.Context(), generator.Config{Store: store, Clock: bubbleNow, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		store.set(func(s *scripted) { s.hang = make(chan struct{}) })
		began := time.Now()
		if err := g.Close(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("want a deadline's error, got %v", err)
		}
		if waited := time.Since(began); waited > 6*time.Second {
			t.Fatalf("Close took %v", waited)
		}
	})
}
