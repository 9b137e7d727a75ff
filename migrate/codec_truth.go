package migrate

import (
	"fmt"
	"strings"
)

// truths looks for columns of labels that stand where MySQL takes their truth or
// their number, which go by the label's index or its leading digits.
func (r *resolver) truths() {
	for i := range r.tokens {
		last, ok := r.begin[i]
		if !ok || r.plan.mistake != nil {
			continue
		}
		c := r.cols[last].column
		if !c.labelled() || r.renamed(r.cols[last]) {
			continue
		}
		if found := r.truth(i, last); found != "" {
			r.plan.mistake = &UnprovenBoolError{Table: c.table.name, Column: c.name, Found: found,
				Reason: fmt.Sprintf("the column is %s, and its truth and its number are by index or leading digits, not by label", c.columnType)}
		}
	}
}

var (
	comparing = set("=", "<>", "!=", "<=>", "<", ">", "<=", ">=")
	// testers go on after an operand, which AND, OR or NOT doesn't take by itself then.
	testers    = set("=", "<>", "!=", "<=>", "<", ">", "<=", ">=", "IS", "IN", "NOT", "LIKE", "BETWEEN", "REGEXP", "RLIKE", "SOUNDS", "COLLATE", "->", "->>")
	logical    = set("AND", "OR", "XOR", "&&", "||")
	arithmetic = set("+", "-", "*", "/", "%", "DIV", "MOD", "&", "|", "^", "<<", ">>", "~")

	// grouping is what may stand before a bracket that only groups.
	grouping = set("AND", "OR", "XOR", "NOT", "WHERE", "ON", "HAVING", "WHEN", "THEN", "ELSE", "CASE", "DIV", "MOD", "BETWEEN", "LIKE", "SELECT", "DISTINCT", "BY", "RETURNING")

	// numbers are the functions that take their first argument for a number.
	numbers = set("SUM", "AVG", "STD", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "VARIANCE", "VAR_POP", "VAR_SAMP", "BIT_AND", "BIT_OR", "BIT_XOR", "ABS", "SIGN", "MOD", "ELT")
)

// truth says what is wrong with the column of tokens first to last; "" if nothing.
func (r *resolver) truth(first, last int) string {
	for r.at(first-1).is("(") && r.at(last+1).is(")") && r.groups(first-1) {
		first, last = first-1, last+1
	}
	previous, next := r.at(first-1), r.at(last+1)
	switch {
	case previous.isAny(arithmetic), next.isAny(arithmetic):
		return "a bare column in arithmetic"
	case previous.is("!"),
		r.joins(last+1) && r.starts(first-1),
		(previous.is("NOT") || r.joins(first-1)) && !next.isAny(testers) && !next.is("||"),
		(previous.is("WHERE") || previous.is("HAVING") || previous.is("ON")) && next.isAny(after):
		return "a bare column as a condition"
	case previous.is("(") && r.at(first-2).is("IF") && next.is(","):
		return "a bare column as the condition of IF"
	case (next.is(")") || next.is(",")) && (previous.is("(") && r.at(first-2).isAny(numbers) ||
		previous.is("DISTINCT") && r.at(first-2).is("(") && r.at(first-3).isAny(numbers)):
		return "a bare column in a function of numbers"
	case previous.is("WHEN") && next.is("THEN"):
		if operand, end := r.caseOperand(first - 1); operand == end || r.numeric(operand, end) {
			return "a bare column as the condition of CASE"
		}
	case previous.is("CASE") && next.is("WHEN"):
		return r.caseValues(first - 1)
	}
	return r.comparedWithNumber(first, last)
}

// renamed reports whether the name is, behind HAVING or ORDER BY, that of an
// expression of the SELECT list: SUM(active = 'Y') AS active.
func (r *resolver) renamed(ref columnRef) bool {
	if ref.first != ref.last || r.places[ref.first].scope != r.scopes[0] {
		return false
	}
	behind := false
	for i := ref.first; i >= 0 && !behind; i-- {
		t := r.tokens[i]
		behind = r.places[i].paren < 0 && (t.is("HAVING") || t.is("ORDER"))
	}
	for _, o := range r.plan.outputs {
		if behind && o.opaque && r.withoutAlias(o.first, o.end) < o.end && strings.EqualFold(r.tokens[o.end-1].text, r.tokens[ref.last].text) {
			return true
		}
	}
	return false
}

