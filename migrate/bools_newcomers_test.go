package migrate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gormflake/gormflake/internal/servers"
)

// newcomer is what somebody creates while a migration is under way.
type newcomer struct {
	name   string
	create []string
	drop   string
	code   string
	object string
	only   []servers.Kind
}

// newcomersOf lists what may use a column of t, by the name given.
func newcomersOf(column, value string) []newcomer {
	several := []servers.Kind{servers.MariaDB, servers.MySQL57}
	return []newcomer{
		{name: "a trigger", create: []string{"CREATE TRIGGER late AFTER INSERT ON t FOR EACH ROW SET @seen = NEW." + column + " = " + value},
			drop: "DROP TRIGGER late", code: "trigger", object: "late"},
		{name: "a trigger before", create: []string{"CREATE TRIGGER late BEFORE INSERT ON t FOR EACH ROW SET NEW." + column + " = " + value},
			drop: "DROP TRIGGER late", code: "trigger", object: "late", only: several},
		{name: "a trigger of another table", create: []string{"CREATE TRIGGER late AFTER INSERT ON other FOR EACH ROW UPDATE t SET " + column + " = " + value + " WHERE id = NEW.id"},
			drop: "DROP TRIGGER late", code: "trigger", object: "late"},
		{name: "a view", create: []string{"CREATE VIEW late AS SELECT id FROM t WHERE " + column + " = " + value}, drop: "DROP VIEW late", code: "view", object: "late"},
		{name: "a routine", create: []string{"CREATE PROCEDURE late() UPDATE t SET " + column + " = " + value}, drop: "DROP PROCEDURE late", code: "routine", object: "late"},
		{name: "an event", create: []string{"CREATE EVENT late ON SCHEDULE EVERY 1 DAY DISABLE DO DELETE FROM t WHERE " + column + " = " + value},
			drop: "DROP EVENT late", code: "event", object: "late"},
	}
}

func (c newcomer) eachKind(f *fixture, test func()) {
	if c.only != nil && !slices.Contains(c.only, f.kind) {
		return
	}
	for _, statement := range c.create {
		f.exec(statement)
	}
	test()
	f.exec(c.drop)
}

// refusedBy asserts that the step names the object and changes nothing.
func (c newcomer) refusedBy(f *fixture, name string, step func(context.Context) error, more ...string) {
	f.Helper()
	before := f.create("t")
	err := step(f.Context())
	if !errors.Is(err, ErrOutOfOrder) {
		f.Errorf("%s, %s: expected ErrOutOfOrder, met %v", c.name, name, err)
		return
	}
	for _, part := range append(more, "the "+c.code+" "+c.object+" ", "drop", "active") {
		if !strings.Contains(err.Error(), part) {
			f.Errorf("%s, %s: expected the error to say %q, met %v", c.name, name, part, err)
		}
	}
	if after := f.create("t"); after != before {
		f.Errorf("%s: the refused %s changed the table:\n%s\n%s", c.name, name, before, after)
	}
}

func newcomerTables(f *fixture) {
	f.exec("CREATE TABLE t (id int PRIMARY KEY, active enum('N','Y') NOT NULL DEFAULT 'N', paid enum('N','Y') NOT NULL DEFAULT 'N', KEY by_active (active))")
	f.exec("CREATE TABLE other (id int PRIMARY KEY)")
	f.exec("INSERT INTO t VALUES (1, 'Y', 'N'), (2, 'N', 'Y'), (3, 'Y', 'Y')")
}

var newcomerSpec = BoolSpec{Table: "t", Columns: []string{"active", "paid"}}

// TestSwapSeesNewcomers has somebody create what uses a column by its labels
// between Prepare and Swap: after the swap it would write or compare labels in a
// column of numbers, in others' programs and by the sql_mode of whoever made it.
func TestSwapSeesNewcomers(t *testing.T) {
	bothModes(t, func(t *testing.T, f *fixture, strict bool) {
		f.exec("DROP TABLE IF EXISTS t")
		newcomerTables(f)
		p := f.plan(newcomerSpec)
		f.must(p.Prepare, fill(p))
		for _, c := range newcomersOf("active", "'Y'") {
			c.eachKind(f, func() {
				c.refusedBy(f, "Swap", p.Swap, "column active", `Accept("`+c.code+`", "late")`)
				f.phase(p, PhasePrepared)
				again := f.plan(newcomerSpec, Accept(c.code, c.object))
				if !again.Resumed {
					t.Errorf("%s: expected the plan to be resumed", c.name)
				}
				if c.name != "a trigger before" { // which goes past our own triggers
					f.must(again.Swap)
					c.refusedBy(f, "Rollback", p.Rollback)
					f.must(again.Rollback, p.Prepare, fill(p))
				}
			})
		}
		f.exec("CREATE TRIGGER harmless AFTER INSERT ON t FOR EACH ROW SET @id = NEW.id")
		f.exec("INSERT INTO t (id, active, paid) VALUES (4, 'Y', 'N')")
		f.must(p.Swap, p.Cleanup)
		f.exec("INSERT INTO t (id, active, paid) VALUES (5, 1, 0)")
		f.holds("1 0 1 1 1", "SELECT active FROM t ORDER BY id")
	})
}

