package gormflake

import (
	"fmt"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// keepSelected puts keys back into an INSERT whose Select or Omit leaves them
// out: the database would number the row itself, unlike the struct.
func (p *plan) keepSelected(stmt *gorm.Statement) error {
	if len(stmt.Selects) == 0 && len(stmt.Omits) == 0 {
		return nil
	}
	for i := range p.targets {
		if err := keepSelected(stmt, p.targets[i].field); err != nil {
			return err
		}
	}
	for i := range p.composed {
		if err := keepSelected(stmt, p.composed[i].target.field); err != nil {
			return err
		}
	}
	return nil
}

func keepSelected(stmt *gorm.Statement, field *schema.Field) error {
	if !field.PrimaryKey || selected(stmt, field) {
		return nil
	}
	names := func(column string) bool {
		return column == stmt.Table+"."+field.DBName || stmt.Schema.LookUpField(column) == field
	}
	// The slices may be another statement's too.
	stmt.Omits = slices.DeleteFunc(slices.Clone(stmt.Omits), names)
	if len(stmt.Selects) > 0 && !selected(stmt, field) {
		stmt.Selects = append(slices.Clone(stmt.Selects), field.DBName)
	}
	if !selected(stmt, field) {
		return fmt.Errorf("%w: Omit(%q) leaves out the key %s; omit columns by name, or insert no such row",
			ErrNoID, stmt.Omits, field.DBName)
	}
	return nil
}

func selected(stmt *gorm.Statement, field *schema.Field) bool {
	columns, restricted := stmt.SelectAndOmitColumns(true, false)
	chosen, named := columns[field.DBName]
	return named && chosen || !named && !restricted
}
