package migrate

import "strings"

// clause is the part of a statement that a token stands in.
type clauseKind uint8

const (
	inOther clauseKind = iota
	inSelect
	inFrom
	inOn
	inWhere
	inSet
	inValues
	inReturning
)

// tableRef is a table as a statement names it.
type tableRef struct {
	database, name, alias string
	derived               bool // a subquery or a common table expression: its columns aren't known
}

// scope is a SELECT with its tables, or the whole of an INSERT, UPDATE, DELETE.
type scope struct {
	parent *scope
	refs   []tableRef
	common []string // the names of its common table expressions
}

// place is where a token stands.
type place struct {
	scope  *scope
	clause clauseKind
	paren  int // the index of the bracket around it, or -1
	// negated holds when an odd number of NOTs stands around it, as far as brackets show.
	negated bool
}

// statement is a parsed SELECT, INSERT, REPLACE, UPDATE, DELETE or WITH.
type statement struct {
	tokens        []token
	places        []place
	scopes        []*scope
	verb          string
	target        *tableRef // of an INSERT or REPLACE
	insertColumns []string  // of an INSERT with a column list
	selectStart   int       // the first token of the outermost SELECT list, or -1
	returnStart   int       // the first token of a RETURNING list, or -1
	union         bool      // the outermost level has several SELECTs
	several       bool      // a semicolon is followed by more
}

// frame is a level of brackets while parsing.
type frame struct {
	scope   *scope
	clause  clauseKind
	paren   int
	query   bool // the level is a statement or subquery, not a mere bracket
	expect  bool // a table's name comes next
	selects int  // SELECTs seen at this level
	derived bool // the bracket stands where a table is expected
	tables  bool // the bracket holds a join, so that a comma separates tables
	negated bool
}

