package migrate

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// encoded is a statement that is ready for the server.
type encoded struct {
	sql  string
	args []any
	// predicates holds when a comparison goes by a label that matches nothing once
	// the column has changed, so that an empty result says little.
	predicates bool
	assigns    bool // a value goes by an encoding
}

// encode replaces the bools among args by what their columns hold. warn is called
// for what can't be proven; if it returns an error, encoding stops with it.
func (p *plan) encode(query string, args []any, warn func(*UnprovenBoolError) error) (encoded, error) {
	out := encoded{sql: query, args: args}
	copied := false
	tests := map[*comparison]*members{}
	for i, arg := range args {
		var s slot
		if i < len(p.slots) {
			s = p.slots[i]
		}
		if s.use == foreign || s.use != unproven && !s.column.encodes() || s.use == unproven && p.mentions == nil {
			continue
		}
		v, isBool, err := boolOf(arg)
		if err != nil {
			return out, err
		}
		if !isBool {
			continue
		}
		if s.use == unproven {
			if len(args) != len(p.slots) {
				s.reason = "the placeholders and the arguments don't match"
			}
			if err := warn(&UnprovenBoolError{Table: p.mentions.table.name, Column: p.mentions.name,
				Found: fmt.Sprintf("the bool of placeholder %d", i+1), Reason: s.reason}); err != nil {
				return out, err
			}
			continue
		}
		if s.column.broken() {
			return out, fmt.Errorf("%w: %s is %s; declare its labels with LegacyBools(...).Mapping(%q, %q, trueLabel, falseLabel)",
				ErrNotBoolean, s.column, s.column.columnType, s.column.table.name, s.column.name)
		}
		if !copied {
			out.args, copied = append([]any(nil), args...), true
		}
		out.args[i] = s.column.bind(v)
		switch s.use {
		case assigned:
			out.assigns = true
		case compared:
			out.predicates = out.predicates || s.column.narrow(v, p.writes)
			m := tests[s.test]
			if m == nil {
				m = &members{}
				tests[s.test] = m
			}
			m.add(v)
		}
	}
	if p.mistake != nil {
		if err := warn(p.mistake); err != nil {
			return out, err
		}
	}
	out.sql = rewrite(query, tests, p.writes)
	return out, nil
}

// bind is the value to send for v. While a migration is under way a tinyint gets
// a text, since the enum that it was would take a number for a label's index: the
// label if that is a number, or else a text that the enum refuses.
func (c *column) bind(v bool) any {
	if c.partner == nil || c.encoding.Kind != Integer || c.partner.Kind == Bit || c.partner.Kind == Integer {
		return c.encoding.Value(v)
	}
	if c.partner.numeric() {
		return c.partner.Label(v)
	}
	if c.partner.Kind == Char {
		return overlong(decimalText(v), c.partner.ColumnType)
	}
	return decimalText(v)
}

// longestRefused bounds what overlong makes.
const longestRefused = 255

// overlong makes a decimal text too long for a char or varchar, which takes any
// text that fits, without changing the number that a tinyint reads. Should the
// names have been exchanged back behind the codec, the server refuses it.
func overlong(text, columnType string) string {
	_, rest, _ := strings.Cut(columnType, "(")
	length, _, _ := strings.Cut(rest, ")")
	n, err := strconv.Atoi(length)
	if err != nil || n > longestRefused {
		return text
	}
	return text + strings.Repeat("0", max(0, n+1-len(text)))
}

// numeric reports whether both labels are right as numbers too: enum('0','1').
func (e Encoding) numeric() bool { return e.True == "1" && e.False == "0" }

// decimalText is a bool that a tinyint stores and compares rightly, that equals no
// label, and that an enum refuses.
func decimalText(v bool) string {
	if v {
		return "1.0"
	}
	return "0.0"
}

// members are the bools of one comparison.
type members struct{ yes, no bool }

func (m *members) add(v bool) {
	m.yes = m.yes || v
	m.no = m.no || !v
}

// rewrite puts comparisons into a form that stays right, or at least matches no
// wrong row, when the column changes between this moment and the execution.
func rewrite(query string, tests map[*comparison]*members, writes bool) string {
	type edit struct {
		test *comparison
		text string
	}
	var edits []edit
	for test, m := range tests {
		if text := test.form(*m, writes); text != "" {
			edits = append(edits, edit{test, text})
		}
	}
	if len(edits) == 0 {
		return query
	}
	sort.Slice(edits, func(i, j int) bool { return edits[i].test.start < edits[j].test.start })
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(query[at:e.test.start])
		b.WriteString(e.text)
		at = e.test.end
	}
	b.WriteString(query[at:])
	return b.String()
}

// narrow reports whether a comparison with v matches nothing, rather than the right
// rows, once the column has changed.
func (c *column) narrow(v, writes bool) bool {
	if c.partner != nil {
		if !writes || c.partner.Kind == Bit || c.encoding.Kind == Bit {
			return false
		}
		if c.encoding.Kind == Integer {
			return !c.partner.numeric()
		}
	}
	return c.encoding.danger(members{yes: v, no: !v})
}

// form is the comparison's robust form; empty if it is robust as it stands.
//
// MySQL compares a tinyint with the text 'Y' as 0 = 0: a program that still sends
// labels after the column became a tinyint would match, and delete, the rows that
// are false. Hence:
//
//   - while the table has both columns of a migration, a SELECT's comparison names
//     both forms and is right before and after the swap;
//   - otherwise, and in what writes, where MySQL's strict mode refuses to compare a
//     number with a label, a comparison that could match wrong rows is made to
//     match none.
func (t *comparison) form(m members, writes bool) string {
	switch c := t.column; {
	case c.partner != nil && !writes:
		return t.both(m)
	case c.encoding.Kind == Integer:
		return t.number()
	case c.encoding.danger(m):
		return t.label(m)
	default:
		return ""
	}
}

