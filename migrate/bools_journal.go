package migrate

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// journalTable keeps one row per migration under way, in the same schema: how the
// columns were defined before, which the schema forgets at the swap, and how far
// the backfill came. What has been done is never read from it, but from the schema.
const journalTable = "gormflake_bool_migrations"

const createJournal = "CREATE TABLE IF NOT EXISTS " + journalTable + ` (
  table_name varchar(64) CHARACTER SET utf8 COLLATE utf8_bin NOT NULL PRIMARY KEY,
  plan mediumtext CHARACTER SET utf8mb4 NOT NULL,
  last_key varchar(24) CHARACTER SET ascii NULL
) ENGINE=InnoDB`

// planRecord is what the journal keeps of a plan.
type planRecord struct {
	Table      string
	Key        string
	Target     string
	Overrides  []string
	Columns    []columnPlan
	Triggers   map[string]string // bodies by event, so that a newer version of this package knows them again
	Indexes    []indexPlan
	AutoUpdate []string // columns with ON UPDATE CURRENT_TIMESTAMP, which a backfill must not touch
	Original   string   // SHOW CREATE TABLE without AUTO_INCREMENT=
	Algorithms map[string]algorithm
}

// indexPlan is an index that follows the old column at the swap, and so needs a
// twin on the new one.
type indexPlan struct {
	Name   string
	Helper string
	New    string // the column list with the helpers' names
	Final  string // the column list with the columns' own names
}

// readRecord returns nil when no migration of the table is under way.
func (s *boolSession) readRecord(ctx context.Context, table string) (*planRecord, error) {
	var text string
	err := s.conn.QueryRowContext(ctx, "SELECT plan FROM "+journalTable+" WHERE table_name = ?", table).Scan(&text)
	if err == sql.ErrNoRows || mysqlError(err) == 1146 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("migrate: reading %s: %w", journalTable, err)
	}
	r := new(planRecord)
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("migrate: the row of %s in %s: %w", table, journalTable, err)
	}
	return r, nil
}

// writeRecord enters a plan before its first DDL statement. Another runner that
// finishes may drop the empty table in between, hence the second try.
func (s *boolSession) writeRecord(ctx context.Context, r *planRecord) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		if _, err := s.exec(ctx, createJournal); err != nil {
			return err
		}
		_, err := s.exec(ctx, "INSERT INTO "+journalTable+" (table_name, plan) VALUES (?, ?)", r.Table, string(text))
		if mysqlError(err) != 1146 || try == 3 {
			return err
		}
	}
}

// forget removes the table's row, and the journal with its last one. The lock
// makes sure that no row comes in between the count and the drop.
func (s *boolSession) forget(ctx context.Context, table string) error {
	_, err := s.exec(ctx, "DELETE FROM "+journalTable+" WHERE table_name = ?", table)
	if mysqlError(err) == 1146 {
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.ddl(ctx, "LOCK TABLES "+journalTable+" WRITE"); err != nil {
		if mysqlError(err) == 1146 {
			return nil
		}
		return err
	}
	defer func() { _, _ = s.conn.ExecContext(context.WithoutCancel(ctx), "UNLOCK TABLES") }()
	var rows int
	if err := s.conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+journalTable).Scan(&rows); err != nil || rows > 0 {
		return err
	}
	_, err = s.exec(ctx, "DROP TABLE "+journalTable)
	return err
}

// sameAs says how a plan that is asked for differs from the one under way. What is
// accepted may differ: it decides nothing of the columns, and objects come and go.
func (r *planRecord) sameAs(columns []string, target string, overrides []string) error {
	var have []string
	for _, c := range r.Columns {
		have = append(have, c.Name)
	}
	equal := slices.EqualFunc(slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(columns)), strings.EqualFold)
	if len(columns) > 0 && !equal || target != r.Target || !slices.Equal(withoutAccept(r.Overrides), withoutAccept(overrides)) {
		return fmt.Errorf("%w: expected columns %v, target %s and overrides %v of table %s, met %v, %s and %v; finish it or roll it back with its own plan",
			ErrPlanChanged, have, r.Target, r.Overrides, r.Table, columns, target, overrides)
	}
	return nil
}

func withoutAccept(spelled []string) []string {
	return slices.DeleteFunc(slices.Clone(spelled), func(o string) bool { return strings.HasPrefix(o, overrideAccept+"(") })
}
