package gormflake

import (
	"context"
	"fmt"
	"reflect"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake/generator"
)

// missing counts the fields of a statement's rows that want an id.
func (p *plan) missing(rows reflect.Value) (n int) {
	if len(p.targets) == 0 {
		return 0
	}
	switch rows.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range rows.Len() {
			if row := p.row(rows.Index(i)); row.IsValid() {
				n += p.missingIn(row)
			}
		}
	case reflect.Struct:
		if rows.Type() == p.schema.ModelType {
			n = p.missingIn(rows)
		}
	}
	return n
}

func (p *plan) missingIn(row reflect.Value) (n int) {
	for i := range p.targets {
		if p.targets[i].isZero(row) {
			n++
		}
	}
	return n
}

// row returns the struct behind an element, and the zero Value when there is
// none or when it is of another model.
func (p *plan) row(element reflect.Value) reflect.Value {
	for element.Kind() == reflect.Pointer || element.Kind() == reflect.Interface {
		element = element.Elem()
	}
	if !element.IsValid() || element.Type() != p.schema.ModelType {
		return reflect.Value{}
	}
	return element
}

// fill sets the fields that want an id, from ids in slice order. ids must be
// as many as missing has counted.
func (p *plan) fill(ctx context.Context, rows reflect.Value, ids []generator.ID) error {
	switch rows.Kind() {
	case reflect.Slice, reflect.Array:
		used := 0
		for i := range rows.Len() {
			row := p.row(rows.Index(i))
			if !row.IsValid() {
				continue
			}
			n, err := p.fillRow(ctx, row, ids[used:])
			if err != nil {
				return err
			}
			used += n
		}
	case reflect.Struct:
		if rows.Type() == p.schema.ModelType {
			_, err := p.fillRow(ctx, rows, ids)
			return err
		}
	}
	return nil
}

func (p *plan) fillRow(ctx context.Context, row reflect.Value, ids []generator.ID) (used int, err error) {
	for i := range p.targets {
		// One pointer may stand in a slice twice: its second turn finds it set.
		if t := &p.targets[i]; t.isZero(row) && used < len(ids) {
			if err := t.set(ctx, row, ids[used]); err != nil {
				return used, err
			}
			used++
		}
	}
	return used, nil
}

// isZero reports whether the row has no id in the field. A pointer counts as
// one that has, unless it is nil.
func (t *target) isZero(row reflect.Value) bool {
	var field reflect.Value
	if t.direct >= 0 {
		field = row.Field(t.direct)
	} else {
		field = row
		for _, index := range t.path {
			if index >= 0 {
				field = field.Field(index)
				continue
			}
			if field = field.Field(-index - 1); field.IsNil() {
				return true
			}
			field = field.Elem()
		}
	}
	switch {
	case t.pointers > 0:
		return field.IsNil()
	case t.unsigned:
		return field.Uint() == 0
	}
	return field.Int() == 0
}

func (t *target) set(ctx context.Context, row reflect.Value, id generator.ID) error {
	if t.pointers > 1 {
		return t.field.Set(ctx, row, int64(id))
	}
	var field reflect.Value
	if t.direct >= 0 {
		field = row.Field(t.direct)
	} else {
		field = t.field.ReflectValueOf(ctx, row) // makes the embedded structs that are nil
	}
	if t.pointers == 1 {
		field.Set(reflect.New(t.field.IndirectFieldType))
		field = field.Elem()
	}
	if t.unsigned {
		field.SetUint(uint64(id))
	} else {
		field.SetInt(int64(id))
	}
	return nil
}

// settable reports whether the ids of a statement's rows can be set: a struct
// or an array of structs that was passed by value can't.
func settable(rows reflect.Value) bool {
	switch rows.Kind() {
	case reflect.Struct:
		return rows.CanAddr()
	case reflect.Array:
		return rows.Len() == 0 || rows.Index(0).Kind() != reflect.Struct || rows.Index(0).CanSet()
	}
	return true
}

// assign gives ids to all rows of a statement that have none, from one burst.
func (p *Plugin) assign(db *gorm.DB, plan *plan, g *generator.Generator, n int) error {
	ctx := p.patient(db, g)
	if n == 1 {
		id, err := g.Next(ctx)
		if err != nil {
			return noID(plan, err)
		}
		one := [1]generator.ID{id}
		return p.spread(db, plan, one[:])
	}
	buffer := p.buffer(n)
	defer p.buffers.Put(buffer)
	ids := (*buffer)[:n]
	if err := g.Fill(ctx, ids); err != nil {
		return noID(plan, err)
	}
	return p.spread(db, plan, ids)
}

func (p *Plugin) spread(db *gorm.DB, plan *plan, ids []generator.ID) error {
	rows := db.Statement.ReflectValue
	if c, ok := plan.cells(rows); ok {
		plan.fillCells(c, ids)
		return nil
	}
	if maps, ok := mapsOf(db.Statement.Dest); ok {
		plan.fillMaps(maps, ids)
		return nil
	}
	return plan.fill(db.Statement.Context, rows, ids)
}

// buffer returns room for n ids. What is larger than a usual batch is not
// kept for the next statement.
func (p *Plugin) buffer(n int) *[]generator.ID {
	const usual = 1 << 16
	if n <= usual {
		if kept, ok := p.buffers.Get().(*[]generator.ID); ok && cap(*kept) >= n {
			return kept
		}
	}
	made := make([]generator.ID, n)
	return &made
}

func noID(plan *plan, err error) error {
	return fmt.Errorf("gormflake: no id for a row of %s: %w", plan.schema.Table, err)
}
