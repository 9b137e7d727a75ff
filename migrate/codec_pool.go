package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// pool stands between one GORM statement and the connection that executes it. It
// encodes the arguments, decodes the result, and when the server or the result
// shows that a column has changed, it asks for the schema and tries again.
type pool struct {
	gorm.ConnPool
	bools   *Bools
	catalog *catalog
	stmt    *gorm.Statement
	rows    bool           // the destination of the result isn't known: Rows, Row, Scan
	pinned  bool           // its tables keep their schema
	schema  *schema.Schema // the statement's own, while a create step has another
}

// Unwrap is the connection beneath, for plugins that ask whether it is a transaction.
func (p *pool) Unwrap() gorm.ConnPool { return p.ConnPool }

// maxAttempts bounds how often a statement is executed while columns change under it.
// A swap and its rollback in one statement's time are two changes.
const maxAttempts = 4

// staleErrors are the errors of a value that its column doesn't take: data
// truncated, incorrect value (twice), data too long.
var staleErrors = map[uint16]bool{1265: true, 1366: true, 1292: true, 1406: true}

func isStale(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && staleErrors[e.Number]
}

// ready is a statement with its plan.
type ready struct {
	encoded
	plan *plan
}

func (p *pool) prepare(ctx context.Context, query string, args []any) (ready, error) {
	r := ready{encoded: encoded{sql: query, args: args}}
	if err := p.params(ctx, &r); err != nil {
		return r, err
	}
	var err error
	if r.plan, err = p.catalog.plan(ctx, p.ConnPool, query); err != nil {
		return r, err
	}
	if !r.plan.encodes {
		return r, nil
	}
	assigns := r.assigns
	if r.encoded, err = r.plan.encode(query, r.args, p.bools.unproven(ctx)); err != nil {
		return r, err
	}
	r.assigns = r.assigns || assigns
	p.show(r)
	return r, nil
}

// params gives the values made by Param their form of this moment.
func (p *pool) params(ctx context.Context, r *ready) error {
	copied := false
	for i, arg := range r.args {
		a, ok := arg.(param)
		if !ok {
			continue
		}
		bound, err := a.bind(ctx, p.catalog, p.ConnPool)
		if err != nil {
			return err
		}
		if !copied {
			r.args, copied = append([]any(nil), r.args...), true
		}
		r.args[i], r.assigns = bound, true
	}
	return nil
}

// show puts what is sent into the statement, for the log.
func (p *pool) show(r ready) {
	if p.stmt.SQL.String() != r.sql {
		p.stmt.SQL.Reset()
		p.stmt.SQL.WriteString(r.sql)
	}
	p.stmt.Vars = r.args
}

