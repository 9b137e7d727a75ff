package gormflake

import (
	"fmt"
	"reflect"
	"strings"

	"gorm.io/gorm/schema"

	"github.com/gormflake/gormflake/generator"
)

// Int64Keys matches the primary keys of kind int64 or uint64, an ID among
// them, that are not tagged autoIncrement. Keys of kind int and uint, such as
// gorm.Model's, are left to the database. Of a composite key it matches none,
// unless the field that GORM takes for the row's own (column id) is an ID; tag
// others gormflake:"fill".
func Int64Keys(field *schema.Field) bool {
	return isOwnKey(field) && !taggedAutoIncrement(field)
}

// MarkedKeys matches the keys of Int64Keys that the database does not number
// in any case: an ID, Model, a model of Config.Models, or a key tagged
// autoIncrement:false. It is for existing applications, whose plain int64 keys
// have tables with AUTO_INCREMENT or a sequence.
func MarkedKeys(field *schema.Field) bool {
	return Int64Keys(field) && !field.AutoIncrement
}

// idType is the type whose mere use says that a field holds an id of ours.
var idType = reflect.TypeFor[generator.ID]()

// isOwnKey reports whether a field is a 64-bit key that identifies its row,
// not part of one that identifies others.
func isOwnKey(field *schema.Field) bool {
	if !field.PrimaryKey || field.Schema == nil {
		return false
	}
	switch field.IndirectFieldType.Kind() {
	case reflect.Int64, reflect.Uint64:
	default:
		return false
	}
	if len(field.Schema.PrimaryFields) == 1 {
		return true
	}
	return field == field.Schema.PrioritizedPrimaryField && field.IndirectFieldType == idType
}

// canHold reports whether a field can be set to an id: a column that is a
// 64-bit integer in Go.
func canHold(field *schema.Field) bool {
	if field.DBName == "" || !field.Creatable || field.Serializer != nil {
		return false
	}
	switch field.IndirectFieldType.Kind() {
	case reflect.Int64, reflect.Uint64, reflect.Int, reflect.Uint:
		return field.IndirectFieldType.Bits() == 64
	}
	return false
}

// tag is what a gormflake tag says of its field.
type tag struct {
	skip, fill     bool
	time, business string // names of the fields that the id is made of
}

// parseTag reads a field's tag: "-", "fill", or "time:Field;business:Field".
func parseTag(field *schema.Field) (tag, error) {
	var t tag
	text, ok := field.Tag.Lookup("gormflake")
	if !ok {
		return t, nil
	}
	fail := func(format string, args ...any) (tag, error) {
		return tag{}, fmt.Errorf("%w: field %s.%s has gormflake:%q: %s", ErrInvalidTag,
			field.Schema.Name, field.Name, text, fmt.Sprintf(format, args...))
	}
	for part := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(part, ":")
		value = strings.TrimSpace(value)
		switch name = strings.TrimSpace(name); {
		case name == "-" && value == "":
			t.skip = true
		case name == "fill" && value == "":
			t.fill = true
		case name == "time" && value != "":
			t.time = value
		case name == "business" && value != "":
			t.business = value
		case name == "" && value == "":
		default:
			return fail(`want "-", "fill" or "time:Field;business:Field", got %q`, part)
		}
	}
	composed := t.time != "" || t.business != ""
	switch {
	case composed && (t.time == "" || t.business == ""):
		return fail("time and business go together; name both")
	case composed && (t.skip || t.fill), t.skip && t.fill:
		return fail(`"-", "fill" and "time" exclude each other; keep one`)
	case !t.skip && text != "" && !canHold(field):
		return fail("want a 64-bit integer column, got a %s; use gormflake.ID", field.FieldType)
	}
	return t, nil
}
