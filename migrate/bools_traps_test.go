package migrate

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/gormflake/gormflake/internal/servers"
)

// The traps of legacy booleans that a migration can fall into. Each test first
// shows the trap on the server, with plain SQL, then that the plan refuses it or
// passes it by.

// bothModes runs a trap in strict mode and without, on every server.
func bothModes(t *testing.T, test func(t *testing.T, f *fixture, strict bool)) {
	t.Helper()
	onMySQL(t, func(t *testing.T, f *fixture) {
		t.Run("strict", func(t *testing.T) { test(t, f.mode(t, "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"), true) })
		t.Run("loose", func(t *testing.T) { test(t, f.mode(t, "'NO_ENGINE_SUBSTITUTION'"), false) })
	})
}

// mode is a fresh database, whose connections all have the sql_mode.
func (f *fixture) mode(t *testing.T, mode string) *fixture {
	dsn := f.srv.Database(t)
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if c.Params == nil {
		c.Params = map[string]string{}
	}
	c.Params["sql_mode"] = mode
	dsn = c.FormatDSN()
	return &fixture{TB: t, srv: f.srv, dsn: dsn, db: f.srv.OpenDSN(t, dsn, nil), kind: f.kind}
}

// fails asserts that a statement is an error with one of these numbers, which
// differ from server to server; without any, that it is none.
func (f *fixture) fails(statement string, numbers ...uint16) {
	f.Helper()
	err := f.db.Exec(statement).Error
	if len(numbers) == 0 && err != nil || len(numbers) > 0 && !slices.Contains(numbers, mysqlError(err)) {
		f.Errorf("expected the error %v, met %v (in: %s)", numbers, err, statement)
	}
}

func (f *fixture) holds(want, query string) {
	f.Helper()
	if got := join(f.column(query)); got != want {
		f.Errorf("expected %q, met %q (%s)", want, got, query)
	}
}

// copies makes t and a copy of it to step into the trap with.
func (f *fixture) copies(column string, literals ...string) {
	f.Helper()
	f.exec("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v " + column + ")")
	for i, literal := range literals {
		f.exec("INSERT IGNORE INTO t VALUES (?, "+literal+")", i+1)
	}
	f.exec("CREATE TABLE victim LIKE t")
	f.exec("INSERT IGNORE INTO victim SELECT * FROM t")
}

// migrated takes t all the way and asserts what it holds.
func (f *fixture) migrated(want string, spec BoolSpec, overrides ...Override) {
	f.Helper()
	spec.Table, spec.Columns = "t", []string{"v"}
	p := f.plan(spec, overrides...)
	f.must(p.Prepare, fill(p), verified(p), p.Swap, verified(p), p.Cleanup)
	f.holds(want, "SELECT v FROM t ORDER BY id")
}

var onlyV = BoolSpec{Table: "t", Columns: []string{"v"}}

func TestPlanTrap09OutOfRange(t *testing.T) {
	bothModes(t, func(t *testing.T, f *fixture, strict bool) {
		f.copies("tinyint(4) NOT NULL", "0", "1", "2", "-1")
		f.holds("2", "SELECT id FROM victim WHERE v = true")
		f.holds("1", "SELECT id FROM victim WHERE v = false")
		r := f.refused(f.anyPlan(onlyV), "already-done", "v")
		if !strings.Contains(r.Reason, "2 in 1 rows") || !strings.Contains(r.Reason, "-1 in 1 rows") {
			t.Errorf("expected the refusal to list 2 and -1, met %s", r)
		}
	})
}

func TestPlanTrap10Null(t *testing.T) {
	bothModes(t, func(t *testing.T, f *fixture, strict bool) {
		f.copies("enum('N','Y')", "'N'", "'Y'", "NULL")
		f.holds("1", "SELECT id FROM victim WHERE v <> 'Y'")
		f.refused(f.anyPlan(onlyV), "null-values", "v")
		f.migrated("0 1 0", BoolSpec{}, MapNull("v", false))
		f.holds("1 3", "SELECT id FROM t WHERE v <> 1")
	})
}

