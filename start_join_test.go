package gormflake_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator/lease"
)

// hesitant takes its time to lease.
type hesitant struct{ lease.Store }

func (h hesitant) Acquire(ctx context.Context, req lease.Request) (lease.Grant, error) {
	select {
	case <-time.After(200 * time.Millisecond):
		return h.Store.Acquire(ctx, req)
	case <-ctx.Done():
		return lease.Grant{}, ctx.Err()
	}
}

// TestStartOutlivesAnother ends the context of the Start that began to lease.
// Others who wait for the lease have contexts of their own.
func TestStartOutlivesAnother(t *testing.T) {
	for name, wait := range map[string]func(*gormflake.Plugin, context.Context) error{"Start": (*gormflake.Plugin).Start, "Ready": (*gormflake.Plugin).Ready} {
		t.Run(name, func(t *testing.T) {
			p := gormflake.New(gormflake.Config{Store: hesitant{lease.Memory()}})
			first := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				first <- p.Start(ctx)
			}()
			time.Sleep(20 * time.Millisecond) // so that it has begun
			if err := wait(p, t.Context()); err != nil {
				t.Errorf("expected to lease, met %v", err)
			}
			if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("expected the first to end with its context, met %v", err)
			}
			if err := p.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
