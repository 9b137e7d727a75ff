package migrate

import (
	"errors"
	"strings"
	"testing"
)

// TestBoolsReverse takes tinyint columns to the enum that old programs know, and
// back again.
func TestBoolsReverse(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		for _, c := range []struct {
			name, column, stored, target string
			overrides                    []Override
			want, final                  string
		}{
			{name: "plain", column: "tinyint(1) NOT NULL DEFAULT 1", stored: "0,1,1,0", target: "enum('N','Y')",
				want: "N Y Y N", final: "enum('N','Y') NOT NULL DEFAULT 'Y'"},
			{name: "order Y N", column: "tinyint(4) NOT NULL", stored: "0,1,1,0", target: "enum('Y','N')",
				want: "N Y Y N", final: "enum('Y','N') NOT NULL"},
			{name: "digits as labels", column: "tinyint(1) NOT NULL DEFAULT 0", stored: "0,1,1,0", target: "enum('0','1')",
				want: "0 1 1 0", final: "enum('0','1') NOT NULL DEFAULT '0'"},
			{name: "kept NULL", column: "tinyint(1)", stored: "0,1,NULL,0", target: "enum('N','Y')", overrides: []Override{KeepNull("v")},
				want: "N Y NULL N", final: "enum('N','Y') DEFAULT NULL"},
			{name: "mapped numbers", column: "tinyint(4) NOT NULL DEFAULT 0", stored: "0,1,2,-1", target: "enum('N','Y')",
				overrides: []Override{MapNumber("v", 2, true), MapNumber("v", -1, false)}, want: "N Y Y N", final: "enum('N','Y') NOT NULL DEFAULT 'N'"},
		} {
			t.Run(c.name, func(t *testing.T) {
				f := f.sub(t)
				f.exec("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v " + c.column + ", z int)")
				defer f.exec("DROP TABLE t")
				for i, literal := range strings.Split(c.stored, ",") {
					f.exec("INSERT INTO t (id, v) VALUES (?, "+literal+")", i+1)
				}
				create, sum := f.create("t"), f.checksum("t")
				spec := BoolSpec{Table: "t", Columns: []string{"v"}, Target: c.target}
				p := f.plan(spec, c.overrides...)
				f.must(p.Prepare, fill(p), verified(p), p.Swap)
				if got := join(f.column("SELECT v FROM t ORDER BY id")); got != c.want {
					t.Errorf("expected %s, met %s", c.want, got)
				}
				f.exec("UPDATE t SET z = 1")
				f.exec("UPDATE t SET z = NULL")
				f.must(verified(p), p.Rollback)
				if f.create("t") != create || f.checksum("t") != sum {
					t.Errorf("expected the original\n%s\nmet\n%s", create, f.create("t"))
				}
				f.nothingLeft()

				p = f.plan(spec, c.overrides...)
				f.must(p.Prepare, fill(p), p.Swap)
				old := strings.Split(c.want, " ")[:2]
				f.exec("INSERT INTO t (id, v) VALUES (11, ?), (12, ?)", old[0], old[1])
				if got := join(f.column("SELECT v__gf FROM t WHERE id > 10 ORDER BY id")); got != "0 1" {
					t.Errorf("expected the old column to follow with 0 1, met %s", got)
				}
				f.must(p.Cleanup)
				if got := parseCreate(f.create("t")).columns["v"]; got != c.final {
					t.Errorf("expected the definition %s, met %s", c.final, got)
				}
				f.nothingLeft()
			})
		}
	})
}

func TestBoolsReverseRefuses(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		f.exec("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v tinyint(4) NOT NULL, e enum('N','Y') NOT NULL)")
		f.exec("INSERT INTO t VALUES (1, 0, 'N'), (2, 2, 'Y'), (3, -1, 'N')")
		spec := BoolSpec{Table: "t", Columns: []string{"v"}, Target: "enum('N','Y')"}
		f.refused(f.anyPlan(spec), "out-of-range", "v")
		spec.Columns = []string{"e"}
		f.refused(f.anyPlan(spec), "already-done", "e")
		for _, target := range []string{"int", "enum('a','b')", "bit(1)", "char(1)"} {
			spec.Target = target
			if _, err := PlanBools(t.Context(), f.db, spec); err == nil {
				t.Errorf("the target %s was accepted", target)
			}
		}
	})
}

type freshFlag struct {
	ID     int64
	Paid   bool
	Gone   *bool  `gorm:"type:enum('N','Y')"`
	Old    bool   `gorm:"type:char(1);not null"`
	Labels string `gorm:"type:enum('N','Y')"`
}

func TestForward(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		check := func() {
			t.Helper()
			columns := parseCreate(f.create("fresh_flags")).columns
			for name, want := range map[string]string{"paid": "tinyint(1) DEFAULT NULL", "gone": "tinyint(1) DEFAULT NULL",
				"old": "tinyint(1) NOT NULL", "labels": "enum('N','Y') DEFAULT NULL"} {
				if got := canonical(columns[name]); got != want {
					t.Errorf("%s: expected %s, met %s", name, want, got)
				}
			}
			f.nothingLeft()
		}
		if err := Forward(t.Context(), f.db, &freshFlag{}); err != nil {
			t.Fatal(err)
		}
		check()
		if err := Forward(t.Context(), f.db, &freshFlag{}); err != nil {
			t.Fatal(err)
		}
		check()
		f.exec("DROP TABLE fresh_flags")
		f.exec("CREATE TABLE fresh_flags (id bigint NOT NULL PRIMARY KEY, paid bit(1), gone enum('Y','N'), old char(1) NOT NULL, labels enum('N','Y'))")
		f.exec("INSERT INTO fresh_flags (id, old) VALUES (1, 'N')")
		before := f.create("fresh_flags")
		if err := Forward(t.Context(), f.db, &freshFlag{}); !errors.Is(err, ErrNotEmpty) {
			t.Fatalf("expected ErrNotEmpty, met %v", err)
		}
		if after := f.create("fresh_flags"); after != before {
			t.Errorf("a refused Forward changed the table to %s", after)
		}
		f.exec("DELETE FROM fresh_flags")
		if err := Forward(t.Context(), f.db, &freshFlag{}); err != nil {
			t.Fatal(err)
		}
		check()
	})
}
