package faults

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/servers"
)

// TestSQLPoisonedRow sets a high water in a far year by hand, first in a row
// that nobody holds, then in one that is held.
func TestSQLPoisonedRow(t *testing.T) {
	servers.Each(t, withFile, func(t *testing.T, srv *servers.Server) {
		t.Parallel()
		far := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
		f := newSQLFleet(t, srv)
		first := open(t, f.config(f.store(lease.Window(short), lease.Workers(0, 0))))
		f.outsider("the first owner").draw(first, 10)
		if err := first.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		monotone(t, f.store())
		poison := func(worker int64) {
			t.Helper()
			const text = "UPDATE gormflake_leases SET high_water=? WHERE namespace='faults' AND worker_id=?"
			if err := f.srv.OpenDSN(t, f.dsn, nil).Exec(text, far, worker).Error; err != nil {
				t.Fatal(err)
			}
		}
		poison(0)

		_, err := tryOpen(t, f.config(f.store(lease.Workers(0, 0))))
		var detail *lease.NoWorkerError
		if !errors.Is(err, generator.ErrNoWorker) || !errors.As(err, &detail) || len(detail.Rows) != 1 || detail.Rows[0].HighWater != far {
			t.Errorf("the only row is poisoned: got %v, want ErrNoWorker with the row", err)
		} else if !strings.Contains(err.Error(), "2099-01-01") {
			t.Errorf("%v: want the text to name the high water's year", err)
		}

		members := f.join(3, lease.Window(short), lease.Workers(0, 3))
		f.awaitIssue("others lease beside the poisoned row", members...)
		for _, m := range members {
			if w := m.opened.Load().Stats().Worker; w == 0 {
				t.Errorf("%s leases worker 0, whose row is poisoned", m.name)
			}
		}
		members = f.join(1, lease.Window(short), lease.Workers(4, 5))
		f.awaitIssue("one more starts", members...)
		worker := members[0].opened.Load().Stats().Worker
		f.awaitLosses(members, func() { poison(worker) })
		f.awaitIssue("an owner whose row is poisoned takes another", members...)
		if now := members[0].opened.Load().Stats().Worker; now == worker {
			t.Errorf("the owner is back on worker %d, whose row is poisoned", worker)
		}
		f.check()
	})
}

// TestSQLClockAnHourOff opens generators whose clock and the database's are an
// hour apart, either way, and sets a clock that was right an hour off and back.
func TestSQLClockAnHourOff(t *testing.T) {
	servers.Each(t, withFile, func(t *testing.T, srv *servers.Server) {
		t.Parallel()
		f := newSQLFleet(t, srv)
		monotone(t, f.store())
		f.join(1, lease.Window(short))
		f.awaitIssue("a clock that is right")
		for name, off := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
			config := f.config(f.store(lease.Window(short)))
			config.Clock = func() time.Time { return time.Now().Add(off) }
			g, err := tryOpen(t, config)
			if !errors.Is(err, generator.ErrClockSkew) {
				t.Errorf("an hour %s: %v; want ErrClockSkew", name, err)
			}
			if err == nil {
				_ = g.Close(t.Context())
			}
		}
		for name, off := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
			var offset atomic.Int64
			config := f.config(f.store(lease.Window(short)))
			config.Clock = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
			g := open(t, config)
			m := f.outsider("a clock that goes " + name)
			m.draw(g, 20)
			offset.Store(int64(off))
			eventually(t, "the clock is noticed", func() bool {
				id, err := g.Next(t.Context())
				if err == nil {
					m.keep(id)
				}
				return errors.Is(err, generator.ErrClockSkew) || off < 0 && errors.Is(err, generator.ErrClockBehind)
			})
			offset.Store(0)
			eventually(t, "the generator recovers", func() bool {
				id, err := g.Next(t.Context())
				if err == nil {
					m.keep(id)
				}
				return err == nil
			})
			m.draw(g, 20)
		}
		f.check()
	})
}

