package migrate

import (
	"errors"
	"strings"
	"testing"
)

// encodingCase is one form of a legacy boolean, on its way to tinyint.
type encodingCase struct {
	name      string
	column    string // the definition
	stored    string // literals, in key order
	overrides []Override
	want      string // the tinyint column after the swap
	final     string // its definition after Cleanup
	literal   [2]string
}

var encodingCases = []encodingCase{
	{name: "enum N Y", column: "enum('N','Y') NOT NULL DEFAULT 'N'", stored: "'N','Y','Y','N','Y'", want: "0 1 1 0 1",
		final: "tinyint(1) NOT NULL DEFAULT 0", literal: [2]string{"'N'", "'Y'"}},
	{name: "enum Y N", column: "enum('Y','N') NOT NULL", stored: "'N','Y','Y','N','Y'", want: "0 1 1 0 1",
		final: "tinyint(1) NOT NULL", literal: [2]string{"'N'", "'Y'"}},
	{name: "enum 0 1", column: "enum('0','1') NOT NULL DEFAULT '1' COMMENT 'it''s so'", stored: "'0','1','1','0','1'", want: "0 1 1 0 1",
		final: "tinyint(1) NOT NULL DEFAULT 1 COMMENT 'it''s so'", literal: [2]string{"'0'", "'1'"}},
	{name: "enum false true", column: "enum('false','true') CHARACTER SET latin1 COLLATE latin1_bin NOT NULL", stored: "'false','true','true','false','true'",
		want: "0 1 1 0 1", final: "tinyint(1) NOT NULL", literal: [2]string{"'false'", "'true'"}},
	{name: "enum with declared labels", column: "enum('ja','nein') DEFAULT 'nein'", stored: "'nein','ja','ja','nein','ja'",
		overrides: []Override{Labels("v", "nein", "ja")}, want: "0 1 1 0 1", final: "tinyint(1) DEFAULT 0", literal: [2]string{"'nein'", "'ja'"}},
	{name: "nullable, kept", column: "enum('N','Y')", stored: "'N','Y',NULL,NULL,'Y'", overrides: []Override{KeepNull("v")},
		want: "0 1 NULL NULL 1", final: "tinyint(1) DEFAULT NULL", literal: [2]string{"'N'", "'Y'"}},
	{name: "nullable, mapped", column: "enum('N','Y')", stored: "'N','Y',NULL,NULL,'Y'", overrides: []Override{MapNull("v", true)},
		want: "0 1 1 1 1", final: "tinyint(1) NOT NULL DEFAULT 1", literal: [2]string{"'N'", "'Y'"}},
	{name: "char", column: "char(1) NOT NULL DEFAULT 'N'", stored: "'N','Y','Y','N','Y'", want: "0 1 1 0 1",
		final: "tinyint(1) NOT NULL DEFAULT 0", literal: [2]string{"'N'", "'Y'"}},
	{name: "char of every spelling", column: "varchar(5) CHARACTER SET ucs2 NOT NULL DEFAULT 'N'", stored: "'n','Y','y','','1'",
		overrides: []Override{MapLabel("v", "n", false), MapLabel("v", "y", true), MapLabel("v", "1", true), MapEmpty("v", false)},
		want:      "0 1 1 0 1", final: "tinyint(1) NOT NULL DEFAULT 0", literal: [2]string{"'N'", "'Y'"}},
	{name: "bit", column: "bit(1) NOT NULL DEFAULT b'0'", stored: "b'0',b'1',b'1',b'0',b'1'", want: "0 1 1 0 1",
		final: "tinyint(1) NOT NULL DEFAULT 0", literal: [2]string{"b'0'", "b'1'"}},
	{name: "bit, nullable", column: "bit(1)", stored: "b'0',b'1',NULL,b'0',b'1'", overrides: []Override{KeepNull("v")}, want: "0 1 NULL 0 1",
		final: "tinyint(1) DEFAULT NULL", literal: [2]string{"b'0'", "b'1'"}},
}

func (c encodingCase) fixture(f *fixture) {
	f.exec("CREATE TABLE t (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, a int NOT NULL DEFAULT 5, v " + c.column +
		", z varchar(10), ts timestamp NULL ON UPDATE CURRENT_TIMESTAMP, KEY by_v (v), KEY by_zv (z, v)) DEFAULT CHARSET=utf8")
	for i, literal := range strings.Split(c.stored, ",") {
		f.exec("INSERT INTO t (id, v) VALUES (?, "+literal+")", (i+1)*1_000_000_007)
	}
}

