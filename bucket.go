package gormflake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/gormflake/gormflake/generator"
)

// ErrWidth says that a Width is none, is narrower than a tick, or makes too
// many buckets of a window.
var ErrWidth = errors.New("gormflake: invalid width")

// ErrBuckets says that a statement brings an order, a limit, a grouping or a
// DISTINCT of its own, and can't be parted into buckets.
var ErrBuckets = errors.New("gormflake: no buckets of this statement")

// How many buckets one call computes: arithmetic is cheap, the edges of a
// calendar are written into the statement.
const (
	mostFixedBuckets    = 100_000
	mostCalendarBuckets = 10_000
)

// Bucket counts the rows whose ids were made in [From, To).
type Bucket struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Count int64     `json:"count"`
}

// Aggregate is a bucket with the sum, the extremes and the mean of a column.
type Aggregate struct {
	Bucket
	Values int64    `json:"values"` // rows whose column isn't NULL
	Sum    float64  `json:"sum"`    // exact to 53 bits
	Min    *float64 `json:"min"`    // nil without values, as are Max and Avg
	Max    *float64 `json:"max"`
	Avg    *float64 `json:"avg"`
}

// CountBy counts the rows of a window per bucket, in one statement that reads
// the window's range of the primary key:
//
//	buckets, err := gormflake.CountBy(ctx, db.Model(&Order{}), gormflake.Last(24*time.Hour), gormflake.Every(time.Hour))
//
// db carries the model and may carry conditions and joins. An order, a limit, a
// grouping or a DISTINCT is ErrBuckets: it would apply to the buckets and not
// to the rows. Buckets follow each other without a gap from the window's start
// to its end, empty ones included; the first and the last are cut to the
// window. An open start is the bucket of the first row; an open end is now by
// the plugin's clock, or the last row's tick if that is later. An empty window
// has no buckets.
//
// Fixed widths make up to 100,000 buckets, calendar units up to 10,000; more
// are ErrWidth. Other errors are those of Window and of the database.
func CountBy(ctx context.Context, db *gorm.DB, window Window, width Width) ([]Bucket, error) {
	rows, err := aggregate(ctx, db, window, width, "")
	if err != nil {
		return nil, err
	}
	buckets := make([]Bucket, len(rows))
	for i, row := range rows {
		buckets[i] = row.Bucket
	}
	return buckets, nil
}

// AggregateBy is CountBy with the sum, minimum, maximum and mean of a numeric
// column per bucket. column is a field or column of the model, or
// "table.column".
func AggregateBy(ctx context.Context, db *gorm.DB, window Window, width Width, column string) ([]Aggregate, error) {
	if column == "" {
		return nil, fmt.Errorf("%w: AggregateBy wants a column; use CountBy to count rows", ErrNoKey)
	}
	return aggregate(ctx, db, window, width, column)
}

func aggregate(ctx context.Context, db *gorm.DB, window Window, width Width, column string) ([]Aggregate, error) {
	if err := refuseShaped(db.Statement); err != nil {
		return nil, err
	}
	db = db.Session(&gorm.Session{Context: ctx})
	source, err := window.source(db)
	if err != nil {
		return nil, err
	}
	if err := width.validate(source.layout.Tick); err != nil {
		return nil, err
	}
	window, err = window.closed(db, source, width)
	if err != nil {
		return nil, err
	}
	most := mostFixedBuckets
	if width.unit != unitNone {
		most = mostCalendarBuckets
	}
	edges, err := width.edges(window.from, window.to, most)
	if err != nil || len(edges) == 0 {
		return []Aggregate{}, err
	}
	index, err := newBucketIndex(window, source.layout, width, edges)
	if err != nil {
		return nil, err
	}
	var read []struct {
		GormflakeBucket int64
		GormflakeCount  int64
		GormflakeValues int64
		GormflakeSum    *float64
		GormflakeMin    *float64
		GormflakeMax    *float64
		GormflakeAvg    *float64
	}
	selected, args := "? AS "+bucketColumn+", COUNT(*) AS gormflake_count", []any{index}
	if column != "" {
		for _, f := range []string{"COUNT(?) AS gormflake_values", "SUM(?) AS gormflake_sum", "MIN(?) AS gormflake_min", "MAX(?) AS gormflake_max", "AVG(?) AS gormflake_avg"} {
			selected, args = selected+", "+f, append(args, valueColumn(column))
		}
	}
	tx := beside(db, window).Select(selected, args...).Group(bucketColumn)
	if err := tx.Scan(&read).Error; err != nil {
		return nil, err
	}
	out := make([]Aggregate, len(edges)-1)
	for i := range out {
		out[i].From, out[i].To = edges[i], edges[i+1]
	}
	for _, r := range read {
		i := int(r.GormflakeBucket)
		if i < 0 || i >= len(out) {
			return nil, fmt.Errorf("gormflake: the database put rows into bucket %d of %d; want the key to hold ids of the layout %v", i, len(out), source.layout)
		}
		b := &out[i]
		b.Count, b.Values, b.Min, b.Max, b.Avg = r.GormflakeCount, r.GormflakeValues, r.GormflakeMin, r.GormflakeMax, r.GormflakeAvg
		if r.GormflakeSum != nil {
			b.Sum = *r.GormflakeSum
		}
	}
	return out, nil
}

