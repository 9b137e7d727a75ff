package migrate

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"gorm.io/gorm"
)

// adopter is what one kind of database contributes, on one connection.
type adopter interface {
	// inspect reads the schema as it is now.
	inspect(ctx context.Context, spec AdoptSpec) (*AdoptReport, error)
	// forward lists what still has to be done, from what was and what is.
	forward(ctx context.Context, was, now *AdoptReport) ([]AdoptStatement, error)
	// backward lists what brings the table back; only the columns in narrow get
	// their old types. next is the number after the largest old id.
	backward(ctx context.Context, was, now *AdoptReport, narrow []AdoptColumn, next int64) ([]AdoptStatement, error)
	run(ctx context.Context, s AdoptStatement) error
	lock(ctx context.Context, table string) error
	// db, quote and placeholder serve the statements that are the same everywhere.
	db() *sql.Conn
	quote(name string) string
	placeholder(n int) string
	close()
}

// openAdopter takes a connection out of db's pool, past every plugin.
func openAdopter(ctx context.Context, db *gorm.DB, spec AdoptSpec) (adopter, error) {
	if db == nil || db.Dialector == nil {
		return nil, ErrDialect
	}
	if db.Name() == "mysql" {
		return openMySQLAdopter(ctx, db, spec)
	}
	if db.Name() != "postgres" && db.Name() != "sqlite" {
		return nil, fmt.Errorf("%w, met %s", ErrDialect, db.Name())
	}
	if _, inside := db.Statement.ConnPool.(gorm.TxCommitter); inside {
		return nil, errors.New("migrate: expected a *gorm.DB that isn't inside a transaction; each statement has one of its own")
	}
	pool, err := db.DB()
	if err != nil {
		return nil, fmt.Errorf("migrate: expected a *gorm.DB on a pool of connections: %w", err)
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: no connection: %w", err)
	}
	if db.Name() == "postgres" {
		return &postgresAdopter{conn: conn, spec: spec}, nil
	}
	return &sqliteAdopter{conn: conn, spec: spec}, nil
}

// adoptJournal keeps, for each adopted table, the report of how it was before.
// What has been done is never read from it, but from the schema.
const adoptJournal = "gormflake_adoptions"

const createAdoptJournal = "CREATE TABLE IF NOT EXISTS " + adoptJournal + ` (
  table_name varchar(128) NOT NULL PRIMARY KEY,
  report text NOT NULL
)`

// readAdoption returns nil when the table's adoption hasn't begun, or was rolled back.
func readAdoption(ctx context.Context, a adopter, table string) (*AdoptReport, error) {
	r, err := readRecord(ctx, a, table)
	if err != nil || r == nil || r.RolledBack {
		return nil, err
	}
	return r, nil
}

// readRecord returns the table's row of the journal, nil for none.
func readRecord(ctx context.Context, a adopter, table string) (*AdoptReport, error) {
	var text string
	exists, err := hasJournal(ctx, a)
	if err != nil || !exists {
		return nil, err
	}
	err = a.db().QueryRowContext(ctx, "SELECT report FROM "+adoptJournal+" WHERE table_name = "+a.placeholder(1), table).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("migrate: reading %s: %w", adoptJournal, err)
	}
	r := new(AdoptReport)
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("migrate: the row of %s in %s: %w", table, adoptJournal, err)
	}
	return r, nil
}

// readAdoptions returns the reports of all tables whose adoption has begun.
func readAdoptions(ctx context.Context, a adopter) (all []*AdoptReport, err error) {
	exists, err := hasJournal(ctx, a)
	if err != nil || !exists {
		return nil, err
	}
	found, err := texts(ctx, a.db(), "SELECT report FROM "+adoptJournal+" ORDER BY table_name")
	if err != nil {
		return nil, err
	}
	for _, text := range found {
		r := new(AdoptReport)
		if err := json.Unmarshal([]byte(text), r); err != nil {
			return nil, fmt.Errorf("migrate: a row of %s: %w", adoptJournal, err)
		}
		if !r.RolledBack {
			all = append(all, r)
		}
	}
	return all, nil
}

