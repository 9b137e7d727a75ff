package migrate

import "strings"

// slotUse tells what a placeholder is for.
type slotUse uint8

const (
	unproven slotUse = iota // nothing is known
	foreign                 // it belongs to a column that holds no boolean
	assigned                // the value of a column in INSERT or UPDATE
	compared                // it stands in a comparison
)

// slot is a placeholder of a statement.
type slot struct {
	use    slotUse
	column *column
	test   *comparison // of a compared one; the members of an IN list share it
	reason string      // why it is unproven
}

// comparison is a column compared with one value or with the members of a list.
type comparison struct {
	column     *column
	start, end int    // byte offsets of the whole predicate
	subject    string // the column as written
	operator   string // "=", "<>", "<=>", "IN", "NOT IN"
	values     string // the right side as written: "?", or the content of the list
	negated    bool   // the predicate stands under an odd number of NOTs
	list       bool
}

// output is an item of the outermost SELECT or RETURNING list.
type output struct {
	name   string  // the alias, or the column's name; "" for other expressions
	column *column // nil if it is no boolean
	opaque bool    // an expression: its origin isn't known
	star   bool

	first, end int // its tokens, the alias included
}

// plan is all that can be said of a statement before its arguments are known.
type plan struct {
	generation   uint64
	declarations uint64
	tables       []*table // the tables of the statement that exist
	watched      bool     // some table of it needs the codec in any case
	encodes      bool     // some table of it needs the codec if a bool is bound
	slots        []slot
	mentions     *column // a legacy column that the statement names; nil if none
	mistake      *UnprovenBoolError
	outputs      []output
	aligned      bool // outputs has no star: it follows the result's columns
	writes       bool
	tuples       int // of an INSERT ... VALUES
}

// lookupFunc finds a table; nil for one that isn't known.
type lookupFunc func(database, name string) (*table, error)

// analyse parses the statement. A nil plan means that it can't hold a boolean.
func analyse(sql string, ansiQuotes, noBackslash bool, covered func([]tableRef) bool, lookup lookupFunc) (*plan, error) {
	tokens, ok := tokenize(sql, ansiQuotes, noBackslash)
	if !ok {
		return nil, nil
	}
	s, ok := parseStatement(tokens)
	if !ok {
		return nil, nil
	}
	any := false
	for _, sc := range s.scopes {
		any = any || covered(sc.refs)
	}
	if !any {
		return nil, nil
	}
	r := &resolver{statement: s, sql: sql, plan: &plan{writes: s.verb != "SELECT"}, known: map[*scope][]knownTable{}}
	for _, sc := range s.scopes {
		for _, ref := range sc.refs {
			k := knownTable{ref: ref}
			if !ref.derived {
				t, err := lookup(ref.database, ref.name)
				if err != nil {
					return nil, err
				}
				if t != nil && t.exists {
					k.table = t
					r.plan.tables = append(r.plan.tables, t)
					r.plan.watched = r.plan.watched || t.watched
					r.plan.encodes = r.plan.encodes || t.encodes
				}
			}
			r.known[sc] = append(r.known[sc], k)
		}
	}
	if r.plan.encodes {
		r.run()
	}
	return r.plan, nil
}

type knownTable struct {
	ref   tableRef
	table *table // nil if unknown or derived
}

type resolver struct {
	*statement
	sql   string
	plan  *plan
	known map[*scope][]knownTable
	cols  map[int]columnRef // by the index of their last token
	begin map[int]int       // the index of a column's first token to that of its last
}

// columnRef is a column as a statement names it.
type columnRef struct {
	first, last int
	column      *column
	table       *table // that has it; nil if that isn't known
	foreign     bool   // it is proven to hold no boolean
}

func (r *resolver) run() {
	if r.several {
		r.unprovable()
		return
	}
	r.columns()
	item, tuples := r.valueItems()
	r.plan.tuples = tuples
	lists := map[int]*comparison{}
	for i, t := range r.tokens {
		if t.kind == tokenPlaceholder {
			r.plan.slots = append(r.plan.slots, r.slot(i, item, lists))
		}
	}
	r.list()
	r.mistakes(item)
	r.assignments()
	r.truths()
}

