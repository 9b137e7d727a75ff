package gormflake

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"reflect"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormflake/gormflake/generator"
)

// PageArgs says which page, in the terms of the Relay cursor specification:
// First with After goes forward, Last with Before goes backward.
type PageArgs struct {
	First  int    // how many rows from the page's start; 0: not given
	After  string // an edge's cursor; "" starts at the beginning
	Last   int    // how many rows up to the page's end; 0: not given
	Before string // an edge's cursor; "" ends at the end

	Descending bool             // newest first
	Lag        time.Duration    // leave out the rows of the last while, see Cursor.Lag
	Layout     generator.Layout // for Lag; zero value: the plugin's
}

// Connection is one page.
type Connection[T any] struct {
	Edges    []Edge[T] `json:"edges"`
	PageInfo PageInfo  `json:"pageInfo"`
}

// Edge is a row and its cursor.
type Edge[T any] struct {
	Node   T      `json:"node"`
	Cursor string `json:"cursor"`
}

// PageInfo says where a page lies. Both flags are exact: they say whether
// there are rows on that side when the page is read.
type PageInfo struct {
	HasNextPage     bool   `json:"hasNextPage"`
	HasPreviousPage bool   `json:"hasPreviousPage"`
	StartCursor     string `json:"startCursor,omitempty"` // of the first edge
	EndCursor       string `json:"endCursor,omitempty"`   // of the last edge
}

// Nodes returns the rows without their cursors.
func (c *Connection[T]) Nodes() []T {
	nodes := make([]T, len(c.Edges))
	for i, e := range c.Edges {
		nodes[i] = e.Node
	}
	return nodes
}

// Page reads one page of the rows that db selects, ordered by the snowflake
// key of T. Pages hang on ids and not on offsets, so rows that come or go in
// the meantime neither repeat nor hide others:
//
//	page, err := gormflake.Page[Order](ctx, db.Where("paid"), gormflake.PageArgs{First: 20, After: cursor})
//
// db may carry conditions, joins and preloads, and must carry neither an order
// nor a limit (ErrCursorOrder). Exactly one of First and Last must be given,
// from 1 to math.MaxInt32-1, and cursors must be those of edges (ErrCursor).
// A page takes one query, and one more for each side that a cursor cuts off.
func Page[T any](ctx context.Context, db *gorm.DB, args PageArgs) (*Connection[T], error) {
	p, err := newPager[T](ctx, db, args)
	if err != nil {
		return nil, err
	}
	rows, more, err := p.rows()
	if err != nil {
		return nil, err
	}
	page := &Connection[T]{Edges: make([]Edge[T], len(rows))}
	for i, row := range rows {
		id, err := p.key(ctx, row)
		if err != nil {
			return nil, err
		}
		page.Edges[i] = Edge[T]{Node: row, Cursor: EncodeCursor(id)}
	}
	if n := len(page.Edges); n > 0 {
		page.PageInfo.StartCursor, page.PageInfo.EndCursor = page.Edges[0].Cursor, page.Edges[n-1].Cursor
	}
	next, previous := more && args.First > 0, more && args.Last > 0
	if args.Before != "" && !next {
		if next, err = p.exists(p.before, !args.Descending); err != nil {
			return nil, err
		}
	}
	if args.After != "" && !previous {
		if previous, err = p.exists(p.after, args.Descending); err != nil {
			return nil, err
		}
	}
	page.PageInfo.HasNextPage, page.PageInfo.HasPreviousPage = next, previous
	return page, nil
}

// pager reads what one page needs.
type pager[T any] struct {
	db            *gorm.DB // with the caller's conditions and the lag
	args          PageArgs
	after, before ID
	key           func(context.Context, T) (ID, error)
}

func newPager[T any](ctx context.Context, db *gorm.DB, args PageArgs) (*pager[T], error) {
	p := &pager[T]{args: args}
	if n := args.First + args.Last; args.First < 0 || args.Last < 0 || n < 1 || n >= math.MaxInt32 || (args.First > 0 && args.Last > 0) {
		return nil, fmt.Errorf("%w: want either First or Last, from 1 to %d, got First %d and Last %d", ErrCursor, math.MaxInt32-1, args.First, args.Last)
	}
	var err error
	if args.After != "" {
		if p.after, err = DecodeCursor(args.After); err != nil {
			return nil, err
		}
	}
	if args.Before != "" {
		if p.before, err = DecodeCursor(args.Before); err != nil {
			return nil, err
		}
	}
	p.db = db.Session(&gorm.Session{Context: ctx})
	if err := refuseOrdered(p.db.Statement); err != nil {
		return nil, err
	}
	p.db = p.db.Model(new(T))
	if args.Lag != 0 {
		end, err := Cursor{lag: args.Lag, layout: args.Layout, hasLayout: args.Layout != generator.Layout{}}.end(db)
		if err != nil {
			return nil, err
		}
		if end != nil {
			p.db = beside(p.db, keyCondition{operator: " < ", id: *end})
		}
	}
	p.db = p.db.Session(&gorm.Session{})
	stmt := &gorm.Statement{DB: db}
	if err := stmt.Parse(new(T)); err != nil {
		return nil, fmt.Errorf("gormflake: page: %w", err)
	}
	field, err := primaryKey(db, stmt.Schema, true, pageAdvice)
	if err != nil {
		return nil, err
	}
	p.key = func(ctx context.Context, row T) (ID, error) {
		v, zero := field.ValueOf(ctx, reflect.Indirect(reflect.ValueOf(row)))
		if zero {
			return 0, fmt.Errorf("%w: a row of the page has no %s; add the key to Select", ErrCursor, field.DBName)
		}
		rv := reflect.Indirect(reflect.ValueOf(v))
		if rv.CanUint() {
			return ID(rv.Uint()), nil //nolint:gosec // a snowflake id has 63 bits
		}
		return ID(rv.Int()), nil
	}
	return p, nil
}