var (
	verbs        = set("SELECT", "INSERT", "REPLACE", "UPDATE", "DELETE", "WITH")
	skipped      = set("INTO", "IGNORE", "LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "LATERAL", "ONLY")
	notAnAlias   = set("ON", "USING", "WHERE", "SET", "JOIN", "LEFT", "RIGHT", "INNER", "CROSS", "NATURAL", "STRAIGHT_JOIN", "FULL", "OUTER", "GROUP", "ORDER", "HAVING", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "FOR", "LOCK", "PARTITION", "USE", "FORCE", "IGNORE", "VALUES", "VALUE", "SELECT", "AS", "WINDOW", "PROCEDURE", "RETURNING", "OFFSET", "FETCH", "DUPLICATE")
	selectPrefix = set("DISTINCT", "ALL", "DISTINCTROW", "HIGH_PRIORITY", "STRAIGHT_JOIN", "SQL_NO_CACHE", "SQL_CACHE", "SQL_CALC_FOUND_ROWS", "SQL_SMALL_RESULT", "SQL_BIG_RESULT", "SQL_BUFFER_RESULT")
)

func set(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}

// parseStatement finds the tables of a statement and where each token stands. ok
// is false for DDL and everything else that holds no boolean.
func parseStatement(tokens []token) (s *statement, ok bool) {
	first := 0
	for first < len(tokens) && tokens[first].is("(") {
		first++
	}
	if first == len(tokens) || !tokens[first].isAny(verbs) {
		return nil, false
	}
	p := &parser{statement: statement{tokens: tokens, places: make([]place, len(tokens)), verb: tokens[first].upper, selectStart: -1, returnStart: -1}, outermost: first + 1}
	p.push(frame{scope: p.newScope(nil), paren: -1, query: true})
	for p.i = 0; p.i < len(tokens); p.i++ {
		f := p.top()
		p.places[p.i] = place{scope: f.scope, clause: f.clause, paren: f.paren, negated: f.negated}
		p.step(f, tokens[p.i])
	}
	return &p.statement, true
}

type parser struct {
	statement
	frames    []frame
	outermost int // the level of the statement itself: 1, or more within brackets
	i         int
}

func (p *parser) push(f frame) { p.frames = append(p.frames, f) }
func (p *parser) top() *frame  { return &p.frames[len(p.frames)-1] }

func (p *parser) newScope(parent *scope) *scope {
	s := &scope{parent: parent}
	p.scopes = append(p.scopes, s)
	return s
}

// peek is the token n places on; a zero token behind the end.
func (p *parser) peek(n int) token {
	if i := p.i + n; i >= 0 && i < len(p.tokens) {
		return p.tokens[i]
	}
	return token{kind: tokenSymbol}
}

func (p *parser) step(f *frame, t token) {
	switch {
	case t.is(";"):
		p.several = p.several || p.i+1 < len(p.tokens)
	case t.is("("):
		p.open(f)
		return
	case t.is(")"):
		p.close()
		return
	case f.expect && t.identifier() && !t.isAny(skipped) && !t.is("SELECT"):
		p.table(f)
		return
	case t.is(",") && (f.query || f.tables) && (f.clause == inFrom || f.clause == inOn):
		f.expect, f.clause = true, inFrom
		return
	}
	if t.kind != tokenWord || p.peek(-1).is(".") {
		return
	}
	switch t.upper {
	case "JOIN", "STRAIGHT_JOIN":
		if f.clause == inFrom || f.clause == inOn {
			f.expect, f.clause = true, inFrom
		}
	case "ON":
		if p.peek(1).is("DUPLICATE") {
			f.clause = inSet
			p.skip(3) // DUPLICATE KEY UPDATE
		} else if f.clause == inFrom {
			f.clause = inOn
		}
	}
	if !f.query {
		return
	}
	switch t.upper {
	case "SELECT":
		p.selectList(f)
	case "UNION", "EXCEPT", "INTERSECT":
		f.clause = inOther
		p.union = p.union || len(p.frames) == 1
	case "FROM":
		f.expect, f.clause = true, inFrom
	case "UPDATE":
		if !p.peek(-1).is("FOR") {
			f.expect, f.clause = true, inFrom
		}
	case "INSERT", "REPLACE":
		if p.peek(1).is("(") { // the functions of these names
			return
		}
		f.expect = true
	case "USING":
		if p.peek(1).identifier() {
			f.expect, f.clause = true, inFrom
		}
	case "WITH":
		p.withNames(f)
	case "WHERE", "HAVING":
		f.clause = inWhere
	case "SET":
		f.clause = inSet
	case "VALUES", "VALUE":
		if f.clause != inSet {
			f.clause = inValues
		}
	case "GROUP", "ORDER", "LIMIT", "FOR", "LOCK", "WINDOW", "PROCEDURE":
		f.clause = inOther
	case "RETURNING":
		f.clause = inReturning
		if len(p.frames) == 1 {
			p.returnStart = p.i + 1
		}
	}
}

// open enters a bracket: a subquery with a scope of its own, or a mere bracket.
func (p *parser) open(f *frame) {
	negated := f.negated != (p.peek(-1).is("NOT") || p.peek(-1).is("!") ||
		p.peek(-2).is("NOT") && (p.peek(-1).is("EXISTS") || p.peek(-1).is("IN")))
	next := frame{scope: f.scope, clause: f.clause, paren: p.i, negated: negated}
	inner := 1
	for p.peek(inner).is("(") {
		inner++
	}
	if p.peek(inner).is("SELECT") || p.peek(inner).is("WITH") {
		next.query, next.clause = true, inOther
		next.derived = f.expect
		f.expect = false
		parent := f.scope
		if next.derived {
			parent = f.scope.parent // a derived table doesn't see its neighbours
		}
		next.scope = p.newScope(parent)
	} else if f.expect { // FROM (a JOIN b ...)
		next.expect, next.tables, f.expect = true, true, false
	}
	p.push(next)
}

// close leaves a bracket; behind a derived table stands its alias.
func (p *parser) close() {
	if len(p.frames) == 1 {
		return // more closed than opened: the server will say so
	}
	left := *p.top()
	p.frames = p.frames[:len(p.frames)-1]
	f := p.top()
	if left.derived {
		n := 1
		if p.peek(n).is("AS") {
			n++
		}
		if t := p.peek(n); t.identifier() && !t.isAny(notAnAlias) {
			f.scope.refs = append(f.scope.refs, tableRef{alias: t.text, derived: true})
			p.skip(n)
		} else {
			f.scope.refs = append(f.scope.refs, tableRef{derived: true})
		}
	}
}

// skip passes n tokens, which stay in the current clause.
func (p *parser) skip(n int) {
	for ; n > 0 && p.i+1 < len(p.tokens); n-- {
		p.i++
		f := p.top()
		p.places[p.i] = place{scope: f.scope, clause: f.clause, paren: f.paren, negated: f.negated}
	}
}

// table reads a table's name, its database, its alias, and the column list of an
// INSERT.
func (p *parser) table(f *frame) {
	f.expect = false
	ref := tableRef{name: p.tokens[p.i].text}
	if p.peek(1).is(".") && p.peek(2).identifier() {
		ref.database, ref.name = ref.name, p.peek(2).text
		p.skip(2)
	}
	insert := (p.verb == "INSERT" || p.verb == "REPLACE") && p.target == nil && len(p.frames) == 1
	if insert {
		p.columns()
	} else {
		n := 1
		if p.peek(n).is("AS") {
			n++
		}
		if t := p.peek(n); t.identifier() && !t.isAny(notAnAlias) {
			ref.alias = t.text
			p.skip(n)
		}
	}
	if ref.database == "" && p.isCommonTable(f.scope, ref.name) {
		ref.derived = true
	}
	f.scope.refs = append(f.scope.refs, ref)
	if insert {
		p.target = &ref
	}
}

// columns reads the column list of an INSERT, when there is one.
func (p *parser) columns() {
	if !p.peek(1).is("(") || p.peek(2).is("SELECT") || p.peek(2).is("(") || p.peek(2).is("WITH") {
		return
	}
	var names []string
	n := 2
	for ; !p.peek(n).is(")"); n++ {
		t := p.peek(n)
		if p.i+n >= len(p.tokens) {
			return
		}
		if t.identifier() && !p.peek(n+1).is(".") {
			names = append(names, t.text)
		}
	}
	p.insertColumns = names
	p.skip(n)
}

func (p *parser) selectList(f *frame) {
	f.selects++
	if f.selects > 1 || p.target != nil && len(p.frames) == 1 {
		// The next part of a UNION, or the source of an INSERT, sees other tables.
		f.scope = p.newScope(f.scope.parent)
		p.union = p.union || len(p.frames) == 1 && f.selects > 1
	}
	if p.selectStart < 0 && len(p.frames) == p.outermost {
		p.selectStart = p.i + 1
	}
	f.clause = inSelect
}

// withNames reads the names of common table expressions, so that they aren't
// taken for tables.
func (p *parser) withNames(f *frame) {
	depth := 0
	for n := 1; p.i+n < len(p.tokens); n++ {
		t := p.peek(n)
		switch {
		case t.is("("):
			depth++
		case t.is(")"):
			depth--
		case depth == 0 && t.isAny(verbs) && !t.is("WITH"):
			p.verbAfterWith(f, t)
			return
		case depth == 0 && t.identifier() && !t.is("RECURSIVE") && !t.is("AS"):
			f.scope.common = append(f.scope.common, t.text)
		}
	}
}

func (p *parser) verbAfterWith(f *frame, t token) {
	if len(p.frames) == 1 {
		p.verb = t.upper
	}
}

// isCommonTable reports whether name is a common table expression. Those of the
// outermost level are seen everywhere.
func (p *parser) isCommonTable(s *scope, name string) bool {
	for ; s != nil; s = s.parent {
		if containsFold(s.common, name) {
			return true
		}
	}
	return containsFold(p.scopes[0].common, name)
}

func containsFold(names []string, name string) bool {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}
