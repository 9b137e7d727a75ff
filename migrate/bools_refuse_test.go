package migrate

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gormflake/gormflake/internal/servers"
)

// TestBoolsRefuse lists what a plan refuses, each with the override or the change
// that its remedy names. The names of the cases begin with the trap's name.
func TestBoolsRefuse(t *testing.T) {
	const enumV = "v enum('N','Y') NOT NULL DEFAULT 'N'"
	cases := []struct {
		name    string
		create  []string // after CREATE TABLE t (id ..., <column>)
		column  string
		rows    []string // literals of v
		before  []string
		code    string
		about   string // the refusal's column; "v" if empty, "-" for the table
		only    []servers.Kind
		mend    []Override // overrides under which there is no refusal
		mendSQL string     // or a statement after which there is none
	}{
		{name: "NULL values", column: "v enum('N','Y')", rows: []string{"'N'", "NULL"}, code: "null-values", mend: []Override{MapNull("v", false)}},
		{name: "NULL values, kept", column: "v enum('N','Y')", rows: []string{"NULL"}, code: "null-values", mend: []Override{KeepNull("v")}},
		{name: "NULL bits", column: "v bit(1)", rows: []string{"NULL"}, code: "null-values", mend: []Override{MapNull("v", true)}},
		{name: "empty text of a non-strict server", column: enumV, rows: []string{"'Y'", "''"}, code: "empty-values", mend: []Override{MapEmpty("v", false)}},
		{name: "lower case in a char", column: "v char(1) NOT NULL", rows: []string{"'Y'", "'y'"}, code: "unmapped-values", mend: []Override{MapLabel("v", "y", true)}},
		{name: "digits that GORM wrote into a char", column: "v char(1) NOT NULL", rows: []string{"'Y'", "'N'", "'1'", "'0'"}, code: "unmapped-values",
			mend: []Override{MapLabel("v", "1", true), MapLabel("v", "0", false)}},
		{name: "words in a varchar", column: "v varchar(10) NOT NULL", rows: []string{"'maybe'"}, code: "unmapped-values", mend: []Override{MapLabel("v", "maybe", false)}},
		{name: "blanks before a label", column: "v varchar(10) NOT NULL", rows: []string{"' Y'"}, code: "unmapped-values", mend: []Override{MapLabel("v", " Y", true)}},
		{name: "a third label", column: "v enum('N','Y','?') NOT NULL", rows: []string{"'N'"}, code: "not-a-boolean",
			mend: []Override{Labels("v", "N", "Y"), MapLabel("v", "?", false)}},
		{name: "a third label, undecided", column: "v enum('N','Y','?') NOT NULL", rows: []string{"'N'"}, code: "not-a-boolean"},
		{name: "labels that don't speak", column: "v enum('ja','nein') NOT NULL", code: "not-a-boolean", mend: []Override{Labels("v", "nein", "ja")}},
		{name: "a number", column: "v int NOT NULL", code: "not-a-boolean"},
		{name: "a tinyint with 2 and -1", column: "v tinyint(4) NOT NULL", rows: []string{"0", "2", "-1"}, code: "already-done"},
		{name: "bits of several", column: "v bit(2) NOT NULL", code: "not-a-boolean"},
		{name: "a binary character set", column: "v enum('N','Y') CHARACTER SET binary NOT NULL", code: "character-set"},
		{name: "a default of no meaning", column: "v char(1) NOT NULL DEFAULT '?'", code: "default", mend: []Override{MapLabel("v", "?", false)}},
		{name: "MyISAM", column: enumV, mendSQL: "ALTER TABLE t ENGINE=InnoDB", before: []string{"ALTER TABLE t ENGINE=MyISAM"}, code: "engine", about: "-"},
		{name: "a view that compares labels", column: enumV, before: []string{"CREATE VIEW yes AS SELECT id FROM t WHERE v = 'Y'"}, code: "view",
			mend: []Override{Accept("view", "yes")}},
		{name: "a view of everything", column: enumV, before: []string{"CREATE VIEW everything AS SELECT * FROM t"}, code: "view", mendSQL: "DROP VIEW everything"},
		{name: "a trigger that uses the column", column: enumV, before: []string{"CREATE TRIGGER own AFTER INSERT ON t FOR EACH ROW SET @last = NEW.v"}, code: "trigger",
			mendSQL: "DROP TRIGGER own"},
		{name: "a trigger that every backfilled row would fire", column: enumV, before: []string{"CREATE TRIGGER own AFTER UPDATE ON t FOR EACH ROW SET @n = @n + 1"},
			code: "trigger", about: "-", mend: []Override{Accept("trigger", "own")}},
		{name: "a second trigger on MySQL 5.6", column: enumV, before: []string{"CREATE TRIGGER own BEFORE INSERT ON t FOR EACH ROW SET @n = @n + 1"},
			code: "trigger", about: "-", only: []servers.Kind{servers.MySQL56}, mendSQL: "DROP TRIGGER own"},
		{name: "a trigger of another table", column: enumV, before: []string{
			"CREATE TABLE other (id int)", "CREATE TRIGGER elsewhere AFTER INSERT ON other FOR EACH ROW UPDATE t SET v = 'Y' WHERE id = NEW.id"}, code: "trigger",
			mend: []Override{Accept("trigger", "elsewhere")}},
		{name: "a procedure", column: enumV, before: []string{"CREATE PROCEDURE activate() UPDATE t SET v = 'Y'"}, code: "routine", mend: []Override{Accept("routine", "activate")}},
		{name: "an event", column: enumV, before: []string{"CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY DISABLE DO UPDATE t SET v = 'N'"}, code: "event",
			mend: []Override{Accept("event", "nightly")}},
		{name: "a check", column: "v enum('N','Y') NOT NULL, CONSTRAINT known CHECK (v IN ('N', 'Y'))", code: "check", only: []servers.Kind{servers.MariaDB},
			mendSQL: "ALTER TABLE t DROP CONSTRAINT known"},
		{name: "a check of the column", column: "v char(1) NOT NULL CHECK (v IN ('N', 'Y'))", code: "check", only: []servers.Kind{servers.MariaDB}},
		{name: "a generated column", column: enumV + ", g int AS (IF(v = 'Y', 1, 0)) VIRTUAL", code: "generated", only: []servers.Kind{servers.MariaDB, servers.MySQL57},
			mendSQL: "ALTER TABLE t DROP COLUMN g"},
		{name: "a generated boolean", column: "n int, v enum('N','Y') AS (IF(n > 0, 'Y', 'N')) VIRTUAL", code: "generated", only: []servers.Kind{servers.MariaDB, servers.MySQL57}},
		{name: "a unique key", column: enumV, before: []string{"ALTER TABLE t ADD UNIQUE KEY once (id, v)"}, code: "unique-key", mendSQL: "ALTER TABLE t DROP INDEX once"},
		{name: "the primary key", column: enumV, before: []string{"ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)"}, code: "primary-key"},
		{name: "a foreign key", column: "v enum('N','Y') NOT NULL", before: []string{
			"CREATE TABLE parent (v enum('N','Y') NOT NULL PRIMARY KEY)", "ALTER TABLE t ADD KEY (v), ADD CONSTRAINT child FOREIGN KEY (v) REFERENCES parent (v)"},
			code: "foreign-key", mendSQL: "ALTER TABLE t DROP FOREIGN KEY child"},
		{name: "a foreign key of another table", column: enumV, before: []string{
			"ALTER TABLE t ADD UNIQUE KEY (v)", "CREATE TABLE child (v enum('N','Y') NOT NULL, FOREIGN KEY (v) REFERENCES t (v))"},
			code: "foreign-key"},
		{name: "partitions", column: "v char(1) NOT NULL", before: []string{"ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)",
			"ALTER TABLE t PARTITION BY LIST COLUMNS (v) (PARTITION yes VALUES IN ('Y'), PARTITION nay VALUES IN ('N'))"}, code: "partition"},
		{name: "a key of text", column: enumV, before: []string{"ALTER TABLE t MODIFY id varchar(20) NOT NULL"}, code: "no-integer-key", about: "-"},
		{name: "a composite key", column: enumV, before: []string{"ALTER TABLE t ADD b int NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)"}, code: "no-integer-key", about: "-"},
		{name: "a taken name", column: enumV, before: []string{"ALTER TABLE t ADD v__gf int"}, code: "name-taken", mendSQL: "ALTER TABLE t DROP COLUMN v__gf"},
		{name: "a taken name in another case", column: enumV, before: []string{"ALTER TABLE t ADD V__GF int"}, code: "name-taken", mendSQL: "ALTER TABLE t DROP COLUMN V__GF"},
	}
	onMySQL(t, func(t *testing.T, f *fixture) {
		for _, c := range cases {
			if c.only != nil && !slices.Contains(c.only, f.kind) {
				continue // the server has no such thing
			}
			t.Run(c.name, func(t *testing.T) {
				f := f.fresh(t)
				f.exec("CREATE TABLE t (id int NOT NULL PRIMARY KEY, " + c.column + ")")
				for i, literal := range c.rows {
					f.exec("INSERT IGNORE INTO t (id, v) VALUES (?, "+literal+")", i+1)
				}
				for _, statement := range c.before {
					f.exec(statement)
				}
				about := c.about
				switch about {
				case "":
					about = "v"
				case "-":
					about = ""
				}
				spec := BoolSpec{Table: "t", Columns: []string{"v"}}
				f.refused(f.anyPlan(spec), c.code, about)
				if c.mendSQL != "" {
					f.exec(c.mendSQL)
				}
				if c.mendSQL != "" || len(c.mend) > 0 {
					p := f.plan(spec, c.mend...)
					f.must(p.Prepare, fill(p), p.Swap, p.Rollback)
				}
			})
		}
	})
}

