package lease

import (
	"fmt"
	"math"
	"time"
)

// Option is a setting of a leasing store. The options of this package suit
// every store that leases; each store's package adds its own.
type Option func(*Settings)

// Settings is what options fill in. Stores begin with their own defaults.
type Settings struct {
	// Workers is the range of worker ids that the store may hand out.
	Workers Range
	// Timing is the store's window and intervals.
	Timing Timing
	// Own points to the settings of the store's own package.
	Own any
	// Err is the first fault that an option met; the store reports it at its
	// first use.
	Err error
}

// Apply runs the options over the defaults and checks what comes out.
func (s Settings) Apply(options []Option) Settings {
	if s.Workers == (Range{}) {
		s.Workers = Range{Lo: 0, Hi: math.MaxInt64}
	}
	for _, option := range options {
		if option != nil {
			option(&s)
		}
	}
	t := s.Timing
	if s.Err == nil && t.Window > 0 && (t.Interval <= 0 || t.Interval > t.Window/2 || t.Expiry < t.Window) {
		s.Err = fmt.Errorf("%w: want 0 < interval <= window/2 and expiry >= window, got window %v, interval %v, expiry %v; set them with lease.Window",
			ErrInvalid, t.Window, t.Interval, t.Expiry)
	}
	return s
}

// Fail records an option's fault; the first one stays.
func (s *Settings) Fail(err error) {
	if s.Err == nil {
		s.Err = err
	}
}

// Workers keeps a store to the worker ids lo to hi, both included, so that
// another generator may use the rest of them.
func Workers(lo, hi int64) Option {
	return func(s *Settings) {
		if lo < 0 || hi < lo {
			s.Fail(fmt.Errorf("%w: Workers wants 0 <= lo <= hi, got %d and %d", ErrInvalid, lo, hi))
			return
		}
		s.Workers = Range{Lo: lo, Hi: hi}
	}
}

// Window sets how far past the clock a grant reaches. Extensions come after
// each third of it, and a row expires after one and a half of it. A longer
// window rides out a longer outage of the store; a shorter one frees rows of
// dead processes sooner.
func Window(d time.Duration) Option {
	return func(s *Settings) {
		if d < 100*time.Millisecond || d > 24*time.Hour {
			s.Fail(fmt.Errorf("%w: Window wants 100ms to 24h, got %v", ErrInvalid, d))
			return
		}
		s.Timing.Window, s.Timing.Interval, s.Timing.Expiry = d, d/3, d+d/2
	}
}
