package generator_test

import (
	"context"
	"sync"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// scripted is a store of one process that follows the contract, and whose
// faults a test can set.
type scripted struct {
	timing lease.Timing

	mu       sync.Mutex
	rows     map[int64]lease.Row
	now      func() int64
	fail     error // of every call, before it takes effect
	failures int   // how many calls fail so; 0: all
	failLate error // of Extend, after it took effect
	notLooks bool  // Lookup fails too
	hang     chan struct{}
	guard    time.Duration
	extends  int
	acquires int
	layout   lease.Layout
}

func newScripted() *scripted {
	return &scripted{
		timing: lease.Timing{Window: 30 * time.Second, Interval: 10 * time.Second, Expiry: 45 * time.Second, Slack: 5 * time.Second},
		rows:   map[int64]lease.Row{},
		now:    func() int64 { return time.Now().UnixMilli() },
	}
}

func (s *scripted) set(edit func(*scripted)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit(s)
}

func (s *scripted) Key() any             { return s }
func (s *scripted) Timing() lease.Timing { return s.timing }

func (s *scripted) enter(ctx context.Context) error {
	s.mu.Lock()
	hang, fail := s.hang, s.fail
	if s.failures > 0 {
		if s.failures--; s.failures == 0 {
			s.fail = nil
		}
	}
	s.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fail
}

func (s *scripted) Acquire(ctx context.Context, req lease.Request) (lease.Grant, error) {
	if err := s.enter(ctx); err != nil {
		return lease.Grant{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acquires++
	s.layout = req.Layout
	now := s.now()
	through := req.Now + s.timing.Window.Milliseconds()
	if through > now+(s.timing.Window+s.timing.Slack).Milliseconds() {
		return lease.Grant{}, lease.ErrClockSkew
	}
	for w := req.Workers.Lo; w <= req.Workers.Hi; w++ {
		row := s.rows[w]
		if row.ExpiresAt > now || row.HighWater > req.Now+req.MaxAhead || w == req.Avoid {
			continue
		}
		from := max(row.HighWater, req.Now)
		through := max(row.HighWater, through)
		s.rows[w] = lease.Row{Worker: w, Term: row.Term + 1, Owner: req.Token, HighWater: through, ExpiresAt: now + s.timing.Expiry.Milliseconds()}
		g := lease.Grant{Namespace: req.Namespace, Worker: w, Term: row.Term + 1, Token: req.Token, From: from, Through: through, StoreNow: now}
		if s.guard > 0 {
			g.From = max(g.From, now+s.guard.Milliseconds())
			g.NotBefore = g.From
		}
		return g, nil
	}
	return lease.Grant{}, &lease.NoWorkerError{Namespace: req.Namespace, Workers: req.Workers}
}

func (s *scripted) Extend(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
	if err := s.enter(ctx); err != nil {
		return lease.Grant{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	row := s.rows[held.Worker]
	if row.Owner != held.Token || row.Term != held.Term || row.HighWater != held.Through {
		return lease.Grant{}, lease.ErrLost
	}
	if through > now+(s.timing.Window+s.timing.Slack).Milliseconds() {
		return lease.Grant{}, lease.ErrClockSkew
	}
	s.extends++
	row.HighWater, row.ExpiresAt = through, now+s.timing.Expiry.Milliseconds()
	s.rows[held.Worker] = row
	if s.failLate != nil {
		return lease.Grant{}, s.failLate
	}
	held.Through, held.StoreNow = through, now
	return held, nil
}

func (s *scripted) Release(ctx context.Context, held lease.Grant, used int64) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.rows[held.Worker]
	if row.Owner == held.Token && row.Term == held.Term {
		row.Owner, row.ExpiresAt = "", row.HighWater
		s.rows[held.Worker] = row
	}
	return nil
}

func (s *scripted) Lookup(ctx context.Context, _ string, worker int64) (lease.Row, bool, error) {
	if err := s.enter(ctx); err != nil {
		return lease.Row{}, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notLooks {
		return lease.Row{}, false, context.DeadlineExceeded
	}
	row, ok := s.rows[worker]
	return row, ok, nil
}

// unbounded is a store without windows, so that benchmarks measure the
// generator alone.
type unbounded struct{}

func (unbounded) Key() any             { return unbounded{} }
func (unbounded) Timing() lease.Timing { return lease.Timing{} }
func (unbounded) Acquire(_ context.Context, req lease.Request) (lease.Grant, error) {
	return lease.Grant{Namespace: req.Namespace, Worker: 1, Term: 1, Token: req.Token, From: req.Now, Through: lease.Unbounded}, nil
}
func (unbounded) Extend(_ context.Context, held lease.Grant, _ int64) (lease.Grant, error) {
	return held, nil
}
func (unbounded) Release(context.Context, lease.Grant, int64) error { return nil }
func (unbounded) Lookup(context.Context, string, int64) (lease.Row, bool, error) {
	return lease.Row{}, false, nil
}
