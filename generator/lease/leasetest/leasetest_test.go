package leasetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/leasetest"
)

// mutant is a store with one fault. The fields that are set replace methods.
type mutant struct {
	lease.Store
	acquire func(context.Context, lease.Request) (lease.Grant, error)
	extend  func(context.Context, lease.Grant, int64) (lease.Grant, error)
	release func(context.Context, lease.Grant, int64) error
	lookup  func(context.Context, string, int64) (lease.Row, bool, error)
	list    func(context.Context, string) ([]lease.Row, error)
	reserve func(context.Context, lease.BlockRequest) (lease.Block, error)
	timing  *lease.Timing
}

func (m *mutant) Acquire(ctx context.Context, req lease.Request) (lease.Grant, error) {
	if m.acquire != nil {
		return m.acquire(ctx, req)
	}
	return m.Store.Acquire(ctx, req)
}

func (m *mutant) Extend(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
	if m.extend != nil {
		return m.extend(ctx, held, through)
	}
	return m.Store.Extend(ctx, held, through)
}

func (m *mutant) Release(ctx context.Context, held lease.Grant, used int64) error {
	if m.release != nil {
		return m.release(ctx, held, used)
	}
	return m.Store.Release(ctx, held, used)
}

func (m *mutant) Lookup(ctx context.Context, namespace string, worker int64) (lease.Row, bool, error) {
	if m.lookup != nil {
		return m.lookup(ctx, namespace, worker)
	}
	return m.Store.Lookup(ctx, namespace, worker)
}

func (m *mutant) List(ctx context.Context, namespace string) ([]lease.Row, error) {
	if m.list != nil {
		return m.list(ctx, namespace)
	}
	return m.Store.(lease.Lister).List(ctx, namespace)
}

func (m *mutant) ReserveBlock(ctx context.Context, req lease.BlockRequest) (lease.Block, error) {
	if m.reserve != nil {
		return m.reserve(ctx, req)
	}
	return m.Store.(lease.Backfiller).ReserveBlock(ctx, req)
}

func (m *mutant) Timing() lease.Timing {
	if m.timing != nil {
		return *m.timing
	}
	return m.Store.Timing()
}

func (m *mutant) Describe() string { return "a store with one fault" }

// fault breaks a store, in the case of the suite that must notice it.
type fault struct {
	name, noticed string
	spoil         func(m *mutant, options []lease.Option)
}

// row reads what the unspoilt store has of a grant.
func (m *mutant) row(held lease.Grant) lease.Row {
	row, _, _ := m.Store.Lookup(context.Background(), held.Namespace, held.Worker)
	return row
}