// canonical makes MariaDB's and MySQL's spellings of a definition alike.
func canonical(definition string) string {
	return strings.NewReplacer("DEFAULT '0'", "DEFAULT 0", "DEFAULT '1'", "DEFAULT 1").Replace(definition)
}

// TestBoolsMigrate takes every encoding all the way, with writes in every phase.
func TestBoolsMigrate(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		for _, c := range encodingCases {
			t.Run(c.name, func(t *testing.T) {
				f := &fixture{TB: t, srv: f.srv, dsn: f.dsn, db: f.db, kind: f.kind}
				c.fixture(f)
				defer f.exec("DROP TABLE t")
				p := f.plan(BoolSpec{Table: "t", Columns: []string{"v"}}, c.overrides...)
				f.phase(p, PhaseOriginal)
				f.must(p.Prepare)
				f.phase(p, PhasePrepared)
				f.exec("INSERT INTO t (id, v) VALUES (1, " + c.literal[1] + "), (2, " + c.literal[0] + ")")
				f.must(fill(p), verified(p))
				f.exec("UPDATE t SET v = " + c.literal[0] + " WHERE id = 1")
				f.must(verified(p), p.Swap, verified(p))
				f.phase(p, PhaseSwapped)
				f.exec("DELETE FROM t WHERE id < 10")
				if got := join(f.column("SELECT v FROM t ORDER BY id")); got != c.want {
					t.Errorf("expected %s after the swap, met %s", c.want, got)
				}
				if got := join(f.column("SELECT DISTINCT ts FROM t")); got != "NULL" {
					t.Errorf("the backfill moved an ON UPDATE column to %s", got)
				}
				f.exec("INSERT INTO t (id, v) VALUES (1, 1), (2, 0)")
				f.exec("UPDATE t SET v = 1 WHERE id = 2")
				f.must(verified(p), p.Cleanup)
				f.phase(p, PhaseFinished)
				if got := join(f.column("SELECT v FROM t ORDER BY id")); got != "1 1 "+c.want {
					t.Errorf("expected 1 1 %s after the cleanup, met %s", c.want, got)
				}
				create := parseCreate(f.create("t"))
				if got := canonical(create.columns["v"]); got != c.final {
					t.Errorf("expected the definition %s, met %s", c.final, got)
				}
				if text := join(create.others); !strings.Contains(text, "KEY `by_v` (`v`)") || !strings.Contains(text, "KEY `by_zv` (`z`,`v`)") {
					t.Errorf("expected the indexes by_v and by_zv, met %s", text)
				}
				f.nothingLeft()
			})
		}
	})
}

// TestBoolsRollback goes back from every phase: the table is what it was, byte
// for byte, with what was written meanwhile.
func TestBoolsRollback(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		for _, c := range encodingCases {
			t.Run(c.name, func(t *testing.T) {
				f := &fixture{TB: t, srv: f.srv, dsn: f.dsn, db: f.db, kind: f.kind}
				c.fixture(f)
				defer f.exec("DROP TABLE t")
				create, sum := f.create("t"), f.checksum("t")
				spec := BoolSpec{Table: "t", Columns: []string{"v"}}
				p := f.plan(spec, c.overrides...)
				check := func(from string) {
					t.Helper()
					f.must(p.Rollback)
					if got := f.create("t"); got != create {
						t.Errorf("rolled back from %s, expected\n%s\nmet\n%s", from, create, got)
					}
					if got := f.checksum("t"); got != sum {
						t.Errorf("rolled back from %s, expected the checksum %s, met %s: %v", from, sum, got, f.column("SELECT CONCAT_WS(' ', id, HEX(v), ts) FROM t"))
					}
					f.nothingLeft()
				}
				check("the original")
				f.must(p.Prepare)
				check("prepared")
				f.must(p.Prepare, fill(p))
				check("backfilled")
				f.must(p.Prepare, fill(p), p.Swap)
				f.exec("UPDATE t SET z = 'other', ts = NULL")
				f.exec("UPDATE t SET z = NULL, ts = NULL")
				check("swapped, with updates of other columns")
				f.must(p.Prepare, fill(p), p.Swap)
				f.exec("INSERT INTO t (id, v) VALUES (1, 1), (2, 0), (3, 1)")
				f.exec("UPDATE t SET v = 0 WHERE id = 3")
				f.must(p.Rollback)
				want := c.literal[1] + " " + c.literal[0] + " " + c.literal[0]
				f.exec("CREATE TABLE expected LIKE t")
				defer f.exec("DROP TABLE expected")
				for i, literal := range strings.Split(want, " ") {
					f.exec("INSERT INTO expected (id, v) VALUES (?, "+literal+")", i+1)
				}
				if got := f.one("SELECT COUNT(*) FROM t JOIN expected e ON t.id = e.id AND t.v = e.v"); got != "3" {
					t.Errorf("expected %s for what was written after the swap, met %v", want, f.column("SELECT HEX(v) FROM t WHERE id < 10"))
				}
			})
		}
	})
}

