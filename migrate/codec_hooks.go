package migrate

import (
	"errors"
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"
)

// register puts the codec around the step of each kind of statement that talks to
// the server, and nothing else.
func (b *Bools) register(db *gorm.DB) error {
	cb := db.Callback()
	enter := func(rows bool) func(*gorm.DB) {
		return func(tx *gorm.DB) { b.enter(tx, rows) }
	}
	const in, out = pluginName + ":in", pluginName + ":out"
	return errors.Join(
		cb.Create().Before("gorm:create").Register(in, b.enterCreate),
		cb.Create().After("gorm:create").Before("gorm:save_after_associations").Register(out, b.leaveCreate),
		cb.Query().Before("gorm:query").Register(in, enter(false)),
		cb.Query().After("gorm:query").Before("gorm:preload").Register(out, b.leave),
		cb.Update().Before("gorm:update").Register(in, enter(false)),
		cb.Update().After("gorm:update").Before("gorm:save_after_associations").Register(out, b.leave),
		cb.Delete().Before("gorm:delete").Register(in, enter(false)),
		cb.Delete().After("gorm:delete").Before("gorm:after_delete").Register(out, b.leave),
		cb.Row().Before("gorm:row").Register(in, enter(true)),
		cb.Row().After("gorm:row").Register(out, b.leave),
		cb.Raw().Before("gorm:raw").Register(in, enter(false)),
		cb.Raw().After("gorm:raw").Register(out, b.leave),
	)
}

// enter puts the codec between the statement and its connection.
func (b *Bools) enter(db *gorm.DB, rows bool) {
	stmt := db.Statement
	if db.Error != nil || stmt.ConnPool == nil {
		return
	}
	beneath := stmt.ConnPool
	if outer, ok := beneath.(*pool); ok {
		if outer.stmt == stmt {
			return
		}
		// A statement of another plugin within a step of this one's. What it reads and
		// logs is its own.
		beneath = outer.ConnPool
	}
	if err := b.observe(stmt); err != nil {
		_ = db.AddError(err)
		return
	}
	stmt.ConnPool = &pool{ConnPool: beneath, bools: b, catalog: b.catalogOf(db), stmt: stmt, rows: rows}
}

// leave gives the statement its connection back, for hooks, associations and
// preloads have statements of their own.
func (b *Bools) leave(db *gorm.DB) {
	p, ok := db.Statement.ConnPool.(*pool)
	if !ok {
		return
	}
	db.Statement.ConnPool = p.ConnPool
	if db.DryRun && db.Error == nil && db.Logger != logger.Discard {
		// For ToSQL. A subquery is built by a dry run with the discarding logger; it
		// is encoded with the statement that it becomes part of.
		stmt := db.Statement
		if stmt.SQL.Len() > 0 {
			if _, err := p.prepare(stmt.Context, stmt.SQL.String(), stmt.Vars); err != nil {
				_ = db.AddError(err)
			}
		}
	}
}

// enterCreate also keeps GORM from replacing a false by the tag's default:true. It
// does so with a schema of its own for the one step, since GORM's is shared.
func (b *Bools) enterCreate(db *gorm.DB) {
	b.enter(db, false)
	if p, ok := db.Statement.ConnPool.(*pool); ok && db.Statement.Schema != nil && b.covered(db.Statement.Schema) {
		if plain := b.withoutDefaults(db.Statement.Schema); plain != db.Statement.Schema {
			p.schema = db.Statement.Schema
			db.Statement.Schema = plain
		}
	}
}

func (b *Bools) leaveCreate(db *gorm.DB) {
	if p, ok := db.Statement.ConnPool.(*pool); ok && p.schema != nil {
		db.Statement.Schema = p.schema
	}
	b.leave(db)
}

// withoutDefaults is the schema with no default on plain bools whose default is
// true; the schema itself if there are none.
func (b *Bools) withoutDefaults(sch *schema.Schema) *schema.Schema {
	if plain, ok := b.schemas.Load(sch); ok {
		return plain.(*schema.Schema)
	}
	plain := sch
	for _, field := range sch.Fields {
		if field.FieldType.Kind() != reflect.Bool || field.DefaultValueInterface != true || field.DBName == "" {
			continue
		}
		if plain == sch {
			plain = copySchema(sch)
		}
		changed := *field
		changed.HasDefaultValue, changed.DefaultValue, changed.DefaultValueInterface = false, "", nil
		plain.FieldsByDBName[field.DBName] = &changed
		if plain.FieldsByName[field.Name] == field {
			plain.FieldsByName[field.Name] = &changed
		}
	}
	b.schemas.Store(sch, plain)
	return plain
}

// copySchema copies what the create step looks at; the maps of fields are its own.
func copySchema(s *schema.Schema) *schema.Schema {
	c := &schema.Schema{
		Name: s.Name, ModelType: s.ModelType, Table: s.Table,
		PrioritizedPrimaryField: s.PrioritizedPrimaryField,
		DBNames:                 s.DBNames, PrimaryFields: s.PrimaryFields, PrimaryFieldDBNames: s.PrimaryFieldDBNames,
		Fields: s.Fields, FieldsByBindName: s.FieldsByBindName,
		FieldsWithDefaultDBValue: s.FieldsWithDefaultDBValue,
		FieldsByName:             make(map[string]*schema.Field, len(s.FieldsByName)),
		FieldsByDBName:           make(map[string]*schema.Field, len(s.FieldsByDBName)),
		CreateClauses:            s.CreateClauses, QueryClauses: s.QueryClauses,
		UpdateClauses: s.UpdateClauses, DeleteClauses: s.DeleteClauses,
		BeforeCreate: s.BeforeCreate, AfterCreate: s.AfterCreate,
		BeforeUpdate: s.BeforeUpdate, AfterUpdate: s.AfterUpdate,
		BeforeDelete: s.BeforeDelete, AfterDelete: s.AfterDelete,
		BeforeSave: s.BeforeSave, AfterSave: s.AfterSave, AfterFind: s.AfterFind,
	}
	c.Relationships.Relations = s.Relationships.Relations
	for name, f := range s.FieldsByName {
		c.FieldsByName[name] = f
	}
	for name, f := range s.FieldsByDBName {
		c.FieldsByDBName[name] = f
	}
	return c
}
