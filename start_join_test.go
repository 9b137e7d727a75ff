package gormflake_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator/lease"
)

// hesitant leases nothing to the first that asks, whose context ends instead.
type hesitant struct {
	lease.Store
	asked atomic.Int64
}

func (h *hesitant) Acquire(ctx context.Context, req lease.Request) (lease.Grant, error) {
	if h.asked.Add(1) == 1 {
		<-ctx.Done()
		return lease.Grant{}, ctx.Err()
	}
	return h.Store.Acquire(ctx, req)
}

// TestStartOutlivesAnother ends the context of the Start that began to lease.
// Others who wait for the lease have contexts of their own.
// A process waits MaxLead with the first id of a fixed worker, which is as long as
// MaxWait is by default.
func TestStartOutlivesAnother(t *testing.T) {
	for name, wait := range map[string]func(*gormflake.Plugin, context.Context) error{"Start": (*gormflake.Plugin).Start, "Ready": (*gormflake.Plugin).Ready} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := gormflake.New(gormflake.Config{Store: &hesitant{Store: lease.Fixed(7)}, MaxWait: time.Minute})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				first, second := make(chan error, 1), make(chan error, 1)
				go func() { first <- p.Start(ctx) }()
				synctest.Wait() // it has begun
				go func() { second <- wait(p, t.Context()) }()
				synctest.Wait() // it waits for what the first began
				cancel()
				if err := <-second; err != nil {
					t.Errorf("expected to lease, met %v", err)
				}
				if err := <-first; !errors.Is(err, context.Canceled) {
					t.Errorf("expected the first to end with its context, met %v", err)
				}
				if err := p.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
