package generator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// hanging is a store whose reservations wait for a gate.
type hanging struct {
	*scripted
	gate chan struct{}
}

func (h hanging) ReserveBlock(_ context.Context, req lease.BlockRequest) (lease.Block, error) {
	<-h.gate
	return req.Block(req.Workers.Lo, 0), nil
}

// A call with a context that ends does not wait with one that has none.
func TestABackfillWaitsWithinEachContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hanging{inBubbleStore(), make(chan struct{})}
		g, err := generator.Open(t.Context(), generator.Config{Store: store, Clock: bubbleNow, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close(context.Background())
		from := bubbleNow().AddDate(-1, 0, 0)
		backfill, err := g.Backfill(t.Context(), from, from.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		patient := make(chan error, 1)
		go func() {
			_, err := backfill.Next(context.Background(), from)
			patient <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := backfill.Next(ctx, from); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next: want context.DeadlineExceeded, got %v", err)
		}
		if err := backfill.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: want context.DeadlineExceeded, got %v", err)
		}
		close(store.gate)
		if err := <-patient; err != nil {
			t.Error(err)
		}
		if err := backfill.Close(ctx); err != nil {
			t.Errorf("Close once the store has answered: %v", err)
		}
	})
}
