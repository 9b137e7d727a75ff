package sqllease

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gormflake/gormflake/generator/lease"
)

// ReserveBlock reserves a block on the worker with the most sequences left.
//
// The rows of a worker are numbered without a gap. Inserting one under the
// next number is the compare-and-swap: it fails when another took the number,
// that is, when there is a row which this call has not read.
//
// A replica that was promoted without the last rows gives their blocks again.
// Begin an import anew that ran across a promotion, after deleting its rows.
func (s *store) ReserveBlock(ctx context.Context, req lease.BlockRequest) (lease.Block, error) {
	d, err := s.open(ctx)
	if err != nil {
		return lease.Block{}, err
	}
	if d.memory != nil {
		return d.memory.(lease.Backfiller).ReserveBlock(ctx, req)
	}
	req.Workers = req.Workers.Intersect(s.settings.Workers)
	if err := req.Validate(); err != nil {
		return lease.Block{}, err
	}
	if _, err := s.enter(ctx, d, req.Namespace, req.Layout); err != nil {
		return lease.Block{}, err
	}
	for {
		free, err := s.readFree(ctx, req)
		if err != nil {
			return lease.Block{}, err
		}
		if len(free) == 0 {
			return lease.Block{}, lease.ExhaustedError(req)
		}
		block := req.Block(free[0].worker, free[0].next)
		ok, err := s.insertBlock(ctx, req.Namespace, free[0].version+1, block)
		if err != nil || ok {
			return block, err
		}
	}
}

// freeWorker is a worker with sequences left.
type freeWorker struct {
	worker  int64
	version int64 // of its last row
	next    int64 // the first free sequence of the wanted ticks
}

// readFree returns the workers that have any sequence left in the wanted
// ticks, those with the most first.
func (s *store) readFree(ctx context.Context, req lease.BlockRequest) (free []freeWorker, err error) {
	err = s.retry(ctx, "read reserved blocks", func() error {
		byWorker := map[int64]freeWorker{}
		rows, err := s.db.QueryContext(ctx, s.texts.blocks, req.LastTick, req.FirstTick, req.Namespace, req.Workers.Lo, req.Workers.Hi)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var w freeWorker
			var last int64
			if err := rows.Scan(&w.worker, &w.version, &last); err != nil {
				return err
			}
			w.next = last + 1
			byWorker[w.worker] = w
		}
		if err := rows.Err(); err != nil {
			return err
		}
		free = nil
		for worker := req.Workers.Lo; worker <= req.Workers.Hi; worker++ {
			w := byWorker[worker]
			w.worker = worker
			if w.next <= req.Layout.LastSequence() {
				free = append(free, w)
			}
		}
		return nil
	})
	slices.SortStableFunc(free, func(a, b freeWorker) int { return cmp.Compare(a.next, b.next) })
	return free, err
}

func (s *store) insertBlock(ctx context.Context, namespace string, version int64, b lease.Block) (ok bool, err error) {
	err = s.retry(ctx, fmt.Sprintf("reserve a block of worker %d", b.Worker), func() error {
		result, err := s.db.ExecContext(ctx, s.texts.block,
			namespace, b.Worker, version, b.FirstTick, b.LastTick, b.FirstSequence, b.LastSequence)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		ok = n > 0
		return err
	})
	return ok, err
}
