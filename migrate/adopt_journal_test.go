package migrate_test

import (
	"errors"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/migrate"
)

// foreignKeysStand tries every foreign key of the fixture.
func foreignKeysStand(t *testing.T, db *gorm.DB) {
	t.Helper()
	for _, insert := range []string{
		"INSERT INTO children (id, parent_id) VALUES (90, 77)",
		"INSERT INTO parents (id, name, above) VALUES (90, 'x', 77)",
	} {
		if db.Exec(insert).Error == nil {
			t.Errorf("expected the foreign key to stand (%s)", insert)
		}
	}
}

// TestAdoptLosesItsJournal stops before each statement in turn, drops the journal,
// and goes on with what the schema shows, or takes it back.
func TestAdoptLosesItsJournal(t *testing.T) {
	adoptWays(t, func(t *testing.T, srv *servers.Server, spec migrate.AdoptSpec) {
		for stop := 0; ; stop++ {
			db := adoptFixture(t, srv)
			p := adoptPlan(t, db, spec)
			if stop == len(p.Statements) {
				break
			}
			before := p.SQL()
			stopped, left := errors.New("stopped"), stop
			migrate.SetAdoptHook(p, func(migrate.AdoptStatement) error {
				if left--; left < 0 {
					return stopped
				}
				return nil
			})
			if err := p.Apply(t.Context()); !errors.Is(err, stopped) {
				t.Fatalf("expected to be stopped before statement %d, met %v", stop, err)
			}
			adoptExec(t, db, "DROP TABLE gormflake_adoptions")
			if stop%2 == 1 { // the way back is either clear, or told not to be
				switch err := adoptPlan(t, db, spec).Rollback(t.Context()); {
				case err == nil:
					foreignKeysStand(t, db)
				case !errors.Is(err, migrate.ErrOutOfOrder) || !strings.Contains(err.Error(), "gormflake_adoptions"):
					t.Fatalf("rolling back after %d statements without a journal: %v", stop, err)
				}
			}
			again, err := migrate.Adopt(t.Context(), db, spec)
			if err != nil {
				t.Fatalf("going on after %d statements without a journal: %v\n%s", stop, err, before)
			}
			if _, err := again.Verify(t.Context()); err != nil {
				t.Error(err)
			}
			foreignKeysStand(t, db)
			// What the journal can't tell any more stays as it is.
			if err := again.Rollback(t.Context()); err != nil {
				t.Errorf("rolling back at last, after %d statements without a journal: %v", stop, err)
			}
			foreignKeysStand(t, db)
			if comments := adoptComments(t, db); strings.Contains(comments, "gormflake") {
				t.Errorf("expected no comment to be left, met %q", comments)
			}
		}
	})
}

func adoptComments(t *testing.T, db *gorm.DB) (text string) {
	t.Helper()
	if db.Name() != "mysql" {
		return ""
	}
	if err := db.Raw("SELECT GROUP_CONCAT(TABLE_COMMENT) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()").Row().Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

// TestAdoptWritesItsJournalAgain loses it while Apply runs, again and again.
func TestAdoptWritesItsJournalAgain(t *testing.T) {
	adoptWays(t, func(t *testing.T, srv *servers.Server, spec migrate.AdoptSpec) {
		db := adoptFixture(t, srv)
		p := adoptPlan(t, db, spec)
		before := p.SQL()
		migrate.SetAdoptHook(p, func(migrate.AdoptStatement) error { return db.Exec("DROP TABLE gormflake_adoptions").Error })
		if err := p.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		migrate.SetAdoptHook(p, nil)
		if _, err := p.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		back := adoptPlan(t, db, spec)
		if got, want := adoptSteps(back), adoptSteps(adoptAgain(before, back)); got != want {
			t.Errorf("expected the plan of the beginning, met %s instead of %s\n%s", got, want, back.SQL())
		}
	})
}

// TestAdoptKeepsComments has comments of the user's own, with all that a string may
// hold, beside those that tell of a foreign key that is away.
func TestAdoptKeepsComments(t *testing.T) {
	servers.Each(t, servers.MySQLKinds(), func(t *testing.T, srv *servers.Server) {
		db := adoptFixture(t, srv)
		const comment = `it's a "table" with a \ and a % in ` + "`it`"
		adoptExec(t, db, "ALTER TABLE children COMMENT = '"+strings.NewReplacer("'", "''", `\`, `\\`).Replace(comment)+"'")
		p := adoptPlan(t, db, adoptSpec)
		stopped := errors.New("stopped")
		migrate.SetAdoptHook(p, func(s migrate.AdoptStatement) error {
			if s.Step == "widen" {
				return stopped
			}
			return nil
		})
		if err := p.Apply(t.Context()); !errors.Is(err, stopped) {
			t.Fatal(err)
		}
		if met := adoptComments(t, db); !strings.Contains(met, comment+" [gormflake: this foreign key is away: CONSTRAINT `children_parent`") {
			t.Errorf("expected the comment to tell of the foreign key, met %s", met)
		}
		if _, err := migrate.Adopt(t.Context(), db, adoptSpec); err != nil {
			t.Fatal(err)
		}
		if met := adoptComments(t, db); !strings.Contains(met, comment) || strings.Contains(met, "gormflake") {
			t.Errorf("expected the comment as it was, met %s", met)
		}
	})
}