var faults = []fault{
	{"none", "", func(*mutant, []lease.Option) {}},
	{"successor starts at now", "Release", func(m *mutant, _ []lease.Option) {
		m.acquire = func(ctx context.Context, req lease.Request) (lease.Grant, error) {
			grant, err := m.Store.Acquire(ctx, req)
			grant.From = req.Now
			return grant, err
		}
	}},
	{"acquire adds the window to the high water", "Grant", func(m *mutant, _ []lease.Option) {
		m.acquire = func(ctx context.Context, req lease.Request) (lease.Grant, error) {
			grant, err := m.Store.Acquire(ctx, req)
			grant.Through++
			return grant, err
		}
	}},
	{"extend without the token", "ExtendLost", func(m *mutant, _ []lease.Option) {
		m.extend = func(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
			held.Token = m.row(held).Owner
			return m.Store.Extend(ctx, held, through)
		}
	}},
	{"extend without the term", "ExtendLost", func(m *mutant, _ []lease.Option) {
		m.extend = func(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
			held.Term = m.row(held).Term
			return m.Store.Extend(ctx, held, through)
		}
	}},
	{"extend without the high water", "Concurrent", func(m *mutant, _ []lease.Option) {
		var mu sync.Mutex
		m.extend = func(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
			mu.Lock()
			defer mu.Unlock()
			held.Through = m.row(held).HighWater
			return m.Store.Extend(ctx, held, through)
		}
	}},
	{"extend lowers the high water", "Bounded", func(m *mutant, _ []lease.Option) {
		m.extend = func(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
			grant, err := m.Store.Extend(ctx, held, through)
			grant.Through = min(grant.Through, through)
			return grant, err
		}
	}},
	{"release lowers the high water", "Release", func(m *mutant, _ []lease.Option) {
		released := map[string]int64{}
		m.release = func(ctx context.Context, held lease.Grant, used int64) error {
			released[held.Namespace] = used
			return m.Store.Release(ctx, held, used)
		}
		m.lookup = func(ctx context.Context, namespace string, worker int64) (lease.Row, bool, error) {
			row, ok, err := m.Store.Lookup(ctx, namespace, worker)
			if used, found := released[namespace]; found && row.Owner == "" {
				row.HighWater = used
			}
			return row, ok, err
		}
	}},
	{"release without the token", "Release", func(m *mutant, _ []lease.Option) {
		m.release = func(ctx context.Context, held lease.Grant, used int64) error {
			row := m.row(held)
			held.Token, held.Term = row.Owner, row.Term
			return m.Store.Release(ctx, held, used)
		}
	}},
	{"release does nothing", "Release", func(m *mutant, _ []lease.Option) {
		m.release = func(ctx context.Context, _ lease.Grant, _ int64) error { return ctx.Err() }
	}},
	{"a term that stays", "Release", func(m *mutant, _ []lease.Option) {
		m.acquire = func(ctx context.Context, req lease.Request) (lease.Grant, error) {
			grant, err := m.Store.Acquire(ctx, req)
			grant.Term = 1
			return grant, err
		}
	}},
	{"held rows are taken", "Full", func(m *mutant, _ []lease.Option) {
		m.acquire = func(ctx context.Context, req lease.Request) (lease.Grant, error) {
			grant, err := m.Store.Acquire(ctx, req)
			if errors.Is(err, lease.ErrNoWorker) {
				return lease.Grant{Namespace: req.Namespace, Worker: req.Workers.Lo, Term: 2, Token: req.Token, From: req.Now, Through: req.Now + 30_000}, nil
			}
			return grant, err
		}
	}},
	{"layouts are not compared", "Layout", func(m *mutant, _ []lease.Option) {
		m.acquire = func(ctx context.Context, req lease.Request) (lease.Grant, error) {
			req.Layout = lease.Layout{}
			return m.Store.Acquire(ctx, req)
		}
	}},
	{"no cap", "Bounded", func(m *mutant, options []lease.Option) {
		timing := m.Store.Timing()
		m.Store = lease.Memory(append(options, func(s *lease.Settings) { s.Timing.Slack = 1000 * time.Hour })...)
		m.timing = &timing
	}},
	{"rows far ahead are taken", "MaxAhead", func(m *mutant, _ []lease.Option) {
		m.acquire = func(ctx context.Context, req lease.Request) (lease.Grant, error) {
			req.MaxAhead *= 2
			return m.Store.Acquire(ctx, req)
		}
	}},
	{"nothing is avoided", "Avoid", func(m *mutant, _ []lease.Option) {
		m.acquire = func(ctx context.Context, req lease.Request) (lease.Grant, error) {
			if req.Avoid >= 0 { // the worst choice, so that chance does not hide it
				one := req
				one.Workers, one.Avoid = lease.Range{Lo: req.Avoid, Hi: req.Avoid}, -1
				if grant, err := m.Store.Acquire(ctx, one); err == nil {
					return grant, nil
				}
			}
			return m.Store.Acquire(ctx, req)
		}
	}},
	{"the option Workers means nothing", "Workers", func(m *mutant, _ []lease.Option) { m.Store = lease.Memory() }},
	{"the context means nothing", "Context", func(m *mutant, _ []lease.Option) {
		m.lookup = func(ctx context.Context, namespace string, worker int64) (lease.Row, bool, error) {
			return m.Store.Lookup(context.WithoutCancel(ctx), namespace, worker)
		}
	}},
	{"namespaces fold their case", "Namespaces", func(m *mutant, _ []lease.Option) {
		m.acquire = func(ctx context.Context, req lease.Request) (lease.Grant, error) {
			req.Namespace = strings.ToLower(req.Namespace)
			return m.Store.Acquire(ctx, req)
		}
	}},
	{"rows expire early", "Expiry", func(m *mutant, options []lease.Option) {
		timing := m.Store.Timing()
		m.Store = lease.Memory(append(options, func(s *lease.Settings) { s.Timing.Expiry = s.Timing.Window })...)
		m.timing = &timing
	}},
	{"a list in any order", "List", func(m *mutant, _ []lease.Option) {
		m.list = func(ctx context.Context, namespace string) ([]lease.Row, error) {
			rows, err := m.Store.(lease.Lister).List(ctx, namespace)
			slices.Reverse(rows)
			return rows, err
		}
	}},
	{"blocks overlap by one sequence", "Backfill", func(m *mutant, _ []lease.Option) {
		m.reserve = func(ctx context.Context, req lease.BlockRequest) (lease.Block, error) {
			block, err := m.Store.(lease.Backfiller).ReserveBlock(ctx, req)
			block.FirstSequence = max(0, block.FirstSequence-1)
			return block, err
		}
	}},
	{"blocks overlap by one tick", "Backfill", func(m *mutant, _ []lease.Option) {
		m.reserve = func(ctx context.Context, req lease.BlockRequest) (lease.Block, error) {
			short := req
			short.LastTick = max(short.FirstTick, short.LastTick-1)
			block, err := m.Store.(lease.Backfiller).ReserveBlock(ctx, short)
			block.LastTick = req.LastTick
			return block, err
		}
	}},
}

// TestFaults runs the suite, in a process of its own, on stores with one fault
// each: it must fail, in the case that is about it. Without a fault it passes.
func TestFaults(t *testing.T) {
	if name := os.Getenv("LEASETEST_FAULT"); name != "" {
		i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
		open := func(_ *testing.T, options ...lease.Option) lease.Store {
			m := &mutant{Store: lease.Memory(options...)}
			faults[i].spoil(m, options)
			return m
		}
		leasetest.Run(t, func(t *testing.T) lease.Store { return open(t) }, leasetest.Configured(open))
		return
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFaults$/^"+f.noticed)
			command.Env = append(os.Environ(), "LEASETEST_FAULT="+f.name)
			out, err := command.CombinedOutput()
			if f.noticed == "" {
				if err != nil {
					t.Errorf("the suite fails without a fault:\n%s", out)
				}
				return
			}
			if want := "--- FAIL: TestFaults/" + f.noticed; err == nil || !strings.Contains(string(out), want) {
				t.Errorf("error %v; want the case %s to fail:\n%s", err, f.noticed, out)
			}
		})
	}
}
