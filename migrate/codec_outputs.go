package migrate

// list reads the outermost SELECT or RETURNING list, to know where each column of
// the result comes from.
func (r *resolver) list() {
	start := r.returnStart
	if start < 0 {
		start = r.selectStart
	}
	if start < 0 || r.union {
		return
	}
	for start < len(r.tokens) && r.tokens[start].isAny(selectPrefix) {
		start++
	}
	r.plan.aligned = true
	level := r.level(start)
	first := start
	for i := start; ; i++ {
		end := i >= len(r.tokens)
		if !end && r.level(i) > level {
			continue
		}
		closed := end || r.level(i) < level || r.tokens[i].is(")") ||
			r.tokens[i].kind == tokenWord && (r.tokens[i].is("FROM") || r.tokens[i].is("INTO") || r.tokens[i].is("UNION") || r.tokens[i].is("LIMIT") || r.tokens[i].is("WHERE") || r.tokens[i].is("ORDER"))
		if closed || r.tokens[i].is(",") {
			if i > first {
				o := r.output(first, i)
				o.first, o.end = first, i
				r.plan.outputs = append(r.plan.outputs, o)
			}
			first = i + 1
		}
		if closed {
			break
		}
	}
	for _, o := range r.plan.outputs {
		if o.star {
			r.plan.aligned = false
		}
	}
}

// level is the number of brackets around token i.
func (r *resolver) level(i int) int {
	if i >= len(r.tokens) {
		return 0
	}
	n := 0
	for p := r.places[i].paren; p >= 0; p = r.places[p].paren {
		n++
	}
	return n
}

// output reads the item of tokens first to end.
func (r *resolver) output(first, end int) output {
	if r.at(end - 1).is("*") {
		return output{star: true}
	}
	if r.at(first).isAny(passing) && r.at(first+1).is("(") {
		return r.passed(first, end)
	}
	last, plain := r.begin[first]
	ref := r.cols[last]
	switch {
	case plain && last == end-1:
		return output{name: r.tokens[last].text, column: ref.column, opaque: ref.column == nil && !ref.foreign}
	case plain && last == end-2 && r.at(end-1).identifier(),
		plain && last == end-3 && r.at(end-2).is("AS"):
		name := r.tokens[end-1].text
		if r.tokens[end-1].kind == tokenString {
			name = r.text(end - 1)
			name = name[1 : len(name)-1]
		}
		return output{name: name, column: ref.column, opaque: ref.column == nil && !ref.foreign}
	}
	return output{opaque: true}
}

// passing are the functions that yield one of their arguments, the first among
// them.
var passing = set("MAX", "MIN", "COALESCE", "IFNULL", "ANY_VALUE")

// passed reads an item such as MAX(column) AS name.
func (r *resolver) passed(first, end int) output {
	closing := first + 2
	for closing < end && !(r.tokens[closing].is(")") && r.level(closing) == r.level(first)+1) {
		closing++
	}
	last, ok := r.begin[first+2]
	rest := end - closing - 1
	if !ok || !(r.at(last+1).is(",") || last+1 == closing) || rest > 2 || rest == 2 && !r.at(end-2).is("AS") {
		return output{opaque: true}
	}
	ref := r.cols[last]
	if ref.column == nil {
		return output{opaque: true}
	}
	return output{name: r.tokens[end-1].text, column: ref.column}
}
