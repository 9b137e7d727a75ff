package gormflake

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gormflake/gormflake/generator"
)

// closeTimeout bounds Close where its context has no deadline.
const closeTimeout = 5 * time.Second

// opening is the one attempt to lease that is under way.
type opening struct {
	cancel context.CancelFunc
	// local says that the lease comes from this process, without I/O.
	local bool
	done  chan struct{}
	err   error // set before done is closed
	// abandoned says that the Start which began it has given it up: its context's
	// end is no failure of the others that wait.
	abandoned atomic.Bool
}

// Start leases a worker id and returns when ids can be had, so that a program
// fails at boot and not at its first create. It waits as long as ctx allows;
// when ctx ends first, the attempt ends with it. A started plugin returns nil.
//
// Errors: ErrNoWorker, ErrWorkerInUse, ErrLayoutMismatch, ErrClockSkew,
// ErrInvalidConfig and ErrNotStarted with its cause; ErrClosed after Close.
func (p *Plugin) Start(ctx context.Context) error {
	if p.configErr != nil {
		return p.configErr
	}
	if p.generator.Load() != nil {
		return nil
	}
	for {
		o, began, err := p.open(context.WithoutCancel(ctx))
		if o == nil {
			return err
		}
		select {
		case <-o.done:
			if o.err != nil && o.abandoned.Load() {
				continue
			}
			return o.err
		case <-ctx.Done():
			if began {
				o.abandoned.Store(true)
				o.cancel()
				<-o.done
			}
			return fmt.Errorf("%w: waited for the lease: %w", ErrNotStarted, errors.Join(ctx.Err(), o.failure()))
		}
	}
}

// failure is the attempt's error where it has ended.
func (o *opening) failure() error {
	select {
	case <-o.done:
		return o.err
	default:
		return nil
	}
}

// Close seals the plugin: later creates of models that want ids fail with
// ErrClosed. It releases the worker id, unless other plugins of the process
// use it, and ends the background work. A Generator given in Config stays
// open. Without a deadline in ctx it takes at most 5 s. A second Close does
// nothing.
func (p *Plugin) Close(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closeTimeout)
		defer cancel()
	}
	p.mu.Lock()
	p.closed = true
	g := p.generator.Swap(nil)
	o := p.opening
	p.mu.Unlock()
	if o != nil {
		o.cancel()
		select {
		case <-o.done:
		case <-ctx.Done():
			return fmt.Errorf("gormflake: close: the lease store does not answer: %w", ctx.Err())
		}
	}
	if g == nil || p.config.Generator != nil {
		return nil
	}
	return g.Close(ctx)
}

// await returns the generator, and begins to lease if nobody has yet. It waits
// for the lease at most MaxWait and not past ctx's end, and not at all where
// the caller holds what leasing may need, such as a connection or row locks.
func (p *Plugin) await(ctx context.Context, holding bool) (*generator.Generator, error) {
	if g := p.generator.Load(); g != nil {
		return g, nil
	}
	if p.configErr != nil {
		return nil, p.configErr
	}
	timer := time.NewTimer(max(0, p.config.MaxWait))
	defer timer.Stop()
	for {
		o, _, err := p.open(context.Background())
		if o == nil {
			if g := p.generator.Load(); g != nil || err != nil {
				return g, err
			}
			return nil, ErrClosed // since open has looked
		}
		if holding && !o.local {
			return nil, fmt.Errorf("%w, and a transaction or connection is held that leasing may have to wait for; call Start at boot, or try again",
				ErrNotStarted)
		}
		select {
		case <-o.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: waited for the lease: %w", ErrNotStarted, ctx.Err())
		case <-timer.C:
			return nil, fmt.Errorf("%w within MaxWait (%v); leasing goes on, call Start at boot to wait for it",
				ErrNotStarted, max(0, p.config.MaxWait))
		}
		switch g := p.generator.Load(); {
		case o.err != nil && o.abandoned.Load():
			continue
		case o.err != nil:
			return nil, o.err
		case g != nil:
			return g, nil
		}
		return nil, ErrClosed
	}
}

// open returns the attempt to lease that is under way, and whether this call
// has begun it. It returns neither an attempt nor an error when there is a
// generator.
func (p *Plugin) open(ctx context.Context) (o *opening, began bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, false, ErrClosed
	case p.generator.Load() != nil:
		return nil, false, nil
	case p.opening != nil:
		return p.opening, false, nil
	}
	source, err := p.source()
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	o = &opening{cancel: cancel, local: source.local, done: make(chan struct{})}
	p.opening = o
	go p.run(ctx, o, source)
	return o, true, nil
}

// run leases, and publishes what comes of it.
func (p *Plugin) run(ctx context.Context, o *opening, source source) {
	defer o.cancel()
	g, err := source.open(ctx)
	p.mu.Lock()
	p.opening = nil
	closed := p.closed
	if err == nil && !closed {
		p.generator.Store(g)
	}
	p.mu.Unlock()
	switch {
	case err != nil && closed:
		o.err = ErrClosed
	case err != nil && !errors.Is(err, ErrNotStarted):
		o.err = fmt.Errorf("%w: %w", ErrNotStarted, err)
	case err != nil:
		o.err = err
	case closed:
		o.err = errors.Join(ErrClosed, g.Close(context.Background()))
	}
	close(o.done)
}