// clonable remembers the last grant of the one generator that uses it.
type clonable struct {
	lease.Store
	mu   sync.Mutex
	last lease.Grant
}

func (c *clonable) Acquire(ctx context.Context, req lease.Request) (lease.Grant, error) {
	return c.remember(c.Store.Acquire(ctx, req))
}

func (c *clonable) Extend(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
	return c.remember(c.Store.Extend(ctx, held, through))
}

func (c *clonable) remember(grant lease.Grant, err error) (lease.Grant, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.last = grant
	}
	return grant, err
}

// clone is what a copy of a process's memory knows: the first Acquire gives
// the original's grant. It leaves out what is left of the original's window,
// which is what a clone is known to repeat.
type clone struct {
	lease.Store
	of   *clonable
	once sync.Once
}

func (c *clone) Acquire(ctx context.Context, req lease.Request) (grant lease.Grant, err error) {
	copied := false
	c.once.Do(func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		grant, copied = c.of.last, true
		grant.From = grant.Through
	})
	if copied {
		return grant, nil
	}
	return c.Store.Acquire(ctx, req)
}

// TestSQLClonedProcess lets clones extend the original's row with its token.
// Of all of them one goes on; the others seal at their first extension and
// take other rows.
func TestSQLClonedProcess(t *testing.T) {
	servers.Each(t, withFile, func(t *testing.T, srv *servers.Server) {
		t.Parallel()
		f := newSQLFleet(t, srv)
		monotone(t, f.store())
		original := &clonable{Store: f.store(lease.Window(short))}
		members := f.add(original)
		f.awaitIssue("the original starts")
		for range 3 {
			members = append(members, f.add(&clone{Store: f.store(lease.Window(short)), of: original})...)
		}
		f.awaitIssue("all go on", members...)
		losses := func() (n uint64) {
			for _, m := range members {
				n += m.opened.Load().Stats().Losses
			}
			return n
		}
		eventually(t, "all but one have lost the row", func() bool { return losses() >= 3 })
		awaitExtends(t, members, 2)
		f.awaitIssue("all go on with rows of their own")
		workers := map[int64]string{}
		for _, m := range members {
			w := m.opened.Load().Stats().Worker
			if other, ok := workers[w]; ok {
				t.Errorf("%s and %s are both on worker %d", other, m.name, w)
			}
			workers[w] = m.name
		}
		f.check()
	})
}

// TestSQLOneTooMany has one acquirer more than there are worker ids: it is told
// who holds them, and starts once one of them ends.
func TestSQLOneTooMany(t *testing.T) {
	servers.Each(t, withFile, func(t *testing.T, srv *servers.Server) {
		t.Parallel()
		f := newSQLFleet(t, srv)
		monotone(t, f.store())
		options := []lease.Option{lease.Window(short), lease.Workers(0, 2)}
		f.join(2, options...)
		last := open(t, f.config(f.store(options...)))
		f.outsider("the last").draw(last, 10)
		f.awaitIssue("the fleet starts", f.members[:2]...)

		_, err := tryOpen(t, f.config(f.store(options...)))
		var detail *lease.NoWorkerError
		if !errors.Is(err, generator.ErrNoWorker) || !errors.As(err, &detail) || len(detail.Rows) != 3 {
			t.Fatalf("got %v, want ErrNoWorker with three rows", err)
		}
		host, _ := os.Hostname()
		for _, row := range detail.Rows {
			if !row.Held || !strings.HasPrefix(row.Host(), host) || !strings.Contains(err.Error(), row.Host()) {
				t.Errorf("row %+v: want it held by %s and named in: %v", row, host, err)
			}
		}

		waiting := f.join(1, options...)
		f.awaitError(generator.ErrNoWorker)
		if err := last.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.awaitIssue("the one that waited starts", waiting...)
		f.check()
	})
}
