package migrate

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"
)

// keptStatements bounds what a PartialError lists.
const keptStatements = 64

// boolSession is one connection of its own on which a step runs. The advisory
// lock lives on it, so that a runner which loses the connection loses the lock
// and the power to go on at the same moment.
type boolSession struct {
	conn     *sql.Conn
	pool     *sql.DB
	id       int64
	server   string // VERSION()
	mariadb  bool
	schema   string
	maxBlock time.Duration
	patience time.Duration
	locked   string // the advisory lock's name, once it is held
	applied  []string
	failed   string
	hook     func(statement string) // tests only: called after every statement that changed something
}

// openBoolSession takes a connection out of db's pool and sets it up. Neither the
// application's sql_mode nor its character set may change what a statement means
// or how SHOW CREATE TABLE spells it.
func openBoolSession(ctx context.Context, db *gorm.DB) (*boolSession, error) {
	pool, err := poolOf(db)
	if err != nil {
		return nil, err
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: no connection: %w", err)
	}
	s := &boolSession{conn: conn, pool: pool, maxBlock: 100 * time.Millisecond, patience: time.Minute}
	for _, set := range []string{
		"SET NAMES utf8mb4",
		"SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
		"SET SESSION lock_wait_timeout = 1",
		"SET SESSION innodb_lock_wait_timeout = 5",
		"SET SESSION sql_quote_show_create = 1",
	} {
		if _, err := conn.ExecContext(ctx, set); err != nil {
			s.close()
			return nil, fmt.Errorf("migrate: %s: %w", set, err)
		}
	}
	var schema sql.NullString
	if err := conn.QueryRowContext(ctx, "SELECT VERSION(), CONNECTION_ID(), DATABASE()").Scan(&s.server, &s.id, &schema); err != nil {
		s.close()
		return nil, fmt.Errorf("migrate: %w", err)
	}
	if !schema.Valid {
		s.close()
		return nil, errors.New("migrate: expected a connection to a database; name one in the DSN")
	}
	s.schema = schema.String
	s.mariadb = strings.Contains(strings.ToLower(s.server), "mariadb")
	return s, nil
}

// poolOf is the connection pool under db, past every plugin. MySQL's DDL would
// commit a transaction that db is inside of.
func poolOf(db *gorm.DB) (*sql.DB, error) {
	if db == nil || db.Dialector == nil || db.Name() != "mysql" {
		return nil, ErrNotMySQL
	}
	if _, inside := db.Statement.ConnPool.(gorm.TxCommitter); inside {
		return nil, errors.New("migrate: expected a *gorm.DB that isn't inside a transaction, which MySQL's DDL would commit")
	}
	pool, err := db.DB()
	if err != nil {
		return nil, fmt.Errorf("migrate: expected a *gorm.DB on a pool of connections: %w", err)
	}
	return pool, nil
}

// close gives up the connection instead of returning it to the pool, since its
// settings must not leak into the application. The server frees the advisory lock
// when it notices, so it is released first, for whoever calls the next step.
func (s *boolSession) close() {
	if s.locked != "" {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = s.conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", s.locked)
	}
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = s.conn.Close()
}

// lock takes the table's advisory lock.
func (s *boolSession) lock(ctx context.Context, table string, wait time.Duration) error {
	seconds := max(0, int(wait/time.Second))
	var got sql.NullInt64
	name := lockName(s.schema, table)
	if err := s.conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", name, seconds).Scan(&got); err != nil {
		return fmt.Errorf("migrate: GET_LOCK: %w", err)
	}
	if got.Int64 == 1 {
		s.locked = name
		return nil
	}
	var holder sql.NullInt64
	_ = s.conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", name).Scan(&holder)
	return fmt.Errorf("%w: expected the lock %s on table %s within %d s, connection %d holds it", ErrLocked, name, table, seconds, holder.Int64)
}

// lockName stays within the 64 characters that MySQL 5.7 allows.
func lockName(schema, table string) string {
	return "gormflake.bools." + shortHash(schema+"."+table)
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}

// exec runs one statement that changes rows and records it.
func (s *boolSession) exec(ctx context.Context, statement string, args ...any) (sql.Result, error) {
	r, err := s.conn.ExecContext(ctx, statement, args...)
	return r, s.record(statement, err)
}

func (s *boolSession) record(statement string, err error) error {
	if err != nil {
		s.failed = statement
		return err
	}
	if len(s.applied) == keptStatements {
		s.applied = append(s.applied[:0], s.applied[1:]...)
	}
	s.applied = append(s.applied, statement)
	if s.hook != nil {
		s.hook(statement)
	}
	return nil
}

// ddl runs one DDL statement. While it waits for the metadata lock, every new
// statement on the table queues behind it; so a watcher on a second connection
// cancels it after maxBlock, and it is tried again once the queue has drained.
func (s *boolSession) ddl(ctx context.Context, statement string) error {
	giveUp := time.Now().Add(s.patience)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := s.watched(ctx, statement)
		if !isLockTimeout(err) || ctx.Err() != nil {
			return s.record(statement, err)
		}
		if !time.Now().Before(giveUp) {
			return s.record(statement, fmt.Errorf("%w: expected the metadata lock within %v (trying for %v each time), transactions of others kept it: %w",
				ErrBusy, s.patience, s.maxBlock, err))
		}
		select {
		case <-ctx.Done():
			return s.record(statement, ctx.Err())
		case <-time.After(pause + rand.N(pause)):
		}
	}
}

// watched runs the statement beside its watcher, and returns after both ended.
func (s *boolSession) watched(ctx context.Context, statement string) error {
	watch, stop := context.WithCancel(ctx)
	killed := make(chan bool, 1)
	go func() { killed <- s.watch(watch) }()
	_, err := s.conn.ExecContext(ctx, statement)
	stop()
	if <-killed {
		_, _ = s.conn.ExecContext(ctx, "DO 0") // should the KILL have come late, it hits this
	}
	return err
}

// watch cancels the session's statement when it has waited for a metadata lock
// for longer than maxBlock. Without a second connection the session's
// lock_wait_timeout of one second is what is left. It reports whether it cancelled.
func (s *boolSession) watch(ctx context.Context) bool {
	tick := time.NewTicker(max(s.maxBlock/4, 5*time.Millisecond))
	defer tick.Stop()
	var since time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		var state sql.NullString
		err := s.pool.QueryRowContext(ctx, "SELECT STATE FROM information_schema.PROCESSLIST WHERE ID = ?", s.id).Scan(&state)
		switch {
		case err != nil || !strings.HasPrefix(state.String, "Waiting for table metadata lock"):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= s.maxBlock*3/4:
			// Not cancelled with ctx: the KILL must be over before the next statement.
			_, _ = s.pool.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf("KILL QUERY %d", s.id))
			return true
		}
	}
}

// isLockTimeout tells a lock wait that ran out or was cancelled by the watcher.
func isLockTimeout(err error) bool {
	switch mysqlError(err) {
	case 1205, 1317, 1213: // lock wait timeout, query interrupted, deadlock
		return true
	}
	return false
}

func mysqlError(err error) uint16 {
	if my, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return my.Number
	}
	return 0
}

// quoteName writes an identifier.
func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
