package generator

import (
	"context"
	"fmt"
	"reflect"
	"sync"
)

// shares are the process's generators by store and namespace. Being one per
// process is what they are for, hence a variable of the package.
var shares = struct {
	sync.Mutex
	of map[shareKey]*share
}{of: map[shareKey]*share{}}

type shareKey struct {
	store     any
	namespace string
}

// share is one generator and how many have asked for it.
type share struct {
	key    shareKey
	config Config
	opened chan struct{}
	gone   chan struct{}
	refs   int
	// leaving says that the last caller is closing the generator: nobody joins
	// any more, and gone is closed when that has ended.
	leaving bool

	// Set before opened is closed.
	generator *Generator
	err       error
}

// Shared returns the process's one generator for a store and namespace,
// opening it at the first call. Every caller closes it once; the last Close
// releases the worker id. A Config that differs from the first one's in
// layout or time policy is ErrInvalidConfig, a different layout
// ErrLayoutMismatch. Other errors are Open's.
func Shared(ctx context.Context, config Config) (*Generator, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	key := shareKey{store: config.Store.Key(), namespace: config.Namespace}
	if key.store == nil || !reflect.ValueOf(key.store).Comparable() {
		return nil, fmt.Errorf("%w: want a store whose Key is comparable, got a %T", ErrInvalidConfig, key.store)
	}
	for {
		s, first, gone, err := joinShare(key, config)
		if err != nil {
			return nil, err
		}
		if gone != nil {
			// The worker id is not free before that has ended, and a fixed one is
			// the only one there is.
			select {
			case <-gone:
				continue
			case <-ctx.Done():
				return nil, fmt.Errorf("%w: another caller is closing the one before it: %w", ErrNotStarted, ctx.Err())
			}
		}
		if first {
			s.generator, s.err = Open(ctx, config)
			if s.err != nil {
				s.forget()
			} else {
				s.generator.share = s
			}
			close(s.opened)
			return s.generator, s.err
		}
		select {
		case <-s.opened:
		case <-ctx.Done():
			s.abandon(ctx)
			return nil, fmt.Errorf("%w: another caller is opening it: %w", ErrNotStarted, ctx.Err())
		}
		if s.err == nil {
			return s.generator, nil
		}
		// The first caller's failure, its context's perhaps, is not ours.
	}
}

// joinShare counts the caller in, and reports whether it is the first, which
// opens. While the last caller is closing the generator it counts nobody in
// and returns what to wait for instead.
func joinShare(key shareKey, config Config) (s *share, first bool, gone <-chan struct{}, err error) {
	shares.Lock()
	defer shares.Unlock()
	s = shares.of[key]
	if s == nil {
		s = &share{key: key, config: config, opened: make(chan struct{}), gone: make(chan struct{}), refs: 1}
		shares.of[key] = s
		return s, true, nil, nil
	}
	if s.leaving {
		return nil, false, s.gone, nil
	}
	if err := s.config.agrees(config); err != nil {
		return nil, false, nil, err
	}
	s.refs++
	return s, false, nil, nil
}

// agrees reports in which of the settings that make up a generator's
// behaviour the configs differ.
func (c Config) agrees(o Config) error {
	if a, b := c.Layout.record(), o.Layout.record(); a != b {
		return fmt.Errorf("%w: namespace %q is open in this process with layout %v, got %v; use one layout or another namespace",
			ErrLayoutMismatch, c.Namespace, c.Layout, o.Layout)
	}
	for _, field := range []struct {
		name      string
		have, got any
	}{
		{"MaxLead", c.MaxLead, o.MaxLead},
		{"MaxWait", c.MaxWait, o.MaxWait},
		{"MaxSkew", c.MaxSkew, o.MaxSkew},
		{"RollingSequence", c.RollingSequence, o.RollingSequence},
		{"SwitchWorker", c.SwitchWorker, o.SwitchWorker},
		{"a Clock", c.Clock != nil, o.Clock != nil},
	} {
		if field.have != field.got {
			return fmt.Errorf("%w: namespace %q is open in this process with %s %v, got %v; use equal settings or another namespace",
				ErrInvalidConfig, c.Namespace, field.name, field.have, field.got)
		}
	}
	return nil
}

// leave counts a caller out and reports whether it was the last, which closes
// the generator and then forgets the share.
func (s *share) leave() bool {
	shares.Lock()
	defer shares.Unlock()
	s.refs--
	if s.refs > 0 {
		return false
	}
	s.leaving = true
	return true
}

// forget ends a share that is closed or failed to open.
func (s *share) forget() {
	shares.Lock()
	defer shares.Unlock()
	if shares.of[s.key] == s {
		delete(shares.of, s.key)
		close(s.gone)
	}
}

// abandon leaves while the first caller is still opening; if the generator
// comes about and nobody else wants it, it is closed.
func (s *share) abandon(ctx context.Context) {
	closing := context.WithoutCancel(ctx)
	go func() {
		<-s.opened
		if s.err == nil {
			_ = s.generator.Close(closing)
		}
	}()
}