// unprovable is for several statements in one text, which share no scope.
func (r *resolver) unprovable() {
	for _, t := range r.plan.tables {
		for _, c := range t.booleans {
			if c.sees() && (r.plan.mentions == nil || c.name < r.plan.mentions.name) {
				r.plan.mentions = c
			}
		}
	}
	for _, t := range r.tokens {
		if t.kind == tokenPlaceholder {
			r.plan.slots = append(r.plan.slots, slot{reason: "the text holds several statements"})
		}
	}
}

// columns finds every column reference and resolves those whose name is a boolean
// column of some table.
func (r *resolver) columns() {
	r.cols, r.begin = map[int]columnRef{}, map[int]int{}
	for i := 0; i < len(r.tokens); i++ {
		if !r.tokens[i].identifier() || r.tokens[i].isAny(reserved) {
			continue
		}
		first, parts := i, []string{r.tokens[i].text}
		for i+2 < len(r.tokens) && r.tokens[i+1].is(".") && r.tokens[i+2].identifier() {
			i += 2
			parts = append(parts, r.tokens[i].text)
		}
		if i+1 < len(r.tokens) && r.tokens[i+1].is("(") || r.places[first].clause == inFrom || len(parts) > 3 {
			continue // a function or a table
		}
		ref := columnRef{first: first, last: i}
		if ref.table = r.resolve(r.places[first].scope, parts); ref.table != nil {
			ref.column = ref.table.booleans[strings.ToLower(r.tokens[i].text)]
			ref.foreign = ref.column == nil
		}
		if ref.column != nil && ref.column.sees() && r.plan.mentions == nil {
			r.plan.mentions = ref.column
		}
		r.cols[i], r.begin[first] = ref, i
	}
	if r.target != nil {
		for _, name := range r.insertColumns {
			if c := r.targetColumn(name); c != nil && c.sees() && r.plan.mentions == nil {
				r.plan.mentions = c
			}
		}
		if t := r.targetTable(); r.insertColumns == nil && t != nil && t.watched {
			for _, c := range t.booleans {
				if c.sees() && (r.plan.mentions == nil || c.name < r.plan.mentions.name) {
					r.plan.mentions = c
				}
			}
		}
	}
}

// resolve finds the table of the column that parts name within scope. It is nil for
// the alias of an expression, and for a column of a derived table.
func (r *resolver) resolve(sc *scope, parts []string) *table {
	name := strings.ToLower(parts[len(parts)-1])
	for ; sc != nil; sc = sc.parent {
		unknown := false
		for _, k := range r.known[sc] {
			if len(parts) > 1 && !k.ref.answersTo(parts[:len(parts)-1]) {
				continue
			}
			switch {
			case k.table == nil && len(parts) > 1:
				return nil // a derived table, or one that isn't known
			case k.table == nil:
				unknown = true
			case k.table.names[name]:
				// Were there another column of that name, the server would refuse
				// the statement as ambiguous.
				return k.table
			}
		}
		if unknown {
			return nil
		}
	}
	return nil
}

// answersTo reports whether the reference is what a column's qualifier means.
func (t tableRef) answersTo(qualifier []string) bool {
	q := qualifier[len(qualifier)-1]
	if t.alias != "" {
		return len(qualifier) == 1 && strings.EqualFold(t.alias, q)
	}
	if !strings.EqualFold(t.name, q) {
		return false
	}
	return len(qualifier) == 1 || t.database == "" || strings.EqualFold(t.database, qualifier[0])
}

func (r *resolver) targetTable() *table {
	for _, k := range r.known[r.scopes[0]] {
		if k.ref == *r.target {
			return k.table
		}
	}
	return nil
}

func (r *resolver) targetColumn(name string) *column {
	if t := r.targetTable(); t != nil {
		return t.booleans[strings.ToLower(name)]
	}
	return nil
}

// items are the numbers of the items of tuples, by token, from 1 on; 0 is none.
type items []int32

func (it items) at(i int) (n int, ok bool) {
	if i >= len(it) || it[i] == 0 {
		return 0, false
	}
	return int(it[i]) - 1, true
}

