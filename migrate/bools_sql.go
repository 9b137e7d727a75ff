package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// unmapped stands in a tinyint for a value that nobody has mapped. It is no
// boolean, so it can't be taken for one, and no verification passes it.
const unmapped = "-1"

// columnPlan is how one column is migrated. It is stored in the journal, since
// the schema no longer tells once the names are swapped.
//
// Two columns take part. Before the swap the original has the name Name and the
// new one Helper; the swap exchanges the names, in one atomic ALTER, and the
// rollback exchanges them back. The triggers speak of the two names only, and
// decide by the type which of the two columns a name stands for: they hold
// before, during and after a swap, so that no moment is without them.
type columnPlan struct {
	Name   string
	Helper string
	Source Encoding
	Target Encoding
	Map    []mapping // texts or numbers of the source that mean true or false

	Nullable bool  // whether the source may be NULL
	Null     *bool // what NULL becomes; nil: it stays NULL

	SourceDefinition string // verbatim; under Name before the swap
	HiddenDefinition string // the same with a default, so that an INSERT may omit it; under Helper after the swap
	FillDefinition   string // of the new column under Helper
	FinalDefinition  string // of the new column under Name
}

// mapping is one value of the source and what it means.
type mapping struct {
	Text  string
	Value bool
}

// exactText is the expression to compare a text column byte by byte, whatever
// its character set and collation.
func exactText(expression string) string {
	return "CAST(CONVERT(" + expression + " USING utf8mb4) AS BINARY)"
}

// forward turns an expression of the source column into the target's value.
func (c columnPlan) forward(x string) string {
	null := "NULL"
	if c.Null != nil {
		null = c.Target.Literal(*c.Null)
	}
	switch c.Source.Kind {
	case Bit:
		return c.orNull(x, null, fmt.Sprintf("IF(%s = 0, 0, 1)", x))
	case Integer: // what isn't mapped is true if it isn't 0, as MySQL itself reads it
		return c.orNull(x, null, fmt.Sprintf("CASE %s%s ELSE %s END", x, c.whens(), c.Target.Literal(true)))
	}
	return c.orNull(x, null, fmt.Sprintf("CASE %s%s ELSE %s END", c.sourceText(x), c.whens(), unmapped))
}

// orNull is the value of a NULL, and another one for the rest.
func (c columnPlan) orNull(x, null, value string) string {
	if !c.Nullable {
		return value
	}
	return fmt.Sprintf("IF(%s IS NULL, %s, %s)", x, null, value)
}

// whens lists the mapped values in a stable order.
func (c columnPlan) whens() string {
	var b strings.Builder
	for _, m := range c.Map {
		text := m.Text
		if c.Source.Kind == Enum || c.Source.Kind == Char {
			text = quoteText(text)
		}
		fmt.Fprintf(&b, " WHEN %s THEN %s", text, c.Target.Literal(m.Value))
	}
	return b.String()
}

// sourceText is what CASE compares: an enum has only its labels to tell apart, a
// text has every spelling.
func (c columnPlan) sourceText(x string) string {
	if c.Source.Kind == Char {
		return exactText(x)
	}
	return x
}

// reverse turns an expression of the target column into the source's value. A
// NULL in the target can only have come from a nullable source.
func (c columnPlan) reverse(x string) string {
	switch {
	case c.Target.Kind == Enum:
		return c.orNull(x, "NULL", fmt.Sprintf("CASE %s WHEN %s THEN 1 WHEN %s THEN 0 ELSE %s END",
			x, c.Target.Literal(true), c.Target.Literal(false), unmapped))
	case c.Source.Kind == Bit:
		return c.orNull(x, "NULL", fmt.Sprintf("IF(%s = 0, 0, 1)", x))
	}
	return c.orNull(x, "NULL", fmt.Sprintf("IF(%s = 0, %s, %s)", x, c.Source.Literal(false), c.Source.Literal(true)))
}

// stale is the predicate of rows whose new column doesn't hold what the backfill
// would write.
func (c columnPlan) stale() string {
	return fmt.Sprintf("NOT (%s <=> %s)", quoteName(c.Helper), c.forward(quoteName(c.Name)))
}

// disagrees is the predicate of rows whose two columns disagree, before the swap
// or after it. After it either direction will do: the old column keeps spellings
// that the new one can't express, until a row's new value changes.
func (c columnPlan) disagrees(swapped bool) string {
	if !swapped {
		return c.stale()
	}
	source, target := quoteName(c.Helper), quoteName(c.Name)
	return fmt.Sprintf("NOT (%s <=> %s OR %s)", target, c.forward(source), c.isReverse(source, target))
}

// isReverse is the predicate that the source holds what reverse makes of the
// target. A text is compared with the labels one by one: a literal is converted to
// the column's character set, the result of an expression isn't.
func (c columnPlan) isReverse(source, target string) string {
	if c.Target.Kind == Enum || c.Source.Kind == Bit {
		return fmt.Sprintf("%s <=> %s", c.comparable(source), c.reverse(target))
	}
	return fmt.Sprintf("IF(%[1]s IS NULL, %[2]s IS NULL, IF(%[1]s = 0, %[2]s <=> %[3]s, %[2]s <=> %[4]s))",
		target, source, c.Source.Literal(false), c.Source.Literal(true))
}

// comparable makes an integer of a bit, which doesn't compare with NULL-safe
// equality against a number on every server.
func (c columnPlan) comparable(x string) string {
	if c.Source.Kind == Bit {
		return "(" + x + " + 0)"
	}
	return x
}

// isUnmapped is the predicate of rows that hold a value nobody has mapped.
func (c columnPlan) isUnmapped(swapped bool) string {
	target := quoteName(c.Helper)
	if swapped {
		target = quoteName(c.Name)
	}
	if c.Target.Kind == Enum {
		return target + " = ''" // an enum's error value
	}
	return target + " = " + unmapped
}

