package gormflake

import (
	"fmt"
	"strconv"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Vicinity selects the rows next to an id. Around makes it.
type Vicinity struct {
	id     ID
	n      int
	column string
}

// Around selects up to n rows before id, id's own row if there is one, and up
// to n rows after it, in ascending order: a message with its context.
//
//	db.Clauses(gormflake.Around(id, 25)).Where("channel_id = ?", channel).Find(&messages)
//
// The neighbours are counted in the table, among the rows that the rest of the
// statement selects, in one statement: ids leave gaps, so no arithmetic on
// them could count. A negative n is ErrCursor. The condition must stand beside
// the statement's others, not inside a group, Not or Or: that is ErrCursor too.
func Around(id ID, n int) Vicinity { return Vicinity{id: id, n: n} }

// Column returns the vicinity over another column, as Cursor.Column does.
func (v Vicinity) Column(name string) Vicinity { v.column = name; return v }

// Scope adds the vicinity and its order to a statement: db.Scopes(v.Scope).
func (v Vicinity) Scope(db *gorm.DB) *gorm.DB { return db.Clauses(v) }

// Statement adds the vicinity and its order to a statement:
// gorm.G[T](db).Scopes(v.Statement).
func (v Vicinity) Statement(stmt *gorm.Statement) { v.ModifyStatement(stmt) }

// ModifyStatement adds the vicinity and its order to a statement. It
// implements gorm.StatementModifier.
func (v Vicinity) ModifyStatement(stmt *gorm.Statement) {
	orderByKey(stmt, v.column, false)
	stmt.AddClause(clause.Where{Exprs: []clause.Expression{v}})
}

// Build writes the bare condition, in its own parentheses. It implements
// clause.Expression.
func (v Vicinity) Build(builder clause.Builder) {
	stmt, ok := statementOf(builder)
	if !ok {
		return
	}
	column, _, err := keyColumn(stmt, v.column, true)
	if err != nil {
		refuse(stmt, err)
		return
	}
	if v.n < 0 {
		refuse(stmt, fmt.Errorf("%w: Around wants 0 or more rows on each side, got %d", ErrCursor, v.n))
		return
	}
	where, _ := stmt.Clauses["WHERE"].Expression.(clause.Where)
	others, found := v.siblings(where.Exprs)
	if !found {
		refuse(stmt, fmt.Errorf("%w: Around stands inside a group, Not or Or, where it can't see what the statement selects; use it in Clauses, and put an OR beside it into a group of its own", ErrCursor))
		return
	}
	if v.n == 0 {
		clause.And(clause.Eq{Column: column, Value: int64(v.id)}).Build(stmt)
		return
	}
	stmt.WriteByte('(')
	stmt.WriteQuoted(column)
	stmt.WriteString(" >= ")
	v.edge(stmt, column, others, "MIN", " < ", " DESC")
	stmt.WriteString(" AND ")
	stmt.WriteQuoted(column)
	stmt.WriteString(" <= ")
	v.edge(stmt, column, others, "MAX", " > ", "")
	stmt.WriteByte(')')
}

// edge writes the id of the nth row on one side, or of the last there is, or
// the id itself where there is none.
func (v Vicinity) edge(stmt *gorm.Statement, column clause.Column, others []clause.Expression, extreme, operator, order string) {
	const key, derived = "gormflake_key", "gormflake_side"
	stmt.WriteString("COALESCE((SELECT " + extreme + "(" + key + ") FROM (SELECT ")
	stmt.WriteQuoted(column)
	stmt.WriteString(" AS " + key + " ")
	if _, ok := stmt.Clauses["FROM"]; ok {
		stmt.Build("FROM")
	} else {
		stmt.WriteString("FROM ")
		stmt.WriteQuoted(clause.Table{Name: clause.CurrentTable})
	}
	stmt.WriteString(" WHERE ")
	if len(others) > 0 {
		stmt.WriteByte('(')
		// Where.Build may reorder the slice that it is given.
		clause.Where{Exprs: append([]clause.Expression(nil), others...)}.Build(stmt)
		stmt.WriteString(") AND ")
	}
	stmt.WriteQuoted(column)
	stmt.WriteString(operator)
	stmt.AddVar(stmt, int64(v.id))
	stmt.WriteString(" ORDER BY ")
	stmt.WriteQuoted(column)
	stmt.WriteString(order + " LIMIT " + strconv.Itoa(v.n) + ") AS " + derived + "), ")
	stmt.AddVar(stmt, int64(v.id))
	stmt.WriteByte(')')
}

// siblings returns the conditions beside this one, and whether it was found
// among conditions that all must hold.
func (v Vicinity) siblings(exprs []clause.Expression) ([]clause.Expression, bool) {
	var others []clause.Expression
	found := false
	for _, expr := range exprs {
		if expr == clause.Expression(v) {
			found = true
			continue
		}
		if and, ok := expr.(clause.AndConditions); ok && !found {
			if rest, inside := v.siblings(and.Exprs); inside {
				found = true
				others = append(others, rest...)
				continue
			}
		}
		others = append(others, expr)
	}
	if found {
		for _, expr := range others {
			if _, ok := expr.(clause.OrConditions); ok {
				return nil, false
			}
		}
	}
	return others, found
}
