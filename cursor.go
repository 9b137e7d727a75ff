package gormflake

import (
	"errors"
	"fmt"
	"math"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormflake/gormflake/generator"
)

// Errors of cursors and pages, wrapped with detail. Match them with errors.Is.
var (
	// ErrCursorOrder says that a statement's order and its cursor don't go
	// together: a limit without an order, or another order before the cursor's.
	ErrCursorOrder = errors.New("gormflake: cursor without its order")
	// ErrCursor says that a cursor's lag or size, or the text of a page's
	// cursor, is none.
	ErrCursor = errors.New("gormflake: invalid cursor")
)

// Cursor selects the rows beyond one id, in the order of the ids. In Clauses,
// in a scope and in gorm.G it brings its ORDER BY:
//
//	db.Clauses(gormflake.After(last)).Limit(100).Find(&orders)
//	gorm.G[Order](db, gormflake.Before(first)).Limit(100).Find(ctx)
//
// In Where it is the bare condition. There a limit without an order is
// ErrCursorOrder, since which rows it cuts off would be left to chance.
//
// A Cursor is a value: it may be kept, copied and used by many goroutines.
type Cursor struct {
	id        ID
	backward  bool
	column    string
	lag       time.Duration
	layout    generator.Layout
	hasLayout bool
}

// After is the cursor of the rows after id, without it, in ascending order.
// The zero ID is no row: After(0) starts with the first.
func After(id ID) Cursor { return Cursor{id: id} }

// Before is the cursor of the rows before id, without it, in descending order.
// The zero ID is no row: Before(0) starts with the last.
func Before(id ID) Cursor { return Cursor{id: id, backward: true} }

// Column returns the cursor over another column: "table.column", such as the
// key of a joined table, or a column of the statement's table. Its values must
// be unique within the rows selected, or a page's end would part equal ones.
func (c Cursor) Column(name string) Cursor { c.column = name; return c }

// Lag returns the cursor without the rows of the last d. An id's time is the
// time at which it was made, and its row is seen later, when its transaction
// commits: a reader that follows a table's end would step past a row that is
// committed late, and never see it. Choose d larger than the longest
// transaction, plus how far the machines' clocks are apart, plus MaxLead. Now
// is read from the plugin's clock when the statement is built. A negative d is
// ErrCursor.
func (c Cursor) Lag(d time.Duration) Cursor { c.lag = d; return c }

// In returns the cursor over ids of a layout other than the plugin's. Only Lag
// depends on it.
func (c Cursor) In(layout generator.Layout) Cursor {
	c.layout, c.hasLayout = layout, true
	return c
}

// Scope adds the cursor and its order to a statement: db.Scopes(c.Scope).
func (c Cursor) Scope(db *gorm.DB) *gorm.DB { return db.Clauses(c) }

// Statement adds the cursor and its order to a statement:
// gorm.G[T](db).Scopes(c.Statement).
func (c Cursor) Statement(stmt *gorm.Statement) { c.ModifyStatement(stmt) }

// ModifyStatement adds the cursor and its order to a statement. Of two cursors
// the first brings the order. It implements gorm.StatementModifier.
func (c Cursor) ModifyStatement(stmt *gorm.Statement) {
	orderByKey(stmt, c.column, c.backward)
	stmt.AddClause(clause.Where{Exprs: []clause.Expression{orderedCursor{c}}})
}

// Build writes the bare condition, in its own parentheses. It implements
// clause.Expression.
func (c Cursor) Build(builder clause.Builder) {
	stmt, ok := statementOf(builder)
	if !ok {
		return
	}
	_, limited := stmt.Clauses["LIMIT"]
	if len(orderColumns(stmt)) == 0 && limited {
		refuse(stmt, fmt.Errorf("%w: a limit wants an order; use Clauses or Scopes in place of Where, or add Order", ErrCursorOrder))
		return
	}
	c.build(stmt)
}

// orderedCursor is a cursor that has brought its order.
type orderedCursor struct{ Cursor }

// Build writes the condition.
func (c orderedCursor) Build(builder clause.Builder) {
	stmt, ok := statementOf(builder)
	if !ok {
		return
	}
	if batchesBackward(stmt) {
		refuse(stmt, fmt.Errorf("%w: FindInBatches goes forward from one key to the next; use After, or Before with Limit in a loop", ErrCursorOrder))
		return
	}
	c.build(stmt)
}

func (c Cursor) build(stmt *gorm.Statement) {
	column, _, err := keyColumn(stmt, c.column, true)
	if err != nil {
		refuse(stmt, err)
		return
	}
	end, err := c.end(stmt.DB)
	if err != nil {
		refuse(stmt, err)
		return
	}
	id, operator := c.id, " > "
	if c.backward {
		operator = " < "
		if id == 0 {
			id, operator = math.MaxInt64, " <= "
		}
	}
	stmt.WriteByte('(')
	stmt.WriteQuoted(column)
	stmt.WriteString(operator)
	stmt.AddVar(stmt, int64(id))
	if end != nil {
		stmt.WriteString(" AND ")
		stmt.WriteQuoted(column)
		stmt.WriteString(" < ")
		stmt.AddVar(stmt, int64(*end))
	}
	stmt.WriteByte(')')
}

// end returns the first id that the lag leaves out, nil without a lag.
func (c Cursor) end(db *gorm.DB) (*ID, error) {
	if c.lag == 0 {
		return nil, nil
	}
	if c.lag < 0 {
		return nil, fmt.Errorf("%w: Lag wants a duration of 0 or more, got %v", ErrCursor, c.lag)
	}
	source, err := sourceOf(db, c.layout, c.hasLayout)
	if err != nil {
		return nil, err
	}
	r, err := Until(source.now().Add(-c.lag)).resolve(source)
	if err != nil || (!r.hasHi && !r.empty) {
		return nil, err
	}
	return &r.hi, nil
}

// orderByKey adds ORDER BY the key, unless a cursor has already.
func orderByKey(stmt *gorm.Statement, column string, desc bool) {
	key := clause.Column{Table: clause.CurrentTable, Name: clause.PrimaryKey}
	if column != "" {
		key = clause.Column{Table: clause.CurrentTable, Name: column}
		if table, name, found := cutColumn(column); found {
			key = clause.Column{Table: table, Name: name}
		}
	}
	if columns := orderColumns(stmt); len(columns) > 0 {
		if columns[0].Column != key {
			_ = stmt.AddError(fmt.Errorf("%w: the statement is ordered already; leave out Order, or put the cursor before it", ErrCursorOrder))
		}
		return
	}
	stmt.AddClause(clause.OrderBy{Columns: []clause.OrderByColumn{{Column: key, Desc: desc}}})
}

// orderColumns returns what a statement is ordered by.
func orderColumns(stmt *gorm.Statement) []clause.OrderByColumn {
	order, ok := stmt.Clauses["ORDER BY"].Expression.(clause.OrderBy)
	switch {
	case !ok:
		return nil
	case order.Expression != nil:
		return []clause.OrderByColumn{{Column: clause.Column{Raw: true}}}
	}
	return order.Columns
}

// batchesBackward reports whether FindInBatches runs over a descending cursor:
// it orders by the key once more, ascending, and takes several rows at a time.
func batchesBackward(stmt *gorm.Statement) bool {
	limit, ok := stmt.Clauses["LIMIT"].Expression.(clause.Limit)
	if !ok || limit.Limit == nil || *limit.Limit == 1 {
		return false
	}
	columns := orderColumns(stmt)
	for i, c := range columns {
		if i > 0 && columns[0].Desc && !c.Desc && c.Column == columns[0].Column {
			return true
		}
	}
	return false
}
