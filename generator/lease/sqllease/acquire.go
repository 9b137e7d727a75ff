package sqllease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// Acquire reads the namespace's record, candidates from a random worker id on,
// takes one with a compare-and-swap, and then reads the record again: only an
// identity that is asked for after the swap tells on which server it was.
func (s *store) Acquire(ctx context.Context, req lease.Request) (lease.Grant, error) {
	d, err := s.open(ctx)
	if err != nil {
		return lease.Grant{}, err
	}
	if d.memory != nil {
		return d.memory.Acquire(ctx, req)
	}
	if err := req.Validate(); err != nil {
		return lease.Grant{}, err
	}
	r, err := s.enter(ctx, d, req.Namespace, req.Layout)
	if err != nil {
		return lease.Grant{}, err
	}
	if err := s.settings.Timing.CheckCap(req.Now+s.window(), r.now); err != nil {
		return lease.Grant{}, err
	}
	grant, err := s.take(ctx, req)
	if err != nil {
		return lease.Grant{}, err
	}
	if r, err = s.enter(ctx, d, req.Namespace, req.Layout); err != nil {
		s.abandon(ctx, grant)
		return lease.Grant{}, err
	}
	grant.StoreNow = r.now
	floor, because := r.floor, "grants that a promoted server may lack"
	if s.own.guarded && s.own.guard > 0 {
		floor, because = max(floor, r.now+s.own.guard.Milliseconds()), "the guard of WithGuard"
	}
	if floor > r.now {
		grant.From = max(grant.From, floor)
		grant.NotBefore, grant.Because = grant.From, because
	}
	return grant, nil
}

// abandon frees a row that nobody will use; when that fails it expires.
func (s *store) abandon(ctx context.Context, grant lease.Grant) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = s.Release(ctx, grant, grant.From)
}

// Candidates are read a page at a time, the first small since it mostly
// suffices, the next ones larger so that a full range takes few reads.
const (
	firstPage = 16
	lastPage  = 512
)

// take goes once through the range, from a random worker id on. Whatever it
// misses on the way was held or was taken by another in that time.
func (s *store) take(ctx context.Context, req lease.Request) (lease.Grant, error) {
	workers := req.Workers.Intersect(s.settings.Workers)
	n := workers.Len()
	if n == 0 {
		return lease.Grant{}, &lease.NoWorkerError{Namespace: req.Namespace, Workers: workers}
	}
	start, page := rand.Int64N(n), int64(firstPage)
	for done := int64(0); done < n; {
		lo := workers.Lo + (start+done)%n
		hi := min(lo+min(page, n-done)-1, workers.Hi) // the wrap begins another page
		grant, ok, err := s.takeFrom(ctx, req, lease.Range{Lo: lo, Hi: hi}, req.Avoid)
		if err != nil || ok {
			return grant, err
		}
		done += hi - lo + 1
		page = min(2*page, lastPage)
	}
	if workers.Contains(req.Avoid) {
		grant, ok, err := s.takeFrom(ctx, req, lease.Range{Lo: req.Avoid, Hi: req.Avoid}, -1)
		if err != nil || ok {
			return grant, err
		}
	}
	rows, err := s.List(ctx, req.Namespace)
	if err != nil {
		return lease.Grant{}, err
	}
	detail := &lease.NoWorkerError{Namespace: req.Namespace, Workers: workers}
	for _, row := range rows {
		if workers.Contains(row.Worker) {
			detail.Rows = append(detail.Rows, row)
		}
	}
	return lease.Grant{}, detail
}

// takeFrom tries the candidates of one page in random order.
func (s *store) takeFrom(ctx context.Context, req lease.Request, workers lease.Range, avoid int64) (lease.Grant, bool, error) {
	rows, err := s.readRows(ctx, "read candidates", s.texts.page, req.Namespace, workers.Lo, workers.Hi)
	if err != nil {
		return lease.Grant{}, false, err
	}
	known := make(map[int64]lease.Row, len(rows))
	for _, row := range rows {
		known[row.Worker] = row
	}
	for _, i := range rand.Perm(int(workers.Len())) {
		worker := workers.Lo + int64(i)
		row, exists := known[worker]
		if worker == avoid || exists && (row.Held || row.HighWater > req.Now+req.MaxAhead) {
			continue
		}
		row.Worker = worker
		grant, ok, err := s.swap(ctx, req, row, exists)
		if err != nil || ok {
			return grant, ok, err
		}
	}
	return lease.Grant{}, false, nil
}

// swap takes one row, if it still is as it was read.
func (s *store) swap(ctx context.Context, req lease.Request, row lease.Row, exists bool) (grant lease.Grant, won bool, err error) {
	through := max(row.HighWater, req.Now+s.window())
	text := s.texts.take
	args := []any{req.Namespace, row.Worker, req.Token, through, s.expiry()}
	if exists {
		text = s.texts.takeOver
		args = []any{req.Token, through, s.expiry(), req.Namespace, row.Worker, row.Term, row.HighWater, through, s.reach()}
	}
	var n int64
	err = s.retry(ctx, fmt.Sprintf("take worker %d", row.Worker), func() error {
		result, err := s.db.ExecContext(ctx, text, args...)
		if err != nil {
			return err
		}
		n, err = result.RowsAffected()
		return err
	})
	if err != nil || n == 0 {
		return lease.Grant{}, false, err
	}
	return lease.Grant{
		Namespace: req.Namespace, Worker: row.Worker, Term: row.Term + 1, Token: req.Token,
		From: max(row.HighWater, req.Now), Through: through,
	}, true, nil
}
