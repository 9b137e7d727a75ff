package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// pgFill fills the second columns of a table's rows, in ranges of its key, or of
// its blocks where it has no key of one integer column. Rows that are written
// meanwhile are the trigger's, wherever they go. A resumed one passes over the
// rows that are filled.
type pgFill struct {
	table   string
	oid     int64
	key     string // "" for blocks
	sets    string
	differs string
	silent  bool // user's triggers aren't to fire
}

func newPgFill(version int, t *pgTable, units []*pgUnit) *pgFill {
	f := &pgFill{table: t.name, oid: t.oid, key: t.rangeKey()}
	var sets, differs []string
	for _, u := range units {
		base, shadow := doubleQuoted(u.base.name), doubleQuoted(u.shadowName())
		sets = append(sets, shadow+" = "+base)
		differs = append(differs, shadow+" IS DISTINCT FROM "+base)
	}
	f.sets, f.differs = strings.Join(sets, ", "), strings.Join(differs, " OR ")
	for _, g := range t.triggers {
		f.silent = f.silent || g.fires() && !strings.HasPrefix(g.name, triggerPrefix)
	}
	return f
}

// text is a batch for reading.
func (f *pgFill) text() string {
	silence := ""
	if f.silent {
		silence = "SET LOCAL session_replication_role = replica;\n"
	}
	if f.key == "" {
		return silence + f.update("'(first block,0)'", "'(next block,0)'")
	}
	return silence + f.update("last", "through")
}

// update is one batch; see pgRange.
func (f *pgFill) update(from, through string) string {
	where := "ctid >= " + from + " AND ctid < " + through
	if f.key != "" {
		key := doubleQuoted(f.key)
		where = key + " > " + from + " AND " + key + " <= " + through
	}
	return "UPDATE " + doubleQuoted(f.table) + " SET " + f.sets + " WHERE " + where + " AND (" + f.differs + ")"
}

// fill runs the batches, each in a transaction of its own.
func (a *postgresAdopter) fill(ctx context.Context, s AdoptStatement) error {
	f := s.fill
	o := a.spec.Backfill
	p := BackfillProgress{Table: f.table}
	started := time.Now()
	next, end, err := a.ranges(ctx, f)
	if err != nil {
		return fmt.Errorf("the range to fill: %w", err)
	}
	p.MaxKey = end
	for {
		if err := o.hold(ctx, p.Batches == 0); err != nil {
			return err
		}
		r, err := next(ctx)
		if err != nil {
			return fmt.Errorf("the next range to fill: %w", err)
		}
		if r.through == "" {
			return nil
		}
		changed, err := a.batch(ctx, s, f.update(r.from, r.through))
		if err != nil {
			return err
		}
		p.LastKey, p.Rows, p.Changed, p.Batches, p.Elapsed = r.last, p.Rows+max(r.rows, changed), p.Changed+changed, p.Batches+1, time.Since(started)
		if o.Progress != nil {
			o.Progress(p)
		}
	}
}

// pgRange is what one batch fills: from is exclusive and through inclusive for
// keys, the reverse for blocks.
type pgRange struct {
	from, through string // as the statement has them
	last          string // the key or block, for BackfillProgress
	rows          int64  // 0 when nobody counted them
}

