package migrate

import (
	"database/sql/driver"
	"fmt"
	"strings"
)

// Kind is the family of column types that an [Encoding] belongs to.
type Kind uint8

// The kinds of column that hold a boolean.
const (
	Integer Kind = iota + 1 // tinyint of any width, bool, boolean: today's form
	Bit                     // bit(1)
	Enum                    // an enum with a label for true and one for false
	Char                    // char or varchar with a label for true and one for false
)

// String names the kind as SQL does.
func (k Kind) String() string {
	switch k {
	case Integer:
		return "tinyint"
	case Bit:
		return "bit"
	case Enum:
		return "enum"
	case Char:
		return "char"
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}

// Encoding tells how a column holds a boolean. It is comparable: two columns
// with equal encodings hold booleans alike.
//
// NULL is outside of every encoding: it is written and read as NULL, [Encoding.Case]
// yields NULL for it, and a Go bool that can't be nil reads it as false.
type Encoding struct {
	Kind  Kind
	True  string // the label of true for Enum and Char, spelled as in the schema; "1" otherwise
	False string // the label of false, or "0"

	// ColumnType is information_schema's COLUMN_TYPE, in lower case but for labels.
	ColumnType string
}

// labelPairs are the label pairs that need no mapping: false first, in lower case.
var labelPairs = [][2]string{{"n", "y"}, {"0", "1"}, {"false", "true"}}

// ParseColumn reads DATA_TYPE and COLUMN_TYPE as information_schema.COLUMNS gives
// them. An enum is recognised by two labels out of N/Y, 0/1 and false/true in
// either order and any case; char and varchar are taken to hold Y and N; display
// widths don't matter. ok is false for a column that holds no boolean, or whose
// labels need [ParseMapped].
func ParseColumn(dataType, columnType string) (e Encoding, ok bool) {
	switch strings.ToLower(dataType) {
	case "tinyint", "bool", "boolean":
		return Encoding{Kind: Integer, True: "1", False: "0", ColumnType: strings.ToLower(columnType)}, true
	case "bit":
		if w := strings.ToLower(strings.ReplaceAll(columnType, " ", "")); w != "bit(1)" && w != "bit" {
			return Encoding{}, false
		}
		return Encoding{Kind: Bit, True: "1", False: "0", ColumnType: strings.ToLower(columnType)}, true
	case "char", "varchar":
		return ParseMapped(dataType, columnType, "Y", "N")
	case "enum":
		labels, ok := EnumLabels(columnType)
		if !ok || len(labels) != 2 {
			return Encoding{}, false
		}
		for _, pair := range labelPairs {
			for first := range labels {
				f, t := labels[first], labels[1-first]
				if strings.EqualFold(f, pair[0]) && strings.EqualFold(t, pair[1]) {
					return Encoding{Kind: Enum, True: t, False: f, ColumnType: "enum" + columnType[len("enum"):]}, true
				}
			}
		}
	}
	return Encoding{}, false
}

// ParseMapped is ParseColumn for a column whose labels were declared: an enum that
// has both labels (it may have more), or a char or varchar that is wide enough.
// Labels with a backslash are refused, since their literal depends on the
// server's mode.
func ParseMapped(dataType, columnType, trueLabel, falseLabel string) (e Encoding, ok bool) {
	if trueLabel == falseLabel || strings.ContainsAny(trueLabel+falseLabel, "\\\x00") {
		return Encoding{}, false
	}
	switch strings.ToLower(dataType) {
	case "enum":
		labels, ok := EnumLabels(columnType)
		if !ok {
			return Encoding{}, false
		}
		t, f := spelled(labels, trueLabel), spelled(labels, falseLabel)
		if t < 0 || f < 0 || t == f {
			return Encoding{}, false
		}
		return Encoding{Kind: Enum, True: labels[t], False: labels[f], ColumnType: "enum" + columnType[len("enum"):]}, true
	case "char", "varchar":
		lower := strings.ToLower(columnType)
		var width int
		if _, err := fmt.Sscanf(strings.TrimPrefix(lower, strings.ToLower(dataType)), "(%d)", &width); err != nil {
			width = 1 // a bare char is char(1)
		}
		if width < len([]rune(trueLabel)) || width < len([]rune(falseLabel)) {
			return Encoding{}, false
		}
		return Encoding{Kind: Char, True: trueLabel, False: falseLabel, ColumnType: lower}, true
	}
	return Encoding{}, false
}

// EnumLabels reads the labels of an enum's COLUMN_TYPE in index order: label i has
// the MySQL index i+1.
func EnumLabels(columnType string) (labels []string, ok bool) {
	const prefix = "enum("
	if len(columnType) < len(prefix) || !strings.EqualFold(columnType[:len(prefix)], prefix) {
		return nil, false
	}
	rest := columnType[len(prefix):]
	for {
		if rest = strings.TrimLeft(rest, " "); !strings.HasPrefix(rest, "'") {
			return nil, false
		}
		var label strings.Builder
		rest = rest[1:]
		for {
			i := strings.IndexByte(rest, '\'')
			if i < 0 {
				return nil, false
			}
			label.WriteString(rest[:i])
			if rest = rest[i+1:]; !strings.HasPrefix(rest, "'") {
				break
			}
			label.WriteByte('\'') // a doubled quote stands for one
			rest = rest[1:]
		}
		labels = append(labels, label.String())
		switch rest = strings.TrimLeft(rest, " "); {
		case strings.HasPrefix(rest, ","):
			rest = rest[1:]
		case strings.HasPrefix(rest, ")"):
			return labels, true
		default:
			return nil, false
		}
	}
}

// Legacy reports whether the column is anything but today's tinyint.
func (e Encoding) Legacy() bool { return e.Kind != Integer && e.Kind != 0 }

// Label is the text of v: a label, or "1" and "0".
func (e Encoding) Label(v bool) string {
	if v {
		return e.True
	}
	return e.False
}

// Literal is v as an SQL literal that this column stores and compares rightly in
// every sql_mode: 'Y', 1, b'1'.
func (e Encoding) Literal(v bool) string {
	switch e.Kind {
	case Enum, Char:
		return quoteString(e.Label(v))
	case Bit:
		return "b'" + e.Label(v) + "'"
	default:
		return e.Label(v)
	}
}

// Value is v as a bind value that this column stores and compares rightly.
func (e Encoding) Value(v bool) driver.Value {
	switch e.Kind {
	case Enum, Char:
		return e.Label(v)
	default:
		if v {
			return int64(1)
		}
		return int64(0)
	}
}

// Case is an SQL expression that yields 1, 0, or NULL for NULL and for every value
// that is neither true nor false. column is an SQL expression, quoted already. It
// goes by the label, never by a cast, which would yield the label's index.
func (e Encoding) Case(column string) string {
	return "CASE " + column + " WHEN " + e.Literal(true) + " THEN 1 WHEN " + e.Literal(false) + " THEN 0 END"
}

// CaseInverse is an SQL expression that turns a tinyint expression into this
// column's form: 1 and 0 to the labels, anything else to NULL.
func (e Encoding) CaseInverse(column string) string {
	return "CASE " + column + " WHEN 1 THEN " + e.Literal(true) + " WHEN 0 THEN " + e.Literal(false) + " END"
}

// Decode turns a value that the driver delivered into a bool. It accepts the
// column's labels (in any case and with trailing blanks, as MySQL compares them),
// a bit's byte, and the integers 0 and 1, whatever the encoding, so that a result
// read just after the column became a tinyint is still right. null is true for
// NULL. Anything else is an error that matches [ErrUnexpectedValue].
func (e Encoding) Decode(src any) (v, null bool, err error) {
	switch s := src.(type) {
	case nil:
		return false, true, nil
	case bool:
		return s, false, nil
	case int64:
		if s == 0 || s == 1 {
			return s == 1, false, nil
		}
	case uint64:
		if s <= 1 {
			return s == 1, false, nil
		}
	case []byte:
		return e.decodeText(string(s))
	case string:
		return e.decodeText(s)
	}
	return false, false, e.unexpected(src)
}

func (e Encoding) decodeText(s string) (v, null bool, err error) {
	switch s {
	case e.True:
		return true, false, nil
	case e.False:
		return false, false, nil
	case "\x01":
		return true, false, nil
	case "\x00":
		return false, false, nil
	}
	text := strings.TrimRight(s, " ")
	t, f := strings.EqualFold(text, e.True), strings.EqualFold(text, e.False)
	if t == f { // neither, or labels that differ in case alone
		return false, false, e.unexpected(s)
	}
	return t, false, nil
}

func (e Encoding) unexpected(src any) error {
	return fmt.Errorf("%w: met %q, expected %s or %s in a column of type %s", ErrUnexpectedValue, fmt.Sprint(src), e.Literal(true), e.Literal(false), e.ColumnType)
}

// String describes the encoding for messages: "enum('N','Y') with 'Y' for true".
func (e Encoding) String() string {
	return fmt.Sprintf("%s with %s for true", e.ColumnType, e.Literal(true))
}

// spelled finds label among labels, exactly or else, if that is unique, in any case.
func spelled(labels []string, label string) int {
	found := -1
	for i, l := range labels {
		if l == label {
			return i
		}
		if strings.EqualFold(l, label) {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}

// quoteString writes an SQL string literal; labels hold no backslash.
func quoteString(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
