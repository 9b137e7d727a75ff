package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gormflake/gormflake/internal/servers"
)

func TestRun(t *testing.T) {
	servers.Each(t, servers.MySQLKinds(), func(t *testing.T, srv *servers.Server) {
		var out bytes.Buffer
		if err := run(t.Context(), &out, srv.Database(t)); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		if text := out.String(); !strings.Contains(text, "all 1707 events have their values") {
			t.Errorf("expected every event to be compared, met\n%s", text)
		}
	})
}
