package gormflake

import (
	"fmt"
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/gormflake/gormflake/generator"
)

// upsertRow is a row of the statement, a struct or a map.
type upsertRow struct {
	row reflect.Value
	m   map[string]any
}

// settle sees to it that every id of an upsert's rows is the id of a row in
// the table: the one that was inserted, or that of the row that it met, looked
// up by all unique indexes that the model declares, or else zero.
func (p *plan) settle(db *gorm.DB, conflict clause.OnConflict) error {
	rows := p.upsertRows(db.Statement)
	if _, returned := db.Statement.Clauses["RETURNING"]; !returned && conflict.DoNothing &&
		db.Name() != "mysql" && db.RowsAffected == int64(len(rows)) {
		return nil // all inserted; on MySQL the number can't tell
	}
	missing, err := p.missingRows(db, rows)
	if err != nil || len(missing) == 0 {
		return err
	}
	found, err := p.lookUpRows(db, rows, missing, conflict, false)
	if err != nil {
		return err
	}
	_, inTransaction := connPool(db).(gorm.TxCommitter)
	if still := without(missing, found); len(still) > 0 && db.Name() == "mysql" && inTransaction {
		// A snapshot that is older than the row it met doesn't show that row.
		locked, err := p.lookUpRows(db, rows, still, conflict, true)
		if err != nil {
			return err
		}
		for i, ids := range locked {
			found[i] = ids
		}
	}
	for _, i := range missing {
		ids, ok := found[i]
		if err := p.put(db, rows[i], ids, ok); err != nil {
			return fmt.Errorf("gormflake: row %d: %w", i, err)
		}
	}
	return nil
}

func (p *plan) upsertRows(stmt *gorm.Statement) (rows []upsertRow) {
	if maps, ok := mapsOf(stmt.Dest); ok {
		for _, m := range maps {
			if m != nil {
				rows = append(rows, upsertRow{m: m})
			}
		}
		return rows
	}
	switch stmt.ReflectValue.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range stmt.ReflectValue.Len() {
			if row := p.row(stmt.ReflectValue.Index(i)); row.IsValid() {
				rows = append(rows, upsertRow{row: row})
			}
		}
	case reflect.Struct:
		if row := p.row(stmt.ReflectValue); row.IsValid() {
			rows = append(rows, upsertRow{row: row})
		}
	}
	return rows
}

// put sets a row's ids to those that were found, or its keys to zero.
func (p *plan) put(db *gorm.DB, row upsertRow, ids []int64, found bool) error {
	for i, t := range p.filled() {
		if !found && !t.field.PrimaryKey {
			continue
		}
		var id int64
		if found {
			id = ids[i]
		}
		if row.m != nil {
			key, _ := lookUp(p.schema, row.m, t.field)
			row.m[key] = t.mapValue(generator.ID(id))
			continue
		}
		if id == 0 {
			if err := p.refuseOrphans(db, row.row); err != nil {
				return err
			}
			t.field.ReflectValueOf(db.Statement.Context, row.row).SetZero()
			continue
		}
		if err := t.set(db.Statement.Context, row.row, generator.ID(id)); err != nil {
			return err
		}
	}
	return nil
}

// refuseOrphans refuses rows that bring others which would point to none.
func (p *plan) refuseOrphans(db *gorm.DB, row reflect.Value) error {
	r := &p.schema.Relationships
	columns, restricted := db.Statement.SelectAndOmitColumns(true, false)
	for _, owned := range [][]*schema.Relationship{r.HasOne, r.HasMany, r.Many2Many} {
		for _, rel := range owned {
			if chosen, named := columns[rel.Name]; named && !chosen || !named && restricted {
				continue
			}
			value, zero := rel.Field.ValueOf(db.Statement.Context, row)
			if list := reflect.Indirect(reflect.ValueOf(value)); zero || list.Kind() == reflect.Slice && list.Len() == 0 {
				continue
			}
			return fmt.Errorf("%w: the row of %s met another one, which none of the model's unique indexes finds, so its %s can't point to it; declare the index that it met on the model",
				ErrNoID, p.schema.Table, rel.Name)
		}
	}
	return nil
}

// value returns a column's value in the row. It is not known where the
// database may have set it, and null where it equals nothing.
func (r upsertRow) value(db *gorm.DB, s *schema.Schema, field *schema.Field) (value any, known bool) {
	if r.m != nil {
		_, value = lookUp(s, r.m, field)
		return value, !isNull(value)
	}
	value, zero := field.ValueOf(db.Statement.Context, r.row)
	if zero && field.HasDefaultValue || isNull(value) {
		return nil, false
	}
	return value, true
}

// id returns the row's value of a target, 0 for none.
func (r upsertRow) id(s *schema.Schema, t *target) int64 {
	if r.m != nil {
		_, value := lookUp(s, r.m, t.field)
		return integerOf(reflect.ValueOf(value))
	}
	if t.isZero(r.row) {
		return 0
	}
	return integerOf(indirect(r.row, t.field))
}

func integerOf(v reflect.Value) int64 {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case !v.IsValid():
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return int64(v.Uint())
	}
	return 0
}

func without(missing []int, found map[int][]int64) (still []int) {
	for _, i := range missing {
		if _, ok := found[i]; !ok {
			still = append(still, i)
		}
	}
	return still
}
