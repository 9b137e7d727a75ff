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

// reserving is a store that reserves whatever it is told to.
type reserving struct {
	*scripted
	block func(lease.BlockRequest) lease.Block
}

func (r reserving) ReserveBlock(_ context.Context, req lease.BlockRequest) (lease.Block, error) {
	return r.block(req), nil
}

// A store that breaks the contract gets no id out of a backfill.
func TestABackfillRefusesUnsafeBlocks(t *testing.T) {
	tests := map[string]func(req lease.BlockRequest, b *lease.Block){
		"a live worker":           func(_ lease.BlockRequest, b *lease.Block) { b.Worker = 0 },
		"the last live worker":    func(req lease.BlockRequest, b *lease.Block) { b.Worker = req.Workers.Lo - 1 },
		"no worker of the layout": func(req lease.BlockRequest, b *lease.Block) { b.Worker = req.Workers.Hi + 1 },
		"a later first tick":      func(_ lease.BlockRequest, b *lease.Block) { b.FirstTick++ },
		"an earlier last tick":    func(_ lease.BlockRequest, b *lease.Block) { b.LastTick-- },
		"a negative sequence":     func(_ lease.BlockRequest, b *lease.Block) { b.FirstSequence = -1 },
		"a sequence too large":    func(_ lease.BlockRequest, b *lease.Block) { b.LastSequence = 4096 },
		"no sequence":             func(_ lease.BlockRequest, b *lease.Block) { b.LastSequence = b.FirstSequence - 1 },
	}
	from := bubbleNow().AddDate(-1, 0, 0).Truncate(time.Second)
	begin := func(t *testing.T, block func(lease.BlockRequest) lease.Block) *generator.Backfill {
		g, err := generator.Open(t.Context(), generator.Config{Store: reserving{newScripted(), block}, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close(context.Background()) })
		backfill, err := g.Backfill(t.Context(), from, from.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return backfill
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			backfill := begin(t, func(req lease.BlockRequest) lease.Block {
				block := req.Block(req.Workers.Lo, 0)
				spoil(req, &block)
				return block
			})
			if id, err := backfill.Next(t.Context(), from); !errors.Is(err, generator.ErrUnsafeBlock) {
				t.Errorf("got id %d, error %v; want ErrUnsafeBlock", id, err)
			}
		})
	}
	t.Run("one block twice", func(t *testing.T) {
		backfill := begin(t, func(req lease.BlockRequest) lease.Block { return req.Block(req.Workers.Hi, 0) })
		given := map[generator.ID]bool{}
		for {
			id, err := backfill.Next(t.Context(), from)
			if err != nil {
				if !errors.Is(err, generator.ErrUnsafeBlock) || len(given) != 16 {
					t.Errorf("after %d ids: %v; want ErrUnsafeBlock after the 16 of the first block", len(given), err)
				}
				return
			}
			if given[id] {
				t.Fatalf("id %d was given twice", id)
			}
			given[id] = true
		}
	})
}
