package gormflake

import (
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// An upsert that meets an existing row leaves it its id, and the struct with
// one that is in no row. beforeInsert asks the database for the rows' ids
// where it can tell in the same statement; settle looks for the others.

// upsertKey is under which a statement keeps that settle must check its rows.
const upsertKey = "gormflake:upsert"

// prepareUpsert adds RETURNING to a statement with ON CONFLICT, or marks it for
// settle, where its rows may end up with other ids than they were given.
func (p *plan) prepareUpsert(db *gorm.DB) {
	stmt := db.Statement
	c, ok := stmt.Clauses["ON CONFLICT"]
	if !ok {
		return
	}
	conflict, ok := c.Expression.(clause.OnConflict)
	if !ok || !p.setsKey() || p.meetsKeyOnly(db, conflict) {
		return
	}
	conflict.DoNothing = conflict.DoNothing || p.updatesNothing(stmt, conflict)
	_, maps := mapsOf(stmt.Dest)
	// DO NOTHING and WHERE return fewer rows than were given, and maps are
	// scanned into anew.
	if maps || conflict.DoNothing || len(conflict.Where.Exprs) > 0 || !slices.Contains(stmt.BuildClauses, "RETURNING") {
		db.InstanceSet(upsertKey, conflict)
		return
	}
	p.addReturning(stmt)
}

// setsKey reports whether the plugin sets a primary key.
func (p *plan) setsKey() bool {
	return slices.ContainsFunc(p.filled(), func(t *target) bool { return t.field.PrimaryKey })
}

// filled returns all fields that the plugin sets.
func (p *plan) filled() []*target {
	all := make([]*target, 0, len(p.targets)+len(p.composed))
	for i := range p.targets {
		all = append(all, &p.targets[i])
	}
	for i := range p.composed {
		all = append(all, &p.composed[i].target)
	}
	return all
}

// meetsKeyOnly reports whether a row can only conflict with one of its own
// key: then there is a row of that id in any case. MySQL and MariaDB take no
// notice of the columns and conflict on every unique index.
func (p *plan) meetsKeyOnly(db *gorm.DB, conflict clause.OnConflict) bool {
	if db.Name() == "mysql" || conflict.OnConstraint != "" || len(conflict.TargetWhere.Exprs) > 0 {
		return false
	}
	for _, t := range p.filled() {
		if !t.field.PrimaryKey {
			return false
		}
	}
	if len(conflict.Columns) == 0 {
		return conflict.UpdateAll // for which GORM names the key
	}
	if len(conflict.Columns) != len(p.schema.PrimaryFields) {
		return false
	}
	for _, column := range conflict.Columns {
		if field := p.schema.LookUpField(column.Name); column.Raw || field == nil || !field.PrimaryKey {
			return false
		}
	}
	for _, assignment := range conflict.DoUpdates {
		if field := p.schema.LookUpField(assignment.Column.Name); field != nil && field.PrimaryKey {
			return false
		}
	}
	return true
}

// updatesNothing reports whether an UpdateAll has no column to update, of which
// GORM makes DO NOTHING.
func (p *plan) updatesNothing(stmt *gorm.Statement, conflict clause.OnConflict) bool {
	if !conflict.UpdateAll || len(conflict.DoUpdates) > 0 {
		return false
	}
	columns, restricted := stmt.SelectAndOmitColumns(true, true)
	for _, name := range p.insert.DBNames {
		field := p.insert.FieldsByDBName[name]
		numbered := field.HasDefaultValue && field.DefaultValueInterface == nil && !strings.EqualFold(field.DefaultValue, "NULL")
		if field.PrimaryKey || field.AutoCreateTime > 0 || numbered {
			continue
		}
		if chosen, named := columns[name]; named && chosen || !named && !restricted {
			return false
		}
	}
	return true
}

// addReturning lets the statement return what the plugin has set, along with
// what GORM would have it return.
func (p *plan) addReturning(stmt *gorm.Statement) {
	var returning clause.Returning
	if c, ok := stmt.Clauses["RETURNING"]; ok {
		if returning, ok = c.Expression.(clause.Returning); !ok || len(returning.Columns) == 0 {
			return // everything, or an expression of the application's
		}
		returning.Columns = slices.Clone(returning.Columns)
	} else {
		for _, field := range p.insert.FieldsWithDefaultDBValue {
			returning.Columns = appendColumn(returning.Columns, field)
		}
	}
	for _, t := range p.filled() {
		returning.Columns = appendColumn(returning.Columns, t.field)
	}
	stmt.Clauses["RETURNING"] = clause.Clause{Name: "RETURNING", Expression: returning}
}

func appendColumn(columns []clause.Column, field *schema.Field) []clause.Column {
	same := func(c clause.Column) bool { return c.Name == field.DBName || c.Name == "*" }
	if !field.Readable || slices.ContainsFunc(columns, same) {
		return columns
	}
	return append(columns, clause.Column{Name: field.DBName})
}
