package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAPI(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, "127.0.0.1:0", "", false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`201 Created {"id":"`, `"customer":"Grace"`, `"hasNextPage":true`, `"hasPreviousPage":true`,
		"400 Bad Request", "not an id", `200 OK {"status":"ready"}`, "Drained",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in the output, got:\n%s", want, out.String())
		}
	}
}