// valueItems yields, for each token right within a tuple of an INSERT's VALUES,
// the number of its item, and the number of tuples.
func (r *resolver) valueItems() (item items, tuples int) {
	if r.target == nil {
		return nil, 0
	}
	item = make(items, len(r.tokens))
	counts := make(items, len(r.tokens)) // by bracket
	for i, t := range r.tokens {
		pl := r.places[i]
		if pl.clause != inValues {
			continue
		}
		if t.is("(") && pl.paren < 0 {
			tuples++
		}
		if pl.paren < 0 || r.places[pl.paren].paren >= 0 || r.places[pl.paren].clause != inValues || r.tokens[pl.paren-1].kind == tokenWord && !r.tokens[pl.paren-1].is("VALUES") && !r.tokens[pl.paren-1].is("VALUE") {
			continue
		}
		if t.is(",") {
			counts[pl.paren]++
			continue
		}
		item[i] = counts[pl.paren] + 1
	}
	return item, tuples
}

// at is the token i; a symbol without text outside of the statement.
func (r *resolver) at(i int) token {
	if i < 0 || i >= len(r.tokens) {
		return token{kind: tokenSymbol}
	}
	return r.tokens[i]
}

var (
	reserved = set("AND", "OR", "NOT", "XOR", "WHERE", "ON", "HAVING", "SET", "WHEN", "THEN", "ELSE", "CASE", "END", "SELECT", "DISTINCT", "BY", "IN", "IS", "NULL", "TRUE", "FALSE", "BETWEEN", "LIKE", "FROM", "JOIN", "LEFT", "RIGHT", "INNER", "CROSS", "NATURAL", "GROUP", "ORDER", "LIMIT", "UNION", "AS", "VALUES", "INSERT", "UPDATE", "DELETE", "REPLACE", "INTO", "EXISTS", "DIV", "MOD", "BINARY", "COLLATE", "INTERVAL", "REGEXP", "RLIKE", "FOR", "ASC", "DESC", "USING", "DEFAULT")

	// before and after are what may stand on either side of a comparison, so that
	// nothing else takes part in it.
	before = set("(", ",", "AND", "OR", "XOR", "NOT", "WHERE", "ON", "HAVING", "WHEN", "THEN", "ELSE", "SELECT", "DISTINCT", "BY", "RETURNING", "&&")
	after  = set(")", ",", ";", "", "AND", "OR", "XOR", "&&", "THEN", "WHEN", "ELSE", "END", "GROUP", "ORDER", "LIMIT", "HAVING", "WHERE", "FOR", "LOCK", "UNION", "EXCEPT", "INTERSECT", "ON", "LEFT", "RIGHT", "INNER", "CROSS", "NATURAL", "JOIN", "STRAIGHT_JOIN", "AS", "RETURNING", "WINDOW", "PROCEDURE", "INTO", "ASC", "DESC", "SET", "FROM")

	equality = set("=", "<>", "!=", "<=>")
)

// slot works out what the placeholder at token i is for.
func (r *resolver) slot(i int, item items, lists map[int]*comparison) slot {
	if n, ok := item.at(i); ok {
		return r.tupleSlot(i, n)
	}
	// column = ?
	if r.at(i - 1).isAny(equality) {
		if ref, ok := r.cols[i-2]; ok {
			return r.comparison(ref, i-1, i, false)
		}
		return slot{reason: "what it is compared with or assigned to is no plain column"}
	}
	// ? = column
	if r.at(i + 1).isAny(equality) {
		if last, ok := r.begin[i+2]; ok {
			return r.comparison(r.cols[last], i+1, i, true)
		}
		return slot{reason: "what it is compared with is no plain column"}
	}
	if open := r.places[i].paren; open >= 0 {
		return r.member(open, lists)
	}
	return slot{reason: "it is neither compared with a column nor assigned to one"}
}

// tupleSlot is for a placeholder in INSERT ... VALUES (...).
func (r *resolver) tupleSlot(i, n int) slot {
	if !(r.at(i-1).is("(") || r.at(i-1).is(",")) || !(r.at(i+1).is(")") || r.at(i+1).is(",")) {
		return slot{reason: "it is part of an expression"}
	}
	if n >= len(r.insertColumns) {
		return slot{reason: "the INSERT has no list of columns"}
	}
	if c := r.targetColumn(r.insertColumns[n]); c != nil {
		return slot{use: assigned, column: c}
	}
	return slot{use: foreign}
}

