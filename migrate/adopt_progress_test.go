package migrate_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/migrate"
)

// adoptUntil applies a plan up to a step.
func adoptUntil(t *testing.T, db *gorm.DB, spec migrate.AdoptSpec, step string) {
	t.Helper()
	p, stopped := adoptPlan(t, db, spec), errors.New("stopped")
	migrate.SetAdoptHook(p, func(s migrate.AdoptStatement) error {
		if s.Step == step {
			return stopped
		}
		return nil
	})
	if err := p.Apply(t.Context()); !errors.Is(err, stopped) {
		t.Fatalf("expected to be stopped before the step %s, met %v", step, err)
	}
}

// TestAdoptSaysWhatIsUnderWay looks at an adoption that was left half way, with its
// journal and without.
func TestAdoptSaysWhatIsUnderWay(t *testing.T) {
	servers.Each(t, adoptKinds("mysql", "postgres"), func(t *testing.T, srv *servers.Server) {
		db := adoptFixture(t, srv)
		spec := adoptSpec
		spec.Widening = migrate.WidenOnline
		step, next := "bind", "bind children"
		if db.Name() == "postgres" {
			adoptExec(t, db, "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'", "CREATE TRIGGER mine AFTER DELETE ON parents FOR EACH ROW EXECUTE FUNCTION f()")
			step, next = "backfill", "backfill children"
		}
		if r := adoptInspect(t, db, spec); r.Progress != migrate.AdoptNotBegun || strings.Contains(r.String(), "adoption") {
			t.Errorf("expected nothing to have begun, met\n%s", r)
		}
		adoptUntil(t, db, spec, step)
		for _, journal := range []string{"kept", "lost"} {
			r := adoptInspect(t, db, spec)
			if db.Name() == "mysql" {
				if len(r.ForeignKeys) > 0 {
					t.Fatalf("expected all foreign keys to be away, met %v", r.ForeignKeys)
				}
				for _, k := range []string{"children_parent of children", "parents_above of parents"} {
					if !slices.Contains(r.Hazards, migrate.AdoptHazard{Code: "foreign-key-away", Reason: "the foreign key " + k + " is away: nothing is checked until the step bind"}) {
						t.Errorf("journal %s: expected to be told of %s, met %v", journal, k, r.Hazards)
					}
				}
			}
			line := "under way: next is the step " + next + "; gormflake adopt apply (Apply) goes on, gormflake adopt rollback (Rollback) goes back"
			if r.Progress != migrate.AdoptUnderWay || len(r.Next) == 0 || r.Next[0] != next || strings.Split(r.String(), "\n")[1] != "  adoption   "+line {
				t.Errorf("journal %s: expected the step %s to be next, met %s %v\n%s", journal, next, r.Progress, r.Next, r)
			}
			p := adoptPlan(t, db, spec)
			if !strings.HasPrefix(p.SQL(), "-- adoption "+line+"\n") || p.Restored() {
				t.Errorf("journal %s: expected the plan to say so first, met\n%s", journal, p.SQL())
			}
			for _, h := range slices.Concat(r.Hazards, p.Report.Hazards) {
				if h.Code == "triggers" && (strings.Contains(h.Reason, "gormflake") || !strings.Contains(h.Reason, "mine")) {
					t.Errorf("journal %s: expected no trigger but the table's own, met %s", journal, h.Reason)
				}
			}
			v, err := p.Verify(t.Context())
			if !errors.Is(err, migrate.ErrNotAdopted) || len(v.ToDo) == 0 || v.ToDo[0] != next || strings.Contains(err.Error(), "ALTER TABLE") {
				t.Errorf("journal %s: expected the steps without their SQL, met %v", journal, err)
			}
			if journal == "kept" {
				adoptExec(t, db, "DROP TABLE gormflake_adoptions")
			}
		}
		if _, err := migrate.Adopt(t.Context(), db, spec); err != nil {
			t.Fatal(err)
		}
		if r := adoptInspect(t, db, spec); r.Progress != migrate.AdoptDone || strings.Contains(r.String(), "away") {
			t.Errorf("expected the adoption to be done, met\n%s", r)
		}
	})
}

