package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/migrate"
)

// adoptParent and adoptChild are what the application's models are afterwards.
type adoptParent struct {
	ID   gormflake.ID `gorm:"primaryKey"`
	Name string
}

func (adoptParent) TableName() string { return "parents" }

type adoptChild struct {
	ID       int64 `gorm:"primaryKey;autoIncrement"`
	ParentID gormflake.ID
	Soft     gormflake.ID
}

func (adoptChild) TableName() string { return "children" }

var adoptTables = map[string][]string{
	"mysql": {
		"CREATE TABLE parents (id int unsigned NOT NULL AUTO_INCREMENT COMMENT 'the AUTO_INCREMENT key', name varchar(20) NOT NULL, above int unsigned NULL, PRIMARY KEY (id), CONSTRAINT parents_above FOREIGN KEY (above) REFERENCES parents (id))",
		"CREATE TABLE children (id int NOT NULL AUTO_INCREMENT, parent_id int unsigned NOT NULL, soft int NULL COMMENT 'soft', PRIMARY KEY (id), CONSTRAINT children_parent FOREIGN KEY (parent_id) REFERENCES parents (id) ON DELETE CASCADE)",
	},
	"postgres": {
		"CREATE TABLE parents (id serial PRIMARY KEY, name text NOT NULL, above integer NULL REFERENCES parents (id))",
		"CREATE TABLE children (id serial PRIMARY KEY, parent_id integer NOT NULL REFERENCES parents (id) ON DELETE CASCADE, soft integer NULL)",
	},
	"sqlite": {
		"CREATE TABLE parents (id integer PRIMARY KEY /* no ( */ AUTOINCREMENT, name text NOT NULL DEFAULT 'AUTOINCREMENT', above integer NULL REFERENCES parents (id))",
		"CREATE TABLE children (id integer PRIMARY KEY AUTOINCREMENT, parent_id integer NOT NULL REFERENCES parents (id) ON DELETE CASCADE, soft int NULL)",
		"CREATE INDEX parents_name ON parents (name)",
		"CREATE VIEW names AS SELECT name FROM parents",
		"CREATE TRIGGER parents_gone AFTER DELETE ON parents BEGIN UPDATE children SET soft = NULL WHERE soft = old.id; END",
	},
}

// adoptKinds are the servers of some dialects.
func adoptKinds(dialects ...string) []servers.Kind {
	return slices.DeleteFunc(servers.SQLKinds(), func(k servers.Kind) bool {
		dialect := string(k)
		if k.IsMySQL() {
			dialect = "mysql"
		}
		return !slices.Contains(dialects, dialect)
	})
}

// adoptFixture is a database with both tables and two rows in each.
func adoptFixture(t *testing.T, srv *servers.Server) *gorm.DB {
	t.Helper()
	dsn := srv.Database(t)
	if srv.Kind() == servers.SQLite {
		dsn += "&_pragma=foreign_keys(1)"
	}
	db := srv.OpenDSN(t, dsn, nil)
	adoptExec(t, db, adoptTables[db.Name()]...)
	adoptExec(t, db,
		"INSERT INTO parents (name) VALUES ('a')", "INSERT INTO parents (name, above) VALUES ('b', 1)",
		"INSERT INTO children (parent_id, soft) VALUES (1, 2)", "INSERT INTO children (parent_id, soft) VALUES (2, 1)")
	return db
}

func adoptExec(t *testing.T, db *gorm.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if err := db.Exec(s).Error; err != nil {
			t.Fatalf("%v (in: %s)", err, s)
		}
	}
}

var adoptSpec = migrate.AdoptSpec{Table: "parents", References: []migrate.Reference{{Table: "children", Column: "soft"}}}

func adoptPlan(t *testing.T, db *gorm.DB, spec migrate.AdoptSpec) *migrate.AdoptPlan {
	t.Helper()
	p, err := migrate.PlanAdopt(t.Context(), db, spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// adoptWays runs a subtest on every database, and on Postgres in both ways.
func adoptWays(t *testing.T, test func(t *testing.T, srv *servers.Server, spec migrate.AdoptSpec)) {
	t.Helper()
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		if srv.Kind() != servers.Postgres {
			test(t, srv, adoptSpec)
			return
		}
		for _, way := range []migrate.Widening{migrate.WidenRewrite, migrate.WidenOnline} {
			t.Run(string(way), func(t *testing.T) {
				spec := adoptSpec
				spec.Widening = way
				test(t, srv, spec)
			})
		}
	})
}

