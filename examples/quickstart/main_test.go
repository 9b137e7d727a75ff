package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestQuickstart(t *testing.T) {
	for _, c := range []struct {
		name    string
		options options
		want    []string
	}{
		{"as shipped", options{rows: 1}, []string{
			"Inserted 1707 rows into sqlite", "rows/s", "worker ", "sequence 0",
			"Rows of the window since the start: 1707", "USING INTEGER PRIMARY KEY", "█",
		}},
		{"three times over", options{rows: 3}, []string{"Inserted 5121 rows"}},
		{"history", options{rows: 2, history: true}, []string{"Inserted 3414 rows", "2018-01-31", "2018-02-07", " 602\n"}},
		{"a file", options{rows: 1, dsn: filepath.Join(t.TempDir(), "quakes.db")}, []string{"Inserted 1707 rows into sqlite"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			if err := run(t.Context(), &out, c.options); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("want %q in the output, got:\n%s", want, out.String())
				}
			}
		})
	}
	if err := run(t.Context(), &strings.Builder{}, options{}); err == nil {
		t.Error("-rows 0 must be refused")
	}
}