func hasJournal(ctx context.Context, a adopter) (bool, error) {
	query := "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '" + adoptJournal + "'"
	switch a.(type) {
	case *postgresAdopter:
		query = "SELECT COUNT(*) FROM pg_class WHERE oid = to_regclass('" + adoptJournal + "')"
	case *sqliteAdopter:
		query = "SELECT COUNT(*) FROM sqlite_master WHERE name = '" + adoptJournal + "'"
	}
	var n int
	if err := a.db().QueryRowContext(ctx, query).Scan(&n); err != nil {
		return false, fmt.Errorf("migrate: looking for %s: %w", adoptJournal, err)
	}
	return n > 0, nil
}

// adoptRow is how the journal writes a report, with the names of Go.
type adoptRow AdoptReport

// writeAdoption enters the report, or replaces one that knew fewer columns or was
// rolled back.
func writeAdoption(ctx context.Context, a adopter, table string, r *AdoptReport) error {
	row := adoptRow(*r)
	row.Progress, row.Next = AdoptNotBegun, nil
	text, err := json.Marshal(row)
	if err != nil {
		return err
	}
	was, err := readRecord(ctx, a, table)
	if err != nil {
		return err
	}
	if err := makeJournal(ctx, a); err != nil {
		return err
	}
	statement := "INSERT INTO " + adoptJournal + " (report, table_name) VALUES (" + a.placeholder(1) + ", " + a.placeholder(2) + ")"
	if was != nil {
		statement = "UPDATE " + adoptJournal + " SET report = " + a.placeholder(1) + " WHERE table_name = " + a.placeholder(2)
	}
	if _, err := a.db().ExecContext(ctx, statement, string(text), table); err != nil {
		return fmt.Errorf("migrate: writing %s: %w", adoptJournal, err)
	}
	if pg, ok := a.(*postgresAdopter); ok {
		pg.confirmed(statement)
	}
	return nil
}

// makeJournal makes the journal where the search path finds none. Postgres lets two
// sessions collide in CREATE TABLE IF NOT EXISTS.
func makeJournal(ctx context.Context, a adopter) error {
	if exists, err := hasJournal(ctx, a); err != nil || exists {
		return err
	}
	if _, err := a.db().ExecContext(ctx, createAdoptJournal); err != nil {
		if exists, _ := hasJournal(ctx, a); !exists {
			return fmt.Errorf("migrate: creating %s: %w", adoptJournal, err)
		}
	}
	return nil
}

// forgetAdoption removes the table's row, or, where the table has snowflake ids, keeps
// of it from where on they are. The journal stays: another table's runner may be
// about to write to it.
func forgetAdoption(ctx context.Context, a adopter, table string, r *AdoptReport) error {
	if exists, err := hasJournal(ctx, a); err != nil || !exists {
		return err
	}
	largest, fits, err := maxOf(ctx, a, r.Key.reference(), 0)
	if err != nil {
		return err
	}
	if !fits || largest >= r.firstSnowflake() {
		over := *r
		over.RolledBack = true
		return writeAdoption(ctx, a, table, &over)
	}
	if _, err := a.db().ExecContext(ctx, "DELETE FROM "+adoptJournal+" WHERE table_name = "+a.placeholder(1), table); err != nil {
		return fmt.Errorf("migrate: clearing %s: %w", adoptJournal, err)
	}
	return nil
}

// maxOf is the largest value of a column below a bound, 0 for none; ok is false
// for one that doesn't fit into an int64.
func maxOf(ctx context.Context, a adopter, c Reference, below int64) (v int64, ok bool, err error) {
	// As text the result has one type before and after, which cached plans ask for.
	query := "SELECT TRIM(CAST(MAX(" + a.quote(c.Column) + ") AS CHAR(24))) FROM " + a.quote(c.Table)
	if below > 0 {
		query += " WHERE " + a.quote(c.Column) + " < " + strconv.FormatInt(below, 10)
	}
	var largest sql.NullString
	if err := a.db().QueryRowContext(ctx, query).Scan(&largest); err != nil {
		return 0, false, fmt.Errorf("migrate: the largest value of %s: %w", c, err)
	}
	if !largest.Valid {
		return 0, true, nil
	}
	v, err = strconv.ParseInt(largest.String, 10, 64)
	return v, err == nil, nil
}

