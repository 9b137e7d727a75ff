package gormflake

import (
	"fmt"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// Prepare does for one table what Config.Models does at Use: it makes the
// 64-bit keys of the models plain, so that GORM neither creates a sequence or
// AUTO_INCREMENT for them nor expects the database to number rows.
//
// GORM keeps a schema of its own for each table name that a model is migrated
// under, so a model of Config.Models that is migrated under another name wants
//
//	table := db.Table("orders_2024")
//	err := flake.Prepare(table, &Order{})
//	err = table.AutoMigrate(&Order{})
//
// Models whose key is an ID need none of this. Call it before the model is
// first migrated or used under that name, and before other goroutines use it.
func (p *Plugin) Prepare(db *gorm.DB, models ...any) error {
	table := ""
	if db.Statement != nil {
		table = db.Statement.Table
	}
	seen := seenSchemas{}
	for _, model := range models {
		if err := p.prepare(db, model, table, seen); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plugin) prepare(db *gorm.DB, model any, table string, seen seenSchemas) error {
	if model == nil {
		return fmt.Errorf("%w: Config.Models has a nil; want pointers to structs", ErrInvalidConfig)
	}
	names := []string{""}
	if table != "" {
		names = append(names, table)
	}
	for _, name := range names {
		stmt := &gorm.Statement{DB: db}
		if err := stmt.ParseWithSpecialTableName(model, name); err != nil {
			return fmt.Errorf("%w: model %T: %w", ErrInvalidConfig, model, err)
		}
		// To name a model is to mark its key.
		named := func(f *schema.Field) bool { return Int64Keys(f) || p.config.Match(f) }
		if err := p.prepareSchema(db, stmt.Schema, named, seen); err != nil {
			return err
		}
	}
	return nil
}

// prepareSchema makes the keys of a schema plain that match, and those of all
// that it is associated with and that are filled as well.
func (p *Plugin) prepareSchema(db *gorm.DB, s *schema.Schema, match func(*schema.Field) bool, seen seenSchemas) error {
	if seen[s] {
		return nil
	}
	seen[s] = true
	picked := &plan{}
	if err := picked.pick(s, match); err != nil {
		return err
	}
	for _, t := range picked.targets {
		makePlain(s, t.field)
	}
	for _, c := range picked.composed {
		makePlain(s, c.target.field)
	}
	for related := range relatedSchemas(s) {
		if err := p.prepareSchema(db, related, p.config.Match, seen); err != nil {
			return err
		}
	}
	return nil
}

// seenSchemas are those that one call has prepared already.
type seenSchemas map[*schema.Schema]bool

// makePlain takes auto-increment from a field. It writes only what has to
// change, so that preparing a model again is safe beside its users.
func makePlain(s *schema.Schema, field *schema.Field) {
	if field.AutoIncrement {
		field.AutoIncrement = false
	}
	if field.HasDefaultValue && field.DefaultValueInterface == nil {
		field.HasDefaultValue = false
	}
	if i := slices.Index(s.FieldsWithDefaultDBValue, field); i >= 0 && !field.HasDefaultValue {
		s.FieldsWithDefaultDBValue = slices.Delete(slices.Clone(s.FieldsWithDefaultDBValue), i, i+1)
	}
}
