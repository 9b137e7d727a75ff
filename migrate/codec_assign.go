package migrate

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// assignments looks for values of INSERT and UPDATE that aren't proven to be labels:
// MySQL stores a number or a condition by a label's index, or as digits in a text.
func (r *resolver) assignments() {
	for i, t := range r.tokens {
		switch {
		case r.assigns(i):
			r.assign(r.assignee(i), i+1, r.assignmentEnd(i+1))
		case t.is("(") && r.target != nil && r.places[i].clause == inValues && r.places[i].paren < 0 && r.at(i-1).isAny(beforeTuple):
			parts := r.arguments(i)
			for n, part := range parts {
				r.assign(r.columnOfItem(n, len(parts)), part[0], part[1])
			}
		}
	}
	if r.target == nil || !r.plan.aligned || r.returnStart >= 0 {
		return
	}
	for n, o := range r.plan.outputs { // INSERT ... SELECT
		r.assign(r.columnOfItem(n, len(r.plan.outputs)), o.first, r.withoutAlias(o.first, o.end))
	}
}

var beforeTuple = set("VALUES", "VALUE", "ROW", ",")

// labelled reports whether the column holds booleans as labels, so that MySQL's own
// truth and number of it aren't those of the boolean.
func (c *column) labelled() bool {
	return c != nil && !c.text && c.legacy() && c.encoding.Kind != Bit
}

// assign records a mistake unless tokens first to end yield only labels of c.
func (r *resolver) assign(c *column, first, end int) {
	if r.plan.mistake != nil || !c.labelled() || first >= end || r.yieldsLabel(c, first, end) {
		return
	}
	r.plan.mistake = &UnprovenBoolError{Table: c.table.name, Column: c.name, Found: r.excerpt(first, end),
		Reason: fmt.Sprintf("it isn't proven to yield a label of the column, which is %s and takes a number or a condition for a label's index or its text", c.columnType)}
}

// excerpt is the text of tokens first to end, shortened for a message.
func (r *resolver) excerpt(first, end int) string {
	const most = 60
	text := r.sql[r.tokens[first].start:r.tokens[end-1].end]
	if len(text) <= most {
		return text
	}
	n := most
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "..."
}

// assigns reports whether token i is the = of SET column = value.
func (r *resolver) assigns(i int) bool {
	if pl := r.places[i]; pl.clause != inSet || pl.paren >= 0 || !r.tokens[i].is("=") && !r.tokens[i].is(":=") {
		return false
	}
	ref, ok := r.cols[i-1]
	return ok && (r.at(ref.first-1).is(",") || r.at(ref.first-1).is("SET") || r.at(ref.first-1).is("UPDATE"))
}

// assignee is the column before the = at token i; nil if it holds no boolean.
func (r *resolver) assignee(i int) *column {
	if r.target != nil {
		return r.targetColumn(r.tokens[i-1].text)
	}
	return r.cols[i-1].column
}

var afterAssignment = set(",", ";", "WHERE", "ORDER", "LIMIT", "ON", "AS", "RETURNING")

func (r *resolver) assignmentEnd(i int) int {
	for ; i < len(r.tokens); i++ {
		if r.places[i].paren < 0 && r.tokens[i].isAny(afterAssignment) {
			break
		}
	}
	return i
}

// columnOfItem is the column that item n of an INSERT's row is for; nil if it holds
// no boolean. Without a list of columns, the table's own order counts.
func (r *resolver) columnOfItem(n, width int) *column {
	if r.insertColumns != nil {
		if n >= len(r.insertColumns) {
			return nil
		}
		return r.targetColumn(r.insertColumns[n])
	}
	if t := r.targetTable(); t != nil && len(t.raw) == width {
		return r.targetColumn(t.raw[n].name)
	}
	return nil
}

// closing is the token that closes the bracket at token open; the number of tokens
// if none does.
func (r *resolver) closing(open int) int {
	for i := open + 1; i < len(r.tokens); i++ {
		if r.tokens[i].is(")") && r.places[i].paren == open {
			return i
		}
	}
	return len(r.tokens)
}

// arguments are the first and the end of each item in the bracket at token open.
func (r *resolver) arguments(open int) [][2]int {
	var parts [][2]int
	first, closing := open+1, r.closing(open)
	for i := first; i <= closing; i++ {
		if i == closing || r.tokens[i].is(",") && r.places[i].paren == open {
			parts = append(parts, [2]int{first, i})
			first = i + 1
		}
	}
	return parts
}

