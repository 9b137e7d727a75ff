package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"
)

// maxHistogram bounds the distinct values that an inspection lists per column.
const maxHistogram = 64

// BoolReport tells what a table's boolean columns hold and what depends on them.
type BoolReport struct {
	Server  string // VERSION()
	SQLMode string // of the connection as the application opens it
	Strict  bool   // whether SQLMode refuses values that don't fit
	Schema  string
	Table   string
	Engine  string
	Bytes   int64 // data and indexes, by the server's statistics
	Create  string
	Key     KeyColumn
	Columns []BoolColumn
	Objects []Object // what mentions one of the columns, and every trigger of the table

	Migration *BoolMigration // nil when none is under way on the table; set by InspectBools

	create tableCreate
}

// KeyColumn is the table's primary key, as far as a backfill can walk it.
type KeyColumn struct {
	Name    string // "" unless the key is one integer column
	Columns []string
	Integer bool
}

// BoolColumn is one column and the values met in it.
type BoolColumn struct {
	Name       string
	Type       string // COLUMN_TYPE
	Charset    string // "" for numbers and bits
	Nullable   bool
	Default    Default
	Comment    string
	Definition string   // what SHOW CREATE TABLE says after the name
	Encoding   Encoding // zero unless Known
	Known      bool     // whether the type speaks for itself
	Values     []ValueCount
	More       bool // there are more distinct values than Values lists

	dataType string
}

// ValueCount is one line of a column's histogram.
type ValueCount struct {
	Text    string // the label; the number of a tinyint or bit, in decimal
	Null    bool
	Rows    int64
	Meaning Meaning
}

// Meaning is what a stored value says under a column's encoding alone.
type Meaning string

// The meanings.
const (
	MeansTrue    Meaning = "true"
	MeansFalse   Meaning = "false"
	MeansNull    Meaning = "null"
	MeansEmpty   Meaning = "empty"   // '': an enum's error value, or an empty text
	MeansVariant Meaning = "variant" // a label but for case or blanks
	MeansNothing Meaning = "unknown" // a third label, a number out of range
)

// Object is something in the schema that depends on a column.
type Object struct {
	Code   string // "index", "unique-key", "primary-key", "foreign-key", "view", "trigger", "routine", "event", "check", "generated", "partition"
	Name   string // with its schema when that is another one
	Column string // "" for a trigger of the table that mentions none of them
	Detail string
}

// InspectBools reads what the named columns hold, or, with none named, every
// column whose type speaks for itself as a boolean and isn't a plain tinyint. It
// scans the table once per column, once more while a migration is being filled,
// and changes nothing.
func InspectBools(ctx context.Context, db *gorm.DB, table string, columns ...string) (*BoolReport, error) {
	spec, err := BoolSpec{Table: table, Columns: columns}.resolve(db)
	if err != nil {
		return nil, err
	}
	mode, err := sessionMode(ctx, db)
	if err != nil {
		return nil, err
	}
	s, err := openBoolSession(ctx, db)
	if err != nil {
		return nil, err
	}
	defer s.close()
	r, err := s.inspect(ctx, spec.Table, spec.Columns, false)
	if err != nil {
		return nil, err
	}
	r.setMode(mode)
	r.Migration, err = s.underWay(ctx, r.Table)
	return r, err
}

// BoolMigration is a migration that has begun and is neither cleaned up nor
// rolled back.
type BoolMigration struct {
	Columns []string
	Target  string
	Phase   BoolPhase // "" if the schema is in none of them
	Problem string    // why it is in none
	Filled  bool      // in the phase prepared: every row agrees and the indexes are there, so that Swap may follow
}

// String says what was begun and which step comes next.
func (m *BoolMigration) String() string {
	return fmt.Sprintf("a migration of %s to %s is under way: %s", strings.Join(m.Columns, ", "), m.Target, m.next())
}

func (m *BoolMigration) next() string {
	switch m.Phase {
	case PhaseOriginal:
		return "begun, but no column was added yet; next is Prepare, or Rollback to forget it"
	case PhasePartial:
		return "partial: Prepare was interrupted; call it again, or Rollback"
	case PhasePrepared:
		if m.Filled {
			return "filled and verified; next is Swap, or Rollback"
		}
		return "prepared; next are Backfill, Verify and Swap, or Rollback"
	case PhaseSwapped:
		return "swapped; next is Cleanup, or Rollback"
	case PhaseClosing:
		return "closing: Cleanup was interrupted; call it again"
	case PhaseFinished:
		return "finished, but for its row in " + journalTable + "; call Cleanup again"
	}
	return m.Problem
}

