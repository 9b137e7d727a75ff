package migrate

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// BackfillOptions say how gently the existing rows are filled. The zero value is
// a sound default.
type BackfillOptions struct {
	BatchSize  int                                              // rows that one transaction looks at; 0 means 2000
	Pause      time.Duration                                    // after every batch; 0 means none
	ReplicaLag func(ctx context.Context) (time.Duration, error) // asked before every batch; nil: no replicas to wait for
	MaxLag     time.Duration                                    // what ReplicaLag may say at most; 0 means 1 s
	Progress   func(BackfillProgress)                           // called after every batch
}

// BackfillProgress tells how far a backfill has come.
type BackfillProgress struct {
	Table   string
	LastKey string // everything up to this key is filled; a resumed backfill starts here
	MaxKey  string // the highest key when this call began; rows above it are filled by the triggers
	Rows    int64  // looked at by this call
	Changed int64  // filled by this call
	Batches int64
	Elapsed time.Duration
}

const (
	defaultBatch = 2000
	lagPoll      = 100 * time.Millisecond
	maxTries     = 20 // of one batch, against deadlocks and lock waits

	checkpointEvery = 2 * time.Second
)

// Backfill fills the new columns of the rows that exist, in ranges of the primary
// key, each in a transaction of its own, and notes a checkpoint every two seconds.
// Then it builds the indexes that the new columns need. Cancelling ctx stops it
// between or within batches; a later call goes on at the checkpoint. Columns with
// ON UPDATE CURRENT_TIMESTAMP keep their value. After Swap it does nothing.
func (p *BoolPlan) Backfill(ctx context.Context, o BackfillOptions) error {
	o, err := o.resolve()
	if err != nil {
		return err
	}
	return p.step(ctx, "Backfill", func(s *boolSession, st boolState) error {
		switch st.phase {
		case PhaseOriginal, PhasePartial:
			return p.outOfOrder("Backfill", st.phase, "call Prepare first: without both triggers a row may change behind the backfill")
		case PhaseSwapped, PhaseClosing, PhaseFinished:
			return nil
		}
		if err := p.quiet(ctx, s, st.phase); err != nil {
			return err
		}
		b := &backfill{s: s, r: p.record, o: o, started: time.Now()}
		if err := b.run(ctx); err != nil {
			return err
		}
		missing := planRecord{Indexes: p.record.missingIndexes(st)}
		if len(missing.Indexes) == 0 {
			return nil
		}
		return s.ddl(ctx, missing.addIndexes(p.record.Table)+p.record.Algorithms[alterIndex].clause())
	})
}

// missingIndexes returns the indexes that a backfill has still to build.
func (r *planRecord) missingIndexes(st boolState) (missing []indexPlan) {
	for _, ix := range r.Indexes {
		if !st.indexes[ix.Helper] {
			missing = append(missing, ix)
		}
	}
	return missing
}

// resolve fills in the defaults.
func (o BackfillOptions) resolve() (BackfillOptions, error) {
	if o.BatchSize < 0 || o.Pause < 0 || o.MaxLag < 0 {
		return o, fmt.Errorf("migrate: BatchSize, Pause and MaxLag must not be negative, met %d, %v and %v", o.BatchSize, o.Pause, o.MaxLag)
	}
	o.BatchSize = cmp.Or(o.BatchSize, defaultBatch)
	o.MaxLag = cmp.Or(o.MaxLag, time.Second)
	return o, nil
}

// hold waits until the next batch may begin: for the pause, but not before the
// first one, and while the replicas lag.
func (o BackfillOptions) hold(ctx context.Context, first bool) error {
	if !first && o.Pause > 0 {
		if err := sleep(ctx, o.Pause); err != nil {
			return fmt.Errorf("the pause: %w", err)
		}
	}
	for o.ReplicaLag != nil {
		lag, err := o.ReplicaLag(ctx)
		if err != nil {
			return fmt.Errorf("the replica lag: %w", err)
		}
		if lag <= o.MaxLag {
			return nil
		}
		if err := sleep(ctx, lagPoll); err != nil {
			return fmt.Errorf("the replica lag: %w", err)
		}
	}
	return ctx.Err()
}

type backfill struct {
	s       *boolSession
	r       *planRecord
	o       BackfillOptions
	started time.Time
	p       BackfillProgress
	noted   string // the checkpoint as written
	notedAt time.Time
}

// run fills range after range. However it ends, it notes where.
func (b *backfill) run(ctx context.Context) (err error) {
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err = errors.Join(err, b.note(late))
	}()
	if err := b.isolate(ctx); err != nil {
		return err
	}
	last, err := b.checkpoint(ctx)
	if err != nil {
		return err
	}
	table, key := quoteName(b.r.Table), quoteName(b.r.Key)
	var first, end sql.NullString
	if err := b.s.conn.QueryRowContext(ctx, fmt.Sprintf("SELECT MIN(%s), MAX(%s) FROM %s", key, key, table)).Scan(&first, &end); err != nil {
		return b.fail("the range of keys", err)
	}
	if !first.Valid {
		return nil // an empty table
	}
	b.p = BackfillProgress{Table: b.r.Table, LastKey: last.String, MaxKey: end.String}
	b.noted, b.notedAt = last.String, time.Now()
	for {
		if err := b.wait(ctx); err != nil {
			return err
		}
		through, rows, err := b.next(ctx, last, end.String)
		if err != nil {
			return err
		}
		if !through.Valid {
			return nil
		}
		low := first.String
		if last.Valid {
			low = last.String
		}
		changed, err := b.batch(ctx, low, through.String)
		if err != nil {
			return err
		}
		last = through
		b.p.LastKey, b.p.Rows, b.p.Changed, b.p.Batches = through.String, b.p.Rows+rows, b.p.Changed+changed, b.p.Batches+1
		if time.Since(b.notedAt) >= checkpointEvery {
			if err := b.note(ctx); err != nil {
				return err
			}
		}
		if b.p.Elapsed = time.Since(b.started); b.o.Progress != nil {
			b.o.Progress(b.p)
		}
		if rows < int64(b.o.BatchSize) {
			return nil
		}
	}
}

