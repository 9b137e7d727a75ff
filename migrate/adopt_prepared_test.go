package migrate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/migrate"
)

// oldOrder is a model of a program from before the adoption.
type oldOrder struct {
	ID    int64 `gorm:"primaryKey;autoIncrement"`
	Owner int
	Name  string
	Above *int64
}

func (oldOrder) TableName() string { return "orders" }

// TestAdoptAndPreparedStatements runs old programs through pgx before and after every
// step of an online widening, each on one connection that it keeps. One that prepares
// its statements has some fail with "cached plan must not change result type", of
// which nothing is done, and which succeed the second time. Those that don't prepare
// meet no error at all.
func TestAdoptAndPreparedStatements(t *testing.T) {
	srv := servers.Shared(t, servers.Postgres)
	dsn := srv.Database(t)
	db := unprepared(t, srv, dsn)
	makeShop(t, db)
	programs := []*preparedProgram{
		{name: "prepared", db: srv.OpenDSN(t, dsn, nil)},
		{name: "exec", db: srv.OpenDSN(t, unpreparedDSN(dsn), nil)},
		{name: "simple", db: openPlain(t, postgres.New(postgres.Config{DSN: dsn, PreferSimpleProtocol: true}))},
	}
	for _, p := range programs {
		pool, err := p.db.DB()
		if err != nil {
			t.Fatal(err)
		}
		pool.SetMaxOpenConns(1)
		p.failed = map[string][]string{}
		p.run(t, "the beginning")
	}
	plan := adoptPlan(t, db, shopSpec)
	if text := plan.SQL(); !strings.Contains(text, "RETURNING) fails once on each connection") || !strings.Contains(text, "default_query_exec_mode=exec") {
		t.Errorf("expected to be told, met\n%s", text)
	}
	last := "the beginning"
	migrate.SetAdoptHook(plan, func(s migrate.AdoptStatement) error {
		for _, p := range programs {
			p.run(t, last)
		}
		last = s.Step
		return nil
	})
	if err := plan.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		p.run(t, last)
	}
	if _, err := plan.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	for _, p := range programs[1:] {
		if len(p.failed) > 0 {
			t.Errorf("%s: expected no statement to fail, met %v", p.name, p.failed)
		}
	}
	for step, want := range map[string]string{"prepare": "[first find]", "swap": "[create first find]"} {
		if met := fmt.Sprint(programs[0].failed[step]); met != want {
			t.Errorf("expected %s to fail once after the step %s, met %s", want, step, met)
		}
		delete(programs[0].failed, step)
	}
	if len(programs[0].failed) > 0 {
		t.Errorf("expected no failure after other steps, met %v", programs[0].failed)
	}
}

// unpreparedDSN lets pgx prepare no statement.
func unpreparedDSN(dsn string) string {
	separator := " " // of keywords and values
	switch {
	case strings.Contains(dsn, "?"):
		separator = "&"
	case strings.Contains(dsn, "://"):
		separator = "?"
	}
	return dsn + separator + "default_query_exec_mode=exec"
}

func openPlain(t *testing.T, dialector gorm.Dialector) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(dialector, &gorm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return db
}

// preparedProgram is a program on one connection, and which of its statements failed
// after which step.
type preparedProgram struct {
	name   string
	db     *gorm.DB
	failed map[string][]string
	rows   int64
}

// run does one of each; what fails is tried once more.
func (p *preparedProgram) run(t *testing.T, step string) {
	t.Helper()
	order := oldOrder{Owner: 9, Name: p.name}
	for _, do := range []struct {
		name string
		do   func() error
	}{
		{"create", func() error { order.ID = 0; return p.db.Create(&order).Error }},
		{"update", func() error { return p.db.Model(&order).Update("name", p.name).Error }},
		{"raw update", func() error { return p.db.Exec("UPDATE orders SET owner = ? WHERE id = ?", 9, order.ID).Error }},
		{"first", func() error { found := oldOrder{}; return p.db.First(&found, order.ID).Error }},
		{"find", func() error {
			var found []oldOrder
			err := p.db.Where("owner = ? AND name = ?", 9, p.name).Order("id").Find(&found).Error
			if err == nil && (int64(len(found)) != p.rows+1 || found[len(found)-1].ID != order.ID) {
				t.Errorf("%s after %s: expected %d rows, the last of them %d, met %v", p.name, step, p.rows+1, order.ID, found)
			}
			return err
		}},
		{"count", func() error { var n int64; return p.db.Model(&oldOrder{}).Count(&n).Error }},
	} {
		err := do.do()
		if err == nil {
			continue
		}
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "0A000" || !strings.Contains(pg.Message, "cached plan must not change result type") {
			t.Fatalf("%s: %s after %s: %v", p.name, do.name, step, err)
		}
		p.failed[step] = append(p.failed[step], do.name)
		if err := do.do(); err != nil {
			t.Fatalf("%s: %s after %s, a second time: %v", p.name, do.name, step, err)
		}
	}
	p.rows++
}
