package gormflake

import (
	"fmt"
	"strings"
	"time"

	"github.com/gormflake/gormflake/generator"
)

// SQL returns a window as a condition for hand-written SQL, in its own
// parentheses, and its bound parameters:
//
//	where, args, err := gormflake.SQL(gormflake.On(day).In(generator.Standard()), "postgres")
//	rows, err := pool.QueryContext(ctx, "SELECT * FROM orders WHERE "+where, args...)
//
// The dialect is "postgres" ($1, $2), "mysql" or "sqlite" (?). The window must
// say its layout with In, as there is no plugin to ask: else the error is
// ErrNoLayout. Its column is "id" unless Column says another. Last counts from
// the machine's clock.
func SQL(window Window, dialect string) (string, []any, error) {
	var placeholder func(n int) string
	quote := "`"
	switch dialect {
	case dialectPostgres:
		quote = `"`
		placeholder = func(n int) string { return fmt.Sprint("$", n) }
	case dialectMySQL, dialectSQLite:
		placeholder = func(int) string { return "?" }
	default:
		return "", nil, unknownDialect(dialect)
	}
	if !window.hasLayout {
		return "", nil, fmt.Errorf("%w: SQL has no plugin to ask; name the ids' layout with In(generator.Standard())", ErrNoLayout)
	}
	if err := window.layout.Validate(); err != nil {
		return "", nil, fmt.Errorf("gormflake: window: %w", err)
	}
	r, err := window.resolve(idSource{layout: window.layout, now: time.Now})
	if err != nil {
		return "", nil, err
	}
	column := window.column
	if column == "" {
		column = "id"
	}
	parts := strings.Split(column, ".")
	for i, part := range parts {
		if part == "" {
			return "", nil, fmt.Errorf("%w: want a column as \"column\" or \"table.column\", got %q", ErrNoKey, column)
		}
		parts[i] = quote + strings.ReplaceAll(part, quote, quote+quote) + quote
	}
	var sql strings.Builder
	var args []any
	r.write(&sql, strings.Join(parts, "."), window.column != "", func(id ID) {
		args = append(args, int64(id))
		sql.WriteString(placeholder(len(args)))
	})
	return sql.String(), args, nil
}

// PartmanInterval returns the p_interval that makes pg_partman cut a table of
// ids of this layout every d: the number of ids that d spans. pg_partman
// begins its partitions at multiples of it, counted from the layout's epoch.
// A d that is no whole number of ticks, or too long for the layout, is
// ErrWidth.
func PartmanInterval(layout generator.Layout, d time.Duration) (int64, error) {
	if err := layout.Validate(); err != nil {
		return 0, fmt.Errorf("gormflake: partitions: %w", err)
	}
	ticks, shift := int64(d/layout.Tick), layout.WorkerBits+layout.SequenceBits
	if d <= 0 || d%layout.Tick != 0 || ticks >= 1<<layout.TimeBits {
		return 0, fmt.Errorf("%w: want a whole number of ticks of %v, fewer than 2^%d, got %v", ErrWidth, layout.Tick, layout.TimeBits, d)
	}
	return ticks << shift, nil
}