func TestAdopt(t *testing.T) {
	adoptWays(t, func(t *testing.T, srv *servers.Server, adoptSpec migrate.AdoptSpec) {
		db := adoptFixture(t, srv)
		p := adoptPlan(t, db, adoptSpec)
		if err := p.Err(); err != nil {
			t.Fatal(err)
		}
		before := p.SQL()
		if v, err := p.Verify(t.Context()); !errors.Is(err, migrate.ErrNotAdopted) || v.OK() {
			t.Fatalf("expected an adoption still to do, met %v, %v", v, err)
		}
		if err := p.Rollback(t.Context()); err != nil || !p.Restored() {
			t.Fatalf("expected nothing to roll back, met %v", err)
		}
		if err := p.Apply(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, before)
		}
		if p = adoptPlan(t, db, adoptSpec); !p.Empty() || !p.Begun {
			t.Fatalf("expected nothing to do a second time, met\n%s", p.SQL())
		}
		if err := p.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}

		parent := adoptInsert(t, db)
		if int64(parent.ID) < p.Report.FirstID {
			t.Errorf("expected a key from %d on, met %d", p.Report.FirstID, parent.ID)
		}
		v, err := p.Verify(t.Context())
		if err != nil || v.Legacy != 2 || v.New != 1 || v.MaxLegacy != 2 {
			t.Fatalf("expected 2 old rows and a new one, met %+v, %v", v, err)
		}
		if srv.Kind() != servers.SQLite && db.Exec("INSERT INTO parents (name) VALUES ('left out')").Error == nil {
			t.Error("expected no key of the database's own any more")
		}
		if db.Exec("INSERT INTO children (parent_id) VALUES (77)").Error == nil {
			t.Error("expected the foreign key to stand")
		}
		adoptExec(t, db, "DELETE FROM parents WHERE name = 'new'")
		var children int64
		if err := db.Table("children").Count(&children).Error; err != nil || children != 2 {
			t.Errorf("expected the new child to go with its parent, met %d, %v", children, err)
		}

		if err := p.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		back := adoptPlan(t, db, adoptSpec)
		if got, want := adoptSteps(back), adoptSteps(adoptAgain(before, back)); got != want || back.Begun {
			t.Errorf("expected the plan of the beginning, met %s instead of %s\n%s", got, want, back.SQL())
		}
		if err := back.Rollback(t.Context()); err != nil || !back.Restored() {
			t.Errorf("expected nothing to roll back a second time, met %v", err)
		}
		adoptExec(t, db, "INSERT INTO parents (name) VALUES ('c')")
		var largest int64
		if err := db.Raw("SELECT MAX(id) FROM parents").Scan(&largest).Error; err != nil || largest < 3 || (db.Name() == "postgres" && largest != 3) {
			t.Errorf("expected the database to number on, met %d, %v", largest, err)
		}
	})
}

// adoptAgain asserts that the same SQL is planned as before, but for the first
// line, which names the first id of now.
func adoptAgain(before string, p *migrate.AdoptPlan) *migrate.AdoptPlan {
	_, old, _ := strings.Cut(before, "\n\n")
	_, now, _ := strings.Cut(p.SQL(), "\n\n")
	if old != now {
		return &migrate.AdoptPlan{Report: p.Report, Statements: []migrate.AdoptStatement{{Step: old}}}
	}
	return p
}

func adoptSteps(p *migrate.AdoptPlan) string {
	var all []string
	for _, s := range p.Statements {
		all = append(all, s.Step+" "+s.Table)
	}
	return strings.Join(all, ", ")
}

// adoptInsert creates a parent and its child through the plugin.
func adoptInsert(t *testing.T, db *gorm.DB) adoptParent {
	t.Helper()
	db = db.Session(&gorm.Session{NewDB: true})
	flake := gormflake.New(gormflake.Config{Match: gormflake.MarkedKeys})
	if err := db.Use(flake); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := flake.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	parent := adoptParent{Name: "new"}
	if err := db.Create(&parent).Error; err != nil {
		t.Fatal(err)
	}
	child := adoptChild{ParentID: parent.ID, Soft: parent.ID}
	if err := db.Create(&child).Error; err != nil {
		t.Fatal(err)
	}
	if child.ID != 3 {
		t.Errorf("expected the children to be numbered as before, met %d", child.ID)
	}
	return parent
}