// groups reports whether the bracket at token open is no function's and no list's.
func (r *resolver) groups(open int) bool {
	t := r.at(open - 1)
	return t.kind == tokenWord && t.isAny(grouping) || t.kind == tokenSymbol && !t.is(")")
}

// joins reports whether token i is an operator that takes the truth of both sides.
// With PIPES_AS_CONCAT, || isn't; a text beside it shows that.
func (r *resolver) joins(i int) bool {
	t := r.at(i)
	if t.is("||") {
		return r.at(i-1).kind != tokenString && r.at(i+1).kind != tokenString
	}
	return t.isAny(logical) && !r.inBetween(i)
}

// starts reports whether an operand of AND or OR starts behind token i.
func (r *resolver) starts(i int) bool {
	t := r.at(i)
	if t.is("AND") || t.is("||") {
		return r.joins(i)
	}
	return t.isAny(before) || t.is("CASE") || i >= 0 && r.assigns(i)
}

// numeric reports whether tokens first to end are a number, a boolean literal or a
// condition, as far as their own operators show.
func (r *resolver) numeric(first, end int) bool {
	for end-first > 2 && r.at(first).is("(") && r.closing(first) == end-1 {
		first, end = first+1, end-1
	}
	if end-first == 1 {
		return r.booleanLiteral(first)
	}
	if first >= end || r.at(first).is("SELECT") || r.at(first).is("WITH") || r.at(first).is("CASE") {
		return false
	}
	for i := first; i < end; i++ {
		t := r.tokens[i]
		if r.places[i].paren == r.places[first].paren && (t.isAny(testers) && !t.is("COLLATE") && !t.is("->") && !t.is("->>") || t.isAny(arithmetic) || t.isAny(logical) && !t.is("||") || t.is("!")) {
			return true
		}
	}
	return false
}

// caseOperand is what the CASE of the WHEN at token i compares; empty without one.
func (r *resolver) caseOperand(i int) (first, end int) {
	depth, paren := 0, r.places[i].paren
	for end = i; i > 0; {
		i--
		if r.places[i].paren != paren {
			continue
		}
		switch t := r.tokens[i]; {
		case t.is("END"):
			depth++
		case t.is("WHEN") && depth == 0:
			end = i
		case t.is("CASE") && depth == 0:
			return i + 1, end
		case t.is("CASE"):
			depth--
		}
	}
	return end, end
}

// caseValues looks for a number among what the CASE at token i compares a column with.
func (r *resolver) caseValues(i int) string {
	depth, value, paren := 0, -1, r.places[i].paren
	for ; i < len(r.tokens); i++ {
		if r.places[i].paren != paren {
			continue
		}
		switch t := r.tokens[i]; {
		case t.is("CASE"):
			depth++
		case t.is("END"):
			if depth--; depth == 0 {
				return ""
			}
		case t.is("WHEN") && depth == 1:
			value = i + 1
		case t.is("THEN") && depth == 1 && value >= 0:
			if r.numeric(value, i) {
				return r.excerpt(value, i)
			}
			value = -1
		}
	}
	return ""
}

// comparedWithNumber looks for a number or a condition on the other side of a
// comparison, in a list and in BETWEEN.
func (r *resolver) comparedWithNumber(first, last int) string {
	n := last + 1
	if r.at(n).is("NOT") {
		n++
	}
	next := r.at(n + 1)
	switch {
	case r.at(n).isAny(comparing) && r.booleanLiteral(n+1), r.at(n).is("BETWEEN") && r.booleanLiteral(n+1):
		return r.text(n + 1)
	case r.at(n).isAny(comparing) && next.is("("):
		if end := r.closing(n + 1); r.numeric(n+2, end) {
			return r.excerpt(n+2, end)
		}
	case r.at(n).is("IN") && next.is("(") && !r.at(n+2).is("SELECT") && !r.at(n+2).is("WITH"):
		for _, item := range r.arguments(n + 1) {
			if r.numeric(item[0], item[1]) {
				return r.excerpt(item[0], item[1])
			}
		}
	case r.at(first-1).isAny(comparing) && r.booleanLiteral(first-2):
		return r.text(first - 2)
	}
	return ""
}