// next finds the end of the next range. The ranges go by rows, not by numbers:
// keys may be sparse.
func (b *backfill) next(ctx context.Context, last sql.NullString, end string) (through sql.NullString, rows int64, err error) {
	key, from := quoteName(b.r.Key), ""
	if last.Valid {
		from = fmt.Sprintf("%s > %s AND ", key, last.String)
	}
	where := fmt.Sprintf("FROM %s WHERE %s%s <= %s", quoteName(b.r.Table), from, key, end)
	err = b.s.conn.QueryRowContext(ctx, fmt.Sprintf("SELECT %s %s ORDER BY %s LIMIT 1 OFFSET %d", key, where, key, b.o.BatchSize-1)).Scan(&through)
	if err == sql.ErrNoRows { // the last range is a short one
		err = b.s.conn.QueryRowContext(ctx, fmt.Sprintf("SELECT MAX(%s), COUNT(*) %s", key, where)).Scan(&through, &rows)
	} else {
		rows = int64(b.o.BatchSize)
	}
	if err != nil {
		return through, 0, b.fail("the next range of keys", err)
	}
	return through, rows, nil
}

// batch is the UPDATE of one range. It sets every row of it: the server skips a row
// that holds the value already, and testing for that would cost as much again. The
// keys are integers as the server printed them, and no BETWEEN: MySQL 5.6 finds
// nothing with it from a signed number to one beyond.
func (r *planRecord) batch(low, through string) string {
	sets := make([]string, 0, len(r.Columns)+len(r.AutoUpdate))
	for _, c := range r.Columns {
		sets = append(sets, quoteName(c.Helper)+" = "+c.forward(quoteName(c.Name)))
	}
	for _, name := range r.AutoUpdate {
		sets = append(sets, quoteName(name)+" = "+quoteName(name))
	}
	key := quoteName(r.Key)
	return fmt.Sprintf("UPDATE %s SET %s WHERE %s >= %s AND %s <= %s", quoteName(r.Table), strings.Join(sets, ", "), key, low, key, through)
}

// batch fills one range.
func (b *backfill) batch(ctx context.Context, low, through string) (changed int64, err error) {
	statement := b.r.batch(low, through)
	for try := 1; ; try++ {
		result, err := b.s.conn.ExecContext(ctx, statement)
		if err == nil {
			changed, err = result.RowsAffected()
		}
		if err == nil || !isLockTimeout(err) || try == maxTries || ctx.Err() != nil {
			return changed, b.s.record(statement, err)
		}
		if err := sleep(ctx, time.Duration(try)*10*time.Millisecond); err != nil {
			return 0, b.s.record(statement, err)
		}
	}
}

// note writes the checkpoint. It may lag behind what is filled, never run ahead:
// a resumed backfill finds nothing to do in what it looks at again.
func (b *backfill) note(ctx context.Context) error {
	if b.noted == b.p.LastKey {
		return nil
	}
	_, err := b.s.exec(ctx, "UPDATE "+journalTable+" SET last_key = ? WHERE table_name = ?", b.p.LastKey, b.r.Table)
	if err == nil {
		b.noted, b.notedAt = b.p.LastKey, time.Now()
	}
	return err
}

// isolate asks for READ COMMITTED, under which an UPDATE locks the rows of its
// range and not the gaps between, so that inserts go on. A binary log of
// statements can't be written under it.
func (b *backfill) isolate(ctx context.Context) error {
	var logged bool
	var format string
	err := b.s.conn.QueryRowContext(ctx, "SELECT @@log_bin, @@binlog_format").Scan(&logged, &format)
	if err != nil && mysqlError(err) != 1193 { // a server without the variable logs rows
		return b.fail("the binary log's format", err)
	}
	if logged && format == "STATEMENT" {
		return nil
	}
	if _, err := b.s.conn.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"); err != nil {
		return b.fail("the isolation level", err)
	}
	return nil
}

func (b *backfill) checkpoint(ctx context.Context) (last sql.NullString, err error) {
	err = b.s.conn.QueryRowContext(ctx, "SELECT last_key FROM "+journalTable+" WHERE table_name = ?", b.r.Table).Scan(&last)
	if err != nil {
		return last, b.fail("the checkpoint", err)
	}
	return last, nil
}

// wait holds the next batch back.
func (b *backfill) wait(ctx context.Context) error {
	if err := b.o.hold(ctx, b.p.Batches == 0); err != nil {
		return fmt.Errorf("migrate: backfilling %s: %w", b.r.Table, err)
	}
	return nil
}

func (b *backfill) fail(what string, err error) error {
	return fmt.Errorf("migrate: backfilling %s: %s: %w", b.r.Table, what, err)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
