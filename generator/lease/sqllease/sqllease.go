// Package sqllease leases worker ids in a SQL database, which best is the one
// that the ids are inserted into: its outage stops the inserts anyway.
//
//	db, err := sql.Open("pgx", dsn)
//	store := sqllease.New(db, sqllease.Postgres)
//
// # What it promises
//
// No id twice among all generators that lease from the same table and
// namespace, as long as a committed row stays committed. That is not so, and
// ids may repeat, when the table is dropped or restored from an older backup
// while generators run, or when an asynchronous replica is promoted that lacks
// the last grants. The store notices a promotion by the server's identity, and
// then lets newcomers wait (see WithGuard). It has no such means against a
// restore: stop the generators for the window and its slack, 35 s by default.
//
// All stores of one namespace may have different windows; the longest that was
// ever used is kept with the namespace.
//
// # What it does to the database
//
// It makes three small tables at the first Acquire, if they are not there (see
// Schema). Each generator holds one row and extends it with one statement per
// interval. Every statement commits by itself through the pool of the
// *sql.DB, never in a transaction of the application: a rollback would undo a
// grant after ids have escaped. The pool must lead to the primary.
package sqllease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

var (
	sqlTiming = lease.Timing{
		Window: 30 * time.Second, Interval: 10 * time.Second, Expiry: 45 * time.Second, Slack: 5 * time.Second,
	}
	// One busy writer holds off all others of a SQLite file, for seconds.
	sqliteTiming = lease.Timing{
		Window: 10 * time.Minute, Interval: time.Minute, Expiry: 11 * time.Minute, Slack: 5 * time.Second,
	}
)

// New returns a store in the database behind db, which speaks the dialect. It
// does no I/O: faults of the options and of the database show at the first
// Acquire.
//
// Rows of other databases last 30 s past the clock and are extended each 10 s;
// those of a SQLite file 10 minutes and each minute. An in-memory SQLite
// database, which ends with the process, leases with lease.Memory.
//
// The store implements lease.Lister, lease.Describer and lease.Backfiller.
func New(db *sql.DB, dialect Dialect, options ...Option) lease.Store {
	settings := defaults(dialect).Apply(options)
	if db == nil {
		settings.Fail(fmt.Errorf("sqllease: %w: want a *sql.DB, got nil", lease.ErrInvalid))
	}
	if err := dialect.validate(); err != nil {
		settings.Fail(err)
	}
	o := settings.Own.(*own)
	return &store{
		db: db, dialect: dialect, settings: settings, own: *o,
		texts: newStatements(dialect, o.table),
	}
}

type store struct {
	db       *sql.DB
	dialect  Dialect
	settings lease.Settings
	own      own
	texts    statements

	mu       sync.Mutex
	database *database // what the first call found out; nil before
}

// key makes two stores of one pool and table one store.
type key struct {
	db    *sql.DB
	table string
}

func (s *store) Key() any { return key{s.db, s.own.table} }

func (s *store) Timing() lease.Timing { return s.settings.Timing }

// Pool returns the pool that the leases are read and written through, and nil
// once it has shown to lead to an in-memory database, whose leases need none.
func (s *store) Pool() *sql.DB {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.database != nil && s.database.memory != nil {
		return nil
	}
	return s.db
}

// Describe says where the leases are and what they rest on.
func (s *store) Describe() string {
	guard := "a promoted replica is noticed by the server's identity"
	switch {
	case s.own.guarded:
		guard = fmt.Sprintf("newcomers wait %v", s.own.guard)
	case s.dialect == SQLite:
		guard = "in one file, or in this process when the database is in memory"
	}
	return fmt.Sprintf("sql (%s, table %s): unique as long as committed rows stay committed; %s", s.dialect, s.own.table, guard)
}

func (s *store) window() int64 { return s.settings.Timing.Window.Milliseconds() }

func (s *store) expiry() int64 { return s.settings.Timing.Expiry.Milliseconds() }

// reach is how far past the database's clock a high water may lie.
func (s *store) reach() int64 {
	return (s.settings.Timing.Window + s.settings.Timing.Slack).Milliseconds()
}

// Extend is one statement when it succeeds. Otherwise a second one asks why.
func (s *store) Extend(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
	database, err := s.open(ctx)
	if err != nil {
		return lease.Grant{}, err
	}
	if database.memory != nil {
		return database.memory.Extend(ctx, held, through)
	}
	if held.Token == "" {
		return lease.Grant{}, lease.LostError(held)
	}
	through = max(through, held.Through)
	capped := through
	if through == held.Through {
		capped = 0 // what was granted once is not refused later
	}
	args := []any{through, s.expiry(), held.Namespace, held.Worker, held.Token, held.Term, held.Through, capped, s.reach()}
	var storeNow int64
	var done bool
	err = s.retry(ctx, "extend a lease", func() (err error) {
		storeNow, done, err = s.runExtend(ctx, args)
		return err
	})
	if err != nil {
		return lease.Grant{}, err
	}
	if !done {
		if storeNow, err = s.explain(ctx, held, through); err != nil {
			return lease.Grant{}, err
		}
	}
	held.Through, held.StoreNow = through, storeNow
	return held, nil
}

