package gormflake

import (
	"errors"
	"fmt"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormflake/gormflake/generator"
)

// ErrDialect says that this package can't write an expression, or do a task,
// on a database of that kind.
var ErrDialect = errors.New("gormflake: not on this database")

// The names of the dialects that this package writes SQL for.
const (
	dialectMySQL    = "mysql"
	dialectPostgres = "postgres"
	dialectSQLite   = "sqlite"
)

func unknownDialect(name string) error {
	return fmt.Errorf("%w: want the dialect mysql, postgres or sqlite, got %q", ErrDialect, name)
}

// TimeExpr is the time of a snowflake id as an SQL expression. TimeOf makes it.
type TimeExpr struct {
	column    string
	layout    generator.Layout
	hasLayout bool
}

// TimeOf is the time at which the ids of a column were made, computed by the
// database, to the layout's tick:
//
//	db.Model(&Order{}).Select("id, ? AS made_at", gormflake.TimeOf("id")).Scan(&rows)
//	db.Where("? < shipped_at - INTERVAL 1 DAY", gormflake.TimeOf("orders.id")).Find(&late)
//	db.Order(gormflake.TimeOf("id").Desc())
//	db.Clauses(gormflake.TimeOf("id").Group())
//
// column is what Window.Column takes, or "" for the model's key. The value
// does not depend on the session's time zone and is right past 2038. On
// Postgres it is a timestamptz; on MySQL and MariaDB a DATETIME in UTC (open
// the driver with parseTime=true and its default loc=UTC); on SQLite a text in
// UTC, in just the form in which the driver writes a time.Time in UTC, so that
// both compare; scan it into a string there. Negative ids, which are no snowflakes, give NULL.
//
// To select rows by time use a Window instead: this expression is computed for
// every row, and no index or partition helps it.
func TimeOf(column string) TimeExpr { return TimeExpr{column: column} }

// In returns the time of ids of a layout other than the plugin's.
func (e TimeExpr) In(layout generator.Layout) TimeExpr {
	e.layout, e.hasLayout = layout, true
	return e
}

// Build writes the expression, in its own parentheses. It implements
// clause.Expression.
func (e TimeExpr) Build(builder clause.Builder) {
	stmt, ok := statementOf(builder)
	if !ok {
		return
	}
	sql, err := e.sql(stmt)
	if err != nil {
		refuse(stmt, err)
		return
	}
	stmt.WriteString(sql)
}

// Asc is the ascending order by this time, for db.Order.
func (e TimeExpr) Asc() clause.OrderBy { return clause.OrderBy{Expression: e} }

// Desc is the descending order by this time, for db.Order.
func (e TimeExpr) Desc() clause.OrderBy {
	return clause.OrderBy{Expression: descending{e}}
}

type descending struct{ clause.Expression }

func (d descending) Build(builder clause.Builder) {
	d.Expression.Build(builder)
	builder.WriteString(" DESC")
}

// Group groups by this time, for db.Clauses. Where there is no model yet, the
// column must have been given.
func (e TimeExpr) Group() TimeGroup { return TimeGroup{e} }

// TimeGroup is a GROUP BY for db.Clauses. TimeExpr.Group makes it.
type TimeGroup struct{ expr TimeExpr }

// Build writes the bare expression. It implements clause.Expression.
func (g TimeGroup) Build(builder clause.Builder) { g.expr.Build(builder) }

// ModifyStatement adds the expression to GROUP BY. It implements
// gorm.StatementModifier.
func (g TimeGroup) ModifyStatement(stmt *gorm.Statement) {
	sql, err := g.expr.sql(stmt)
	if err != nil {
		_ = stmt.AddError(err)
		return
	}
	stmt.AddClause(clause.GroupBy{Columns: []clause.Column{{Name: sql, Raw: true}}})
}

// sql returns the expression's text. It holds no bound parameters: Postgres
// would take two expressions that differ in a parameter's number for
// different ones, and refuse GROUP BY.
func (e TimeExpr) sql(stmt *gorm.Statement) (string, error) {
	source, err := sourceOf(stmt.DB, e.layout, e.hasLayout)
	if err != nil {
		return "", err
	}
	column, _, err := keyColumn(stmt, e.column, e.hasLayout)
	if err != nil {
		return "", err
	}
	return timeSQL(stmt.Dialector.Name(), stmt.Quote(column), source.layout)
}

// timeSQL returns the time of the ids in a quoted column.
func timeSQL(dialect, column string, layout generator.Layout) (string, error) {
	// Without the guard MySQL, whose shifts are unsigned, would take -1 for an
	// id of the far future.
	const guarded = "(CASE WHEN %s >= 0 THEN %s END)"
	ms := millisSQL(dialect, column, layout)
	switch dialect {
	case dialectPostgres:
		return fmt.Sprintf(guarded, column, "timestamptz 'epoch' + "+ms+" * interval '1 millisecond'"), nil
	case dialectMySQL:
		// FROM_UNIXTIME would depend on the session's time zone.
		return fmt.Sprintf(guarded, column, "TIMESTAMPADD(MICROSECOND, "+ms+" * 1000, CAST('1970-01-01' AS DATETIME(3)))"), nil
	case dialectSQLite:
		text := "strftime('%Y-%m-%d %H:%M:%f', " + ms + " / 1000.0, 'unixepoch')"
		// Trailing zeros go, as Go's format writes none.
		return strings.Replace(strings.Replace(guarded, "%s", column, 1), "%s", "rtrim(rtrim("+text+", '0'), '.') || '+00:00'", 1), nil
	}
	return "", unknownDialect(dialect)
}

// millisSQL returns the Unix time in milliseconds of the ids in a quoted
// column, in parentheses.
func millisSQL(dialect, column string, layout generator.Layout) string {
	ticks := fmt.Sprintf("(%s >> %d)", column, layout.WorkerBits+layout.SequenceBits)
	if dialect == dialectMySQL {
		ticks = "CAST" + strings.TrimSuffix(ticks, ")") + " AS SIGNED)"
	}
	return fmt.Sprintf("(%s * %d + %d)", ticks, layout.Tick.Milliseconds(), layout.Epoch.UnixMilli())
}
