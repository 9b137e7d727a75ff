package migrate

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake/internal/servers"
)

// onMySQL runs the test on every MySQL and MariaDB, with a fresh database.
func onMySQL(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	servers.Each(t, servers.MySQLKinds(), func(t *testing.T, srv *servers.Server) {
		dsn := srv.Database(t)
		test(t, &fixture{TB: t, srv: srv, dsn: dsn, db: srv.OpenDSN(t, dsn, nil), kind: srv.Kind()})
	})
}

// fixture is one database and short ways to speak to it.
type fixture struct {
	testing.TB
	srv  *servers.Server
	dsn  string
	db   *gorm.DB
	kind servers.Kind

	linked bool // a table's file has a second name while it is measured
}

func (f *fixture) exec(statement string, args ...any) {
	f.Helper()
	if err := f.db.Exec(statement, args...).Error; err != nil {
		f.Fatalf("%v (in: %s)", err, statement)
	}
}

// column reads one column of text, NULL as "NULL".
func (f *fixture) column(query string) []string {
	f.Helper()
	pool, err := f.db.DB()
	if err != nil {
		f.Fatal(err)
	}
	rows, err := pool.Query(query)
	if err != nil {
		f.Fatalf("%v (in: %s)", err, query)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var v sql.NullString
		if err := rows.Scan(&v); err != nil {
			f.Fatal(err)
		}
		if !v.Valid {
			v.String = "NULL"
		}
		all = append(all, v.String)
	}
	if err := rows.Err(); err != nil {
		f.Fatal(err)
	}
	return all
}

func (f *fixture) one(query string) string {
	f.Helper()
	all := f.column(query)
	if len(all) != 1 {
		f.Fatalf("expected one row, met %d (in: %s)", len(all), query)
	}
	return all[0]
}

// create is SHOW CREATE TABLE without AUTO_INCREMENT=.
func (f *fixture) create(table string) string {
	f.Helper()
	var name, text string
	pool, err := f.db.DB()
	if err != nil {
		f.Fatal(err)
	}
	if err := pool.QueryRow("SHOW CREATE TABLE "+quoteName(table)).Scan(&name, &text); err != nil {
		f.Fatal(err)
	}
	return parseCreate(text).comparable()
}

func (f *fixture) checksum(table string) string {
	f.Helper()
	var name, sum string
	pool, err := f.db.DB()
	if err != nil {
		f.Fatal(err)
	}
	if err := pool.QueryRow("CHECKSUM TABLE "+quoteName(table)+" EXTENDED").Scan(&name, &sum); err != nil {
		f.Fatal(err)
	}
	return sum
}

// nothingLeft asserts that no trigger, helper column or table of ours remains.
func (f *fixture) nothingLeft() {
	f.Helper()
	for _, query := range []string{
		"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE '%gormflake%'",
		"SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE()",
		"SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND COLUMN_NAME LIKE '%\\_\\_gf'",
	} {
		if left := f.column(query); len(left) > 0 {
			f.Errorf("expected nothing to be left, met %v (%s)", left, query)
		}
	}
}

// plan makes a plan without refusals.
func (f *fixture) plan(spec BoolSpec, overrides ...Override) *BoolPlan {
	f.Helper()
	p := f.anyPlan(spec, overrides...)
	if err := p.Err(); err != nil {
		f.Fatal(err)
	}
	return p
}

func (f *fixture) anyPlan(spec BoolSpec, overrides ...Override) *BoolPlan {
	f.Helper()
	p, err := PlanBools(f.Context(), f.db, spec, overrides...)
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// refused asserts that the plan has a refusal with the code for the column, and
// that no step runs.
func (f *fixture) refused(p *BoolPlan, code, column string) Refusal {
	f.Helper()
	for _, r := range p.Refusals {
		if r.Code == code && r.Column == column {
			before := f.create(p.Table)
			if err := p.Prepare(f.Context()); err == nil || !strings.Contains(err.Error(), r.Reason) {
				f.Errorf("expected Prepare to be refused because %s, met %v", r.Reason, err)
			}
			if after := f.create(p.Table); after != before {
				f.Errorf("a refused plan changed the table:\n%s\n%s", before, after)
			}
			return r
		}
	}
	f.Fatalf("expected a refusal %s for column %q, met %v", code, column, p.Refusals)
	return Refusal{}
}

// must runs steps that have to succeed.
func (f *fixture) must(steps ...func(context.Context) error) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), 10*time.Minute)
	defer cancel()
	for i, step := range steps {
		if err := step(ctx); err != nil {
			f.Fatalf("step %d: %v", i+1, err)
		}
	}
}

// fill is Backfill in batches that are small enough for several to be needed.
func fill(p *BoolPlan) func(context.Context) error {
	return func(ctx context.Context) error { return p.Backfill(ctx, BackfillOptions{BatchSize: 3}) }
}

func verified(p *BoolPlan) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := p.Verify(ctx)
		return err
	}
}

func join(all []string) string { return strings.Join(all, " ") }

func (f *fixture) phase(p *BoolPlan, want BoolPhase) {
	f.Helper()
	got, err := p.Phase(f.Context())
	if err != nil || got != want {
		f.Fatalf("expected the phase %s, met %s, %v", want, got, err)
	}
}
