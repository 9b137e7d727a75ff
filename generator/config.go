package generator

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// Defaults of Config.
const (
	DefaultNamespace = "default"
	DefaultMaxLead   = 10 * time.Millisecond
	DefaultMaxWait   = 2 * time.Second
	DefaultMaxSkew   = 5 * time.Second
)

// Config says how a generator comes by its worker id and how it treats time.
// Only Store has no default.
type Config struct {
	// Store leases the worker id. Nil: the fixed worker id that the
	// environment variable GORMFLAKE_WORKER_ID names, else an error.
	Store lease.Store
	// Namespace is the id space: worker ids are unique within it. 1 to 64
	// characters; "" means "default".
	Namespace string
	// Layout of the ids; the zero value means Standard.
	Layout Layout
	// MaxLead is how far id time may run ahead of the clock without waiting.
	// 0 means 10 ms, negative not at all; at most a quarter of the store's
	// window.
	MaxLead time.Duration
	// MaxWait is how long a call may wait for the clock or the lease, within
	// its context. 0 means 2 s, negative not at all.
	MaxWait time.Duration
	// MaxSkew is how far this machine's clock and the store's may be apart.
	// Beyond it the generator seals with ErrClockSkew. 0 means 5 s, negative
	// no check beside the store's own.
	MaxSkew time.Duration
	// Clock is the wall clock; nil means the machine's.
	Clock func() time.Time
	// Logger gets warnings, at most one a minute for each reason; nil means
	// slog.Default.
	Logger *slog.Logger
	// RollingSequence starts each tick where the last one ended instead of at
	// 0, so that id % n stays even at low rates. It costs up to half of a
	// tick's sequences.
	RollingSequence bool
	// SwitchWorker moves to another worker id, whose ids are all behind the
	// clock, when the clock went back too far to wait for. Ids then stay
	// unique, and rise strictly within one worker id, but not from one worker
	// id to the next.
	SwitchWorker bool
}

// withDefaults fills in what is unset and checks the rest.
func (c Config) withDefaults() (Config, error) {
	fail := func(format string, args ...any) (Config, error) {
		return c, fmt.Errorf("%w: %s", ErrInvalidConfig, fmt.Sprintf(format, args...))
	}
	if c.Store == nil {
		store, ok, err := lease.FromEnvironment()
		if err != nil {
			return c, err
		}
		if !ok {
			return fail("Store is nil; give a lease store (sqllease, redislease, lease.Fixed) or set GORMFLAKE_WORKER_ID")
		}
		c.Store = store
	}
	if c.Namespace == "" {
		c.Namespace = DefaultNamespace
	}
	if len(c.Namespace) > 64 {
		return fail("want a Namespace of 1 to 64 characters, got %d", len(c.Namespace))
	}
	for _, r := range c.Namespace {
		if r <= ' ' || r > '~' || r == '{' || r == '}' {
			return fail("want a Namespace of printable ASCII without spaces and braces, got %q", c.Namespace)
		}
	}
	if c.Layout == (Layout{}) {
		c.Layout = Standard()
	}
	if err := c.Layout.Validate(); err != nil {
		return c, err
	}
	c.MaxLead = orDefault(c.MaxLead, DefaultMaxLead)
	c.MaxWait = orDefault(c.MaxWait, DefaultMaxWait)
	if c.MaxSkew == 0 {
		c.MaxSkew = DefaultMaxSkew
	}
	if window := c.Store.Timing().Window; window > 0 && c.MaxLead > window/4 {
		return fail("want a MaxLead of at most a quarter of the store's window (%v), got %v", window/4, c.MaxLead)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

// orDefault reads a duration whose zero means the default and whose negative
// means none.
func orDefault(d, standard time.Duration) time.Duration {
	switch {
	case d == 0:
		return standard
	case d < 0:
		return 0
	}
	return d
}