// yieldsLabel reports whether tokens first to end yield a label of c, NULL, or the
// default, whatever the rows. A placeholder does: a bool there is proven, or refused
// elsewhere.
func (r *resolver) yieldsLabel(c *column, first, end int) bool {
	if first >= end || end > len(r.tokens) {
		return false
	}
	if r.at(end - 2).is("COLLATE") {
		return r.yieldsLabel(c, first, end-2)
	}
	t := r.tokens[first]
	if end == first+1 && (t.kind == tokenPlaceholder || t.kind == tokenString || t.is("NULL") || t.is("DEFAULT")) {
		return true
	}
	if last, ok := r.begin[first]; ok && last == end-1 {
		return r.copies(c, r.cols[last])
	}
	switch {
	case end == first+2 && t.kind == tokenWord && strings.HasPrefix(t.text, "_"): // _utf8'Y'
		return r.at(first+1).kind == tokenString
	case t.is("(") && r.closing(first) == end-1:
		if r.at(first + 1).is("SELECT") {
			return r.selectsLabel(c, first)
		}
		return r.yieldsLabel(c, first+1, end-1)
	case t.is("CASE"):
		return r.caseYieldsLabel(c, first, end)
	case t.kind == tokenWord && r.at(first+1).is("(") && r.closing(first+1) == end-1:
		return r.callYieldsLabel(c, t.upper, r.arguments(first+1))
	}
	return false
}

// callYieldsLabel is yieldsLabel for a function.
func (r *resolver) callYieldsLabel(c *column, name string, args [][2]int) bool {
	switch name {
	case "VALUES", "VALUE":
		if len(args) != 1 || r.target == nil {
			return false
		}
		from := r.targetColumn(r.tokens[args[0][1]-1].text)
		return from != nil && from.alike(c)
	case "IF", "NVL2":
		if len(args) != 3 {
			return false
		}
		args = args[1:]
	case "NULLIF":
		args = args[:1]
	case "COALESCE", "IFNULL", "NVL", "ANY_VALUE", "MAX", "MIN", "DEFAULT":
	default:
		return false
	}
	for _, arg := range args {
		if !r.yieldsLabel(c, arg[0], arg[1]) {
			return false
		}
	}
	return true
}

// caseYieldsLabel is yieldsLabel for CASE ... END.
func (r *resolver) caseYieldsLabel(c *column, first, end int) bool {
	depth, result := 0, -1
	for i := first; i < end; i++ {
		t := r.tokens[i]
		if t.kind != tokenWord || r.places[i].paren != r.places[first].paren {
			continue
		}
		if depth == 1 && result >= 0 && (t.is("WHEN") || t.is("ELSE") || t.is("END")) {
			if !r.yieldsLabel(c, result, i) {
				return false
			}
			result = -1
		}
		switch {
		case t.is("CASE"):
			depth++
		case t.is("END"):
			if depth--; depth == 0 {
				return i == end-1
			}
		case depth == 1 && (t.is("THEN") || t.is("ELSE")):
			result = i + 1
		}
	}
	return false
}

var afterItem = set("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", ")")

// selectsLabel is yieldsLabel for a subquery in the bracket at token open.
func (r *resolver) selectsLabel(c *column, open int) bool {
	first, end := open+2, -1
	for first < len(r.tokens) && r.tokens[first].isAny(selectPrefix) {
		first++
	}
	for i := first; i < len(r.tokens); i++ {
		t := r.tokens[i]
		if r.places[i].paren != open {
			continue
		}
		if t.is("UNION") || t.is("EXCEPT") || t.is("INTERSECT") || end < 0 && t.is(",") {
			return false
		}
		if end < 0 && t.isAny(afterItem) {
			end = i
		}
		if t.is(")") {
			break
		}
	}
	return end >= 0 && r.yieldsLabel(c, first, r.withoutAlias(first, end))
}

// withoutAlias is the end of a list's item without the alias behind it.
func (r *resolver) withoutAlias(first, end int) int {
	switch {
	case end-first > 2 && r.at(end-2).is("AS"):
		return end - 2
	case end-first < 2 || !r.at(end-1).identifier() || r.at(end-1).isAny(reserved):
		return end
	}
	switch t := r.at(end - 2); {
	case t.is(")"), t.is("END"), t.is("NULL"), t.kind == tokenString, t.kind == tokenPlaceholder, t.kind == tokenName, t.kind == tokenWord && !t.isAny(reserved):
		return end - 1
	}
	return end
}

var copiedByLabel = set("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")

// copies reports whether MySQL copies from the named column to c by the label.
func (r *resolver) copies(c *column, ref columnRef) bool {
	name := r.tokens[ref.last].text
	switch {
	case ref.column == c, ref.column != nil && ref.column.understood:
		return ref.column.alike(c)
	case ref.table != nil:
		for _, raw := range ref.table.raw {
			if strings.EqualFold(raw.name, name) {
				return copiedByLabel[strings.ToLower(raw.dataType)]
			}
		}
		return false
	case r.target == nil:
		return false
	}
	// The row alias of INSERT ... VALUES (...) AS new ON DUPLICATE KEY UPDATE, or the
	// target's own column beside a SELECT's.
	from := r.targetColumn(name)
	if from == nil || !from.alike(c) {
		return false
	}
	if ref.first == ref.last {
		return from == c
	}
	return r.selectStart < 0 || r.target.answersTo([]string{r.tokens[ref.last-2].text})
}
