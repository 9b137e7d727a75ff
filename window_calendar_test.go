package gormflake

import (
	_ "embed"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

//go:embed testdata/zones.txt
var zoneNames string

func location(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// TestOnTilesEveryZone walks every day of 1990 to 2035 in every zone of the tz
// database: each window begins where the one before ended, holds only
// instants of its own date, and starts at the first of them.
func TestOnTilesEveryZone(t *testing.T) {
	names := strings.Fields(zoneNames)
	if len(names) < 400 {
		t.Fatalf("want every zone of the tz database, got %d", len(names))
	}
	for _, name := range names {
		if days := tileDays(t, location(t, name), 1990, 2035); days != 16801 {
			t.Fatalf("%s: walked %d days, want the 16,801 of 46 years", name, days)
		}
	}
}

// TestOnTilesBeyondTheTable walks years of which the tz database has rules and no
// table, in leap years too. In those rules Go's years have 365 days.
func TestOnTilesBeyondTheTable(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/New_York", "America/Santiago", "Australia/Sydney", "Australia/Lord_Howe", "Asia/Tokyo"} {
		tileDays(t, location(t, name), 2036, 2101)
	}
}

func tileDays(t *testing.T, loc *time.Location, first, last int) (days int) {
	t.Helper()
	var end time.Time
	for noon := time.Date(first, 1, 1, 12, 0, 0, 0, time.UTC); noon.Year() <= last; noon = noon.Add(24 * time.Hour) {
		days++
		want := date{noon.Year(), noon.Month(), noon.Day()}
		from := startOfDay(want, loc)
		to := startOfDay(date{want.year, want.month, want.day + 1}, loc)
		if !end.IsZero() && !from.Equal(end) {
			t.Fatalf("%s %v: begins at %v, the day before ended at %v", loc, want, from, end)
		}
		end = to
		if from.Equal(to) {
			if y, m, d := from.Date(); !beforeDate(want, date{y, m, d}) {
				t.Fatalf("%s %v: is empty, yet %v is no later date", loc, want, from)
			}
			continue
		}
		if y, m, d := from.Date(); (date{y, m, d}) != want {
			t.Fatalf("%s %v: begins at %v, another date", loc, want, from)
		}
		if y, m, d := from.Add(-1).Date(); !beforeDate(date{y, m, d}, want) {
			t.Fatalf("%s %v: the date began before %v", loc, want, from)
		}
		// Vostok's longest day, of 1994-01-31, had 31 hours.
		if length := to.Sub(from); length <= 0 || length > 31*time.Hour {
			t.Fatalf("%s %v: lasts %v", loc, want, length)
		}
		// On itself, asked in the middle of the day, agrees.
		if days%97 == 0 {
			w := On(from.Add(to.Sub(from) / 2))
			if !w.from.Equal(from) || !w.to.Equal(to) {
				t.Fatalf("%s %v: On is [%v, %v), want [%v, %v)", loc, want, w.from, w.to, from, to)
			}
		}
	}
	return days
}

func beforeDate(a, b date) bool {
	return a.year < b.year || a.year == b.year && (a.month < b.month || a.month == b.month && a.day < b.day)
}

func TestCalendarWindows(t *testing.T) {
	const layout = "2006-01-02T15:04:05-07:00"
	at := func(zone, local string) time.Time {
		got, err := time.ParseInLocation("2006-01-02 15:04", local, location(t, zone))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, c := range []struct {
		name     string
		window   Window
		from, to string
	}{
		{"a plain day", On(at("UTC", "2018-02-03 17:00")), "2018-02-03T00:00:00+00:00", "2018-02-04T00:00:00+00:00"},
		{"a day that starts in a gap", On(at("America/Sao_Paulo", "2018-11-04 12:00")), "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{"the day before it", On(at("America/Sao_Paulo", "2018-11-03 12:00")), "2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00"},
		{"a day whose last hour comes twice", On(at("America/Sao_Paulo", "2018-02-17 12:00")), "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00"},
		{"the last day before Apia skipped one", On(at("Pacific/Apia", "2011-12-29 12:00")), "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"a day with two midnights", On(at("America/Havana", "2018-11-04 12:00")), "2018-11-04T00:00:00-04:00", "2018-11-05T00:00:00-05:00"},
		{"23 hours", On(at("Europe/Berlin", "2018-03-25 12:00")), "2018-03-25T00:00:00+01:00", "2018-03-26T00:00:00+02:00"},
		{"25 hours", On(at("Europe/Berlin", "2018-10-28 12:00")), "2018-10-28T00:00:00+02:00", "2018-10-29T00:00:00+01:00"},
		{"a week from its Sunday", InWeek(at("UTC", "2018-02-04 23:59")), "2018-01-29T00:00:00+00:00", "2018-02-05T00:00:00+00:00"},
		{"a week from its Monday", InWeek(at("UTC", "2018-01-29 00:00")), "2018-01-29T00:00:00+00:00", "2018-02-05T00:00:00+00:00"},
		{"a week across the year", InWeek(at("Europe/Berlin", "2021-01-02 00:00")), "2020-12-28T00:00:00+01:00", "2021-01-04T00:00:00+01:00"},
		{"December", InMonth(at("Europe/Berlin", "2018-12-31 23:59")), "2018-12-01T00:00:00+01:00", "2019-01-01T00:00:00+01:00"},
		{"a month of two offsets", InMonth(at("Europe/Berlin", "2018-03-31 12:00")), "2018-03-01T00:00:00+01:00", "2018-04-01T00:00:00+02:00"},
		{"an hour", InHour(at("Asia/Kolkata", "2018-03-31 12:59")), "2018-03-31T12:00:00+05:30", "2018-03-31T13:00:00+05:30"},
		{"the first of two equal hours", InHour(at("Europe/Berlin", "2018-10-28 01:30").Add(time.Hour)), "2018-10-28T02:00:00+02:00", "2018-10-28T02:00:00+01:00"},
		{"the second of two equal hours", InHour(at("Europe/Berlin", "2018-10-28 01:30").Add(2 * time.Hour)), "2018-10-28T02:00:00+01:00", "2018-10-28T03:00:00+01:00"},
		{"the hour after a gap", InHour(at("Europe/Berlin", "2018-03-25 03:30")), "2018-03-25T03:00:00+02:00", "2018-03-25T04:00:00+02:00"},
		{"half an hour of Lord Howe's", InHour(at("Australia/Lord_Howe", "2018-04-01 01:15").Add(time.Hour)), "2018-04-01T01:30:00+10:30", "2018-04-01T02:00:00+10:30"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.window.from.Format(layout); got != c.from {
				t.Errorf("begins at %s, want %s", got, c.from)
			}
			if got := c.window.to.Format(layout); got != c.to {
				t.Errorf("ends at %s, want %s", got, c.to)
			}
		})
	}
}

// TestInHourAtTheTurnOfTheYear walks hours that nothing happens in, where Go's
// rules for a year end: in the middle of an hour, by clocks half an hour off.
func TestInHourAtTheTurnOfTheYear(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "Australia/Adelaide", "Australia/Lord_Howe", "America/St_Johns"} {
		for _, year := range []int{2040, 2041, 2044} {
			end := time.Date(year, 12, 30, 0, 0, 0, 0, location(t, name))
			for range 4 * 24 {
				w := InHour(end)
				if !w.from.Equal(end) || w.to.Sub(w.from) != time.Hour {
					t.Fatalf("%s: [%v, %v) does not follow %v, or is no hour", name, w.from, w.to, end)
				}
				if last := InHour(w.to.Add(-1)); !last.from.Equal(w.from) || !last.to.Equal(w.to) {
					t.Fatalf("%s: the last instant of [%v, %v) has another hour, [%v, %v)", name, w.from, w.to, last.from, last.to)
				}
				end = w.to
			}
		}
	}
}

// TestInHourTiles walks the hours of a year in zones with odd changes.
func TestInHourTiles(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia"} {
		loc := location(t, name)
		end := time.Date(2011, 1, 1, 0, 0, 0, 0, loc)
		for end.Year() == 2011 {
			w := InHour(end)
			if !w.from.Equal(end) || !w.to.After(w.from) || w.to.Sub(w.from) > time.Hour {
				t.Fatalf("%s: [%v, %v) does not follow %v", name, w.from, w.to, end)
			}
			if middle := InHour(w.from.Add(w.to.Sub(w.from) - 1)); !middle.from.Equal(w.from) || !middle.to.Equal(w.to) {
				t.Fatalf("%s: the last instant of [%v, %v) has another hour, [%v, %v)", name, w.from, w.to, middle.from, middle.to)
			}
			end = w.to
		}
	}
}
