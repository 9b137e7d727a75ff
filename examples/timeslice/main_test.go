package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gormflake/gormflake/internal/servers"
)

func TestTimeslice(t *testing.T) {
	for _, c := range []struct {
		zone string
		want []string
	}{
		{"UTC", []string{
			"Inserted 1707 earthquakes into sqlite", "By day in UTC", "2018-01-31", "2018-02-07", "By hour: 192 bars",
			"page 2", "▶", "batch 2: 800 deleted", "rows are left, all of the last three days",
		}},
		{"Asia/Tokyo", []string{"By day in Asia/Tokyo", "2018-02-01"}},
	} {
		t.Run(c.zone, func(t *testing.T) {
			svg := filepath.Join(t.TempDir(), "plot.svg")
			var out strings.Builder
			if err := run(t.Context(), &out, options{zone: c.zone, svg: svg}); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("want %q in the output, got:\n%s", want, out.String())
				}
			}
			checkSVG(t, svg)
		})
	}
	if err := run(t.Context(), io.Discard, options{zone: "nowhere"}); err == nil {
		t.Error("an unknown zone must be refused")
	}
}

func checkSVG(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	bars := 0
	for decoder := xml.NewDecoder(file); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "rect" {
			bars++
		}
	}
	if bars < 24*7 {
		t.Errorf("%d bars, want at least one for each hour of the week", bars)
	}
}

func TestTimesliceOnServers(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		var out strings.Builder
		o := options{dsn: srv.Database(t), zone: "America/Sao_Paulo", svg: filepath.Join(t.TempDir(), "plot.svg")}
		if err := run(t.Context(), &out, o); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
	})
}
