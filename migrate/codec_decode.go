package migrate

import (
	"database/sql"
	"fmt"
	"reflect"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// want tells what the destination of a result column holds.
type want uint8

const (
	wantUnknown want = iota // Rows, Row and Scan don't say
	wantBool                // a bool, or a map or interface that takes one
	wantOther               // a string that wants the label, a number, ...
)

// cell decodes one column of a result.
type cell struct {
	name      string
	encodings []Encoding // those that the column may have; they must agree
	strict    bool       // a value that is neither true nor false is an error
}

// decode yields a bool, nil for NULL, or the value as it is if it isn't understood
// and the destination may want it.
func (c *cell) decode(src any) (any, error) {
	if src == nil {
		return nil, nil
	}
	var value, found, clash bool
	var first error
	for _, e := range c.encodings {
		v, _, err := e.Decode(src)
		switch {
		case err != nil && first == nil:
			first = err
		case err == nil && !found:
			value, found = v, true
		case err == nil && v != value:
			clash = true
		}
	}
	if found && !clash {
		return value, nil
	}
	if !c.strict {
		return src, nil
	}
	if clash {
		return nil, fmt.Errorf("%w: result column %q holds %q, which is true in one and false in another of the statement's columns; select the column by its own name", ErrUnexpectedValue, c.name, src)
	}
	return nil, fmt.Errorf("result column %q: %w", c.name, first)
}

// textTypes are the result types that a boolean in a legacy form arrives as.
var textTypes = map[string]bool{"ENUM": true, "CHAR": true, "VARCHAR": true, "BIT": true, "BINARY": true, "VARBINARY": true}

// decide chooses the columns to decode. unexpected means that some column has
// another type than the catalog says.
func (s *source) decide(p *plan, wants func(string) want) (unexpected bool) {
	for i, name := range s.names {
		text := textTypes[s.types[i].DatabaseTypeName()]
		exact, candidates := p.origin(i, name, len(s.names))
		unexpected = unexpected || p.unexpected(i, text, exact, candidates)
		w := wants(name)
		if !text || w == wantOther || w == wantUnknown && !declared(exact, candidates) {
			continue
		}
		switch {
		case len(exact) > 0:
			s.cells[i] = newCell(name, exact, w == wantBool)
		case len(candidates) > 0:
			s.cells[i] = newCell(name, candidates, w == wantBool)
		case w == wantBool:
			s.cells[i] = newCell(name, p.legacyColumns(), true)
		}
	}
	return unexpected
}

// unexpected reports whether a plain column of the result has another type than the
// catalog says.
func (p *plan) unexpected(i int, text bool, exact, candidates []*column) bool {
	if len(exact)+len(candidates) != 1 || p.aligned && len(exact) == 0 {
		return false
	}
	for _, c := range append(candidates, exact...) {
		if c.sees() && c.understood && text != c.encoding.Legacy() {
			return true
		}
	}
	return false
}

// declared reports whether a model says that the value is a boolean. Where the
// destination isn't known, labels alone don't decide.
func declared(exact, candidates []*column) bool {
	for _, c := range append(candidates, exact...) {
		if c.declared {
			return true
		}
	}
	return false
}

func newCell(name string, columns []*column, strict bool) *cell {
	c := &cell{name: name, strict: strict}
	for _, col := range columns {
		if col.legacy() {
			c.encodings = append(c.encodings, col.encoding)
		}
		if col.partner != nil && col.partner.Legacy() {
			c.encodings = append(c.encodings, *col.partner)
		}
	}
	if len(c.encodings) == 0 {
		return nil
	}
	return c
}

// origin finds the columns that the result's column i may come from: exactly, by
// the select list, or by its name.
func (p *plan) origin(i int, name string, columns int) (exact, candidates []*column) {
	if p.aligned && len(p.outputs) == columns {
		switch o := p.outputs[i]; {
		case o.column != nil && !o.column.text:
			return []*column{o.column}, nil
		case !o.opaque:
			return nil, nil
		}
	}
	base := strings.ToLower(name)
	if at := strings.LastIndex(base, "__"); at >= 0 && !strings.HasSuffix(base, "__gf") {
		base = base[at+2:] // GORM's alias for a joined relation's column
	}
	for _, o := range p.outputs {
		if o.column != nil && !o.column.text && strings.EqualFold(o.name, name) {
			candidates = append(candidates, o.column)
		}
	}
	for _, t := range p.tables {
		if c := t.booleans[base]; c != nil && !c.text {
			candidates = append(candidates, c)
		}
	}
	return nil, candidates
}

func (p *plan) legacyColumns() (columns []*column) {
	for _, t := range p.tables {
		for _, c := range t.booleans {
			if !c.text && (c.legacy() || c.partner != nil) {
				columns = append(columns, c)
			}
		}
	}
	return columns
}

// wants looks at the destination of the statement's result.
func (p *pool) wants(names []string) func(string) want {
	if _, ok := p.stmt.Settings.Load(asStored); ok {
		return func(string) want { return wantOther }
	}
	if p.rows || p.stmt.Dest == nil {
		return func(string) want { return wantUnknown }
	}
	switch p.stmt.Dest.(type) {
	case map[string]any, *map[string]any, *[]map[string]any, []map[string]any, *[]any:
		if p.stmt.Schema == nil {
			return func(string) want { return wantUnknown }
		}
		return p.fieldWants(p.stmt.Schema)
	}
	t := reflect.TypeOf(p.stmt.Dest)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	if t.Kind() == reflect.Interface {
		if p.stmt.Schema != nil {
			return p.fieldWants(p.stmt.Schema)
		}
		return func(string) want { return wantUnknown }
	}
	if w := typeWants(t); t.Kind() != reflect.Struct || w == wantBool || len(names) == 1 && scans(t) {
		return func(string) want { return w }
	}
	sch := p.stmt.Schema
	if sch == nil || sch.ModelType != t {
		other := &gorm.Statement{DB: p.stmt.DB}
		if err := other.Parse(p.stmt.Dest); err != nil {
			return func(string) want { return wantUnknown }
		}
		sch = other.Schema
	}
	return p.fieldWants(sch)
}

// fieldWants looks at the fields that GORM will scan into.
func (p *pool) fieldWants(sch *schema.Schema) func(string) want {
	return func(name string) want {
		if mapped, ok := p.stmt.ColumnMapping[name]; ok {
			name = mapped
		}
		field := sch.LookUpField(name)
		if field == nil {
			return wantUnknown // a joined relation's, or one that is thrown away
		}
		if isBoolField(field) || field.IndirectFieldType.Kind() == reflect.Interface {
			return wantBool
		}
		return wantOther
	}
}

// typeWants looks at a destination that is no model.
func typeWants(t reflect.Type) want {
	switch {
	case t.Kind() == reflect.Bool && !scans(t), t == reflect.TypeFor[sql.NullBool](), t == reflect.TypeFor[sql.Null[bool]]():
		return wantBool
	case t.Kind() == reflect.Interface:
		return wantUnknown
	default:
		return wantOther
	}
}

func scans(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[sql.Scanner]())
}

// isBoolField reports whether GORM holds the field as a boolean: bool, *bool, a
// named bool, sql.NullBool and every Valuer that yields a bool. A serializer does
// its own encoding.
func isBoolField(field *schema.Field) bool {
	return field.GORMDataType == schema.Bool && field.Serializer == nil
}