// comparison is for a placeholder i with an operator and a column beside it.
func (r *resolver) comparison(ref columnRef, operator, i int, flipped bool) slot {
	first, last := ref.first, i
	if flipped {
		first, last = i, ref.last
	}
	if !r.at(last+1).isAny(after) || r.at(last+1).is("AS") && r.places[i].clause == inOn {
		return slot{reason: "it is part of a longer expression"}
	}
	pl := r.places[i]
	// UPDATE t SET column = ?
	if pl.clause == inSet && pl.paren < 0 && !flipped && r.at(operator).is("=") && (r.at(first-1).is(",") || r.at(first-1).is("SET") || r.at(first-1).is("UPDATE")) {
		col := ref.column
		if r.target != nil {
			col = r.targetColumn(r.tokens[ref.last].text)
			return provenSlot(slot{use: assigned, column: col}, col == nil)
		}
		if col == nil && !ref.foreign {
			return slot{reason: "its column's table isn't known"}
		}
		return provenSlot(slot{use: assigned, column: col}, ref.foreign)
	}
	if !r.at(first-1).isAny(before) || r.inBetween(first-1) {
		return slot{reason: "it is part of a longer expression"}
	}
	if ref.column == nil {
		if ref.foreign {
			return slot{use: foreign}
		}
		return slot{reason: "its column's table isn't known"}
	}
	op := r.tokens[operator].text
	if op == "!=" {
		op = "<>"
	}
	return slot{use: compared, column: ref.column, test: &comparison{
		column: ref.column, start: r.tokens[first].start, end: r.tokens[last].end,
		subject: r.sql[r.tokens[ref.first].start:r.tokens[ref.last].end], operator: op, values: "?",
		negated: pl.negated != r.at(first-1).is("NOT"),
	}}
}

func provenSlot(s slot, isForeign bool) slot {
	if isForeign {
		return slot{use: foreign}
	}
	return s
}

// inBetween reports whether the AND at token i belongs to a BETWEEN.
func (r *resolver) inBetween(i int) bool {
	if !r.at(i).is("AND") {
		return false
	}
	for j := i - 1; j >= 0; j-- {
		if r.places[j].paren != r.places[i].paren {
			continue
		}
		switch t := r.tokens[j]; {
		case t.is("BETWEEN"):
			return true
		case t.is("AND"), t.is("OR"), t.is("XOR"), t.is("WHERE"), t.is("ON"), t.is("HAVING"), t.is("WHEN"), t.is("("), t.is(","):
			return false
		}
	}
	return false
}

// member is for a placeholder in column [NOT] IN (?, ...).
func (r *resolver) member(open int, lists map[int]*comparison) slot {
	if test, ok := lists[open]; ok {
		if test == nil {
			return slot{reason: "its list isn't compared with a plain column"}
		}
		return listSlot(test)
	}
	lists[open] = nil
	if !r.at(open - 1).is("IN") {
		return slot{reason: "it is neither compared with a column nor assigned to one"}
	}
	at, op := open-2, "IN"
	if r.at(at).is("NOT") {
		at, op = at-1, "NOT IN"
	}
	ref, ok := r.cols[at]
	if !ok {
		return slot{reason: "its list isn't compared with a plain column"}
	}
	end := open + 1
	for ; end < len(r.tokens) && !(r.tokens[end].is(")") && r.places[end].paren == open); end++ {
		if t := r.tokens[end]; t.kind == tokenSymbol && !t.is(",") || t.identifier() {
			return slot{reason: "its list holds expressions"}
		}
	}
	if end == len(r.tokens) || !r.at(end+1).isAny(after) || !r.at(ref.first-1).isAny(before) || r.inBetween(ref.first-1) {
		return slot{reason: "it is part of a longer expression"}
	}
	lists[open] = &comparison{
		column: ref.column, start: r.tokens[ref.first].start, end: r.tokens[end].end,
		subject: r.sql[r.tokens[ref.first].start:r.tokens[ref.last].end], operator: op,
		values: r.sql[r.tokens[open].end:r.tokens[end].start], list: true,
		negated: r.places[ref.first].negated != r.at(ref.first-1).is("NOT"),
	}
	if ref.column == nil && !ref.foreign {
		lists[open] = nil
		return slot{reason: "its column's table isn't known"}
	}
	return listSlot(lists[open])
}

func listSlot(test *comparison) slot {
	if test.column == nil {
		return slot{use: foreign}
	}
	return slot{use: compared, column: test.column, test: test}
}
