package redislease

import (
	"fmt"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// Option is a setting of New. lease.Workers and lease.Window work too.
type Option = lease.Option

// Defaults of the store, see lease.Timing and WithIsolation.
const (
	DefaultWindow    = 10 * time.Second
	DefaultInterval  = 2500 * time.Millisecond
	DefaultExpiry    = 20 * time.Second
	DefaultSlack     = time.Second
	DefaultIsolation = time.Second
)

// longest is the longest guard and isolation.
const longest = 24 * time.Hour

// settings are what the options of this package fill in.
type settings struct {
	replicas    int
	durable     bool
	noBootstrap bool
	isolation   time.Duration
	guard       time.Duration // negative: not set
}

// WithReplicas states that the server has n replicas, at least 1, and makes
// every grant wait until all of them have acknowledged it (WAIT). A promoted
// replica then knows every grant, so that newcomers need no guard. While fewer
// than n answer, no grant is given or extended: ErrNotReplicated. With one
// more than n attached, which may be promoted without having been waited for,
// no lease is given: ErrReplicas.
//
// It assumes that not all copies are lost at once: a replica acknowledges what
// it has in memory.
func WithReplicas(n int) Option {
	return own("WithReplicas", func(s *lease.Settings, o *settings) {
		if n < 1 {
			s.Fail(fmt.Errorf("redislease: %w: WithReplicas wants at least 1, got %d; leave it out to assume nothing", lease.ErrInvalid, n))
			return
		}
		o.replicas = n
	})
}

// WithDurable states that what the server acknowledged is never lost:
// appendonly yes, appendfsync always, and no replica that might be promoted
// in its place (or, beside WithReplicas, only those). Newcomers then need no
// guard, and backfills are possible. It is the caller's word; where it is
// wrong, ids may be given twice after a crash.
func WithDurable() Option {
	return own("WithDurable", func(_ *lease.Settings, o *settings) { o.durable = true })
}

// WithoutBootstrap makes a missing namespace an error, ErrNotBootstrapped,
// instead of beginning it: for a fleet whose namespace exists, where an empty
// Redis is a mistake.
func WithoutBootstrap() Option {
	return own("WithoutBootstrap", func(_ *lease.Settings, o *settings) { o.noBootstrap = true })
}

// WithIsolation sets how long a primary that is cut off and replaced may go on
// taking writes, and how far its clock may be from its successor's: 1 s by
// default, at most 24 h. It is a part of the guard, see the package's comment.
//
// A primary without min-replicas-to-write goes on for as long as it is cut
// off. Set that to 1 and min-replicas-max-lag to s seconds, then isolation to
// s + 2 seconds.
func WithIsolation(d time.Duration) Option {
	return own("WithIsolation", func(s *lease.Settings, o *settings) {
		if d < 0 || d > longest {
			s.Fail(fmt.Errorf("redislease: %w: WithIsolation wants 0 to %v, got %v", lease.ErrInvalid, longest, d))
			return
		}
		o.isolation = d
	})
}

// WithGuard sets, by hand, how long newcomers wait before their first id, 0 to
// 24 h, both with and without durability, and when a namespace is begun. A
// guard shorter than the default one is the caller's word that no grant can be
// lost: WithGuard(0) suits a new namespace on a server that is durable.
func WithGuard(d time.Duration) Option {
	return own("WithGuard", func(s *lease.Settings, o *settings) {
		if d < 0 || d > longest {
			s.Fail(fmt.Errorf("redislease: %w: WithGuard wants 0 to %v, got %v", lease.ErrInvalid, longest, d))
			return
		}
		o.guard = d
	})
}

// own makes an option of this package, which another store refuses.
func own(name string, set func(*lease.Settings, *settings)) Option {
	return func(s *lease.Settings) {
		o, ok := s.Own.(*settings)
		if !ok {
			s.Fail(fmt.Errorf("redislease: %w: %s is an option of redislease.New, not of this store", lease.ErrInvalid, name))
			return
		}
		set(s, o)
	}
}

// newSettings applies the options over the defaults.
func newSettings(options []Option) (lease.Settings, *settings) {
	o := &settings{isolation: DefaultIsolation, guard: -1}
	s := lease.Settings{
		Timing: lease.Timing{Window: DefaultWindow, Interval: DefaultInterval, Expiry: DefaultExpiry, Slack: DefaultSlack},
		Own:    o,
	}
	return s.Apply(options), o
}

// durability reports whether a grant that was acknowledged can be relied on.
func (o *settings) durability() bool { return o.durable || o.replicas > 0 }

// newcomer is how long the first id of a lease waits.
func (o *settings) newcomer(t lease.Timing) time.Duration {
	switch {
	case o.guard >= 0:
		return o.guard
	case o.durability():
		return 0
	}
	return t.Window + t.Slack + o.isolation
}

// newborn is how long the first ids of a new generation wait. An owner that
// was forgotten with the rows holds a grant of at most window and slack; a
// primary that is durable and has been wiped takes no writes elsewhere.
func (o *settings) newborn(t lease.Timing) time.Duration {
	if o.guard < 0 && o.durability() {
		return t.Window + t.Slack
	}
	return o.newcomer(t)
}
