// Package world is what a generator sees of the machine it runs on: a clock,
// a way to wait and a way to work in the background. Programs use the real
// one; the simulator carries its own in the context that it opens a
// generator with.
package world

import (
	"context"
	"time"
)

// World is the machine.
type World interface {
	// Now returns the time that Wait and WithTimeout count in.
	Now() time.Time
	// Wait returns nil after d or as soon as wake is closed or receives, and
	// ctx.Err() when ctx ends first.
	Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error
	// Go runs f in the background.
	Go(f func())
	// WithTimeout is context.WithTimeout by this world's clock.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

type key struct{}

// With returns a context that carries w.
func With(ctx context.Context, w World) context.Context {
	return context.WithValue(ctx, key{}, w)
}

// From returns the world that ctx carries.
func From(ctx context.Context) (World, bool) {
	w, ok := ctx.Value(key{}).(World)
	return w, ok
}

// Real is the world of a program.
type Real struct{}

// Now is time.Now.
func (Real) Now() time.Time { return time.Now() }

// Wait sleeps on a timer.
func (Real) Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Go starts a goroutine.
func (Real) Go(f func()) { go f() }

// WithTimeout is context.WithTimeout.
func (Real) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}