func TestPlanTrap11Case(t *testing.T) {
	bothModes(t, func(t *testing.T, f *fixture, strict bool) {
		f.copies("char(1) NOT NULL", "'Y'", "'y'", "'n'")
		f.holds("1 2", "SELECT id FROM victim WHERE v = 'Y'")
		f.refused(f.anyPlan(onlyV), "unmapped-values", "v")
		f.migrated("1 1 0", BoolSpec{}, MapLabel("v", "y", true), MapLabel("v", "n", false))
	})
}

// TestPlanTrap13StaleLabels: what an old program does to a migrated column can't
// be prevented, so the plan says that it must be stopped, and louder without
// strict mode.
func TestPlanTrap13StaleLabels(t *testing.T) {
	bothModes(t, func(t *testing.T, f *fixture, strict bool) {
		f.copies("enum('N','Y') NOT NULL", "'N'", "'Y'")
		warnings := join(f.anyPlan(onlyV).Warnings)
		if !strings.Contains(warnings, "before Swap, stop every program") || strings.Contains(warnings, "isn't strict") == strict {
			t.Errorf("strict %t: expected the plan to warn of old programs, met %s", strict, warnings)
		}
		f.migrated("0 1", BoolSpec{})
		f.holds("1", "SELECT id FROM t WHERE v = 'Y'")
		if strict {
			f.fails("INSERT INTO t VALUES (3, 'Y')", 1366)
			f.fails("UPDATE t SET v = 'Y'", 1366, 1292)
		} else {
			f.exec("INSERT INTO t VALUES (3, 'Y')")
			f.holds("0", "SELECT v FROM t WHERE id = 3")
		}
	})
}

func TestPlanTrap14ModifyEnum(t *testing.T) {
	bothModes(t, func(t *testing.T, f *fixture, strict bool) {
		f.copies("enum('N','Y') NOT NULL", "'N'", "'Y'", "''")
		f.exec("ALTER TABLE victim MODIFY v tinyint(1) NOT NULL")
		f.holds("1 2 0", "SELECT v FROM victim ORDER BY id")
		f.refused(f.anyPlan(onlyV), "empty-values", "v")
		f.migrated("0 1 0", BoolSpec{}, MapEmpty("v", false))
	})
}

func TestPlanTrap15ModifyText(t *testing.T) {
	bothModes(t, func(t *testing.T, f *fixture, strict bool) {
		f.copies("char(1) NOT NULL", "'N'", "'Y'")
		if strict {
			f.fails("ALTER TABLE victim MODIFY v tinyint(1) NOT NULL", 1366, 1292)
		} else {
			f.exec("ALTER TABLE victim MODIFY v tinyint(1) NOT NULL")
			f.holds("0 0", "SELECT v FROM victim ORDER BY id")
		}
		f.migrated("0 1", BoolSpec{})
	})
}

func TestPlanTrap16ModifyWidth(t *testing.T) {
	bothModes(t, func(t *testing.T, f *fixture, strict bool) {
		f.copies("tinyint(4) NOT NULL", "0", "2", "-1")
		f.exec("ALTER TABLE victim MODIFY v tinyint(1) NOT NULL")
		f.holds("0 2 -1", "SELECT v FROM victim ORDER BY id")
		r := f.refused(f.anyPlan(onlyV), "already-done", "v")
		if !strings.Contains(r.Remedy, "UPDATE") {
			t.Errorf("expected the remedy to be an UPDATE, met %s", r.Remedy)
		}
		f.exec("DROP TABLE t, victim")
		f.copies("bit(1) NOT NULL", "b'0'", "b'1'")
		f.migrated("0 1", BoolSpec{})
	})
}