// ExecContext executes an encoded statement.
func (p *pool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if firstWord(query) == "USE" {
		return nil, ErrUse
	}
	r, err := p.prepare(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if p.pins(r) {
		var result sql.Result
		err := p.pin(ctx, r, func(p *pool) (err error) {
			result, err = p.ExecContext(ctx, query, args...)
			return err
		})
		return result, err
	}
	for try := 1; ; try++ {
		result, err := p.ConnPool.ExecContext(ctx, r.sql, r.args...)
		if changesSchema(query) {
			p.catalog.forget()
		}
		if !r.predicates && !r.assigns || try == maxAttempts {
			return result, err
		}
		switch {
		case isStale(err):
		case err == nil && r.predicates && r.plan.writes:
			if n, _ := result.RowsAffected(); n != 0 {
				return result, nil
			}
		default:
			return result, err
		}
		again, changed, retryErr := p.again(ctx, r, query, args)
		if retryErr != nil || !changed {
			return result, also(err, retryErr)
		}
		r = again
	}
}

// changesSchema reports whether a statement may change what the catalog knows.
func changesSchema(query string) bool {
	switch firstWord(query) {
	case "ALTER", "CREATE", "DROP", "RENAME":
		return true
	}
	return false
}

func firstWord(query string) string {
	word, _, _ := strings.Cut(strings.TrimLeft(query, " \t\r\n"), " ")
	return strings.ToUpper(word)
}

// again asks the server for the schema. When it has changed and nothing of the
// first attempt can have stayed behind, it encodes the statement anew.
func (p *pool) again(ctx context.Context, r ready, query string, args []any) (next ready, changed bool, err error) {
	changed, err = p.catalog.refresh(ctx, p.ConnPool, r.plan.tables)
	if err != nil || !changed {
		return ready{}, false, err
	}
	if r.plan.writes {
		for _, t := range r.plan.tables {
			if ok, err := transactional(ctx, p.ConnPool, t); err != nil || !ok {
				return ready{}, false, err
			}
		}
	}
	next, err = p.prepare(ctx, query, args)
	return next, err == nil, err
}

// transactional reports whether a failed statement leaves nothing behind in t.
func transactional(ctx context.Context, pool gorm.ConnPool, t *table) (bool, error) {
	rows, err := pool.QueryContext(ctx, "SELECT e.TRANSACTIONS FROM information_schema.TABLES t JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE WHERE t.TABLE_SCHEMA = ? AND t.TABLE_NAME = ?", t.database, t.name)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	var yes sql.NullString
	for rows.Next() {
		if err := rows.Scan(&yes); err != nil {
			return false, err
		}
	}
	return yes.String == "YES", rows.Err()
}

// QueryContext executes an encoded query and decodes its rows.
func (p *pool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	r, err := p.prepare(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if !r.plan.watched {
		return p.ConnPool.QueryContext(ctx, r.sql, r.args...)
	}
	src, err := p.query(ctx, r, query, args)
	if err != nil {
		return nil, err
	}
	return src.rows()
}

// QueryRowContext is QueryContext for one row.
func (p *pool) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	r, err := p.prepare(ctx, query, args)
	if err == nil && !r.plan.watched {
		return p.ConnPool.QueryRowContext(ctx, r.sql, r.args...)
	}
	var src *source
	if err == nil {
		src, err = p.query(ctx, r, query, args)
	}
	if err != nil {
		src = &source{err: err}
	}
	return src.row()
}

// query executes a query over legacy columns.
func (p *pool) query(ctx context.Context, r ready, query string, args []any) (*source, error) {
	if p.pins(r) {
		var src *source
		err := p.pin(ctx, r, func(p *pool) error {
			r, err := p.prepare(ctx, query, args)
			if err == nil {
				src, err = p.query(ctx, r, query, args) // what writes is read to its end
			}
			return err
		})
		return src, err
	}
	judge := true
	for try := 1; ; try++ {
		src, stale, err := p.attempt(ctx, r, judge)
		if !stale {
			return src, err
		}
		again, changed, retryErr := p.again(ctx, r, query, args)
		known := src != nil || err != nil // the attempt has an outcome that can be delivered
		switch {
		case retryErr != nil:
			return nil, also(err, retryErr)
		case known && (!changed || try == maxAttempts):
			return src, err
		case try == maxAttempts:
			return nil, fmt.Errorf("migrate: expected the columns of a result to keep their types, met another change at each of %d attempts; try again", maxAttempts)
		case changed:
			r, judge = again, true
		default: // nothing else explains the result's type
			judge = false
		}
	}
}

// attempt executes the query once. stale means that the result may be wrong since
// a column has changed; then the result is read to its end, or there is none.
func (p *pool) attempt(ctx context.Context, r ready, judge bool) (src *source, stale bool, err error) {
	rows, err := p.ConnPool.QueryContext(ctx, r.sql, r.args...)
	if err != nil {
		return nil, isStale(err) && (r.assigns || r.predicates), err
	}
	src = &source{inner: rows}
	if err := src.describe(); err != nil {
		return nil, false, also(err, rows.Close())
	}
	unexpected := src.decide(r.plan, p.wants(src.names))
	switch {
	case r.plan.writes: // INSERT ... RETURNING: an error may come after the first rows
		if err := src.readAll(); err != nil {
			return nil, isStale(err) && (r.assigns || r.predicates), err
		}
		return src, r.predicates && len(src.ahead) == 0, nil
	case unexpected && judge: // it must be closed before the schema is asked for
		return nil, true, rows.Close()
	case r.predicates:
		empty, err := src.peek()
		if err != nil {
			return nil, false, also(err, rows.Close())
		}
		return src, empty, nil
	}
	return src, false, nil
}

// also joins two errors but leaves a lone one as it is: GORM's drivers translate
// an error by its very type.
func also(err, more error) error {
	switch {
	case more == nil:
		return err
	case err == nil:
		return more
	default:
		return errors.Join(err, more)
	}
}
