package redislease

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/gormflake/gormflake/generator/lease"
)

// listed is how many worker ids one script looks at.
const listed = 1024

// List returns the rows of a namespace, by worker id. It reads them in pieces,
// so that a layout of many workers does not hold the server up.
func (s *store) List(ctx context.Context, namespace string) ([]lease.Row, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if err := lease.CheckNamespace(namespace); err != nil {
		return nil, err
	}
	k := keysOf(namespace)
	return on(ctx, s, k, func(ctx context.Context, conn *redis.Conn) ([]lease.Row, error) {
		workers, err := s.recorded(ctx, conn, k)
		if err != nil {
			return nil, err
		}
		var all []lease.Row
		for lo := workers.Lo; lo <= workers.Hi; lo += listed {
			r, err := listScript.run(ctx, conn, k.lease(), lo, min(listed, workers.Hi-lo+1))
			if err != nil {
				return nil, err
			}
			rows, err := r.rows(2)
			if err != nil {
				return nil, err
			}
			all = append(all, rows...)
		}
		return all, nil
	}, nil)
}

// recorded returns the store's workers within the namespace's layout; none
// where there is no such namespace.
func (s *store) recorded(ctx context.Context, conn *redis.Conn, k keys) (lease.Range, error) {
	cmd := once{redis.NewCmd(ctx, "hget", k.meta, "layout")}
	if err := conn.Process(ctx, cmd); err == redis.Nil {
		return lease.Range{Lo: 0, Hi: -1}, nil
	} else if err != nil {
		return lease.Range{}, typed(ctx, err)
	}
	text, err := cmd.Text()
	if err != nil {
		return lease.Range{}, typed(ctx, err)
	}
	parts := strings.Split(text, "/")
	if len(parts) == 5 {
		if bits, err := strconv.Atoi(parts[3]); err == nil && bits >= 0 && bits < 32 {
			return s.settings.Workers.Intersect(lease.Range{Lo: 0, Hi: int64(1)<<bits - 1}), nil
		}
	}
	return lease.Range{}, fmt.Errorf("%w: want a layout in %s, got %q", ErrDamaged, k.meta, text)
}

// rows reads rows from a reply, sorted: the server's clock at index 1, then
// from index on worker, row and expiry of each.
func (r reply) rows(from int) ([]lease.Row, error) {
	now, err := r.numbers(1)
	if err != nil {
		return nil, err
	}
	var rows []lease.Row
	for i := from; i+2 < len(r); i += 3 {
		n, err := r.numbers(i, i+2)
		if err != nil {
			return nil, err
		}
		row, err := parseRow(r[i+1])
		if err != nil {
			return nil, err
		}
		row.Worker, row.ExpiresAt = n[0], n[1]
		row.Held = row.ExpiresAt > now[0]
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b lease.Row) int { return cmp.Compare(a.Worker, b.Worker) })
	return rows, nil
}

// parseRow reads term|high water|token|generation.
func parseRow(text string) (lease.Row, error) {
	damaged := fmt.Errorf("%w: want a row of term|high water|token|generation, got %q", ErrDamaged, text)
	term, rest, ok1 := strings.Cut(text, "|")
	high, rest, ok2 := strings.Cut(rest, "|")
	last := strings.LastIndexByte(rest, '|')
	if !ok1 || !ok2 || last < 0 {
		return lease.Row{}, damaged
	}
	t, err1 := strconv.ParseInt(term, 10, 64)
	h, err2 := strconv.ParseInt(high, 10, 64)
	if err1 != nil || err2 != nil {
		return lease.Row{}, damaged
	}
	return lease.Row{Term: t, HighWater: h, Owner: rest[:last]}, nil
}
