package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// ErrNotEmpty reports a table with rows where a fresh schema was expected.
var ErrNotEmpty = errors.New("migrate: the table has rows")

// Forward gives a fresh schema today's columns from the start: it creates the
// models' tables that don't exist, and every bool field whose column is a legacy
// boolean, be it for a type tag or because an old program created the table,
// becomes tinyint(1). A table with rows is [ErrNotEmpty], unless it has no legacy
// boolean: its migration needs a plan of its own. On other databases than MySQL it
// creates the tables and nothing else.
func Forward(ctx context.Context, db *gorm.DB, models ...any) error {
	if db == nil {
		return ErrNotMySQL
	}
	for _, model := range models {
		if err := forward(ctx, db.Session(&gorm.Session{NewDB: true, Context: ctx}), model); err != nil {
			return err
		}
	}
	return nil
}

func forward(ctx context.Context, db *gorm.DB, model any) error {
	stmt := &gorm.Statement{DB: db}
	if err := stmt.Parse(model); err != nil {
		return fmt.Errorf("migrate: the model %T: %w", model, err)
	}
	if !db.Migrator().HasTable(model) {
		if err := db.Migrator().CreateTable(model); err != nil {
			return fmt.Errorf("migrate: creating %s: %w", stmt.Table, err)
		}
	}
	if db.Name() != "mysql" {
		return nil
	}
	columns, err := legacyFields(ctx, db, stmt.Schema, stmt.Table)
	if err != nil || len(columns) == 0 {
		return err
	}
	p, err := PlanBools(ctx, db, BoolSpec{Table: stmt.Table, Columns: columns})
	if err != nil {
		return err
	}
	for _, c := range p.Report.Columns {
		if !p.Resumed && len(c.Values) > 0 {
			return fmt.Errorf("%w: expected %s to be empty, met rows; use PlanBools and its steps for %s", ErrNotEmpty, stmt.Table, strings.Join(columns, ", "))
		}
	}
	if err := p.Prepare(ctx); err != nil {
		return err
	}
	if err := p.Backfill(ctx, BackfillOptions{}); err != nil {
		return err
	}
	if err := p.Swap(ctx); err != nil {
		return err
	}
	return p.Cleanup(ctx)
}

// legacyFields finds the bool fields whose columns aren't tinyint, also when a
// Forward that was killed has swapped some already.
func legacyFields(ctx context.Context, db *gorm.DB, s *schema.Schema, table string) (columns []string, err error) {
	session, err := openBoolSession(ctx, db)
	if err != nil {
		return nil, err
	}
	defer session.close()
	if under, err := session.readRecord(ctx, table); err != nil {
		return nil, err
	} else if under != nil {
		return each(under.Columns, func(c columnPlan) string { return c.Name }), nil
	}
	report := &BoolReport{Table: table}
	all, err := session.columns(ctx, report)
	if err != nil {
		return nil, fmt.Errorf("migrate: the columns of %s: %w", table, err)
	}
	for _, f := range s.Fields {
		at := slices.IndexFunc(all, func(c BoolColumn) bool { return strings.EqualFold(c.Name, f.DBName) })
		if f.DBName == "" || at < 0 || !isBoolField(f) {
			continue
		}
		if c := all[at]; c.Known && c.Encoding.Legacy() {
			columns = append(columns, c.Name)
		}
	}
	return columns, nil
}