func (t *comparison) negative() bool { return t.operator == "<>" || t.operator == "NOT IN" }

// label narrows a comparison with a label that a tinyint would take for a number.
func (t *comparison) label(m members) string {
	equals := " = "
	if t.operator == "<=>" { // it is never NULL, so nothing beside it may be
		equals = " <=> "
	}
	base := t.subject + " " + t.operator + " " + t.right()
	number := quoteString(strconv.FormatInt(leadingNumber(t.column.encoding.Label(m.yes)), 10))
	today := quoteString(decimalText(m.yes))
	switch {
	case t.negative() && !t.negated: // match no true row
		return "(" + base + " AND " + t.subject + " <> " + today + ")"
	case t.negative(): // the NOT around it must match no false row
		return "(" + base + " OR " + t.subject + equals + number + ")"
	case t.negated: // the NOT around it must match no true row
		return "(" + base + " OR " + t.subject + equals + today + ")"
	default: // match no false row
		return "(" + base + " AND " + t.subject + " <> " + number + ")"
	}
}

// number narrows a comparison with a number that the enum of a rollback would
// differ from in every row. A label is greater than '999' and a tinyint is less.
func (t *comparison) number() string {
	p := t.column.partner
	if p == nil || p.Kind == Bit || p.numeric() || leadingNumber(p.True) != 0 || leadingNumber(p.False) != 0 || t.negative() == t.negated {
		return ""
	}
	base := t.subject + " " + t.operator + " " + t.right()
	if t.negative() {
		return "(" + base + " AND " + t.subject + " < '999')"
	}
	return "(" + base + " OR (" + t.subject + " > '999') IS TRUE)"
}

// both is the comparison for a column that is about to change its form, or just
// did: true means the label of one or the number of the other.
func (t *comparison) both(m members) string {
	c := t.column
	var more []string
	labels := c.encoding
	if c.encoding.Kind == Integer {
		labels = *c.partner
	}
	wrong := leadingNumber(labels.Label(m.yes)) != map[bool]int64{true: 1}[m.yes]
	if labels.Kind == Bit || labels.Kind == Integer || labels.numeric() || m.yes != m.no && wrong && !labels.danger(m) {
		return "" // a number either way, or labels that mean the opposite as numbers
	}
	for _, v := range []bool{true, false} {
		if v && !m.yes || !v && !m.no {
			continue
		}
		if c.encoding.Kind == Integer {
			more = append(more, labels.Literal(v))
		} else {
			more = append(more, quoteString(decimalText(v)))
		}
	}
	text := t.subject + " IN (" + strings.Join(append([]string{t.values}, more...), ", ") + ")"
	if labels.danger(m) {
		text += " AND " + t.subject + " <> " + quoteString(strconv.FormatInt(leadingNumber(labels.Label(m.yes)), 10))
	}
	text = "(" + text + ")"
	switch t.operator {
	case "<>", "NOT IN":
		return "(NOT " + text + ")"
	case "<=>":
		return "(" + text + " IS TRUE)"
	default:
		return text
	}
}

// right is the right side as it was written.
func (t *comparison) right() string {
	if t.list {
		return "(" + t.values + ")"
	}
	return t.values
}

// danger reports whether the labels, compared with a tinyint, could match rows of
// the other truth, and whether excluding them is possible.
func (e Encoding) danger(m members) bool {
	if e.Kind != Enum && e.Kind != Char || m.yes == m.no {
		return false
	}
	n, want := leadingNumber(e.Label(m.yes)), int64(0)
	if m.yes {
		want = 1
	}
	text := strconv.FormatInt(n, 10)
	return n != want && text != e.True && text != e.False
}

// leadingNumber is the number that MySQL sees in a text: 0 for 'Y', 1 for '1'.
func leadingNumber(s string) int64 {
	s = strings.TrimLeft(s, " ")
	end := 0
	for end < len(s) && end < 18 && isDigit(s[end]) {
		end++
	}
	n, _ := strconv.ParseInt(s[:end], 10, 64)
	return n
}

// boolOf reports whether arg is a bool in any of Go's guises, and its value. NULL
// is no bool: it is sent as it is.
func boolOf(arg any) (v, isBool bool, err error) {
	switch a := arg.(type) {
	case nil, string, []byte, int, int64, float64:
		return false, false, nil
	case bool:
		return a, true, nil
	case *bool:
		if a == nil {
			return false, false, nil
		}
		return *a, true, nil
	case sql.NullBool:
		return a.Bool, a.Valid, nil
	case param:
		return false, false, nil
	}
	rv := reflect.ValueOf(arg)
	if valuer, ok := arg.(driver.Valuer); ok {
		if rv.Kind() == reflect.Pointer && rv.IsNil() {
			return false, false, nil
		}
		value, err := valuer.Value()
		if err != nil {
			return false, false, err
		}
		v, isBool = value.(bool)
		return v, isBool, nil
	}
	for rv.Kind() == reflect.Pointer {
		if rv.IsNil() {
			return false, false, nil
		}
		rv = rv.Elem()
	}
	if rv.Kind() == reflect.Bool {
		return rv.Bool(), true, nil
	}
	return false, false, nil
}
