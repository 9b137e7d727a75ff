package migrate

import (
	"fmt"
	"strings"
)

// mistakes looks for boolean literals and bare columns, which MySQL evaluates by
// an enum's index and a text's leading digits.
func (r *resolver) mistakes(item items) {
	if r.plan.mentions == nil {
		return
	}
	for last, ref := range r.cols {
		c := ref.column
		if c == nil || c.text {
			continue
		}
		found, reason := r.across(ref, last)
		if found == "" && c.legacy() && c.encoding.Kind != Bit {
			found, reason = r.mistake(ref, last)
		}
		if m := r.plan.mistake; found != "" && (m == nil || c.name < m.Column) {
			r.plan.mistake = &UnprovenBoolError{Table: c.table.name, Column: c.name, Found: found, Reason: reason}
		}
	}
	r.copied()
	for i := range r.tokens {
		n, ok := item.at(i)
		if !ok || n >= len(r.insertColumns) || !r.booleanLiteral(i) || !(r.at(i+1).is(")") || r.at(i+1).is(",")) || !(r.at(i-1).is("(") || r.at(i-1).is(",")) {
			continue
		}
		if c := r.targetColumn(r.insertColumns[n]); c != nil && !c.text && c.legacy() && c.encoding.Kind != Bit {
			r.plan.mistake = &UnprovenBoolError{Table: c.table.name, Column: c.name, Found: r.text(i), Reason: fmt.Sprintf("the column is %s, which takes a number for a label's index or its text", c.columnType)}
			return
		}
	}
}

// across looks for a comparison or an assignment between columns of two forms.
func (r *resolver) across(ref columnRef, last int) (found, reason string) {
	next, ok := r.begin[last+2]
	if !ok || !r.at(last+1).isAny(equality) || !r.at(next+1).isAny(after) {
		return "", ""
	}
	other := r.cols[next].column
	if other == nil || ref.column.alike(other) {
		return "", ""
	}
	return "column " + other.name, twoForms(ref.column, other)
}

// copied looks at INSERT ... SELECT: MySQL copies between an enum and a number by
// the label's index.
func (r *resolver) copied() {
	if r.target == nil || !r.plan.aligned || r.returnStart >= 0 || len(r.plan.outputs) != len(r.insertColumns) {
		return
	}
	for i, name := range r.insertColumns {
		to, from := r.targetColumn(name), r.plan.outputs[i].column
		if to != nil && from != nil && !to.alike(from) {
			r.plan.mistake = &UnprovenBoolError{Table: to.table.name, Column: to.name, Found: "column " + from.name,
				Reason: twoForms(to, from)}
			return
		}
	}
}

func twoForms(a, b *column) string {
	return fmt.Sprintf("%s is %s and %s is %s, which MySQL converts by a label's index or leading digits", a.name, a.columnType, b.name, b.columnType)
}

// alike reports whether MySQL compares and copies between the two columns by their
// truth.
func (c *column) alike(other *column) bool {
	if c.text || other.text || !c.understood || !other.understood {
		return true // nobody has said that they are booleans
	}
	a, b := c.encoding, other.encoding
	number := func(e Encoding) bool { return e.Kind == Integer || e.Kind == Bit }
	if number(a) || number(b) {
		return number(a) && number(b) || a.Kind == Char && a.numeric() || b.Kind == Char && b.numeric()
	}
	return strings.EqualFold(a.True, b.True) && strings.EqualFold(a.False, b.False)
}

func (r *resolver) mistake(ref columnRef, last int) (found, reason string) {
	index := fmt.Sprintf("the column is %s, and its truth is by index or leading digits, not by label", ref.column.columnType)
	next, previous := r.at(last+1), r.at(ref.first-1)
	switch {
	case next.isAny(equality) && r.booleanLiteral(last+2) && r.at(last+3).isAny(after):
		return r.text(last + 2), index
	case previous.isAny(equality) && r.booleanLiteral(ref.first-2) && next.isAny(after) && r.at(ref.first-3).isAny(before):
		return r.text(ref.first - 2), index
	case next.is("IS"):
		n := last + 2
		if r.at(n).is("NOT") {
			n++
		}
		if r.at(n).is("TRUE") || r.at(n).is("FALSE") {
			return "IS " + r.text(n), index
		}
	case (r.places[last].clause == inWhere || r.places[last].clause == inOn) && next.isAny(after) && !next.is(",") && !next.is("END"):
		switch {
		case previous.is("WHERE"), previous.is("AND") && !r.inBetween(ref.first-1), previous.is("OR"), previous.is("NOT"), previous.is("XOR"), previous.is("ON"), previous.is("HAVING"), previous.is("!"), previous.is("&&"):
			return "a bare column", index
		}
	}
	return "", ""
}

// booleanLiteral reports whether token i is TRUE, FALSE or a number.
func (r *resolver) booleanLiteral(i int) bool {
	t := r.at(i)
	return t.is("TRUE") || t.is("FALSE") || t.kind == tokenNumber
}

func (r *resolver) text(i int) string { return r.sql[r.tokens[i].start:r.tokens[i].end] }
