package gormflake

import (
	"reflect"

	"gorm.io/gorm/schema"

	"github.com/gormflake/gormflake/generator"
)

// mapsOf returns the rows of a Create of maps, which GORM takes in four forms.
func mapsOf(dest any) (maps []map[string]any, ok bool) {
	switch rows := dest.(type) {
	case map[string]any:
		return []map[string]any{rows}, true
	case *map[string]any:
		return []map[string]any{*rows}, true
	case []map[string]any:
		return rows, true
	case *[]map[string]any:
		return *rows, true
	}
	return nil, false
}

// missingInMaps counts the columns that want an id.
func (p *plan) missingInMaps(maps []map[string]any) (n int) {
	for _, row := range maps {
		if row == nil {
			continue
		}
		for i := range p.targets {
			if _, value := lookUp(p.schema, row, p.targets[i].field); isZeroID(value) {
				n++
			}
		}
	}
	return n
}

// fillMaps sets them, as GORM itself does with the ids that it reads back: to
// an int64, or to what else the model's field is, such as a uint64.
func (p *plan) fillMaps(maps []map[string]any, ids []generator.ID) {
	used := 0
	for _, row := range maps {
		if row == nil {
			continue
		}
		for i := range p.targets {
			t := &p.targets[i]
			key, value := lookUp(p.schema, row, t.field)
			if !isZeroID(value) || used == len(ids) {
				continue
			}
			row[key] = t.mapValue(ids[used])
			used++
		}
	}
}

func (t *target) mapValue(id generator.ID) any {
	switch t.field.IndirectFieldType.Kind() {
	case reflect.Uint64:
		return uint64(id)
	case reflect.Uint:
		return uint(id)
	case reflect.Int:
		return int(id)
	}
	return int64(id)
}

// lookUp returns under which key a row keeps a field, which is the column's
// name unless it is there under another that GORM takes for it.
func lookUp(s *schema.Schema, row map[string]any, field *schema.Field) (key string, value any) {
	if value, ok := row[field.DBName]; ok {
		return field.DBName, value
	}
	if value, ok := row[field.Name]; ok && s.LookUpField(field.Name) == field {
		return field.Name, value
	}
	for key, value := range row {
		if s.LookUpField(key) == field {
			return key, value
		}
	}
	return field.DBName, nil
}

// isZeroID reports whether a map's value is no id: nil, a nil pointer, or an
// integer that is 0.
func isZeroID(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case int64:
		return v == 0
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Pointer:
		return v.IsNil()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return v.IsZero()
	}
	return false
}