func TestPlanTrap17NullToNotNull(t *testing.T) {
	bothModes(t, func(t *testing.T, f *fixture, strict bool) {
		f.copies("enum('N','Y')", "'N'", "'Y'", "NULL")
		f.exec("ALTER TABLE victim ADD w tinyint(1) NULL")
		if strict {
			f.fails("ALTER TABLE victim MODIFY w tinyint(1) NOT NULL", 1265, 1138)
		} else {
			f.exec("ALTER TABLE victim MODIFY w tinyint(1) NOT NULL")
			f.holds("0 0 0", "SELECT w FROM victim")
		}
		f.refused(f.anyPlan(onlyV), "null-values", "v")
		f.migrated("0 1 1", BoolSpec{}, MapNull("v", true))
		f.holds("NO", "SELECT IS_NULLABLE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 't' AND COLUMN_NAME = 'v'")
	})
}

func TestPlanTrap18ModifyBack(t *testing.T) {
	bothModes(t, func(t *testing.T, f *fixture, strict bool) {
		f.copies("tinyint(1) NOT NULL", "0", "1")
		err := f.db.Exec("ALTER TABLE victim MODIFY v enum('N','Y') NOT NULL").Error
		if got := join(f.column("SELECT CONCAT('[', v, ']') FROM victim ORDER BY id")); err == nil && got == "[N] [Y]" {
			t.Errorf("the server has no such trap any more: %s", got)
		}
		f.migrated("N Y", BoolSpec{Target: "enum('N','Y')"})
	})
}

// TestPlanTrap23Defaults: a default means the same however the server spells it.
func TestPlanTrap23Defaults(t *testing.T) {
	bothModes(t, func(t *testing.T, f *fixture, strict bool) {
		f.exec(`CREATE TABLE t (id int NOT NULL PRIMARY KEY, a enum('N','Y') NOT NULL DEFAULT 'Y', b enum('N','Y'), c enum('N','Y') NOT NULL,
			d bit(1) NOT NULL DEFAULT b'1', e char(4) DEFAULT 'NULL', n tinyint NOT NULL DEFAULT -1)`)
		r, err := InspectBools(t.Context(), f.db, "t", "a", "b", "c", "d", "e", "n")
		if err != nil {
			t.Fatal(err)
		}
		want := []Default{{LiteralDefault, "Y"}, {NullDefault, ""}, {NoDefault, ""}, {LiteralDefault, "1"}, {LiteralDefault, "NULL"}, {LiteralDefault, "-1"}}
		for i, c := range r.Columns {
			if c.Default != want[i] {
				t.Errorf("%s: expected %+v, met %+v", c.Name, want[i], c.Default)
			}
		}
		p := f.plan(BoolSpec{Table: "t", Columns: []string{"a", "b", "c", "d"}})
		f.must(p.Prepare, fill(p), p.Swap, p.Cleanup)
		f.exec("INSERT INTO t (id, c) VALUES (1, 0)")
		f.holds("1 NULL 0 1", "SELECT CONCAT_WS(' ', a, IFNULL(b, 'NULL'), c, d) FROM t")
		if strict {
			f.fails("INSERT INTO t (id) VALUES (2)", 1364)
		} else {
			f.fails("INSERT INTO t (id) VALUES (2)")
		}
	})
}

func TestReadDefault(t *testing.T) {
	text := func(s string) sql.NullString { return sql.NullString{String: s, Valid: true} }
	for _, c := range []struct {
		name              string
		raw               sql.NullString
		nullable, mariadb bool
		want              Default
	}{
		{"MySQL literal", text("N"), false, false, Default{LiteralDefault, "N"}},
		{"MySQL literal NULL", text("NULL"), true, false, Default{LiteralDefault, "NULL"}},
		{"MySQL none", sql.NullString{}, false, false, Default{}},
		{"MySQL null", sql.NullString{}, true, false, Default{Kind: NullDefault}},
		{"MariaDB literal", text("'N'"), false, true, Default{LiteralDefault, "N"}},
		{"MariaDB quote", text("'it''s'"), false, true, Default{LiteralDefault, "it's"}},
		{"MariaDB null", text("NULL"), true, true, Default{Kind: NullDefault}},
		{"MariaDB number", text("0"), false, true, Default{LiteralDefault, "0"}},
		{"MariaDB expression", text("upper('n')"), false, true, Default{ExpressionDefault, "upper('n')"}},
		{"bit", text("b'0'"), false, true, Default{LiteralDefault, "0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := readDefault(c.raw, c.nullable, c.mariadb); got != c.want {
				t.Errorf("expected %+v, met %+v", c.want, got)
			}
		})
	}
}