// fresh is a database of the subtest's own.
func (f *fixture) fresh(t *testing.T) *fixture {
	dsn := f.srv.Database(t)
	return &fixture{TB: t, srv: f.srv, dsn: dsn, db: f.srv.OpenDSN(t, dsn, nil), kind: f.kind}
}

// TestBoolsOverrideMistakes: an override that has nothing to decide is an error.
func TestBoolsOverrideMistakes(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		f.exec("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v enum('N','Y') NOT NULL, w enum('N','Y'), b bit(1) NOT NULL)")
		for _, overrides := range [][]Override{
			{MapNull("v", true)}, {KeepNull("v")}, {MapNull("x", true)}, {MapEmpty("b", true)}, {MapLabel("b", "1", true)}, {MapNumber("v", 1, true)},
			{MapNull("w", true), KeepNull("w")}, {MapNull("w", true), MapNull("w", false)}, {MapEmpty("v", true), MapEmpty("v", false)},
			{Accept("unique-key", "x")},
		} {
			_, err := PlanBools(t.Context(), f.db, BoolSpec{Table: "t"}, overrides...)
			if err == nil || !strings.HasPrefix(err.Error(), "migrate: ") || !strings.Contains(err.Error(), overrides[0].kind) {
				t.Errorf("%v: expected an error that names it, met %v", overrides, err)
			}
		}
		p := f.anyPlan(BoolSpec{Table: "t"}, MapLabel("v", "Y", false))
		f.refused(p, "unmapped-values", "v")
	})
}

