package gormflake

import (
	"fmt"
	"time"
)

// Width says how wide buckets and partitions are: a duration, or a calendar
// unit in a location. The zero Width is ErrWidth.
type Width struct {
	fixed time.Duration
	unit  calendarUnit
	loc   *time.Location
}

type calendarUnit uint8

const (
	unitNone calendarUnit = iota
	unitHour
	unitDay
	unitWeek
	unitMonth
	unitYear
)

// Every is a fixed width, counted from where a range starts. It must be at
// least the layout's tick.
func Every(d time.Duration) Width { return Width{fixed: d} }

// Hours are the clock hours of a location, as InHour has them.
func Hours(loc *time.Location) Width { return Width{unit: unitHour, loc: loc} }

// Days are the calendar days of a location, as On has them: 23 or 25 hours
// long where clocks change.
func Days(loc *time.Location) Width { return Width{unit: unitDay, loc: loc} }

// Weeks are the ISO weeks of a location, from Monday on, as InWeek has them.
func Weeks(loc *time.Location) Width { return Width{unit: unitWeek, loc: loc} }

// Months are the calendar months of a location, as InMonth has them.
func Months(loc *time.Location) Width { return Width{unit: unitMonth, loc: loc} }

// Years are the calendar years of a location.
func Years(loc *time.Location) Width { return Width{unit: unitYear, loc: loc} }

// String returns the width as "1h0m0s" or "months in Europe/Berlin".
func (w Width) String() string {
	switch {
	case w.unit != unitNone && w.loc != nil:
		return w.unit.String() + " in " + w.loc.String()
	case w.unit != unitNone:
		return w.unit.String() + " in no location"
	}
	return w.fixed.String()
}

func (u calendarUnit) String() string {
	return [...]string{"nothing", "hours", "days", "weeks", "months", "years"}[u]
}

// validate returns ErrWidth, or nil.
func (w Width) validate(tick time.Duration) error {
	switch {
	case w.unit == unitNone && w.fixed < tick:
		return fmt.Errorf("%w: want Every of at least the tick of %v, got %v", ErrWidth, tick, w.fixed)
	case w.unit != unitNone && w.loc == nil:
		return fmt.Errorf("%w: %s want a location such as time.UTC, got nil", ErrWidth, w.unit)
	}
	return nil
}

// next returns the first edge after t.
func (w Width) next(t time.Time) time.Time {
	if w.unit == unitNone {
		return t.Add(w.fixed)
	}
	t = t.In(w.loc)
	if w.unit == unitHour {
		return nextHour(t)
	}
	// More than one step only within the last hour of a day that clocks put
	// back behind the next day's first midnight.
	for step := 1; ; step++ {
		if edge := startOfDay(w.date(t, step), w.loc); edge.After(t) {
			return edge
		}
	}
}

// floor returns the last edge at or before t.
func (w Width) floor(t time.Time) time.Time {
	switch w.unit {
	case unitNone:
		since := t.Sub(time.Unix(0, 0)) % w.fixed
		if since < 0 {
			since += w.fixed
		}
		return t.Add(-since)
	case unitHour:
		return startOfHour(t.In(w.loc))
	}
	t = t.In(w.loc)
	edge := startOfDay(w.date(t, 0), w.loc)
	for next := w.next(edge); !next.After(t); next = w.next(edge) {
		edge = next
	}
	return edge
}

// date returns the first date of the unit that is step units after that of t.
func (w Width) date(t time.Time, step int) date {
	year, month, day := t.Date()
	switch w.unit {
	case unitWeek:
		return date{year, month, day - sinceMonday(t) + 7*step}
	case unitMonth:
		return date{year, month + time.Month(step), 1}
	case unitYear:
		return date{year + step, 1, 1}
	}
	return date{year, month, day + step}
}

// edges returns from, every edge between from and to, and to; nothing if the
// range is empty. More than most buckets are ErrWidth.
func (w Width) edges(from, to time.Time, most int) ([]time.Time, error) {
	if !from.Before(to) {
		return nil, nil
	}
	if w.unit == unitNone && to.Sub(from)/w.fixed >= time.Duration(most) {
		return nil, tooMany(w, from, to, most)
	}
	edges := []time.Time{from}
	for edge := w.next(from); edge.Before(to); edge = w.next(edge) {
		edges = append(edges, edge)
		if len(edges) > most {
			return nil, tooMany(w, from, to, most)
		}
	}
	return append(edges, to), nil
}

func tooMany(w Width, from, to time.Time, most int) error {
	return fmt.Errorf("%w: want at most %d parts, got more from %s to %s by %v; widen them or narrow the range",
		ErrWidth, most, from.Format(time.RFC3339), to.Format(time.RFC3339), w)
}
