package gormflake

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// ErrNoKey says that a statement has no snowflake key for a window, cursor or
// bucket: no model, a composite key, a key of another type, or no such column.
// The text says which, and what to do.
var ErrNoKey = errors.New("gormflake: no snowflake key")

// statementOf returns the statement that an expression is built for. GORM
// passes no other builder; what does can't carry an error, and gets nothing.
func statementOf(builder clause.Builder) (*gorm.Statement, bool) {
	stmt, ok := builder.(*gorm.Statement)
	if !ok {
		_ = builder.AddError(fmt.Errorf("%w: the expression is built by a %T; use it in a GORM statement", ErrNoKey, builder))
		builder.WriteString(refused)
	}
	return stmt, ok
}

// refused is no SQL. GORM drops the error of a subquery: what is written in
// its place must not run, or NOT IN (subquery) would select every row.
const refused = "(invalid gormflake expression)"

// refuse makes a statement fail with err, once: a window may stand in it twice.
func refuse(stmt *gorm.Statement, err error) {
	if stmt.Error == nil || stmt.Error.Error() != err.Error() {
		_ = stmt.AddError(err)
	}
	stmt.WriteString(refused)
}

// keyColumn returns the snowflake column that name means in a statement, ""
// being the model's primary key, and whether rows may hold NULL in it. With
// foreign the ids are of someone else's making, so that an auto-increment tag
// is no reason to refuse the key.
func keyColumn(stmt *gorm.Statement, name string, foreign bool) (clause.Column, bool, error) {
	if table, column, found := cutColumn(name); found {
		if table == "" || column == "" {
			return clause.Column{}, false, fmt.Errorf("%w: want a column as \"column\" or \"table.column\", got %q", ErrNoKey, name)
		}
		return clause.Column{Table: table, Name: column}, true, nil
	}
	s := stmt.Schema
	if s == nil && stmt.Model != nil && stmt.Parse(stmt.Model) == nil {
		s = stmt.Schema
	}
	if name == "" {
		field, err := primaryKey(stmt.DB, s, foreign, conditionAdvice)
		if err != nil {
			return clause.Column{}, false, err
		}
		return clause.Column{Table: clause.CurrentTable, Name: field.DBName}, false, nil
	}
	column := clause.Column{Name: name}
	if stmt.Table != "" {
		column.Table = clause.CurrentTable
	}
	if s == nil {
		return column, true, nil
	}
	field := s.LookUpField(name)
	switch {
	case field == nil || field.DBName == "":
		return clause.Column{}, false, fmt.Errorf("%w: model %s has no column %q; write Column(\"table.%s\") for a column of another table",
			ErrNoKey, s.Name, name, name)
	case !holdsInt64(field):
		return clause.Column{}, false, fmt.Errorf("%w: field %s.%s is a %s; want an int64 or uint64 column that holds snowflake ids",
			ErrNoKey, s.Name, field.Name, field.FieldType)
	}
	column.Name = field.DBName
	return column, !field.PrimaryKey, nil
}

// cutColumn parts "table.column"; a table may hold dots of its own.
func cutColumn(name string) (table, column string, found bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", name, false
	}
	return name[:i], name[i+1:], true
}

// keyAdvice is what a caller can do about a model without a key that will do, in
// the words of its own API.
type keyAdvice struct {
	model  string // there is no model
	column string // another column holds the ids
	layout string // the database numbers the key, but its values are snowflakes
}

var (
	// conditionAdvice is for windows, cursors, buckets and TimeOf.
	conditionAdvice = keyAdvice{
		model:  "; add Model(&T{}), or name the column with Column(\"table.column\")",
		column: "; name a snowflake column with Column(\"name\")",
		layout: "name a snowflake column with Column(\"name\"), or say with In(layout) that its ids are snowflakes all the same",
	}

	// tableAdvice is for what goes by the table's own key: partitions, retention.
	tableAdvice = keyAdvice{
		layout: "or, if its ids are snowflakes all the same, give the Layout that they have",
	}

	// pageAdvice is for Page, which takes any 64-bit key.
	pageAdvice = keyAdvice{column: "; page by hand with After(id).Column(\"name\")"}
)

// primaryKey returns a model's one 64-bit primary key. Unless the ids are of
// someone else's making, the database must not number it.
func primaryKey(db *gorm.DB, s *schema.Schema, foreign bool, advice keyAdvice) (*schema.Field, error) {
	fail := func(format string, args ...any) (*schema.Field, error) {
		return nil, fmt.Errorf("%w: %s", ErrNoKey, fmt.Sprintf(format, args...))
	}
	if s == nil {
		return fail("the statement has no model%s", advice.model)
	}
	switch len(s.PrimaryFields) {
	case 0:
		return fail("model %s has no primary key; want one of int64 or uint64, such as gormflake.ID%s", s.Name, advice.column)
	case 1:
	default:
		return fail("model %s has a composite key of %d fields; want one field of int64 or uint64%s", s.Name, len(s.PrimaryFields), advice.column)
	}
	field := s.PrimaryFields[0]
	switch {
	case !holdsInt64(field):
		return fail("the key %s.%s is a %s; want an int64 or uint64, such as gormflake.ID%s", s.Name, field.Name, field.FieldType, advice.column)
	case !foreign && (taggedAutoIncrement(field) || field.AutoIncrement && !filled(db, s, field)):
		return fail("the database numbers the key %s.%s, and no plugin fills it; make it a gormflake.ID, %s", s.Name, field.Name, advice.layout)
	}
	return field, nil
}

// holdsInt64 reports whether a field is of 64 bits, through pointers and
// through the null types of database/sql.
func holdsInt64(field *schema.Field) bool {
	switch field.IndirectFieldType.Kind() {
	case reflect.Int64, reflect.Uint64:
		return field.DataType != schema.Time
	case reflect.Struct:
		return (field.GORMDataType == schema.Int || field.GORMDataType == schema.Uint) && field.Size == 64 ||
			field.GORMDataType == "bigint"
	}
	return false
}

// filled reports whether the plugin on db fills a field. Without a plugin
// nobody knows.
func filled(db *gorm.DB, s *schema.Schema, field *schema.Field) bool {
	p, ok := From(db)
	if !ok {
		return true
	}
	if found, ok := p.plans.Load(s); ok {
		return found.(*plan).fills(field)
	}
	db = db.Session(&gorm.Session{NewDB: true, Context: context.Background()})
	db.Statement.Schema = s
	return p.planOf(db).fills(field)
}

func taggedAutoIncrement(field *schema.Field) bool {
	value, tagged := field.TagSettings["AUTOINCREMENT"]
	return tagged && !strings.EqualFold(value, "false")
}
