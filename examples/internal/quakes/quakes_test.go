package quakes

import (
	"slices"
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	all, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1707 {
		t.Fatalf("expected 1707 events, met %d", len(all))
	}
	first := all[0]
	if first.Event != "uw61345682" || first.Magnitude != 0.31 || !first.Reviewed || first.Felt ||
		first.Place != "37km NNE of Amboy, Washington" {
		t.Errorf("the first event came out as %+v", first)
	}
	if want := time.Date(2018, 1, 31, 1, 49, 59, 650e6, time.UTC); !first.Time.Equal(want) {
		t.Errorf("time: expected %v, met %v", want, first.Time)
	}
	if !slices.IsSortedFunc(all, func(a, b Quake) int { return a.Time.Compare(b.Time) }) {
		t.Error("the events are not sorted by time")
	}
	seen := map[string]bool{}
	for _, q := range all {
		if seen[q.Event] {
			t.Errorf("event %s occurs twice", q.Event)
		}
		seen[q.Event] = true
	}
}

func TestParseRefuses(t *testing.T) {
	good := []string{"e", "1", "1", "1", "1", "1", "Y", "N", "earthquake", "here"}
	for column, bad := range map[int]string{1: "soon", 2: "strong", 6: "y", 7: ""} {
		t.Run(header[column], func(t *testing.T) {
			row := slices.Clone(good)
			row[column] = bad
			if _, err := parse(row); err == nil {
				t.Errorf("%s = %q was accepted", header[column], bad)
			}
		})
	}
}
