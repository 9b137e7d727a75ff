package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

const (
	slotsEvery   = time.Minute
	slotsTimeout = 2 * time.Second
)

// slots counts worker ids by state, asking the store seldom.
type slots struct {
	every time.Duration

	mu    sync.Mutex
	asked time.Time
	last  slotCounts
	known bool
}

// slotCounts are worker ids that a process holds; that were released and can't be
// taken before their high water has passed; and that can be taken.
type slotCounts struct{ held, released, free int64 }

func newSlots(every time.Duration) *slots {
	if every == 0 {
		every = slotsEvery
	}
	return &slots{every: every}
}

// count returns the counts of at most every ago. It is not ok where the store
// lists no rows or did not answer.
func (s *slots) count(g *generator.Generator) (slotCounts, bool) {
	store, ok := g.Store().(lease.Lister)
	if !ok || s.every < 0 {
		return slotCounts{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked.IsZero() || time.Since(s.asked) >= s.every {
		s.asked = time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), slotsTimeout)
		defer cancel()
		rows, err := store.List(ctx, g.Namespace())
		if s.known = err == nil; s.known {
			s.last = slotCounts{free: g.Layout().LiveWorkers().Len()}
			for _, row := range rows {
				switch {
				case !row.Held:
					continue
				case row.Owner != "":
					s.last.held++
				default:
					s.last.released++
				}
				s.last.free--
			}
		}
	}
	return s.last, s.known
}
