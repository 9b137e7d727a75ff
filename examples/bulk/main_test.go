package main

import (
	"strings"
	"testing"
)

func TestBulk(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, 25_000, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Made 25000 ids in one burst", "Inserted 25000 rows", "in the order of the slice", " 4096\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in the output, got:\n%s", want, out.String())
		}
	}
}
