// Package blocked lets a caller of a generator say that it holds what the
// lease store needs, so that to wait for the store would be in vain.
package blocked

import "context"

type key struct{}

// With returns a context whose calls don't wait for the lease store while why
// returns an error. It is asked only when there is something to wait for.
func With(ctx context.Context, why func() error) context.Context {
	return context.WithValue(ctx, key{}, why)
}

// Why returns the error that ctx carries: why waiting for the store is in
// vain. It is nil where waiting may help.
func Why(ctx context.Context) error {
	if why, ok := ctx.Value(key{}).(func() error); ok {
		return why()
	}
	return nil
}
