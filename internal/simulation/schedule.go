package simulation

import (
	"container/heap"
	"math"
	"time"
)

// forever is a wait that only a wake-up or a context ends.
const forever = time.Duration(math.MaxInt64)

// schedule is virtual time: events in the order of their times, and of their
// making where these are equal.
type schedule struct {
	now    time.Duration // since the episode's start
	made   uint64
	events eventHeap
}

type event struct {
	at   time.Duration
	made uint64
	run  func()
	dead bool
}

// after runs f once d has passed. A negative d counts as none.
func (s *schedule) after(d time.Duration, f func()) *event {
	s.made++
	at := s.now + max(0, d)
	if at < s.now {
		at = forever
	}
	e := &event{at: at, made: s.made, run: f}
	heap.Push(&s.events, e)
	return e
}

// step runs the next event, and reports whether there was one.
func (s *schedule) step() bool {
	for len(s.events) > 0 {
		e := heap.Pop(&s.events).(*event)
		if e.dead {
			continue
		}
		s.now = e.at
		e.run()
		return true
	}
	return false
}

type eventHeap []*event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].made < h[j].made
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(e any)   { *h = append(*h, e.(*event)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
