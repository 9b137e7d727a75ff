package gormflake

import "time"

// On is the window of the calendar day that holds a time, in that time's own
// location. A day in which the clocks change has 23 or 25 hours; a day that
// the location skipped is empty; a midnight that comes twice begins the day
// the first time. A zero time is ErrWindow.
func On(day time.Time) Window {
	year, month, d := day.Date()
	return datesWindow(day, date{year, month, d}, date{year, month, d + 1})
}

// InWeek is the window of the ISO week that holds a time, Monday to Sunday, in
// that time's own location. A zero time is ErrWindow.
func InWeek(t time.Time) Window {
	year, month, d := t.Date()
	monday := d - sinceMonday(t)
	return datesWindow(t, date{year, month, monday}, date{year, month, monday + 7})
}

// InMonth is the window of the calendar month that holds a time, in that
// time's own location. A zero time is ErrWindow.
func InMonth(t time.Time) Window {
	year, month, _ := t.Date()
	return datesWindow(t, date{year, month, 1}, date{year, month + 1, 1})
}

// InHour is the window of the clock hour that holds a time, in that time's
// own location. When clocks go back an hour, the two hours of the same name
// are two windows; an hour in which the offset changes ends or begins there.
// A zero time is ErrWindow.
func InHour(t time.Time) Window {
	if t.IsZero() {
		return Between(t, t)
	}
	from := startOfHour(t)
	return Between(from, nextHour(from))
}

// date is a calendar date; as with time.Date, month and day may be out of
// their usual ranges.
type date struct {
	year  int
	month time.Month
	day   int
}

// datesWindow is the window between the starts of two dates in t's location.
func datesWindow(t time.Time, from, to date) Window {
	if t.IsZero() {
		return Between(t, t)
	}
	return Between(startOfDay(from, t.Location()), startOfDay(to, t.Location()))
}

// sinceMonday returns the days since the Monday of t's ISO week, 0 to 6.
func sinceMonday(t time.Time) int { return (int(t.Weekday()) + 6) % 7 }

// startOfDay returns the first instant whose date in loc is the given one or
// later. time.Date alone can't: where a day starts within a gap it returns a
// time of the day before, and of two midnights it may return the second. So
// this goes through the stretches of constant offset around the date, in each
// of which the clock runs straight on.
func startOfDay(d date, loc *time.Location) time.Time {
	midnight := time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC)
	// No offset is as large as 24 hours: here the date has not begun anywhere.
	t := midnight.Add(-24 * time.Hour).In(loc)
	for {
		_, offset := t.Zone()
		end := zoneEnd(t)
		candidate := midnight.Add(-time.Duration(offset) * time.Second).In(loc)
		if candidate.Before(t) {
			candidate = t
		}
		if end.IsZero() || candidate.Before(end) {
			return candidate
		}
		t = end
	}
}

// startOfHour returns the start of the clock hour that holds t, or the last
// change of the offset if that is later.
func startOfHour(t time.Time) time.Time {
	_, offset := t.Zone()
	seconds := t.Unix() + int64(offset)
	into := time.Duration((seconds%3600+3600)%3600)*time.Second + time.Duration(t.Nanosecond())
	start := t.Add(-into)
	for {
		zone, _ := t.ZoneBounds()
		if zone.IsZero() || !start.Before(zone) {
			return start
		}
		t = zone.Add(-1)
		if _, before := t.Zone(); before != offset {
			return zone
		}
	}
}

// nextHour returns the end of the clock hour that holds t, or the next change
// of the offset if that is earlier.
func nextHour(t time.Time) time.Time {
	_, offset := t.Zone()
	seconds := t.Unix() + int64(offset)
	left := time.Hour - time.Duration((seconds%3600+3600)%3600)*time.Second - time.Duration(t.Nanosecond())
	next := t.Add(left)
	for {
		t = zoneEnd(t)
		if t.IsZero() || !t.Before(next) {
			return next
		}
		if _, after := t.Zone(); after != offset {
			return t
		}
	}
}

// zoneEnd returns a time after t up to which its offset lasts, zero for ever. It
// need not change there. Past its table of changes, which may end years ago, Go
// has rules for a year, and takes the year's ends for changes and every year for
// 365 days long: on the last day of a leap year the end it tells is past.
func zoneEnd(t time.Time) time.Time {
	_, end := t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		const day = 24 * time.Hour // of UTC, by which Go counts the years
		return t.Truncate(day).Add(day)
	}
	return end
}