// bucketColumn is the name of a bucket's number, by which rows are grouped.
const bucketColumn = "gormflake_bucket"

// refuseShaped refuses what would leave rows out of their buckets, or put them
// into several: the database would cut and group buckets instead of rows.
func refuseShaped(stmt *gorm.Statement) error {
	refuse := func(what string) error {
		return fmt.Errorf("%w: want conditions and joins, met %s, which would apply to the buckets and not to the rows; leave it out, or select the rows by a condition",
			ErrBuckets, what)
	}
	if name := shaped(stmt); name != "" {
		return refuse(name)
	}
	group, _ := stmt.Clauses["GROUP BY"].Expression.(clause.GroupBy)
	for _, column := range group.Columns {
		if column.Name != bucketColumn {
			return refuse("GROUP BY")
		}
	}
	if stmt.Distinct {
		return refuse("DISTINCT")
	}
	return nil
}

// closed returns the window with both of its ends, the same range at one
// reading of the clock.
func (w Window) closed(db *gorm.DB, source idSource, width Width) (Window, error) {
	now := source.now()
	from, to, err := w.times(func() time.Time { return now })
	if err != nil {
		return w, err
	}
	if from.IsZero() {
		first, found, err := w.extreme(db, "MIN")
		if err != nil {
			return w, err
		}
		if !found {
			return w.between(to, to), nil
		}
		from = width.floor(source.layout.Decompose(first).Time)
		if to.Before(from) {
			from = to
		}
	}
	if to.IsZero() {
		last, found, err := w.extreme(db, "MAX")
		if err != nil {
			return w, err
		}
		to = now
		if end := source.layout.Decompose(last).Time.Add(source.layout.Tick); found && end.After(to) {
			to = end
		}
		if to.Before(from) {
			to = from
		}
	}
	return w.between(from, to), nil
}

// between returns the window with other times and the same column and layout.
func (w Window) between(from, to time.Time) Window {
	w.kind, w.from, w.to = windowBetween, from, to
	return w
}

// extreme returns the window's first or last id.
func (w Window) extreme(db *gorm.DB, function string) (ID, bool, error) {
	var id *int64
	err := beside(db, w).Select(function+"(?)", keyExpr{column: w.column, foreign: w.hasLayout}).Scan(&id).Error
	if err != nil || id == nil {
		return 0, false, err
	}
	return ID(*id), true, nil
}

// keyExpr writes the column that a window ranges over.
type keyExpr struct {
	column  string
	foreign bool
}

// Build writes the column's quoted name.
func (k keyExpr) Build(builder clause.Builder) {
	stmt, ok := statementOf(builder)
	if !ok {
		return
	}
	column, _, err := keyColumn(stmt, k.column, k.foreign)
	if err != nil {
		refuse(stmt, err)
		return
	}
	stmt.WriteQuoted(column)
}

// valueColumn writes a column to compute with.
type valueColumn string