// texts reads one column of text.
func texts(ctx context.Context, conn *sql.Conn, query string, args ...any) (all []string, err error) {
	rows, err := conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w (in: %s)", err, query)
	}
	defer rows.Close()
	for rows.Next() {
		var v sql.NullString
		if err := rows.Scan(&v); err != nil {
			return nil, fmt.Errorf("migrate: %w (in: %s)", err, query)
		}
		all = append(all, v.String)
	}
	return all, rows.Err()
}

// retry calls do until it succeeds, fails for another reason than a lock, or
// patience ends.
func retry(ctx context.Context, patience time.Duration, busy func(error) bool, do func() error) error {
	giveUp := time.Now().Add(patience)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := do()
		if err == nil || !busy(err) || ctx.Err() != nil {
			return err
		}
		if !time.Now().Before(giveUp) {
			return fmt.Errorf("%w: expected its lock within %v, transactions of others kept it: %w", ErrBusy, patience, err)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// judgeAdoption refuses what is the same on every database. begun says that the
// table may hold snowflake ids already.
func judgeAdoption(r *AdoptReport, spec AdoptSpec, fits, begun bool) {
	if r.Key.Column == "" {
		return // the database's own part has said why
	}
	if r.Key.Bits == 0 {
		r.refuse("not-an-integer", r.Key.Column, "", "the key is "+r.Key.Type, "only integer keys can be adopted; give the table a new key")
	}
	for _, c := range r.References {
		if c.Bits == 0 {
			r.refuse("reference-type", c.reference().String(), "", "it is "+c.Type+" and holds keys that are integers", "change it to an integer first, or don't declare it")
		}
	}
	for _, c := range r.columns() {
		if c.Bits == 64 && c.Unsigned && !spec.Unsigned {
			r.refuse("unsigned", c.reference().String(), "", "it is "+c.Type+", and a snowflake id is a signed 64-bit integer",
				"set AdoptSpec.Unsigned (--unsigned) to make it bigint, once no program relies on the type")
		}
	}
	if spec.KeepNumbering && r.Dialect != "postgres" {
		r.refuse("keep-numbering", r.Key.Column, "", "the counter of this database follows the largest key, so after the first snowflake id it would give ids that the plugin gives too",
			"leave KeepNumbering (--keep-numbering) out")
	}
	if !begun && (!fits || r.MaxID >= r.FirstID) {
		met := strconv.FormatInt(r.MaxID, 10)
		if !fits {
			met = "more than a signed 64-bit integer holds"
		}
		r.refuse("max-id", r.Key.Column, "", fmt.Sprintf("the largest id is %s, the first snowflake id of now %d", met, r.FirstID),
			"choose a layout whose ids are larger: an earlier epoch, or the one that made these ids")
	}
	names := map[string]bool{}
	for _, c := range r.columns() {
		if c.ready() || c.Bits == 0 || names[c.Table] {
			continue
		}
		names[c.Table] = true
		rows := "its number of rows isn't known before an ANALYZE"
		if c.Rows >= 0 {
			rows = "about " + strconv.FormatInt(c.Rows, 10) + " rows"
		}
		if r.Widening == WidenOnline {
			r.hazard("fill", "widening writes every row of table %s once more (%s), and builds the indexes of the widened columns anew; have as much free disk as the table takes, and let autovacuum follow", c.Table, rows)
			continue
		}
		r.hazard("copy", "widening rewrites table %s (%s), and needs as much free disk; see the plan for what waits meanwhile", c.Table, rows)
	}
}

// missing are the members of was that now lacks.
func missing[T any](was, now []T, same func(T, T) bool) (all []T) {
	for _, w := range was {
		if !slices.ContainsFunc(now, func(n T) bool { return same(w, n) }) {
			all = append(all, w)
		}
	}
	return all
}
