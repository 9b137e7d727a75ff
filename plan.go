package gormflake

import (
	"fmt"
	"log/slog"
	"reflect"
	"sync"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// plan is what the plugin does for the rows of one model. It is made once per
// parsed schema and never changed.
type plan struct {
	// schema is GORM's, shared by all of its users.
	schema *schema.Schema
	// lone is where the id lies in a row of the model, for Plugin.only.
	lone struct {
		model  reflect.Type // nil where there is more to do for a row
		offset uintptr
	}
	// insert is the schema that the INSERT is built from: schema itself, or a
	// private copy without auto-increment where the schema has it.
	insert   *schema.Schema
	targets  []target
	composed []composed
	// inline says that all targets lie at fixed places in a row.
	inline bool
	// reaches says that rows of associated models may want ids.
	reaches bool
	err     error
	warn    sync.Once

	indexing sync.Once
	indexes  []uniqueIndex // what upserts may meet a row by; after indexing
}

// target is a field to be filled.
type target struct {
	field    *schema.Field
	path     []int // as field.StructField.Index: below zero through a pointer
	direct   int   // the index of a field of the struct itself, else -1
	pointers int
	unsigned bool
	inline   bool    // a 64-bit integer at a fixed place in the row
	offset   uintptr // that place
}

// idle reports whether rows of the model concern the plugin at all.
func (p *plan) idle() bool {
	return len(p.targets) == 0 && len(p.composed) == 0 && p.err == nil && !p.reaches
}

// sets reports whether the plugin sets fields of the model's own rows.
func (p *plan) sets() bool { return len(p.targets) > 0 || len(p.composed) > 0 }

// warnOnce says that GORM takes the model's key for one that the database
// numbers.
func (p *plan) warnOnce(logger *slog.Logger) {
	if p.insert == p.schema {
		return
	}
	p.warn.Do(func() {
		logger.Warn("gormflake: the key is filled, but AutoMigrate gives its column a sequence or AUTO_INCREMENT; make it a gormflake.ID, or name the model in Config.Models; for tables that the database numbers set Config.Match to gormflake.MarkedKeys",
			"model", p.schema.Name, "table", p.schema.Table)
	})
}

// hasRelated reports whether a row of the statement brings associated rows.
func (p *plan) hasRelated(db *gorm.DB) bool {
	rows := db.Statement.ReflectValue
	for _, rel := range relations(p.schema) {
		switch rows.Kind() {
		case reflect.Slice, reflect.Array:
			for i := range rows.Len() {
				if row := p.row(rows.Index(i)); row.IsValid() {
					if _, zero := rel.Field.ValueOf(db.Statement.Context, row); !zero {
						return true
					}
				}
			}
		case reflect.Struct:
			if rows.Type() == p.schema.ModelType {
				if _, zero := rel.Field.ValueOf(db.Statement.Context, rows); !zero {
					return true
				}
			}
		}
	}
	return false
}

// fills reports whether the plugin sets a field.
func (p *plan) fills(field *schema.Field) bool {
	if field == nil {
		return false
	}
	for i := range p.targets {
		if p.targets[i].field.DBName == field.DBName {
			return true
		}
	}
	for i := range p.composed {
		if p.composed[i].target.field.DBName == field.DBName {
			return true
		}
	}
	return false
}

// planOf returns the plan of a statement's model, and nil when it has none.
func (p *Plugin) planOf(db *gorm.DB) *plan {
	s := db.Statement.Schema
	if s == nil {
		return nil
	}
	// The callbacks of one create ask in a row for the same plan.
	if last := p.lastPlan.Load(); last != nil && (last.schema == s || last.insert == s) {
		return last
	}
	if found, ok := p.plans.Load(s); ok {
		p.lastPlan.Store(found.(*plan))
		return found.(*plan)
	}
	made := p.newPlan(db, s)
	if found, loaded := p.plans.LoadOrStore(s, made); loaded {
		return found.(*plan)
	}
	if made.insert != made.schema {
		p.plans.Store(made.insert, made)
	}
	return made
}

func (p *Plugin) newPlan(db *gorm.DB, s *schema.Schema) *plan {
	made := &plan{schema: s, insert: s}
	if made.err = made.pick(s, p.config.Match); made.err != nil {
		return made
	}
	numbered := false
	for _, t := range made.targets {
		numbered = numbered || t.field.HasDefaultValue
	}
	for _, c := range made.composed {
		numbered = numbered || c.target.field.HasDefaultValue
	}
	if numbered {
		// The parsed schema is in use by others, so it stays as it is.
		made.insert, made.err = made.withoutAutoIncrement(db.NamingStrategy)
	}
	made.reaches = p.reaches(db, s)
	if made.err == nil && made.inline && len(made.targets) == 1 && len(made.composed) == 0 && made.insert == s && !p.config.AfterHooks {
		made.lone.model, made.lone.offset = s.ModelType, made.targets[0].offset
	}
	return made
}

// pick decides which fields to fill and how.
func (p *plan) pick(s *schema.Schema, match func(*schema.Field) bool) error {
	for _, field := range s.Fields {
		if field.DBName == "" || s.FieldsByDBName[field.DBName] != field {
			continue
		}
		tag, err := parseTag(field)
		switch {
		case err != nil:
			return err
		case tag.skip:
		case tag.time != "":
			c, err := newComposed(s, newTarget(field), tag)
			if err != nil {
				return err
			}
			p.composed = append(p.composed, c)
		case tag.fill || canHold(field) && match(field):
			p.targets = append(p.targets, newTarget(field))
		}
	}
	p.inline = true
	for i := range p.targets {
		p.targets[i].place(s.ModelType)
		p.inline = p.inline && p.targets[i].inline
	}
	return nil
}

func newTarget(field *schema.Field) target {
	t := target{field: field, path: field.StructField.Index, direct: -1}
	if len(t.path) == 1 && t.path[0] >= 0 {
		t.direct = t.path[0]
	}
	for f := field.FieldType; f.Kind() == reflect.Pointer; f = f.Elem() {
		t.pointers++
	}
	switch field.IndirectFieldType.Kind() {
	case reflect.Uint64, reflect.Uint:
		t.unsigned = true
	}
	return t
}

// withoutAutoIncrement parses the model anew, for this plan alone, and makes
// its keys plain: GORM then puts the ids into the INSERT and expects none from
// the database.
func (p *plan) withoutAutoIncrement(namer schema.Namer) (*schema.Schema, error) {
	own, err := schema.Parse(reflect.New(p.schema.ModelType).Interface(), &sync.Map{}, namer)
	if err != nil {
		return p.schema, fmt.Errorf("gormflake: model %s: %w", p.schema.Name, err)
	}
	for name := range own.FieldsByDBName {
		if field := own.FieldsByDBName[name]; p.fills(field) {
			makePlain(own, field)
		}
	}
	return own, nil
}

// reaches reports whether any model that is associated with s, directly or
// not, has fields to fill.
func (p *Plugin) reaches(db *gorm.DB, s *schema.Schema) bool {
	seen := map[*schema.Schema]bool{s: true}
	var visit func(*schema.Schema) bool
	visit = func(s *schema.Schema) bool {
		for related := range relatedSchemas(s) {
			if seen[related] {
				continue
			}
			seen[related] = true
			// Parse waits until whoever parses it has also seen its relations.
			parsed := &gorm.Statement{DB: db}
			if parsed.Parse(reflect.New(related.ModelType).Interface()) != nil {
				continue
			}
			picked := &plan{}
			if picked.pick(related, p.config.Match) != nil || len(picked.targets) > 0 || visit(related) {
				return true
			}
		}
		return false
	}
	return visit(s)
}

// relatedSchemas yields the models that creating a row of s may create rows of.
func relatedSchemas(s *schema.Schema) func(yield func(*schema.Schema) bool) {
	return func(yield func(*schema.Schema) bool) {
		for _, rel := range relations(s) {
			if rel.FieldSchema != nil && !yield(rel.FieldSchema) {
				return
			}
			if rel.JoinTable != nil && !yield(rel.JoinTable) {
				return
			}
		}
	}
}

func relations(s *schema.Schema) []*schema.Relationship {
	r := &s.Relationships
	all := make([]*schema.Relationship, 0, len(r.BelongsTo)+len(r.HasOne)+len(r.HasMany)+len(r.Many2Many))
	all = append(all, r.BelongsTo...)
	all = append(all, r.HasOne...)
	all = append(all, r.HasMany...)
	return append(all, r.Many2Many...)
}