// Build writes the column's quoted name.
func (v valueColumn) Build(builder clause.Builder) {
	stmt, ok := statementOf(builder)
	if !ok {
		return
	}
	var field *schema.Field
	if stmt.Schema != nil {
		field = stmt.Schema.LookUpField(string(v))
	}
	known := field != nil && field.DBName != ""
	if !known && v.expression() {
		refuse(stmt, fmt.Errorf("%w: AggregateBy wants the name of a column, met the expression %q; give the table a generated column or a view that computes it", ErrNoKey, string(v)))
		return
	}
	if table, name, found := cutColumn(string(v)); found && !known {
		stmt.WriteQuoted(clause.Column{Table: table, Name: name})
		return
	}
	column := clause.Column{Name: string(v)}
	switch {
	case known:
		column.Name = field.DBName
	case stmt.Schema != nil:
		refuse(stmt, fmt.Errorf("%w: model %s has no column %q; want the name of a column, and \"table.column\" for one of another table", ErrNoKey, stmt.Schema.Name, string(v)))
		return
	}
	if stmt.Table != "" {
		column.Table = clause.CurrentTable
	}
	stmt.WriteQuoted(column)
}

// expression reports whether the text computes something: a call, an operator, a
// quoted name. Blanks and hyphens by themselves may be part of a name.
func (v valueColumn) expression() bool {
	return strings.ContainsAny(string(v), "()+*/%<>=|&^,;'\"`") || strings.Contains(string(v), " - ")
}

// bucketIndex writes the number of a row's bucket, from 0. Its numbers are
// literals: GROUP BY must meet the very same expression.
type bucketIndex struct {
	key   keyExpr
	first ID    // of the window, for arithmetic
	step  int64 // ids in a bucket; 0: by the edges
	edges []ID  // where each bucket starts, and where the last ends
}

func newBucketIndex(window Window, layout generator.Layout, width Width, edges []time.Time) (bucketIndex, error) {
	index := bucketIndex{key: keyExpr{column: window.column, foreign: window.hasLayout}}
	from, to := edges[0], edges[len(edges)-1]
	if width.unit == unitNone && width.fixed%layout.Tick == 0 && !from.Before(layout.Epoch) && !to.After(layout.End()) {
		lo, _, err := layout.Bounds(from, to)
		if err != nil {
			return index, fmt.Errorf("gormflake: bucket: %w", err)
		}
		ticks, shift := int64(width.fixed/layout.Tick), layout.WorkerBits+layout.SequenceBits
		index.first, index.step = lo, math.MaxInt64
		if ticks <= math.MaxInt64>>shift {
			index.step = ticks << shift
		}
		return index, nil
	}
	for _, edge := range edges {
		id, _, err := layout.Bounds(edge, edge)
		if err != nil {
			return index, fmt.Errorf("gormflake: bucket: %w", err)
		}
		index.edges = append(index.edges, id)
	}
	return index, nil
}

// Build writes the expression.
func (b bucketIndex) Build(builder clause.Builder) {
	stmt, ok := statementOf(builder)
	if !ok {
		return
	}
	column, _, err := keyColumn(stmt, b.key.column, b.key.foreign)
	if err != nil {
		refuse(stmt, err)
		return
	}
	if err := refuseShaped(stmt); err != nil { // of a scope, which runs only now
		refuse(stmt, err)
		return
	}
	stmt.WriteString(b.sql(stmt.Dialector.Name(), stmt.Quote(column)))
}

func (b bucketIndex) sql(dialect, column string) string {
	if b.step > 0 {
		divide := "/"
		if dialect == dialectMySQL {
			divide = "DIV"
		}
		return fmt.Sprintf("((%s - %d) %s %d)", column, b.first, divide, b.step)
	}
	buckets := len(b.edges) - 1
	if buckets == 1 {
		return "(0)"
	}
	if dialect == dialectPostgres {
		inner := make([]string, 0, buckets-1)
		for _, edge := range b.edges[1:buckets] {
			inner = append(inner, strconv.FormatInt(int64(edge), 10))
		}
		return "width_bucket(" + column + ", ARRAY[" + strings.Join(inner, ",") + "]::bigint[])"
	}
	var sql strings.Builder
	b.search(&sql, column, 0, buckets)
	return sql.String()
}

// search writes a binary search among the buckets from lo up to hi, so that a
// row costs as many comparisons as the number of buckets has bits.
func (b bucketIndex) search(sql *strings.Builder, column string, lo, hi int) {
	if hi-lo == 1 {
		sql.WriteString(strconv.Itoa(lo))
		return
	}
	middle := (lo + hi) / 2
	sql.WriteString("CASE WHEN " + column + " < " + strconv.FormatInt(int64(b.edges[middle]), 10) + " THEN ")
	b.search(sql, column, lo, middle)
	sql.WriteString(" ELSE ")
	b.search(sql, column, middle, hi)
	sql.WriteString(" END")
}
