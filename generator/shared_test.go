package generator_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

func TestSharedIsOneGenerator(t *testing.T) {
	store := newScripted()
	config := generator.Config{Store: store, Logger: quiet}
	const callers = 20
	got := make([]*generator.Generator, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			var err error
			if got[i], err = generator.Shared(t.Context(), config); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, g := range got {
		if g != got[0] {
			t.Fatal("want one generator for all")
		}
	}
	if store.acquires != 1 {
		t.Fatalf("want one lease, got %d", store.acquires)
	}
	for i, g := range got {
		if _, err := g.Next(t.Context()); err != nil {
			t.Fatalf("before close %d: %v", i, err)
		}
		if err := g.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := got[0].Next(t.Context()); !errors.Is(err, generator.ErrClosed) {
		t.Fatalf("want ErrClosed after the last Close, got %v", err)
	}
	again, err := generator.Shared(t.Context(), config)
	if err != nil || again == got[0] {
		t.Fatalf("want a new generator after the last Close, got %v", err)
	}
	_ = again.Close(context.Background())
}

func TestSharedRefusesAConflict(t *testing.T) {
	store := newScripted()
	g, err := generator.Shared(t.Context(), generator.Config{Store: store, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.Background())
	for _, c := range []struct {
		name   string
		config generator.Config
		want   error
	}{
		{"layout", generator.Config{Store: store, Layout: generator.Twitter()}, generator.ErrLayoutMismatch},
		{"lead", generator.Config{Store: store, MaxLead: time.Second}, generator.ErrInvalidConfig},
		{"wait", generator.Config{Store: store, MaxWait: -1}, generator.ErrInvalidConfig},
		{"clock", generator.Config{Store: store, Clock: time.Now}, generator.ErrInvalidConfig},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := generator.Shared(t.Context(), c.config); !errors.Is(err, c.want) {
				t.Fatalf("want %v, got %v", c.want, err)
			}
		})
	}
	other, err := generator.Shared(t.Context(), generator.Config{Store: store, Namespace: "other", Layout: generator.Twitter(), Logger: quiet})
	if err != nil || other == g {
		t.Fatalf("another namespace is another generator, got %v", err)
	}
	_ = other.Close(context.Background())
}

// leaving holds a release up until it is told to go on.
type leaving struct {
	lease.Store
	releasing, release chan struct{}
}

func (l *leaving) Release(ctx context.Context, held lease.Grant, used int64) error {
	close(l.releasing)
	<-l.release
	return l.Store.Release(ctx, held, used)
}

// Who asks while the last caller is closing gets the next generator, not the
// worker id's refusal.
func TestSharedWhileTheLastCallerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &leaving{Store: lease.Fixed(78), releasing: make(chan struct{}), release: make(chan struct{})}
		config := generator.Config{Store: store, Namespace: "leaving", Clock: bubbleNow, Logger: quiet}
		first, err := generator.Shared(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() { closed <- first.Close(context.Background()) }()
		<-store.releasing

		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := generator.Shared(impatient, config); !errors.Is(err, generator.ErrNotStarted) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a second's time: want ErrNotStarted and context.DeadlineExceeded, got %v", err)
		}
		config.Store = lease.Fixed(78) // equal keys: the same share
		var second *generator.Generator
		opened := make(chan error, 1)
		go func() {
			var err error
			second, err = generator.Shared(t.Context(), config)
			opened <- err
		}()
		synctest.Wait() // until it can do no more before the release
		close(store.release)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if err := <-opened; err != nil || second == first {
			t.Fatalf("want a generator of its own, got %v, %v", second, err)
		}
		if err := second.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// incomparable is a key whose type can be compared and whose value can't.
type incomparable struct{ lease.Store }

func (incomparable) Key() any { return [1]any{[]int{1}} }

func TestSharedRefusesAKeyThatCannotBeCompared(t *testing.T) {
	_, err := generator.Shared(t.Context(), generator.Config{Store: incomparable{newScripted()}, Logger: quiet})
	if !errors.Is(err, generator.ErrInvalidConfig) {
		t.Errorf("want ErrInvalidConfig, got %v", err)
	}
}

func TestSharedAfterAFailedOpen(t *testing.T) {
	store := newScripted()
	store.fail = errors.New("away")
	config := generator.Config{Store: store, Logger: quiet}
	if _, err := generator.Shared(t.Context(), config); !errors.Is(err, store.fail) {
		t.Fatalf("want the store's error, got %v", err)
	}
	store.set(func(s *scripted) { s.fail = nil })
	g, err := generator.Shared(t.Context(), config)
	if err != nil {
		t.Fatalf("a failed opening must not stay: %v", err)
	}
	_ = g.Close(context.Background())
}