// rows returns the page's rows, and whether there are more beyond its open
// side.
func (p *pager[T]) rows() ([]T, bool, error) {
	tx, n := p.db, p.args.First+p.args.Last
	after, before := " > ", " < "
	if p.args.Descending {
		after, before = before, after
	}
	if p.args.After != "" {
		tx = beside(tx, keyCondition{operator: after, id: p.after})
	}
	if p.args.Before != "" {
		tx = beside(tx, keyCondition{operator: before, id: p.before})
	}
	var rows []T
	if err := lastly(tx, first(n+1, p.args.Descending != (p.args.Last > 0))).Find(&rows).Error; err != nil {
		return nil, false, err
	}
	more := len(rows) > n
	rows = rows[:min(n, len(rows))]
	if p.args.Last > 0 {
		slices.Reverse(rows)
	}
	return rows, more, nil
}

// first is a scope of the first n rows by the key.
func first(n int, desc bool) func(*gorm.DB) *gorm.DB {
	return func(db *gorm.DB) *gorm.DB {
		if err := refuseOrdered(db.Statement); err != nil { // by a scope, which runs only now
			_ = db.AddError(err)
		}
		return db.Order(clause.OrderByColumn{
			Column: clause.Column{Table: clause.CurrentTable, Name: clause.PrimaryKey}, Desc: desc,
		}).Limit(n)
	}
}

func refuseOrdered(stmt *gorm.Statement) error {
	if shaped(stmt) == "" {
		return nil
	}
	return fmt.Errorf("%w: a page brings its own order and limit; leave out Order, Limit and Offset", ErrCursorOrder)
}

// exists reports whether there is a row at id or beyond it, on the side of
// larger ids if upward.
func (p *pager[T]) exists(id ID, upward bool) (bool, error) {
	operator := " <= "
	if upward {
		operator = " >= "
	}
	tx := beside(p.db.Session(&gorm.Session{SkipHooks: true}), keyCondition{operator: operator, id: id}).Limit(1)
	tx.Statement.Preloads = map[string][]any{}
	var rows []T
	err := tx.Find(&rows).Error
	return len(rows) > 0, err
}

// keyCondition compares the model's key with an id.
type keyCondition struct {
	operator string
	id       ID
}

// Build writes the condition.
func (k keyCondition) Build(builder clause.Builder) {
	stmt, ok := statementOf(builder)
	if !ok {
		return
	}
	column, _, err := keyColumn(stmt, "", true)
	if err != nil {
		refuse(stmt, err)
		return
	}
	stmt.WriteQuoted(column)
	stmt.WriteString(k.operator)
	stmt.AddVar(stmt, int64(k.id))
}

// A page's cursor is the base64 form of a version, the id and a checksum, so
// that clients don't compute with it and a mangled one is found out.
const (
	cursorVersion  = 1
	cursorChecksum = 3
	cursorLength   = 1 + 8 + cursorChecksum
)

// EncodeCursor returns the opaque cursor of an id, as Page gives it: 16
// characters that need no escaping in a URL. It hides nothing.
func EncodeCursor(id ID) string {
	b := make([]byte, 0, cursorLength+1)
	b = append(b, cursorVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(id)) //nolint:gosec // bits, not a number
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b[:cursorLength])
}

// DecodeCursor returns the id of a cursor that EncodeCursor made. Any other
// text is ErrCursor.
func DecodeCursor(cursor string) (ID, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) != cursorLength || b[0] != cursorVersion {
		return 0, fmt.Errorf("%w: want the cursor of an edge, got %.40q", ErrCursor, cursor)
	}
	id := ID(binary.BigEndian.Uint64(b[1:])) //nolint:gosec // bits, not a number
	if id < 0 || EncodeCursor(id) != cursor {
		return 0, fmt.Errorf("%w: the cursor %q is damaged", ErrCursor, cursor)
	}
	return id, nil
}