// runExtend runs the statement and returns the database's clock with it.
func (s *store) runExtend(ctx context.Context, args []any) (storeNow int64, done bool, err error) {
	if s.dialect == Postgres {
		err := s.db.QueryRowContext(ctx, s.texts.extend, args...).Scan(&storeNow)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, false, nil
		}
		return storeNow, err == nil, err
	}
	result, err := s.db.ExecContext(ctx, s.texts.extend, args...)
	if err != nil {
		return 0, false, err
	}
	n, err := result.RowsAffected()
	if err != nil || n == 0 {
		return 0, false, err
	}
	if s.dialect == SQLite {
		return time.Now().UnixMilli(), true, nil // the same machine's clock
	}
	storeNow, err = result.LastInsertId()
	return storeNow, err == nil, err
}

// explain says why an extension changed nothing. It is nil when there was
// nothing to change: MySQL does not count a row that has the values already.
func (s *store) explain(ctx context.Context, held lease.Grant, through int64) (storeNow int64, err error) {
	row, storeNow, ok, err := s.readRow(ctx, held.Namespace, held.Worker)
	switch {
	case err != nil:
		return 0, err
	case !ok || row.Owner != held.Token || row.Term != held.Term || row.HighWater != held.Through:
		return 0, lease.LostError(held)
	case through == held.Through:
		return storeNow, nil
	}
	if err := s.settings.Timing.CheckCap(through, storeNow); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("sqllease: extend a lease: the row of worker %d was held and yet not changed, as happens while the database's clock passes the cap; try again", held.Worker)
}

func (s *store) Release(ctx context.Context, held lease.Grant, used int64) error {
	database, err := s.open(ctx)
	if err != nil {
		return err
	}
	if database.memory != nil {
		return database.memory.Release(ctx, held, used)
	}
	if held.Token == "" {
		return nil
	}
	return s.retry(ctx, "release a lease", func() error {
		_, err := s.db.ExecContext(ctx, s.texts.free, held.Namespace, held.Worker, held.Token, held.Term)
		return err
	})
}

func (s *store) Lookup(ctx context.Context, namespace string, worker int64) (lease.Row, bool, error) {
	database, err := s.open(ctx)
	if err != nil {
		return lease.Row{}, false, err
	}
	if database.memory != nil {
		return database.memory.Lookup(ctx, namespace, worker)
	}
	row, _, ok, err := s.readRow(ctx, namespace, worker)
	if err != nil && classify(err) == missing && s.own.create {
		return lease.Row{}, false, nil // the first Acquire makes the table
	}
	return row, ok, err
}

// List returns the rows of a namespace, by worker id.
func (s *store) List(ctx context.Context, namespace string) ([]lease.Row, error) {
	database, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	if database.memory != nil {
		return database.memory.(lease.Lister).List(ctx, namespace)
	}
	rows, err := s.readRows(ctx, "list the leases", s.texts.list, namespace)
	if err != nil && classify(err) == missing && s.own.create {
		return nil, nil
	}
	return rows, err
}

func (s *store) readRow(ctx context.Context, namespace string, worker int64) (row lease.Row, storeNow int64, ok bool, err error) {
	err = s.retry(ctx, "read a lease", func() error {
		err := s.db.QueryRowContext(ctx, s.texts.row, namespace, worker).
			Scan(&row.Worker, &row.Term, &row.Owner, &row.HighWater, &row.ExpiresAt, &storeNow)
		ok = err == nil
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	row.Held = row.ExpiresAt > storeNow
	return row, storeNow, ok, err
}

func (s *store) readRows(ctx context.Context, what, text string, args ...any) (found []lease.Row, err error) {
	err = s.retry(ctx, what, func() error {
		found = nil
		rows, err := s.db.QueryContext(ctx, text, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var row lease.Row
			var storeNow int64
			if err := rows.Scan(&row.Worker, &row.Term, &row.Owner, &row.HighWater, &row.ExpiresAt, &storeNow); err != nil {
				return err
			}
			row.Held = row.ExpiresAt > storeNow
			found = append(found, row)
		}
		return rows.Err()
	})
	return found, err
}