// ranges tells where the rows of now end, and gives one range after the other
// until through is "".
func (a *postgresAdopter) ranges(ctx context.Context, f *pgFill) (next func(context.Context) (pgRange, error), end string, err error) {
	if f.key == "" {
		return a.blocks(ctx, f)
	}
	table, key := doubleQuoted(f.table), doubleQuoted(f.key)
	var first, last sql.NullInt64
	if err := a.conn.QueryRowContext(ctx, "SELECT MIN("+key+")::bigint, MAX("+key+")::bigint FROM "+table).Scan(&first, &last); err != nil {
		return nil, "", err
	}
	query := "SELECT MAX(k)::bigint, COUNT(*) FROM (SELECT " + key + " AS k FROM " + table + " WHERE " + key + " >%s AND " + key + " <= " + strconv.FormatInt(last.Int64, 10) +
		" AND (" + f.differs + ") ORDER BY " + key + " LIMIT " + strconv.Itoa(a.spec.Backfill.BatchSize) + ") AS batch"
	from := fmt.Sprintf("(%d - 1::bigint)", first.Int64)
	comparison := "= " + strconv.FormatInt(first.Int64, 10)
	return func(ctx context.Context) (pgRange, error) {
		if !first.Valid {
			return pgRange{}, nil // an empty table
		}
		var through sql.NullInt64
		var rows int64
		if err := a.conn.QueryRowContext(ctx, fmt.Sprintf(query, comparison)).Scan(&through, &rows); err != nil || !through.Valid {
			return pgRange{}, err
		}
		r := pgRange{from: from, through: strconv.FormatInt(through.Int64, 10), rows: rows}
		r.last = r.through
		from, comparison = r.through, " "+r.through
		return r, nil
	}, strconv.FormatInt(last.Int64, 10), nil
}

// blocks gives ranges of as many blocks as hold about a batch of rows.
func (a *postgresAdopter) blocks(ctx context.Context, f *pgFill) (func(context.Context) (pgRange, error), string, error) {
	var blocks, each int64
	err := a.conn.QueryRowContext(ctx, `SELECT pg_relation_size(oid) / current_setting('block_size')::bigint,
			GREATEST(1, CASE WHEN relpages > 0 AND reltuples > 0 THEN ($2::bigint * relpages / reltuples)::bigint ELSE $2::bigint / 50 END)
		FROM pg_class WHERE oid = $1::bigint::oid`, f.oid, a.spec.Backfill.BatchSize).Scan(&blocks, &each)
	if err != nil {
		return nil, "", err
	}
	at := int64(0)
	return func(context.Context) (pgRange, error) {
		if at >= blocks {
			return pgRange{}, nil
		}
		from := at
		at = min(at+each, blocks)
		return pgRange{from: fmt.Sprintf("'(%d,0)'", from), through: fmt.Sprintf("'(%d,0)'", at), last: strconv.FormatInt(at, 10)}, nil
	}, strconv.FormatInt(blocks, 10), nil
}

// batch fills one range. It gives up a row's lock that it doesn't get within
// MaxBlock, since writers of the rows that it has already wait for it.
func (a *postgresAdopter) batch(ctx context.Context, s AdoptStatement, update string) (changed int64, err error) {
	err = retry(ctx, a.spec.Patience, pgBusy, func() error {
		tx, err := a.conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := a.tell(s, tx, false); err != nil {
			return err
		}
		sets := []string{fmt.Sprintf("SET LOCAL lock_timeout = %d", max(1, a.spec.MaxBlock.Milliseconds()))}
		if s.fill.silent {
			sets = append(sets, "SET LOCAL session_replication_role = replica")
		}
		for _, set := range sets {
			if _, err := tx.ExecContext(ctx, set); err != nil {
				return err
			}
		}
		result, err := tx.ExecContext(ctx, update)
		if err != nil {
			return err
		}
		if changed, err = result.RowsAffected(); err != nil {
			return err
		}
		if err := a.tell(s, tx, true); err != nil {
			return err
		}
		return tx.Commit()
	})
	if err != nil {
		return 0, fmt.Errorf("%w (in: %s)", err, update)
	}
	a.confirmed(update)
	return changed, nil
}

// pgBusy tells a lock that wasn't to be had in time, and a deadlock.
func pgBusy(err error) bool {
	var state interface{ SQLState() string }
	return errors.As(err, &state) && (state.SQLState() == "55P03" || state.SQLState() == "40P01")
}

// confirmed tells a test that the server has done something.
func (a *postgresAdopter) confirmed(statement string) {
	if a.after != nil {
		a.after(statement)
	}
}

// tell lets a test look at a transaction from inside.
func (a *postgresAdopter) tell(s AdoptStatement, tx *sql.Tx, done bool) error {
	if a.inside == nil {
		return nil
	}
	return a.inside(s, tx, done)
}