// underWay reads the journal and the phase. A schema that is in no phase is
// reported and no error: an inspection must show it.
func (s *boolSession) underWay(ctx context.Context, table string) (*BoolMigration, error) {
	record, err := s.readRecord(ctx, table)
	if record == nil {
		return nil, err
	}
	m := &BoolMigration{Columns: each(record.Columns, func(c columnPlan) string { return c.Name }), Target: record.Target}
	st, err := s.state(ctx, record)
	switch {
	case errors.Is(err, ErrOutOfOrder):
		m.Problem = err.Error()
	case err != nil:
		return nil, err
	default:
		m.Phase = st.phase
	}
	if m.Phase != PhasePrepared || len(record.missingIndexes(st)) > 0 {
		return m, nil
	}
	report, err := s.verify(ctx, record, st.phase)
	if err != nil {
		return nil, err
	}
	m.Filled = report.OK()
	return m, nil
}

// BoolsDone reports whether there is nothing to migrate: no migration of the
// table is under way, and every column that spec names has the target's type; with
// none named, no column is a legacy boolean that speaks for itself. It holds after
// Cleanup, whose plan can no longer be made, and for a table that never was any
// other. It reads the schema only.
func BoolsDone(ctx context.Context, db *gorm.DB, spec BoolSpec) (bool, error) {
	spec, err := spec.resolve(db)
	if err != nil {
		return false, err
	}
	target, err := spec.target()
	if err != nil {
		return false, err
	}
	s, err := openBoolSession(ctx, db)
	if err != nil {
		return false, err
	}
	defer s.close()
	if record, err := s.readRecord(ctx, spec.Table); record != nil || err != nil {
		return false, err
	}
	r, all, err := s.readTable(ctx, spec.Table)
	if err != nil {
		return false, err
	}
	for _, c := range all {
		if len(spec.Columns) == 0 && c.speaks(target.Kind == Enum) && c.Encoding.Kind != target.Kind {
			return false, nil
		}
	}
	for _, name := range spec.Columns {
		i := slices.IndexFunc(all, func(c BoolColumn) bool { return strings.EqualFold(c.Name, name) })
		if i < 0 {
			return false, fmt.Errorf("migrate: expected a column %s in table %s, met none", name, r.Table)
		}
		c := all[i]
		if _, helper := r.create.columns[HelperColumn(c.Name)]; helper || !c.Known || c.Encoding.Kind != target.Kind ||
			target.Kind == Enum && (c.Encoding.True != target.True || c.Encoding.False != target.False) {
			return false, nil
		}
	}
	return true, nil
}

// speaks reports whether a column is taken without being named.
func (c BoolColumn) speaks(integers bool) bool {
	return c.Known && (c.Encoding.Kind == Enum || c.Encoding.Kind == Bit || integers && c.Encoding.Kind == Integer)
}

// sessionMode asks for the sql_mode on a connection that we haven't set up.
func sessionMode(ctx context.Context, db *gorm.DB) (mode string, err error) {
	pool, err := poolOf(db)
	if err != nil {
		return "", err
	}
	if err := pool.QueryRowContext(ctx, "SELECT @@SESSION.sql_mode").Scan(&mode); err != nil {
		return "", fmt.Errorf("migrate: sql_mode: %w", err)
	}
	return mode, nil
}

func (r *BoolReport) setMode(mode string) {
	r.SQLMode = mode
	r.Strict = strings.Contains(mode, "STRICT_TRANS_TABLES") || strings.Contains(mode, "STRICT_ALL_TABLES")
}

// inspect fills a report. With none named, integers says whether tinyint columns
// are meant as well.
func (s *boolSession) inspect(ctx context.Context, table string, columns []string, integers bool) (*BoolReport, error) {
	r, all, err := s.readTable(ctx, table)
	if err != nil {
		return nil, err
	}
	if len(columns) == 0 {
		for _, c := range all {
			if c.speaks(integers) {
				r.Columns = append(r.Columns, c)
			}
		}
	}
	for _, name := range columns {
		i := slices.IndexFunc(all, func(c BoolColumn) bool { return strings.EqualFold(c.Name, name) })
		if i < 0 {
			return nil, fmt.Errorf("migrate: expected a column %s in table %s, met none", name, table)
		}
		if slices.ContainsFunc(r.Columns, func(c BoolColumn) bool { return c.Name == all[i].Name }) {
			return nil, fmt.Errorf("migrate: column %s is named twice", name)
		}
		r.Columns = append(r.Columns, all[i])
	}
	for i := range r.Columns {
		if err := s.histogram(ctx, r.Table, &r.Columns[i]); err != nil {
			return nil, fmt.Errorf("migrate: the values of %s.%s: %w", table, r.Columns[i].Name, err)
		}
	}
	if r.Objects, err = s.objects(ctx, r); err != nil {
		return nil, fmt.Errorf("migrate: what depends on %s: %w", table, err)
	}
	return r, nil
}