// TestAdoptResumes stops before each statement in turn and goes on with a new
// plan, as another process would.
func TestAdoptResumes(t *testing.T) {
	adoptWays(t, func(t *testing.T, srv *servers.Server, adoptSpec migrate.AdoptSpec) {
		for stop := 0; ; stop++ {
			db := adoptFixture(t, srv)
			p := adoptPlan(t, db, adoptSpec)
			if stop > 0 && stop == len(p.Statements) {
				break
			}
			stopped := errors.New("stopped")
			left := stop
			migrate.SetAdoptHook(p, func(migrate.AdoptStatement) error {
				if left--; left < 0 {
					return stopped
				}
				return nil
			})
			err := p.Apply(t.Context())
			if partial, ok := errors.AsType[*migrate.PartialError](err); !ok || !errors.Is(err, stopped) || (stop > 0) != (len(partial.Applied) > 0) {
				t.Fatalf("expected to be stopped before statement %d, met %v", stop, err)
			}
			if stop%2 == 0 {
				if err := adoptPlan(t, db, adoptSpec).Rollback(t.Context()); err != nil {
					t.Fatalf("rolling back after %d statements: %v", stop, err)
				}
			}
			// The declared column is remembered.
			again, err := migrate.Adopt(t.Context(), db, adoptSpec)
			if err != nil {
				t.Fatalf("going on after %d statements: %v", stop, err)
			}
			if _, err := again.Verify(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestAdoptKeepsWideColumns rolls back while a snowflake id is in the table, and does
// both again: the first adoption's ids aren't old ones to the second.
func TestAdoptKeepsWideColumns(t *testing.T) {
	adoptWays(t, func(t *testing.T, srv *servers.Server, adoptSpec migrate.AdoptSpec) {
		db := adoptFixture(t, srv)
		p, err := migrate.Adopt(t.Context(), db, adoptSpec)
		if err != nil {
			t.Fatal(err)
		}
		if hazards := adoptPlan(t, db, adoptSpec).RollbackHazards(); len(hazards) > 0 {
			t.Errorf("expected no hazard before the first snowflake id, met %v", hazards)
		}
		parent := adoptInsert(t, db)
		next := int64(parent.ID) + 1
		at := 3
		if db.Name() == "postgres" {
			next, at = 3, 2
		}
		for round, name := range []string{"c", "d"} {
			p := adoptPlan(t, db, adoptSpec)
			text, err := p.RollbackSQL(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if told := strings.Contains(text, fmt.Sprintf("new numbers go on from %d:", next)); told == (db.Name() == "postgres") || told != (len(p.RollbackHazards()) == 1) {
				t.Errorf("expected the hazard of numbers from %d where the counter follows the largest key, met\n%s", next, text)
			}
			if err := p.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			adoptExec(t, db, "INSERT INTO parents (name) VALUES ('"+name+"')")
			var ids []int64
			if err := db.Raw("SELECT id FROM parents ORDER BY id").Scan(&ids).Error; err != nil {
				t.Fatal(err)
			}
			if len(ids) != 4+round || ids[at] != next {
				t.Errorf("expected %d beside the snowflake id, met %v", next, ids)
			}
			next, at = next+1, at+1

			again := adoptPlan(t, db, adoptSpec)
			if again.Begun || !again.Restored() {
				t.Errorf("expected the table to be as before, met\n%s", again.SQL())
			}
			if err := again.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			old, fresh := int64(2), int64(2+round)
			if db.Name() == "postgres" {
				old, fresh = int64(3+round), 1
			}
			if v, err := again.Verify(t.Context()); err != nil || v.Legacy != old || v.New != fresh || v.MaxLegacy != old {
				t.Errorf("expected %d old rows and %d new ones, met %+v, %v", old, fresh, v, err)
			}
			if again.Report.EarlierFirstID != p.Report.FirstID && round == 0 {
				t.Errorf("expected the first adoption's first id %d, met %d", p.Report.FirstID, again.Report.EarlierFirstID)
			}
		}
		if _, err := p.Verify(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAdoptRefuses(t *testing.T) {
	for _, c := range []struct {
		name, code string
		on         string // dialects; "" for all
		spec       migrate.AdoptSpec
		tables     []string
	}{
		{name: "composite key", code: "composite-key", tables: []string{"CREATE TABLE t (a int NOT NULL, b int NOT NULL, PRIMARY KEY (a, b))"}},
		{name: "no key", code: "no-key", tables: []string{"CREATE TABLE t (a int NOT NULL)"}},
		{name: "text key", code: "not-an-integer", tables: []string{"CREATE TABLE t (a varchar(20) NOT NULL PRIMARY KEY)"}},
		{name: "text reference", code: "reference-type", spec: migrate.AdoptSpec{References: []migrate.Reference{{Table: "c", Column: "t"}}},
			tables: []string{"CREATE TABLE t (id int NOT NULL PRIMARY KEY)", "CREATE TABLE c (t varchar(20))"}},
		{name: "largest id", code: "max-id", spec: migrate.AdoptSpec{FirstID: 10}, tables: []string{"CREATE TABLE t (id int NOT NULL PRIMARY KEY)", "INSERT INTO t VALUES (10)"}},
		{name: "unsigned", code: "unsigned", on: "mysql", tables: []string{"CREATE TABLE t (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY)"}},
		{name: "beyond signed", code: "max-id", on: "mysql", spec: migrate.AdoptSpec{Unsigned: true},
			tables: []string{"CREATE TABLE t (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY)", "INSERT INTO t VALUES (9223372036854775808)"}},
		{name: "a key of a foreign key", code: "foreign-key", on: "mysql", tables: []string{"CREATE TABLE p (id int NOT NULL PRIMARY KEY)", "CREATE TABLE t (id int NOT NULL PRIMARY KEY, FOREIGN KEY (id) REFERENCES p (id))"}},
		{name: "view", code: "view", on: "postgres", tables: []string{"CREATE TABLE t (id serial PRIMARY KEY)", "CREATE VIEW v AS SELECT id FROM t"}},
		{name: "partitioned", code: "partition", on: "postgres", tables: []string{"CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)"}},
		{name: "default", code: "default", on: "postgres", tables: []string{"CREATE TABLE t (id int PRIMARY KEY DEFAULT 7)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			kinds := servers.SQLKinds()
			if c.on != "" {
				kinds = adoptKinds(c.on)
			}
			servers.Each(t, kinds, func(t *testing.T, srv *servers.Server) {
				db := srv.Open(t, nil)
				adoptExec(t, db, c.tables...)
				c.spec.Table = "t"
				p, err := migrate.Adopt(t.Context(), db, c.spec)
				refused, ok := errors.AsType[*migrate.RefusedError](err)
				if !ok || len(refused.Refusals) != 1 || refused.Refusals[0].Code != c.code || !strings.Contains(p.SQL(), "refused: "+c.code) {
					t.Errorf("expected the refusal %s, met %v", c.code, err)
				}
				if db.Migrator().HasTable("gormflake_adoptions") {
					t.Error("a refused plan left its journal")
				}
			})
		})
	}
}

func TestAdoptIdentityAndUnsigned(t *testing.T) {
	for _, c := range []struct{ name, on, create, numbering string }{
		{"identity always", "postgres", "CREATE TABLE t (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int)", "identity always"},
		{"identity by default", "postgres", "CREATE TABLE t (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, v int)", "identity by default"},
		{"bigserial", "postgres", "CREATE TABLE t (id bigserial PRIMARY KEY, v int)", "sequence"},
		{"a key of GORM's uint", "mysql", "CREATE TABLE t (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, v int)", "AUTO_INCREMENT"},
		{"mediumint", "mysql", "CREATE TABLE t (id mediumint NOT NULL AUTO_INCREMENT PRIMARY KEY, v int)", "AUTO_INCREMENT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			servers.Each(t, adoptKinds(c.on), func(t *testing.T, srv *servers.Server) {
				db := srv.Open(t, nil)
				adoptExec(t, db, c.create, "INSERT INTO t (v) VALUES (1)", "INSERT INTO t (v) VALUES (2)")
				spec := migrate.AdoptSpec{Table: "t", Unsigned: true}
				if was := adoptPlan(t, db, spec).Report.Key.Numbering; was != c.numbering {
					t.Fatalf("expected %s, met %s", c.numbering, was)
				}
				p, err := migrate.Adopt(t.Context(), db, spec)
				if err != nil {
					t.Fatal(err)
				}
				key, err := generator.Standard().First(time.Now())
				if err != nil {
					t.Fatal(err)
				}
				if err := db.Exec("INSERT INTO t (id, v) VALUES (?, 3)", int64(key)).Error; err != nil {
					t.Fatal(err)
				}
				if _, err := p.Verify(t.Context()); err != nil {
					t.Fatal(err)
				}
				adoptExec(t, db, "DELETE FROM t WHERE v = 3")
				if err := p.Rollback(t.Context()); err != nil {
					t.Fatal(err)
				}
				if back := adoptPlan(t, db, spec); back.Report.Key.Numbering != c.numbering || back.Begun {
					t.Errorf("expected the key as it was, met\n%s", back.Report)
				}
				adoptExec(t, db, "INSERT INTO t (v) VALUES (4)")
			})
		})
	}
}
