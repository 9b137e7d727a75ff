package simulation

import (
	"context"
	"errors"
	"fmt"

	"github.com/gormflake/gormflake/generator/lease"
)

// client is a process's lease.Store: what stands between a generator and the
// server. It tells the checker which grants were confirmed.
type client struct {
	process     *process
	generations map[string]int // by token
}

func (c *client) Key() any             { return c }
func (c *client) Timing() lease.Timing { return c.process.fleet.shape.Timing }

// Acquire reads the rows, chooses a free one at random and tries to take it,
// up to four times.
func (c *client) Acquire(ctx context.Context, req lease.Request) (lease.Grant, error) {
	f := c.process.fleet
	seen, err := call(ctx, c.process, func(s *server) (snapshot, error) { return s.read(req.Layout) })
	if err != nil {
		return lease.Grant{}, err
	}
	var free, avoid []lease.Row
	for _, row := range seen.rows {
		switch {
		case row.ExpiresAt > seen.now || row.HighWater > req.Now+req.MaxAhead || !req.Workers.Contains(row.Worker):
		case row.Worker == req.Avoid:
			avoid = append(avoid, row)
		default:
			free = append(free, row)
		}
	}
	f.random.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	free = append(free, avoid...)
	for _, row := range free[:min(4, len(free))] {
		grant, err := call(ctx, c.process, func(s *server) (lease.Grant, error) { return s.acquire(req, row, seen.generation) })
		switch {
		case err == nil:
			c.generations[grant.Token] = seen.generation
			f.checker.granted(c.process, grant)
			return grant, nil
		case !errors.Is(err, lease.ErrLost):
			return lease.Grant{}, err
		}
	}
	return lease.Grant{}, &lease.NoWorkerError{Namespace: req.Namespace, Workers: req.Workers, Rows: seen.rows[:1]}
}

// Extend extends.
func (c *client) Extend(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
	c.process.fleet.checker.attempted(c.process, held, through)
	generation := c.generations[held.Token]
	grant, err := call(ctx, c.process, func(s *server) (lease.Grant, error) { return s.extend(held, generation, through) })
	if err == nil {
		c.process.fleet.checker.extended(c.process, held, grant.Through)
	}
	return grant, err
}

// Release releases.
func (c *client) Release(ctx context.Context, held lease.Grant, _ int64) error {
	generation := c.generations[held.Token]
	_, err := call(ctx, c.process, func(s *server) (struct{}, error) {
		s.release(held, generation)
		return struct{}{}, nil
	})
	return err
}

// Lookup reads a row.
func (c *client) Lookup(ctx context.Context, _ string, worker int64) (lease.Row, bool, error) {
	row, err := call(ctx, c.process, func(s *server) (lease.Row, error) { return s.rows[worker], nil })
	if err != nil || row.Term == 0 {
		return lease.Row{}, false, err
	}
	c.process.fleet.checker.looked(c.process, row)
	return row, true, nil
}

// durable is the client of a store that keeps blocks for backfills.
type durable struct{ *client }

// ReserveBlock reads, chooses and inserts under the worker's version.
func (c durable) ReserveBlock(ctx context.Context, req lease.BlockRequest) (lease.Block, error) {
	for range 8 {
		seen, err := call(ctx, c.process, func(s *server) (blockSeen, error) { return s.propose(req) })
		if err != nil {
			return lease.Block{}, err
		}
		_, err = call(ctx, c.process, func(s *server) (struct{}, error) { return struct{}{}, s.insert(seen) })
		switch {
		case err == nil:
			c.process.fleet.checker.reserved(c.process, seen.block)
			return seen.block, nil
		case !errors.Is(err, lease.ErrLost):
			return lease.Block{}, err
		}
	}
	return lease.Block{}, fmt.Errorf("simulation: other backfills were always first")
}
