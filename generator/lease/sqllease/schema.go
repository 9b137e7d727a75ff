package sqllease

import (
	"context"
	"fmt"
	"strings"

	"github.com/gormflake/gormflake/generator/lease"
)

// Schema returns the statements, each ended by a semicolon, that create the
// tables a store of this dialect needs, for programs that may not run DDL
// themselves (see WithoutCreate). Of the options only Table matters. An
// unknown dialect gives an empty text.
//
// The store reads and writes its tables with SELECT, INSERT and UPDATE alone.
func Schema(dialect Dialect, options ...Option) string {
	if dialect.validate() != nil {
		return ""
	}
	settings := defaults(dialect).Apply(options)
	var b strings.Builder
	for _, statement := range ddl(dialect, settings.Own.(*own).table) {
		b.WriteString(statement)
		b.WriteString(";\n")
	}
	return b.String()
}

func ddl(d Dialect, table string) []string {
	// MySQL compares text without regard to case unless told otherwise, and
	// the storage engine must be one that commits.
	text, ending := "VARCHAR(%d) NOT NULL", ""
	if d == MySQL {
		text = "VARCHAR(%d) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
		ending = " ENGINE=InnoDB"
	}
	column := func(name string, length int) string { return "  " + name + " " + fmt.Sprintf(text, length) + ",\n" }
	create := func(suffix, body string) string {
		return "CREATE TABLE IF NOT EXISTS " + d.quote(table, suffix) + " (\n" + body + "\n)" + ending
	}
	return []string{
		create("", column("namespace", 64)+
			"  worker_id INTEGER NOT NULL,\n"+
			"  term BIGINT NOT NULL,\n"+
			column("owner", 64)+
			"  high_water BIGINT NOT NULL,\n"+
			"  expires_at BIGINT NOT NULL,\n"+
			"  PRIMARY KEY (namespace, worker_id)"),
		create("_namespaces", column("namespace", 64)+
			column("layout", 64)+
			column("identity", 128)+
			"  identity_floor BIGINT NOT NULL,\n"+
			"  reach BIGINT NOT NULL,\n"+
			"  PRIMARY KEY (namespace)"),
		create("_blocks", column("namespace", 64)+
			"  worker_id INTEGER NOT NULL,\n"+
			"  version BIGINT NOT NULL,\n"+
			"  first_tick BIGINT NOT NULL,\n"+
			"  last_tick BIGINT NOT NULL,\n"+
			"  first_sequence BIGINT NOT NULL,\n"+
			"  last_sequence BIGINT NOT NULL,\n"+
			"  PRIMARY KEY (namespace, worker_id, version)"),
	}
}

// create creates what is missing of the tables. Others may do so at the same
// time.
func (s *store) create(ctx context.Context, missing error) error {
	if !s.own.create {
		return fmt.Errorf("sqllease: want the table %s, which is missing, and WithoutCreate forbids to create it; run the statements of sqllease.Schema(%q): %w",
			s.own.table, s.dialect, missing)
	}
	for _, statement := range ddl(s.dialect, s.own.table) {
		err := s.retry(ctx, "create a table", func() error {
			_, err := s.db.ExecContext(ctx, statement)
			return err
		})
		if err != nil {
			return fmt.Errorf("sqllease: want the table %s, which is missing and could not be created; let this account create tables, or run the statements of sqllease.Schema(%q) with another: %w",
				s.own.table, s.dialect, err)
		}
	}
	return nil
}

// defaults are the settings before any option.
func defaults(d Dialect) lease.Settings {
	timing := sqlTiming
	if d == SQLite {
		timing = sqliteTiming
	}
	return lease.Settings{Timing: timing, Own: &own{table: DefaultTable, create: true}}
}
