package migrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// objects finds what in the schema mentions one of the report's columns. Bodies
// are searched for the words, so a false find is possible; Accept overrules it.
func (s *boolSession) objects(ctx context.Context, r *BoolReport) (all []Object, err error) {
	for _, c := range r.Columns {
		all = append(all, r.create.mentionsOf(c.Name)...)
	}
	for _, find := range []func(context.Context, *BoolReport) ([]Object, error){
		s.indexes, s.incomingKeys, s.triggersOf, s.bodies,
	} {
		found, err := find(ctx, r)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Column, b.Column))
	})
	return all, nil
}

// mentionsOf reads constraints, checks, generated columns and partitions off the
// table's own text, where every server writes them.
func (c tableCreate) mentionsOf(column string) (all []Object) {
	add := func(code, name, detail string) {
		all = append(all, Object{Code: code, Name: name, Column: column, Detail: detail})
	}
	quoted := quoteName(column)
	for _, line := range c.others {
		if !strings.Contains(line, quoted) {
			continue
		}
		name, _ := cutName(line[max(0, strings.Index(line, "`")):])
		own, _, _ := strings.Cut(line, " REFERENCES ") // what it refers to is found from the other side
		switch {
		case strings.Contains(line, "FOREIGN KEY ("):
			if strings.Contains(own, quoted) {
				add("foreign-key", name, line)
			}
		case strings.Contains(line, "KEY ") && strings.Contains(line, "(("):
			add("generated", name, line) // an index on an expression
		case strings.Contains(line, " CHECK ("):
			add("check", name, line)
		}
	}
	for name, definition := range c.columns {
		outside := withoutStrings(definition)
		generated := strings.Contains(outside, " AS (")
		switch {
		case name == column && generated:
			add("generated", name, "the column is generated itself")
		case name == column && strings.Contains(outside, " CHECK ("):
			add("check", name, definition)
		case name != column && strings.Contains(outside, quoted):
			code := "check"
			if generated {
				code = "generated"
			}
			add(code, name, definition)
		}
	}
	if i := strings.Index(c.tail, "PARTITION BY"); i >= 0 {
		by, _, _ := strings.Cut(c.tail[i:], "\n(PARTITION ") // a partition may have any name
		if mentions(by, column) {
			add("partition", column, "the table is partitioned by it")
		}
	}
	return all
}

// withoutStrings blanks the string literals of a definition, so that a label or
// a comment isn't taken for SQL.
func withoutStrings(definition string) string {
	var b strings.Builder
	inside := false
	for i := range len(definition) {
		switch ch := definition[i]; {
		case ch == '\'':
			inside = !inside
		case !inside:
			b.WriteByte(ch)
		}
	}
	return b.String()
}

func (s *boolSession) indexes(ctx context.Context, r *BoolReport) (all []Object, err error) {
	found, err := s.readIndexes(ctx, r.Table)
	if err != nil {
		return nil, err
	}
	for _, ix := range found {
		for _, c := range r.Columns {
			if !ix.has(c.Name) {
				continue
			}
			code := "index"
			switch {
			case ix.Name == "PRIMARY":
				code = "primary-key"
			case ix.Unique:
				code = "unique-key"
			}
			all = append(all, Object{Code: code, Name: ix.Name, Column: c.Name, Detail: ix.definition(nil)})
		}
	}
	return all, nil
}

func (s *boolSession) incomingKeys(ctx context.Context, r *BoolReport) ([]Object, error) {
	return s.collect(ctx, r, false, `SELECT 'foreign-key', CONCAT(TABLE_SCHEMA, '.', CONSTRAINT_NAME), REFERENCED_COLUMN_NAME
		FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_SCHEMA = DATABASE() AND REFERENCED_TABLE_NAME = ?`, r.Table)
}

// triggersOf lists the table's triggers, whether they mention a column or not,
// but for our own.
func (s *boolSession) triggersOf(ctx context.Context, r *BoolReport) (all []Object, err error) {
	rows, err := s.conn.QueryContext(ctx, `SELECT TRIGGER_NAME, CONCAT(ACTION_TIMING, ' ', EVENT_MANIPULATION), ACTION_STATEMENT
		FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = ? ORDER BY TRIGGER_NAME`, r.Table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, event, body string
		if err := rows.Scan(&name, &event, &body); err != nil {
			return nil, err
		}
		if name == triggerName(r.Table, "update") || name == triggerName(r.Table, "insert") {
			continue
		}
		o, mentioned := Object{Code: "trigger", Name: name, Detail: event}, false
		for _, c := range r.Columns {
			if mentions(body, c.Name) {
				o.Column, mentioned = c.Name, true
				all = append(all, o)
			}
		}
		if !mentioned {
			all = append(all, o)
		}
	}
	return all, rows.Err()
}

