package migrate

import (
	"strings"
	"testing"

	"github.com/gormflake/gormflake/internal/servers"
)

func TestRebuildWarnings(t *testing.T) {
	sound := rebuildSettings{pool: 4096 * mebibyte, redo: 1024 * mebibyte, block: 64 << 10}
	for name, c := range map[string]struct {
		change func(*rebuildSettings)
		table  int64
		want   []string // a part of each warning
	}{
		"sound":               {table: 1 << 30},
		"a pool of two fits":  {change: func(s *rebuildSettings) { s.pool = 2 << 30 }, table: 1 << 30},
		"a small pool":        {change: func(s *rebuildSettings) { s.pool = 2<<30 - 1 }, table: 1 << 30, want: []string{"doesn't hold the table of 1024M and its copy, so that each of these changes may wait for the disk, for many seconds in all: enlarge the pool"}},
		"large blocks":        {change: func(s *rebuildSettings) { s.block = mebibyte }, table: 1 << 30, want: []string{"innodb_sort_buffer_size = 1M of changes: set innodb_sort_buffer_size = 64K"}},
		"both":                {change: func(s *rebuildSettings) { s.pool, s.block = 128*mebibyte, mebibyte }, table: 1 << 30, want: []string{"enlarge the pool, or set innodb_sort_buffer_size = 64K"}},
		"a small redo log":    {change: func(s *rebuildSettings) { s.redo = 96 * mebibyte }, table: 1 << 30, want: []string{"redo log of 96M"}},
		"a hash index":        {change: func(s *rebuildSettings) { s.hash = true }, table: 1 << 30, want: []string{"SET GLOBAL innodb_adaptive_hash_index = OFF"}},
		"nothing known":       {change: func(s *rebuildSettings) { *s = rebuildSettings{} }, table: 1 << 30},
		"a small table":       {change: func(s *rebuildSettings) { *s = rebuildSettings{pool: 1, redo: 1, block: mebibyte} }, table: smallTable - 1},
		"the least of tables": {change: func(s *rebuildSettings) { s.block = mebibyte }, table: smallTable, want: []string{"64K"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := sound
			if c.change != nil {
				c.change(&s)
			}
			got := s.warnings(c.table)
			if c.table >= smallTable {
				c.want = append(c.want, "is removed while writers wait")
			}
			if len(got) != len(c.want) {
				t.Fatalf("expected %d warnings, met %q", len(c.want), got)
			}
			for i, want := range c.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("expected %q in %q", want, got[i])
				}
			}
		})
	}
}

// TestBoolsRebuildWarned: a plan warns where the server rebuilds, and only there.
func TestBoolsRebuildWarned(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		orderTable(f, 10)
		p := f.plan(BoolSpec{Table: "t"})
		s, err := openBoolSession(t.Context(), f.db)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		settings, err := s.readRebuildSettings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if settings.pool <= 0 || settings.redo <= 0 || settings.block <= 0 {
			t.Errorf("expected every setting to be known, met %+v", settings)
		}
		if on := f.one("SELECT IF(@@innodb_adaptive_hash_index, 'ON', 'OFF')") == "ON"; settings.hash != on {
			t.Errorf("expected the hash index to be %t, met %t", on, settings.hash)
		}
		p.Report.Bytes = 1 << 40
		p.Warnings = nil
		if err := p.warn(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		// MariaDB adds and drops a column in an instant, but not one with an index.
		if got := strings.Contains(strings.Join(p.Warnings, "\n"), "online rebuild"); got != p.record.rebuilds() || !got && f.kind != servers.MariaDB {
			t.Errorf("expected a warning of the rebuild, met %q (%v)", p.Warnings, p.record.Algorithms)
		}
	})
}