func adoptInspect(t *testing.T, db *gorm.DB, spec migrate.AdoptSpec) *migrate.AdoptReport {
	t.Helper()
	r, err := migrate.InspectAdopt(t.Context(), db, spec)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAdoptReportNamesTheServer and gives its numbers as they are known.
func TestAdoptReportNamesTheServer(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		db := adoptFixture(t, srv)
		product := map[string]string{"postgres": "Postgres", "sqlite": "SQLite", "mysql": "MySQL"}[db.Name()]
		if srv.Kind() == servers.MariaDB {
			product = "MariaDB"
		}
		r := adoptInspect(t, db, adoptSpec)
		if !strings.HasPrefix(r.String(), "parents on "+product+" "+r.Server+"\n") {
			t.Errorf("expected %s, met\n%s", product, r)
		}
		if strings.Contains(r.String(), "unknown") || (db.Name() == "postgres") != strings.Contains(r.String(), "isn't known before an ANALYZE") {
			t.Errorf("expected ANALYZE to be suggested on Postgres, met\n%s", r)
		}
		if db.Name() == "postgres" {
			adoptExec(t, db, "ANALYZE parents", "ANALYZE children")
			if r = adoptInspect(t, db, adoptSpec); !strings.Contains(r.String(), "table parents (about 2 rows)") {
				t.Errorf("expected the number of rows, met\n%s", r)
			}
		}
	})
}

// TestAdoptJSON looks at every key and value of the objects for programs.
func TestAdoptJSON(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		db := adoptFixture(t, srv)
		p := adoptPlan(t, db, adoptSpec)
		v, err := p.Verify(t.Context())
		if !errors.Is(err, migrate.ErrNotAdopted) {
			t.Fatal(err)
		}
		for _, object := range []any{p, *p.Report, v} {
			text, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			var all any
			if err := json.Unmarshal(text, &all); err != nil {
				t.Fatal(err)
			}
			lookAtJSON(t, "", all)
			if !strings.Contains(string(text), `"max_`) {
				t.Errorf("expected the largest id, met %s", text)
			}
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var object struct {
			Report struct {
				Progress string
				MaxID    string `json:"max_id"`
				FirstID  string `json:"first_id"`
				Key      struct{ Numbering string }
				Sequence *struct{ Max string }
			}
			Statements []struct{ Step, Table, Locks string }
		}
		if err := json.Unmarshal(text, &object); err != nil {
			t.Fatal(err)
		}
		if r := object.Report; r.Progress != "not begun" || r.MaxID != "2" || len(r.FirstID) < 18 || r.Key.Numbering != p.Report.Key.Numbering || (r.Sequence != nil) != (db.Name() == "postgres") {
			t.Errorf("expected the report, met %s", text)
		}
		if len(object.Statements) != len(p.Statements) || object.Statements[0].Step != p.Statements[0].Step || object.Statements[0].Locks == "" {
			t.Errorf("expected the statements, met %s", text)
		}
	})
}

var snakeCase = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

func lookAtJSON(t *testing.T, key string, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for k, value := range v {
			if !snakeCase.MatchString(k) {
				t.Errorf("expected a key in snake_case, met %q", k)
			}
			lookAtJSON(t, k, value)
		}
	case []any:
		for _, value := range v {
			lookAtJSON(t, key, value)
		}
	case float64:
		if v < 0 || v > 1<<32 {
			t.Errorf("expected numbers that JavaScript holds, and ids as strings, met %v for %q", v, key)
		}
	case nil:
		if key != "rows" {
			t.Errorf("expected no null but for an unknown number of rows, met one for %q", key)
		}
	}
}