// bodies searches views, routines, events and other tables' triggers for the
// table's and a column's name.
func (s *boolSession) bodies(ctx context.Context, r *BoolReport) (all []Object, err error) {
	for _, query := range []string{
		`SELECT 'view', IF(TABLE_SCHEMA = DATABASE(), TABLE_NAME, CONCAT(TABLE_SCHEMA, '.', TABLE_NAME)), VIEW_DEFINITION
			FROM information_schema.VIEWS WHERE TABLE_SCHEMA NOT IN ('sys', 'mysql', 'information_schema', 'performance_schema')`,
		`SELECT 'routine', IF(ROUTINE_SCHEMA = DATABASE(), ROUTINE_NAME, CONCAT(ROUTINE_SCHEMA, '.', ROUTINE_NAME)), IFNULL(ROUTINE_DEFINITION, '')
			FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA NOT IN ('sys', 'mysql')`,
		`SELECT 'event', IF(EVENT_SCHEMA = DATABASE(), EVENT_NAME, CONCAT(EVENT_SCHEMA, '.', EVENT_NAME)), EVENT_DEFINITION
			FROM information_schema.EVENTS`,
		`SELECT 'trigger', IF(TRIGGER_SCHEMA = DATABASE(), TRIGGER_NAME, CONCAT(TRIGGER_SCHEMA, '.', TRIGGER_NAME)), ACTION_STATEMENT
			FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA <> 'sys' AND NOT (EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = ?)`,
	} {
		args := []any{}
		if strings.Contains(query, "?") {
			args = append(args, r.Table)
		}
		found, err := s.collect(ctx, r, true, query, args...)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// collect reads (code, name, text) rows and keeps those that are about a column:
// whose text is its name, or with bodies, mentions it and the table.
func (s *boolSession) collect(ctx context.Context, r *BoolReport, bodies bool, query string, args ...any) (all []Object, err error) {
	rows, err := s.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var code, name, text string
		if err := rows.Scan(&code, &name, &text); err != nil {
			return nil, err
		}
		for _, c := range r.Columns {
			if bodies && mentions(text, r.Table) && mentions(text, c.Name) {
				all = append(all, Object{Code: code, Name: name, Column: c.Name, Detail: fmt.Sprintf("it mentions %s and %s", r.Table, c.Name)})
			}
			if !bodies && strings.EqualFold(text, c.Name) {
				all = append(all, Object{Code: code, Name: name, Column: c.Name, Detail: "it refers to " + c.Name})
			}
		}
	}
	return all, rows.Err()
}

// tableIndex is one index, with what it takes to build it again on the new columns.
type tableIndex struct {
	Name   string
	Unique bool
	Type   string // BTREE, FULLTEXT, ...
	Parts  []indexPart
}

type indexPart struct {
	Column     string
	Prefix     int64 // 0: the whole column
	Descending bool
}

func (ix tableIndex) has(column string) bool {
	for _, p := range ix.Parts {
		if p.Column == column {
			return true
		}
	}
	return false
}

// definition is the column list, with some columns replaced by others. A prefix
// belongs to a text, so a replaced column loses it.
func (ix tableIndex) definition(replace map[string]string) string {
	parts := make([]string, len(ix.Parts))
	for i, p := range ix.Parts {
		to, replaced := replace[p.Column]
		parts[i] = quoteName(cmp.Or(to, p.Column))
		if p.Prefix > 0 && !replaced {
			parts[i] += fmt.Sprintf("(%d)", p.Prefix)
		}
		if p.Descending {
			parts[i] += " DESC"
		}
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func (s *boolSession) readIndexes(ctx context.Context, table string) (all []tableIndex, err error) {
	rows, err := s.conn.QueryContext(ctx, `SELECT INDEX_NAME, NON_UNIQUE, INDEX_TYPE, IFNULL(COLUMN_NAME, ''), IFNULL(SUB_PART, 0), IFNULL(COLLATION, 'A') = 'D'
		FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY INDEX_NAME, SEQ_IN_INDEX`, table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, kind string
		var nonUnique bool
		var p indexPart
		if err := rows.Scan(&name, &nonUnique, &kind, &p.Column, &p.Prefix, &p.Descending); err != nil {
			return nil, err
		}
		if len(all) == 0 || all[len(all)-1].Name != name {
			all = append(all, tableIndex{Name: name, Unique: !nonUnique, Type: kind})
		}
		last := &all[len(all)-1]
		last.Parts = append(last.Parts, p)
	}
	return all, rows.Err()
}