// TestPlanTrap24Dependents: a view silently changes its meaning, a trigger on a
// renamed column breaks every insert, a CHECK comes in the way.
func TestPlanTrap24Dependents(t *testing.T) {
	bothModes(t, func(t *testing.T, f *fixture, strict bool) {
		f.copies("enum('N','Y') NOT NULL", "'N'", "'Y'")
		f.exec("CREATE VIEW yes AS SELECT id FROM victim WHERE v = 'Y'")
		f.exec("ALTER TABLE victim ADD w tinyint NOT NULL DEFAULT 0")
		f.exec("UPDATE victim SET w = v = 'Y'")
		f.exec("ALTER TABLE victim CHANGE v o enum('N','Y') NOT NULL DEFAULT 'N', CHANGE w v tinyint NOT NULL")
		f.holds("1", "SELECT id FROM yes") // the false one
		f.exec("CREATE TRIGGER renamed BEFORE INSERT ON victim FOR EACH ROW SET @o = NEW.o")
		f.exec("ALTER TABLE victim CHANGE o p enum('N','Y') NOT NULL DEFAULT 'N'")
		f.fails("INSERT INTO victim (id, v) VALUES (9, 1)", 1054)

		f.exec("DROP TABLE victim")
		f.exec("DROP VIEW yes")
		f.exec("CREATE VIEW yes AS SELECT id FROM t WHERE v = 'Y'")
		f.exec("CREATE TRIGGER watch AFTER INSERT ON t FOR EACH ROW SET @v = NEW.v")
		p := f.anyPlan(onlyV)
		f.refused(p, "view", "v")
		f.refused(p, "trigger", "v")
		if f.kind == servers.MariaDB {
			f.exec("ALTER TABLE t ADD CONSTRAINT known CHECK (v IN ('N', 'Y'))")
			f.refused(f.anyPlan(onlyV), "check", "v")
		}
	})
}

// TestPlanTrap25Copies: online schema-change tools copy rows with INSERT ...
// SELECT, which goes by index as a MODIFY does. No statement of a plan assigns
// one column to the other without a CASE over the labels.
func TestPlanTrap25Copies(t *testing.T) {
	bothModes(t, func(t *testing.T, f *fixture, strict bool) {
		f.copies("enum('N','Y') NOT NULL", "'N'", "'Y'")
		f.exec("CREATE TABLE copied (id int NOT NULL PRIMARY KEY, v tinyint(1) NOT NULL)")
		f.exec("INSERT INTO copied SELECT id, v FROM victim")
		f.holds("1 2", "SELECT v FROM copied ORDER BY id")
		f.exec("ALTER TABLE victim ADD w tinyint(1) NOT NULL DEFAULT 0")
		f.exec("UPDATE victim SET w = v")
		f.holds("1 2", "SELECT w FROM victim ORDER BY id")
		var all []string
		p := f.plan(onlyV)
		p.hook = func(statement string) { all = append(all, statement) }
		f.must(p.Prepare, fill(p), p.Swap, p.Cleanup)
		f.holds("0 1", "SELECT v FROM t ORDER BY id")
		if slices.ContainsFunc(all, func(s string) bool {
			upper := strings.ToUpper(s)
			return strings.Contains(upper, "MODIFY") || strings.Contains(upper, "SELECT") || strings.Contains(s, "= `v`")
		}) {
			t.Errorf("a statement copies by index: %s", strings.Join(all, "\n"))
		}
	})
}