// TestBoolsTwice: every step may be called again after its success, by the plan
// that did it.
func TestBoolsTwice(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		orderTable(f, 10)
		create, sum := f.create("t"), f.checksum("t")
		spec := BoolSpec{Table: "t"}
		p := f.plan(spec)
		done := func(want bool) {
			t.Helper()
			for _, spec := range []BoolSpec{spec, {Table: "t", Columns: []string{"v"}}} {
				if got, err := BoolsDone(t.Context(), f.db, spec); err != nil || got != want {
					t.Errorf("expected done to be %t, met %t, %v", want, got, err)
				}
			}
		}
		inspected := func(want BoolPhase, filled ...bool) {
			t.Helper()
			r, err := InspectBools(t.Context(), f.db, "t")
			if err != nil {
				t.Fatal(err)
			}
			var met BoolPhase
			if r.Migration != nil {
				met = r.Migration.Phase
				if want := len(filled) > 0 && filled[0]; r.Migration.Filled != want {
					t.Errorf("expected Filled to be %t: %v", want, r.Migration)
				}
			}
			if met != want {
				t.Errorf("expected the inspection to say %q, met %q", want, met)
			}
		}
		done(false)
		inspected("")
		f.must(p.Prepare, p.Prepare)
		f.phase(p, PhasePrepared)
		done(false)
		inspected(PhasePrepared)
		f.must(fill(p))
		inspected(PhasePrepared, true)
		f.must(fill(p), verified(p), verified(p), p.Rollback, p.Rollback)
		if got := f.create("t"); got != create || f.checksum("t") != sum {
			t.Errorf("expected the original back, met\n%s", got)
		}
		inspected("")
		f.must(p.Prepare, fill(p), p.Swap, p.Swap, verified(p))
		f.phase(p, PhaseSwapped)
		inspected(PhaseSwapped)
		done(false)
		sum = f.checksum("t")
		f.must(p.Prepare, fill(p), p.Swap)
		if got := f.checksum("t"); got != sum {
			t.Errorf("expected the steps before the swap to change nothing after it, met the checksum %s, not %s", got, sum)
		}
		f.must(p.Cleanup)
		create, sum = f.create("t"), f.checksum("t")
		f.must(p.Cleanup, p.Cleanup, p.Swap, fill(p), p.Prepare)
		if got := f.create("t"); got != create || f.checksum("t") != sum {
			t.Errorf("expected nothing to change after the cleanup, met\n%s", got)
		}
		f.nothingLeft()
		done(true)
		inspected("")
		if err := p.Rollback(t.Context()); !errors.Is(err, ErrOutOfOrder) {
			t.Errorf("expected ErrOutOfOrder from a rollback after the cleanup, met %v", err)
		}
		f.exec("DROP TABLE t")
		f.exec("CREATE TABLE t (id bigint NOT NULL PRIMARY KEY, v enum('Y','N') NOT NULL, w tinyint NOT NULL)")
		back := BoolSpec{Table: "t", Target: "enum('N','Y')", Columns: []string{"v"}}
		for columns, want := range map[string]bool{"v": true, "w": false} {
			back.Columns = []string{columns}
			if got, err := BoolsDone(t.Context(), f.db, back); err != nil || got != want {
				t.Errorf("the way back of %s: expected %t, met %t, %v", columns, want, got, err)
			}
		}
	})
}
