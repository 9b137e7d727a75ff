package faults

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/servers"
)

// Clocks that are wrong by less than what is noticed as a skew.
var badClocks = map[string]func() time.Time{
	"goes back 5 ms": func() time.Time {
		now := time.Now()
		return now.Add(-5 * time.Millisecond * time.Duration(now.UnixMilli()/20%2))
	},
	"oscillates by 2 s": func() time.Time {
		now := time.Now()
		return now.Add(-2 * time.Second * time.Duration(now.UnixMilli()/70%2))
	},
	"goes forward 2 s and back": func() time.Time {
		now := time.Now()
		return now.Add(2 * time.Second * time.Duration(now.UnixMilli()/250%2))
	},
	"freezes":          func() time.Time { return time.Now().Truncate(400 * time.Millisecond) },
	"is a second slow": func() time.Time { return time.Now().Add(-time.Second) },
}

// TestSQLBadClocks gives each member another clock, and just as many worker
// ids as there are members: a row that one of them lost is another's at once.
func TestSQLBadClocks(t *testing.T) {
	servers.Each(t, withFile, func(t *testing.T, srv *servers.Server) {
		t.Parallel()
		f := newSQLFleet(t, srv)
		monotone(t, f.store())
		options := []lease.Option{lease.Window(short), lease.Workers(0, int64(len(badClocks)-1))}
		var members []*member
		for _, clock := range badClocks {
			members = append(members, f.addWith(clock, f.store(options...))...)
		}
		f.awaitIssue("all issue ids")
		awaitExtends(t, members, 6)
		f.awaitIssue("all go on")
		f.check()
	})
}

// TestSQLRollbackAndRestart starts a process anew with a clock that is behind
// the one before it, on the same worker id: it waits, and repeats nothing.
func TestSQLRollbackAndRestart(t *testing.T) {
	servers.Each(t, withFile, func(t *testing.T, srv *servers.Server) {
		t.Parallel()
		f := newSQLFleet(t, srv)
		monotone(t, f.store())
		options := []lease.Option{lease.Window(short), lease.Workers(0, 0)}
		first := open(t, f.config(f.store(options...)))
		f.outsider("before").draw(first, 100)
		if err := first.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		const back = 2 * time.Second
		begun := time.Now()
		next := f.addWith(func() time.Time { return time.Now().Add(-back) }, f.store(options...))
		f.awaitError(generator.ErrNoWorker)
		f.awaitIssue("the next starts once its clock has passed the last id", next...)
		if took := time.Since(begun); took < back/2 {
			t.Errorf("the next started after %v; want it to wait until its clock, %v behind, has passed the high water", took, back)
		}
		f.check()
	})
}

// replaying sends each extension again after it succeeded, and all of the
// earlier ones, as a network does that repeats and holds back.
type replaying struct {
	lease.Store
	mu       sync.Mutex
	sent     []extension
	accepted atomic.Int64
}

type extension struct {
	held    lease.Grant
	through int64
}

func (r *replaying) Extend(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
	grant, err := r.Store.Extend(ctx, held, through)
	if err != nil || grant.Through == held.Through {
		return grant, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, extension{held, through})
	for _, e := range r.sent {
		if _, again := r.Store.Extend(ctx, e.held, e.through); again == nil {
			r.accepted.Add(1)
		}
	}
	return grant, err
}

// TestSQLReplayedExtends finds every repeated extension refused and without a
// trace.
func TestSQLReplayedExtends(t *testing.T) {
	servers.Each(t, withFile, func(t *testing.T, srv *servers.Server) {
		t.Parallel()
		f := newSQLFleet(t, srv)
		monotone(t, f.store())
		stores := make([]*replaying, 3)
		var members []*member
		for i := range stores {
			stores[i] = &replaying{Store: f.store(lease.Window(2 * short))}
			members = append(members, f.add(stores[i])...)
		}
		f.awaitIssue("the fleet starts")
		awaitExtends(t, members, 4)
		f.awaitIssue("the fleet goes on")
		f.check()
		for i, m := range members {
			if n := stores[i].accepted.Load(); n != 0 {
				t.Errorf("%d repeated extensions of %s were not refused", n, m.name)
			}
			if n := m.opened.Load().Stats().Losses; n != 0 {
				t.Errorf("%s lost its lease %d times; want none by repetition", m.name, n)
			}
		}
	})
}