// readTable reads the table and all its columns, no rows.
func (s *boolSession) readTable(ctx context.Context, table string) (*BoolReport, []BoolColumn, error) {
	r := &BoolReport{Server: s.server, Schema: s.schema}
	var engine sql.NullString
	var kind string
	err := s.conn.QueryRowContext(ctx, `SELECT TABLE_NAME, TABLE_TYPE, ENGINE, IFNULL(DATA_LENGTH + INDEX_LENGTH, 0)
		FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?`, table).Scan(&r.Table, &kind, &engine, &r.Bytes)
	if err == sql.ErrNoRows {
		return nil, nil, fmt.Errorf("migrate: expected a table %s in database %s, met none", table, s.schema)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("migrate: inspecting %s: %w", table, err)
	}
	if kind != "BASE TABLE" {
		if !strings.HasSuffix(kind, "VIEW") {
			kind += " table" // MariaDB's system versioned ones, sequences
		}
		return nil, nil, fmt.Errorf("migrate: expected %s to be a plain table, met a %s; only a plain table can be migrated", table, strings.ToLower(kind))
	}
	r.Engine = engine.String
	if r.create, err = s.showCreate(ctx, r.Table); err != nil {
		return nil, nil, err
	}
	r.Create = r.create.text
	all, err := s.columns(ctx, r)
	if err != nil {
		return nil, nil, fmt.Errorf("migrate: inspecting %s: %w", table, err)
	}
	return r, all, nil
}

// columns reads every column of the table, and its primary key.
func (s *boolSession) columns(ctx context.Context, r *BoolReport) (all []BoolColumn, err error) {
	rows, err := s.conn.QueryContext(ctx, `SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, COLUMN_KEY, COLUMN_COMMENT, IFNULL(CHARACTER_SET_NAME, '')
		FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`, r.Table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c BoolColumn
		var nullable, key string
		var def sql.NullString
		if err := rows.Scan(&c.Name, &c.dataType, &c.Type, &nullable, &def, &key, &c.Comment, &c.Charset); err != nil {
			return nil, err
		}
		c.Nullable = nullable == "YES"
		c.Default = readDefault(def, c.Nullable, s.mariadb)
		c.Definition = r.create.columns[c.Name]
		c.Encoding, c.Known = ParseColumn(c.dataType, c.Type)
		if key == "PRI" {
			r.Key.Columns = append(r.Key.Columns, c.Name)
			r.Key.Integer = strings.HasSuffix(strings.ToLower(c.dataType), "int")
		}
		all = append(all, c)
	}
	if len(r.Key.Columns) == 1 && r.Key.Integer {
		r.Key.Name = r.Key.Columns[0]
	}
	return all, rows.Err()
}

// histogram counts the distinct values, told apart byte by byte.
func (s *boolSession) histogram(ctx context.Context, table string, c *BoolColumn) error {
	value := exactText(quoteName(c.Name))
	switch {
	case c.Encoding.Kind == Bit || c.Encoding.Kind == Integer:
		value = "(" + quoteName(c.Name) + " + 0)"
	case c.Charset == "": // a number of another kind, a date: counted as it prints
		value = "CAST(" + quoteName(c.Name) + " AS CHAR)"
	}
	rows, err := s.conn.QueryContext(ctx, fmt.Sprintf("SELECT %s, COUNT(*) FROM %s GROUP BY 1 ORDER BY 1 LIMIT %d",
		value, quoteName(table), maxHistogram+1))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var text sql.NullString
		var n int64
		if err := rows.Scan(&text, &n); err != nil {
			return err
		}
		v := ValueCount{Text: text.String, Null: !text.Valid, Rows: n}
		v.Meaning = meaning(c.Encoding, c.Known, v)
		c.Values = append(c.Values, v)
	}
	if len(c.Values) > maxHistogram {
		c.Values, c.More = c.Values[:maxHistogram], true
	}
	return rows.Err()
}

func meaning(e Encoding, known bool, v ValueCount) Meaning {
	switch {
	case v.Null:
		return MeansNull
	case v.Text == "":
		return MeansEmpty
	case !known:
		return MeansNothing
	case v.Text == e.True:
		return MeansTrue
	case v.Text == e.False:
		return MeansFalse
	}
	text := strings.TrimSpace(v.Text)
	if strings.EqualFold(text, e.True) || strings.EqualFold(text, e.False) {
		return MeansVariant
	}
	return MeansNothing
}

// String lists the columns with their values and what depends on them.
func (r *BoolReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table %s.%s on %s (%s, %d bytes), sql_mode %s\n", r.Schema, r.Table, r.Server, r.Engine, r.Bytes, r.SQLMode)
	for _, c := range r.Columns {
		fmt.Fprintf(&b, "  %s %s\n", c.Name, c.Definition)
		for _, v := range c.Values {
			text := strconv.Quote(v.Text)
			if v.Null {
				text = "NULL"
			}
			fmt.Fprintf(&b, "    %10d x %-10s %s\n", v.Rows, text, v.Meaning)
		}
		if c.More {
			b.WriteString("           and more\n")
		}
	}
	if len(r.Columns) == 0 {
		b.WriteString("  no column's type speaks for itself as a legacy boolean; name a char or varchar column to see what it holds\n")
	}
	for _, o := range r.Objects {
		fmt.Fprintf(&b, "  %s %s: %s\n", o.Code, o.Name, o.Detail)
	}
	if r.Migration != nil {
		fmt.Fprintf(&b, "  %s\n", r.Migration)
	}
	return b.String()
}