func TestBoolsMistakes(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		f.exec("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v enum('N','Y') NOT NULL)")
		f.exec("CREATE VIEW seen AS SELECT id FROM t")
		for name, spec := range map[string]BoolSpec{
			"no table": {}, "an unknown table": {Table: "nowhere"}, "a view": {Table: "seen"}, "a qualified name": {Table: "a.b"},
			"an unknown column": {Table: "t", Columns: []string{"x"}}, "a column twice": {Table: "t", Columns: []string{"v", "V"}},
			"a negative patience": {Table: "t", Patience: -1},
		} {
			if _, err := PlanBools(t.Context(), f.db, spec); err == nil {
				t.Errorf("%s was accepted", name)
			}
		}
		f.exec("CREATE TABLE plain (id int NOT NULL PRIMARY KEY, n int)")
		f.refused(f.anyPlan(BoolSpec{Table: "plain"}), "not-a-boolean", "")
		tx := f.db.Begin()
		defer tx.Rollback()
		if _, err := PlanBools(t.Context(), tx, BoolSpec{Table: "t"}); err == nil {
			t.Error("a plan inside a transaction was accepted")
		}
	})
}

func TestBoolsNeedMySQL(t *testing.T) {
	db := servers.Shared(t, servers.SQLite).Open(t, nil)
	if _, err := InspectBools(t.Context(), db, "t"); !errors.Is(err, ErrNotMySQL) {
		t.Errorf("expected ErrNotMySQL, met %v", err)
	}
	if _, err := PlanBools(t.Context(), db, BoolSpec{Table: "t"}); !errors.Is(err, ErrNotMySQL) {
		t.Errorf("expected ErrNotMySQL, met %v", err)
	}
	type plainFlag struct {
		ID   int64
		Paid bool
	}
	if err := Forward(t.Context(), db, &plainFlag{}); err != nil || !db.Migrator().HasTable(&plainFlag{}) {
		t.Errorf("expected Forward to create the table elsewhere too, met %v", err)
	}
}