// sync is the trigger's statement that fills the helper from the name, whichever
// of the two columns each stands for at the moment. The type tells: numbers have
// the character set binary, labels never have (a plan refuses such columns).
func (c columnPlan) sync() string {
	name, set := "NEW."+quoteName(c.Name), "SET NEW."+quoteName(c.Helper)+" = "
	numeric, text := c.reverse(name), c.forward(name)
	switch {
	case c.Source.Kind == Bit:
		return set + c.forward(name) + "; "
	case c.Source.Kind == Integer:
		numeric, text = text, numeric
	}
	return fmt.Sprintf("IF CHARSET(%s) = 'binary' THEN %s%s; ELSE %s%s; END IF; ", name, set, numeric, set, text)
}

// changed is the trigger's test for a new value. Byte by byte, since a collation
// may hold different texts for equal. A row that is updated elsewhere keeps the
// old column's spelling, its NULL and its empty text with that.
func (c columnPlan) changed() string {
	return fmt.Sprintf("NOT (CAST(NEW.%[1]s AS BINARY) <=> CAST(OLD.%[1]s AS BINARY))", quoteName(c.Name))
}

// triggerBody is the whole body for one event.
func triggerBody(columns []columnPlan, event string) string {
	var b strings.Builder
	b.WriteString("BEGIN ")
	for _, c := range columns {
		if event == "update" {
			fmt.Fprintf(&b, "IF %s THEN %sEND IF; ", c.changed(), c.sync())
		} else {
			b.WriteString(c.sync())
		}
	}
	b.WriteString("END")
	return b.String()
}

// triggerEvents is the order in which triggers are created. UPDATE comes first:
// were it the other way round, a row inserted and then updated in between would
// keep the inserted value.
var triggerEvents = []string{"update", "insert"}

func triggerName(table, event string) string {
	return shortName(table, "__gf_"+event)
}

func createTrigger(name, table, event, body string) string {
	return fmt.Sprintf("CREATE TRIGGER %s BEFORE %s ON %s FOR EACH ROW %s",
		quoteName(name), strings.ToUpper(event), quoteName(table), body)
}

// shortName appends a suffix and stays within the 64 characters of a name.
func shortName(name, suffix string) string {
	if len([]rune(name))+len(suffix) <= 64 {
		return name + suffix
	}
	hash := shortHash(name)
	return string([]rune(name)[:64-len(suffix)-len(hash)]) + hash + suffix
}

// HelperColumn is the name of the second column of a migration: the new column
// before the swap, the old one after it.
func HelperColumn(column string) string { return shortName(column, "__gf") }

func helperIndex(index string) string { return shortName(index, "__gf") }

// The ALTERs, without their ALGORITHM and LOCK clauses.

func addColumns(table string, columns []columnPlan) string {
	return alter(table, columns, func(c columnPlan) []string {
		return []string{fmt.Sprintf("ADD COLUMN %s %s AFTER %s", quoteName(c.Helper), c.FillDefinition, quoteName(c.Name))}
	})
}

func swapColumns(table string, columns []columnPlan) string {
	return alter(table, columns, func(c columnPlan) []string {
		return []string{
			fmt.Sprintf("CHANGE COLUMN %s %s %s", quoteName(c.Name), quoteName(c.Helper), c.HiddenDefinition),
			fmt.Sprintf("CHANGE COLUMN %s %s %s", quoteName(c.Helper), quoteName(c.Name), c.FinalDefinition),
		}
	})
}

func swapBack(table string, columns []columnPlan) string {
	return alter(table, columns, func(c columnPlan) []string {
		return []string{
			fmt.Sprintf("CHANGE COLUMN %s %s %s", quoteName(c.Helper), quoteName(c.Name), c.SourceDefinition),
			fmt.Sprintf("CHANGE COLUMN %s %s %s", quoteName(c.Name), quoteName(c.Helper), c.FillDefinition),
		}
	})
}

func dropColumns(table string, columns []columnPlan, more ...string) string {
	return alter(table, columns, func(c columnPlan) []string {
		return []string{"DROP COLUMN " + quoteName(c.Helper)}
	}, more...)
}

func alter(table string, columns []columnPlan, parts func(columnPlan) []string, more ...string) string {
	var all []string
	for _, c := range columns {
		all = append(all, parts(c)...)
	}
	return "ALTER TABLE " + quoteName(table) + " " + strings.Join(append(all, more...), ", ")
}

// quoteText writes a text literal that means the same in every sql_mode.
func quoteText(s string) string {
	if strings.ContainsAny(s, "\\\x00\n\r") {
		return "x'" + fmt.Sprintf("%x", s) + "'"
	}
	return quoteString(s)
}

// withDefault puts a default into a definition that has none, before the comment,
// whose own text may look like one.
func withDefault(definition, literal string) string {
	inside := false
	for i := range len(definition) {
		if !inside && strings.HasPrefix(definition[i:], " COMMENT '") {
			return definition[:i] + " DEFAULT " + literal + definition[i:]
		}
		if definition[i] == '\'' {
			inside = !inside
		}
	}
	return definition + " DEFAULT " + literal
}

// sortMap gives the mappings a stable order, so that equal plans have equal triggers.
func sortMap(all []mapping, source Kind) {
	slices.SortFunc(all, func(a, b mapping) int {
		if source == Integer {
			x, _ := strconv.ParseInt(a.Text, 10, 64)
			y, _ := strconv.ParseInt(b.Text, 10, 64)
			return int(min(max(x-y, -1), 1))
		}
		return strings.Compare(a.Text, b.Text)
	})
}
