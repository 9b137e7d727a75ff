package gormflake

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/gormflake/gormflake/generator"
)

// composed is a field whose id is made of two columns of its row:
//
//	type Reading struct {
//		ID          gormflake.ID `gormflake:"time:CollectedAt;business:SensorID"`
//		CollectedAt time.Time
//		SensorID    int64
//	}
type composed struct {
	target   target
	time     *schema.Field
	business *schema.Field
}

func newComposed(s *schema.Schema, t target, tag tag) (composed, error) {
	c := composed{target: t, time: s.LookUpField(tag.time), business: s.LookUpField(tag.business)}
	fail := func(name, want string) (composed, error) {
		return c, fmt.Errorf("%w: field %s.%s is made of %q; want %s of the same model", ErrInvalidTag,
			s.Name, t.field.Name, name, want)
	}
	if c.time == nil || c.time.IndirectFieldType != reflect.TypeFor[time.Time]() || c.time.DBName == "" {
		return fail(tag.time, "a time.Time column")
	}
	if c.business == nil || c.business.DBName == "" || c.business == t.field {
		return fail(tag.business, "an integer column")
	}
	switch c.business.IndirectFieldType.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
	default:
		return fail(tag.business, "an integer column")
	}
	return c, nil
}

// compose sets the ids that are made of the rows' columns, where they are
// zero. It runs after hooks and belongs-to associations, which may set those.
func (p *Plugin) compose(db *gorm.DB, plan *plan) error {
	if len(plan.composed) == 0 {
		return nil
	}
	if maps, ok := mapsOf(db.Statement.Dest); ok {
		for i, row := range maps {
			if row == nil {
				continue
			}
			for _, c := range plan.composed {
				if err := c.setMap(plan.schema, row, p.config.Layout); err != nil {
					return fmt.Errorf("gormflake: row %d: %w", i, err)
				}
			}
		}
		return nil
	}
	rows := db.Statement.ReflectValue
	each := func(i int, row reflect.Value) error {
		for _, c := range plan.composed {
			if err := c.set(db, row, p.config.Layout); err != nil {
				return fmt.Errorf("gormflake: row %d: %w", i, err)
			}
		}
		return nil
	}
	switch rows.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range rows.Len() {
			if row := plan.row(rows.Index(i)); row.IsValid() {
				if err := each(i, row); err != nil {
					return err
				}
			}
		}
	case reflect.Struct:
		if rows.Type() == plan.schema.ModelType {
			return each(0, rows)
		}
	}
	return nil
}

func (c *composed) set(db *gorm.DB, row reflect.Value, layout generator.Layout) error {
	if !c.target.isZero(row) {
		return nil
	}
	ctx := db.Statement.Context
	at := indirect(row, c.time)
	if c.time.AutoCreateTime > 0 && (!at.IsValid() || at.Interface().(time.Time).IsZero()) {
		// GORM would set it only now, and keeps what it finds.
		if err := c.time.Set(ctx, row, db.NowFunc()); err != nil {
			return err
		}
		at = indirect(row, c.time)
	}
	var when time.Time
	if at.IsValid() {
		when = at.Interface().(time.Time)
	}
	id, err := c.id(when, indirect(row, c.business), layout)
	if err != nil {
		return err
	}
	return c.target.set(ctx, row, id)
}

func (c *composed) setMap(s *schema.Schema, row map[string]any, layout generator.Layout) error {
	key, value := lookUp(s, row, c.target.field)
	if !isZeroID(value) {
		return nil
	}
	_, at := lookUp(s, row, c.time)
	when, ok := at.(time.Time)
	if pointer, isPointer := at.(*time.Time); isPointer && pointer != nil {
		when, ok = *pointer, true
	}
	if !ok && at != nil {
		return fmt.Errorf("%w: column %s: want a time.Time, got a %T", ErrBusinessID, c.time.DBName, at)
	}
	_, number := lookUp(s, row, c.business)
	id, err := c.id(when, reflect.Indirect(reflect.ValueOf(number)), layout)
	if err != nil {
		return err
	}
	row[key] = c.target.mapValue(id)
	return nil
}

// id composes an id. Two rows of one business number and one tick get the
// same id.
func (c *composed) id(when time.Time, number reflect.Value, layout generator.Layout) (generator.ID, error) {
	if when.IsZero() {
		return 0, fmt.Errorf("%w: column %s has no time; set it, or set the id", ErrBusinessID, c.time.DBName)
	}
	var business int64
	switch number.Kind() {
	case reflect.Invalid:
		return 0, fmt.Errorf("%w: column %s has no number; set it, or set the id", ErrBusinessID, c.business.DBName)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		business = number.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if number.Uint() > math.MaxInt64 {
			return 0, fmt.Errorf("%w: column %s is %d; want a number that fits the layout's worker and sequence bits: %w",
				ErrBusinessID, c.business.DBName, number.Uint(), ErrOutOfRange)
		}
		business = int64(number.Uint())
	default:
		return 0, fmt.Errorf("%w: column %s: want an integer, got a %s", ErrBusinessID, c.business.DBName, number.Type())
	}
	id, err := layout.ComposeBusiness(when, business)
	if err != nil {
		return 0, fmt.Errorf("%w: of columns %s and %s: %w", ErrBusinessID, c.time.DBName, c.business.DBName, err)
	}
	return id, nil
}

// indirect returns a field's value through pointers, and the zero Value where
// one of them is nil.
func indirect(row reflect.Value, field *schema.Field) reflect.Value {
	value, _ := field.ValueOf(context.Background(), row)
	v := reflect.ValueOf(value)
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return v
}
