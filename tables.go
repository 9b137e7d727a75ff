package gormflake

import (
	"fmt"
	"reflect"
	"sync"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// refuseUnmodelled refuses maps without an id that go into the table of a
// model whose keys are plain and filled by the plugin: without the model it
// can't. SQLite would number the row itself, and others refuse it. Where GORM
// has given the table auto-increment, the database is left to it.
func (p *Plugin) refuseUnmodelled(db *gorm.DB) error {
	maps, ok := mapsOf(db.Statement.Dest)
	if !ok || db.Statement.Table == "" {
		return nil
	}
	for _, s := range parsedSchemas(db, db.Statement.Table) {
		picked := &plan{schema: s}
		if picked.pick(s, p.config.Match) != nil {
			continue
		}
		for _, t := range picked.filled() {
			if !t.field.PrimaryKey || t.field.HasDefaultValue {
				continue
			}
			for i, row := range maps {
				if _, value := lookUp(s, row, t.field); isZeroID(value) {
					return fmt.Errorf("%w: row %d has no %q, and a map for Table(%q) names no model to fill it by; use db.Model(&%s{}).Create, or set it to an id of Plugin.Generator",
						ErrNoID, i, t.field.DBName, db.Statement.Table, s.Name)
				}
			}
		}
	}
	return nil
}

// parsedSchemas returns what GORM has parsed of a table. GORM has no way to
// ask its cache for a table, so this reads it where it lies; should it move,
// the database is left to refuse such rows.
func parsedSchemas(db *gorm.DB, table string) (found []*schema.Schema) {
	cache := reflect.ValueOf(db.Config).Elem().FieldByName("cacheStore")
	if !cache.IsValid() || cache.Type() != reflect.TypeFor[*sync.Map]() || cache.IsNil() {
		return nil
	}
	(*sync.Map)(cache.UnsafePointer()).Range(func(_, value any) bool {
		// GORM's own join tables have no name, and get their table late.
		if s, ok := value.(*schema.Schema); ok && s.ModelType.Name() != "" && s.Table == table {
			found = append(found, s)
		}
		return true
	})
	return found
}
