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

// slots counts held and free worker ids, asking the store seldom.
type slots struct {
	every time.Duration

	mu    sync.Mutex
	asked time.Time
	last  slotCounts
	known bool
}

type slotCounts struct{ held, free int64 }

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
				if row.Held {
					s.last.held++
					s.last.free--
				}
			}
		}
	}
	return s.last, s.known
}