// TestBackfillSeesNewTriggers: a trigger that keeps a history would keep one of
// every row that is filled.
func TestBackfillSeesNewTriggers(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		newcomerTables(f)
		p := f.plan(newcomerSpec)
		f.must(p.Prepare)
		f.exec("CREATE TRIGGER late AFTER UPDATE ON t FOR EACH ROW INSERT INTO other VALUES (NEW.id)")
		if err := fill(p)(t.Context()); !errors.Is(err, ErrOutOfOrder) || !strings.Contains(err.Error(), "the trigger late ") {
			t.Errorf("expected ErrOutOfOrder and the trigger's name, met %v", err)
		}
		if got := f.one("SELECT COUNT(*) FROM other"); got != "0" {
			t.Errorf("expected the trigger not to fire, met %s rows", got)
		}
		again := f.plan(newcomerSpec, Accept("trigger", "late"))
		f.must(fill(again), again.Swap, again.Rollback)
	})
}

// TestSwapSeesNewReferences: another table may refer to a column by a foreign key
// that the table's own text doesn't show.
func TestSwapSeesNewReferences(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		newcomerTables(f)
		p := f.plan(newcomerSpec)
		f.must(p.Prepare, fill(p))
		c := newcomer{name: "a foreign key", code: "foreign-key", object: f.one("SELECT DATABASE()") + ".late",
			create: []string{"CREATE TABLE child (active enum('N','Y') NOT NULL, CONSTRAINT late FOREIGN KEY (active) REFERENCES t (active))"}, drop: "DROP TABLE child"}
		c.eachKind(f, func() { c.refusedBy(f, "Swap", p.Swap) })
		f.must(p.Swap, p.Rollback)
	})
}

// TestSwapSeesNewcomersBehindTheLock creates a view while the exchange waits for
// the table's metadata lock, after the last look before it.
func TestSwapSeesNewcomersBehindTheLock(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		newcomerTables(f)
		p := f.plan(newcomerSpec)
		f.must(p.Prepare, fill(p))
		create := f.create("t")
		exchanged := false
		p.hook = func(statement string) {
			if !exchanged && strings.Contains(statement, "CHANGE COLUMN") {
				exchanged = true
				f.exec("CREATE VIEW late AS SELECT id FROM t WHERE active = 'Y'")
			}
		}
		if err := p.Swap(t.Context()); !errors.Is(err, ErrOutOfOrder) || !strings.Contains(err.Error(), "the view late ") {
			t.Errorf("expected ErrOutOfOrder and the view's name, met %v", err)
		}
		f.phase(p, PhasePrepared)
		if after := f.create("t"); after != create {
			t.Errorf("expected the names to be exchanged back to\n%s\nmet\n%s", create, after)
		}
		f.exec("DROP VIEW late")
		f.must(p.Swap, p.Rollback)
	})
}

// TestRollbackSeesNewcomers has somebody use the new column by its numbers after
// Swap: an enum takes a number for a label's index. A second key that holds the
// new column would become a narrower one.
func TestRollbackSeesNewcomers(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		newcomerTables(f)
		create := f.create("t")
		p := f.plan(newcomerSpec)
		f.must(p.Prepare, fill(p), p.Swap)
		all := append(newcomersOf("active", "1"),
			newcomer{name: "an index", create: []string{"ALTER TABLE t ADD INDEX late (id, active)"}, drop: "ALTER TABLE t DROP INDEX late", code: "index", object: "late"},
			newcomer{name: "a unique key", create: []string{"ALTER TABLE t ADD UNIQUE late (id, active)"}, drop: "ALTER TABLE t DROP INDEX late", code: "unique-key", object: "late"})
		for _, c := range all {
			c.eachKind(f, func() { c.refusedBy(f, "Rollback", p.Rollback) })
		}
		f.must(p.Rollback)
		if got := f.create("t"); got != create {
			t.Errorf("expected\n%s\nmet\n%s", create, got)
		}
	})
}

// TestEndSeesUsersOfTheSecondColumn: what names the column that goes would fail
// from then on, a trigger with every INSERT.
func TestEndSeesUsersOfTheSecondColumn(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		newcomerTables(f)
		p := f.plan(newcomerSpec, Accept("view", "late"))
		everything := newcomer{name: "a view of everything", create: []string{"CREATE VIEW late AS SELECT * FROM t"}, drop: "DROP VIEW late", code: "view", object: "late"}
		f.must(p.Prepare)
		for _, c := range append(newcomersOf("active__gf", "1"), everything) {
			c.eachKind(f, func() { c.refusedBy(f, "Rollback", p.Rollback, "active__gf") })
		}
		f.must(fill(p), p.Swap)
		for _, c := range append(newcomersOf("active__gf", "'Y'"), everything) {
			c.eachKind(f, func() {
				c.refusedBy(f, "Cleanup", p.Cleanup, "active__gf")
				c.refusedBy(f, "Rollback", p.Rollback, "active__gf")
			})
		}
		f.must(p.Cleanup)
		f.nothingLeft()
	})
}
