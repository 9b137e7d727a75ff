package generator

import (
	"context"
	"reflect"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// GormDataType makes a field of type ID a plain BIGINT: no sequence and no
// AUTO_INCREMENT, which GORM gives to a primary key of type int64.
func (ID) GormDataType() string { return "bigint" }

// GormDBDataType returns "integer" on SQLite, where a BIGINT primary key is no
// alias of the rowid and takes NULL, and "bigint" elsewhere.
func (ID) GormDBDataType(db *gorm.DB, _ *schema.Field) string {
	if db.Name() == "sqlite" {
		return "integer"
	}
	return "bigint"
}

// QueryClauses returns no clause. GORM asks each field's type for them once,
// while it parses the model and nobody else knows the parsed field yet, and an
// ID takes the opportunity: it spares the field the way by reflection on which
// GORM sets what it has read into an integer type that it does not know. That
// way takes longer than all else that GORM does for the field.
func (ID) QueryClauses(field *schema.Field) []clause.Interface {
	if field.FieldType != reflect.TypeFor[ID]() || field.Serializer != nil {
		return nil
	}
	set := field.Set
	field.Set = func(ctx context.Context, row reflect.Value, v any) error {
		read, ok := v.(**ID)
		if !ok {
			return set(ctx, row, v)
		}
		switch {
		case read != nil && *read != nil:
			field.ReflectValueOf(ctx, row).SetInt(int64(**read))
		case !slices.ContainsFunc(field.StructField.Index, func(i int) bool { return i < 0 }):
			field.ReflectValueOf(ctx, row).SetInt(0)
		} // NULL makes no embedded struct that is not there
		return nil
	}
	return nil
}
