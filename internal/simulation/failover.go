package simulation

import (
	"maps"
	"slices"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// remember keeps what a failover may have to undo.
func (s *server) remember(do func(*server)) {
	if s.guard == 0 {
		return
	}
	s.tail = append(s.tail, undo{at: s.fleet.now, do: do})
	oldest := s.fleet.now - s.fleet.shape.Lag
	if i := slices.IndexFunc(s.tail, func(u undo) bool { return u.at >= oldest }); i > 64 {
		s.tail = append([]undo(nil), s.tail[i:]...)
	}
}

// promote returns a replica of s that has not seen the writes of the last lag.
func (s *server) promote(lag, skew time.Duration) (replica *server, lost int) {
	r := *s
	r.rows, r.blocks, r.versions = slices.Clone(s.rows), slices.Clone(s.blocks), maps.Clone(s.versions)
	for i := len(s.tail) - 1; i >= 0 && s.tail[i].at > s.fleet.now-lag; i-- {
		s.tail[i].do(&r)
		lost++
	}
	r.tail = nil
	r.clock = &clock{schedule: &s.fleet.schedule}
	r.clock.set(skew, 0)
	return &r, lost
}

// wipe is FLUSHALL: the next newcomer begins a new generation, whose floor
// keeps clear of all grants that were lost.
func (s *server) wipe() {
	rows, generation, floor := s.rows, s.generation, s.floor
	s.remember(func(s *server) {
		s.rows, s.generation, s.floor = slices.Clone(rows), generation, floor
	})
	s.rows = emptyRows(len(rows))
	s.generation++
	s.floor = s.clock.millis() + s.guard.Milliseconds()
}

func emptyRows(n int) []lease.Row {
	rows := make([]lease.Row, n)
	for w := range rows {
		rows[w].Worker = int64(w)
	}
	return rows
}

// reach hands the server that a node talks to, nil while it is down, to f,
// later if it hangs.
func (f *fleet) reach(n *node, do func(*server)) {
	switch {
	case f.isolated != nil && n.stuck > f.now:
		do(f.isolated)
	case f.hungUntil > f.now:
		f.after(f.hungUntil-f.now, func() { f.reach(n, do) })
	case f.downUntil > f.now:
		do(nil)
	default:
		do(f.server)
	}
}

// failover promotes a replica that lost the tail. The old primary goes on
// taking writes from some of the nodes until its isolation is noticed.
func (f *fleet) failover() {
	if f.isolated != nil {
		return
	}
	s := f.shape
	lag := min(f.between(0, s.Lag), f.now-f.promoted)
	until := f.now + f.between(0, s.Isolation)
	replica, lost := f.server.promote(lag, f.between(0, s.StoreSkew)-s.StoreSkew/2)
	f.count("failover")
	if lost > 0 {
		f.count("failover that lost writes")
	}
	f.isolated, f.server, f.promoted = f.server, replica, f.now
	for _, n := range f.nodes {
		if f.chance(0.3) {
			n.stuck = until
			f.count("node on an isolated primary")
		}
	}
	f.after(until-f.now, func() { f.isolated = nil })
}

// afterAcquire makes failovers likely where they hurt: just after a row has
// changed hands.
func (f *fleet) afterAcquire() {
	f.acquired++
	if f.shape.Lossy && !f.healed && f.chance(0.03) {
		f.later(f.between(0, f.shape.Lag), f.failover)
	}
}
