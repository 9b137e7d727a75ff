package plot_test

import (
	"strings"
	"testing"

	"github.com/gormflake/gormflake/examples/internal/plot"
)

func TestBars(t *testing.T) {
	var out strings.Builder
	plot.Bars(&out, []plot.Bar{{"none", 0}, {"one", 1}, {"half", 500}, {"all", 1000}})
	var got []int
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Count(line, "█"))
	}
	want := []int{0, 1, 24, 48}
	if len(got) != len(want) {
		t.Fatalf("want %d lines, got:\n%s", len(want), out.String())
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d: want %d cells, got %d", i, want[i], got[i])
		}
	}
	plot.Bars(&out, nil)
}
