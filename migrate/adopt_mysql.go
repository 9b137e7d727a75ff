package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
)

// mysqlAdopter speaks to MySQL and MariaDB.
type mysqlAdopter struct {
	*boolSession
	spec AdoptSpec
}

func openMySQLAdopter(ctx context.Context, db *gorm.DB, spec AdoptSpec) (adopter, error) {
	s, err := openBoolSession(ctx, db)
	if err != nil {
		return nil, err
	}
	s.maxBlock, s.patience = spec.MaxBlock, spec.Patience
	wait := max(1, int((spec.MaxBlock+time.Second-1)/time.Second))
	if _, err := s.conn.ExecContext(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout = %d", wait)); err != nil {
		s.close()
		return nil, fmt.Errorf("migrate: %w", err)
	}
	return &mysqlAdopter{boolSession: s, spec: spec}, nil
}

func (a *mysqlAdopter) db() *sql.Conn            { return a.conn }
func (a *mysqlAdopter) quote(name string) string { return quoteName(name) }
func (a *mysqlAdopter) placeholder(int) string   { return "?" }
func (a *mysqlAdopter) lock(ctx context.Context, table string) error {
	return a.boolSession.lock(ctx, table, 10*time.Second)
}

func (a *mysqlAdopter) inspect(ctx context.Context, spec AdoptSpec) (*AdoptReport, error) {
	r := &AdoptReport{Dialect: "mysql", Server: a.server, Table: spec.Table, FirstID: spec.FirstID}
	var engine sql.NullString
	err := a.conn.QueryRowContext(ctx, `SELECT ENGINE FROM information_schema.TABLES
		WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND TABLE_TYPE = 'BASE TABLE'`, spec.Table).Scan(&engine)
	if err != nil {
		return nil, fmt.Errorf("migrate: expected a table %s in the database %s: %w", spec.Table, a.schema, err)
	}
	keys, err := texts(ctx, a.conn, `SELECT COLUMN_NAME FROM information_schema.STATISTICS
		WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX`, spec.Table)
	if err != nil {
		return nil, err
	}
	if len(keys) != 1 {
		refuseKey(r, keys)
		return r, nil
	}
	if r.Key, err = a.column(ctx, Reference{spec.Table, keys[0]}); err != nil {
		return nil, err
	}
	if err := a.references(ctx, r, spec); err != nil {
		return nil, err
	}
	return r, a.hazards(ctx, r)
}

func refuseKey(r *AdoptReport, keys []string) {
	if len(keys) == 0 {
		r.refuse("no-key", "", "", "the table has no primary key", "give it one of a single integer column first")
		return
	}
	r.refuse("composite-key", "", "", "the primary key is "+strings.Join(keys, ", "), "only a key of one integer column can be adopted")
}

func (a *mysqlAdopter) column(ctx context.Context, ref Reference) (c AdoptColumn, err error) {
	c = AdoptColumn{Table: ref.Table, Column: ref.Column, Rows: -1}
	var dataType, extra string
	var rows sql.NullInt64
	err = a.conn.QueryRowContext(ctx, `SELECT c.COLUMN_NAME, c.DATA_TYPE, c.COLUMN_TYPE, c.EXTRA, t.TABLE_ROWS FROM information_schema.COLUMNS c
		JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME
		WHERE c.TABLE_SCHEMA = DATABASE() AND c.TABLE_NAME = ? AND c.COLUMN_NAME = ?`, ref.Table, ref.Column).
		Scan(&c.Column, &dataType, &c.Type, &extra, &rows)
	if err != nil {
		return c, fmt.Errorf("migrate: expected a column %s: %w", ref, err)
	}
	if rows.Valid {
		c.Rows = rows.Int64
	}
	c.Bits = map[string]int{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}[strings.ToLower(dataType)]
	c.Unsigned = strings.Contains(strings.ToLower(c.Type), "unsigned")
	if strings.Contains(strings.ToLower(extra), "auto_increment") {
		c.Numbering = "AUTO_INCREMENT"
	}
	create, err := a.showCreate(ctx, ref.Table)
	c.Definition = create.columns[c.Column]
	return c, err
}

// references follows foreign keys from the key on, since a column that refers to
// it can be a key itself, and then adds what was declared.
func (a *mysqlAdopter) references(ctx context.Context, r *AdoptReport, spec AdoptSpec) error {
	add := func(ref Reference, declared bool) error {
		c, err := a.column(ctx, ref)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(r.columns(), c.same) {
			c.Declared = declared
			r.References = append(r.References, c)
		}
		return nil
	}
	comments, away, err := a.comments(ctx)
	if err != nil {
		return err
	}
	r.comments = comments
	for _, ref := range spec.References {
		if err := add(ref, true); err != nil {
			return err
		}
	}
	for done := 0; done < 1+len(r.References); done++ {
		at := append([]AdoptColumn{r.Key}, r.References...)[done]
		found, err := a.incoming(ctx, r, at)
		if err != nil {
			return err
		}
		for _, k := range found {
			if err := add(Reference{k.Table, k.Column}, false); err != nil {
				return err
			}
			r.ForeignKeys = append(r.ForeignKeys, k)
		}
		for _, k := range awayFrom(away, at) {
			if err := add(Reference{k.Table, k.Column}, false); err != nil {
				return err
			}
			if !slices.ContainsFunc(r.ForeignKeys, k.same) {
				r.away = append(r.away, k)
			}
		}
	}
	return a.outgoing(ctx, r)
}

// incoming are the foreign keys that lead to a column. One that is of several
// columns, or comes from another database, is refused.
func (a *mysqlAdopter) incoming(ctx context.Context, r *AdoptReport, c AdoptColumn) (all []AdoptForeignKey, err error) {
	rows, err := a.conn.QueryContext(ctx, `SELECT u.TABLE_SCHEMA = DATABASE(), u.TABLE_NAME, u.COLUMN_NAME, u.CONSTRAINT_NAME,
		(SELECT COUNT(*) FROM information_schema.KEY_COLUMN_USAGE o WHERE o.TABLE_SCHEMA = u.TABLE_SCHEMA AND o.TABLE_NAME = u.TABLE_NAME
			AND o.CONSTRAINT_NAME = u.CONSTRAINT_NAME)
		FROM information_schema.KEY_COLUMN_USAGE u
		WHERE u.REFERENCED_TABLE_SCHEMA = DATABASE() AND u.REFERENCED_TABLE_NAME = ? AND u.REFERENCED_COLUMN_NAME = ?
		ORDER BY u.TABLE_NAME, u.CONSTRAINT_NAME`, c.Table, c.Column)
	if err != nil {
		return nil, fmt.Errorf("migrate: the foreign keys to %s: %w", c.reference(), err)
	}
	defer rows.Close()
	for rows.Next() {
		var here bool
		var width int
		k := AdoptForeignKey{ToTable: c.Table, ToColumn: c.Column}
		if err := rows.Scan(&here, &k.Table, &k.Column, &k.Name, &width); err != nil {
			return nil, err
		}
		switch {
		case !here:
			r.refuse("foreign-key", "", k.Name, "the foreign key "+k.Name+" comes from another database", "drop it first")
		case width != 1:
			r.refuse("foreign-key", k.Column, k.Name, "the foreign key "+k.Name+" is of several columns", "drop it first, and declare its column as a reference")
		default:
			all = append(all, k)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	_ = rows.Close() // the connection is needed for what follows
	for i, k := range all {
		create, err := a.showCreate(ctx, k.Table)
		if err != nil {
			return nil, err
		}
		prefix := "CONSTRAINT " + quoteName(k.Name) + " FOREIGN KEY"
		at := slices.IndexFunc(create.others, func(line string) bool { return strings.HasPrefix(line, prefix) })
		if at < 0 {
			return nil, fmt.Errorf("migrate: expected the foreign key %s in SHOW CREATE TABLE %s", k.Name, k.Table)
		}
		all[i].Definition = create.others[at]
	}
	return all, nil
}

// outgoing refuses columns that also refer to a table which isn't part of the
// move, since both ends of a foreign key must have one type.
func (a *mysqlAdopter) outgoing(ctx context.Context, r *AdoptReport) error {
	if !slices.ContainsFunc(r.columns(), func(c AdoptColumn) bool { return !c.ready() }) {
		return nil
	}
	for _, c := range r.columns() {
		others, err := texts(ctx, a.conn, `SELECT CONCAT(CONSTRAINT_NAME, ' ', REFERENCED_TABLE_NAME, '.', REFERENCED_COLUMN_NAME)
			FROM information_schema.KEY_COLUMN_USAGE
			WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND COLUMN_NAME = ? AND REFERENCED_TABLE_NAME IS NOT NULL`, c.Table, c.Column)
		if err != nil {
			return err
		}
		for _, other := range others {
			name, to, _ := strings.Cut(other, " ")
			if !slices.ContainsFunc(r.columns(), func(o AdoptColumn) bool { return o.reference().String() == to }) {
				r.refuse("foreign-key", c.reference().String(), name, "the foreign key "+name+" leads from it to "+to+", which would keep its type",
					"adopt "+to+"'s table instead, or drop the foreign key first")
			}
		}
	}
	return nil
}

func (a *mysqlAdopter) hazards(ctx context.Context, r *AdoptReport) error {
	for _, table := range r.tables() {
		triggers, err := texts(ctx, a.conn, "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = ?", table)
		if err != nil {
			return err
		}
		if len(triggers) > 0 {
			r.hazard("triggers", "table %s has %s; look for variables of 32 bits and for LAST_INSERT_ID(), which a given key doesn't set", table, strings.Join(triggers, ", "))
		}
	}
	var logged bool
	var format, mode string
	var step int
	if err := a.conn.QueryRowContext(ctx, "SELECT @@log_bin, @@binlog_format, @@global.sql_mode, @@auto_increment_increment").Scan(&logged, &format, &mode, &step); err != nil {
		return fmt.Errorf("migrate: the server's settings: %w", err)
	}
	if logged {
		r.hazard("replicas", "the server writes a binary log (%s): replicas run each ALTER after it ended here, and lag meanwhile", format)
	}
	if step != 1 {
		r.hazard("replication", "auto_increment_increment is %d, so another server may number this table too; adopt it on all of them at once", step)
	}
	if r.Key.Numbering != "" {
		if !strings.Contains(mode, "STRICT_") {
			r.hazard("sql-mode", "the server isn't strict: once AUTO_INCREMENT is gone, a program that leaves the key out inserts 0")
		}
		r.hazard("numbering", "after the first snowflake id AUTO_INCREMENT counts on from it, so the table's ALTER ends it first; programs that leave the key out fail from then on")
	}
	if len(r.ForeignKeys) > 0 && slices.ContainsFunc(r.columns(), func(c AdoptColumn) bool { return !c.ready() }) {
		r.hazard("foreign-keys", "foreign keys are away while columns are widened, so nothing cascades and nothing is checked; delete no parents meanwhile. Rows without a parent are looked for when the keys come back")
	}
	return nil
}

var (
	integerPrefix = regexp.MustCompile(`(?i)^(tiny|small|medium|big)?int(\(\d+\))?( unsigned)?( zerofill)?`)
	ladder        = []string{"ALGORITHM=INPLACE, LOCK=NONE", "ALGORITHM=COPY, LOCK=NONE", "ALGORITHM=COPY, LOCK=SHARED"}
)

const (
	locksCopy    = "copies the table; writes wait unless the server grants LOCK=NONE, reads go on"
	locksInplace = "reads and writes go on"
)

func (a *mysqlAdopter) forward(_ context.Context, was, now *AdoptReport) ([]AdoptStatement, error) {
	target := func(c AdoptColumn) string {
		d := c.Definition
		if !c.ready() {
			d = integerPrefix.ReplaceAllString(d, "bigint")
		}
		if c.Numbering == "" { // a comment may hold the word
			return d
		}
		return strings.Replace(d, " AUTO_INCREMENT", "", 1)
	}
	return a.change(was, now, target, "widen", "unnumber"), nil
}

func (a *mysqlAdopter) backward(_ context.Context, was, now *AdoptReport, narrow []AdoptColumn, _ int64) ([]AdoptStatement, error) {
	target := func(c AdoptColumn) string {
		if i := slices.IndexFunc(narrow, c.same); i >= 0 {
			return narrow[i].Definition
		}
		if c.same(was.Key) && was.Key.Numbering != "" && c.Numbering == "" {
			d, comment, has := strings.Cut(c.Definition, " COMMENT ")
			if d += " AUTO_INCREMENT"; has {
				d += " COMMENT " + comment
			}
			return d
		}
		return c.Definition
	}
	return a.change(was, now, target, "narrow", "renumber"), nil
}

// change brings every column to the definition that target gives it: foreign
// keys leave first, where types change, and come back last.
func (a *mysqlAdopter) change(was, now *AdoptReport, target func(AdoptColumn) string, retype, number string) (all []AdoptStatement) {
	retypes, comments := false, maps.Clone(now.comments)
	var changes []AdoptStatement
	for _, table := range now.tables() {
		step, locks := number, locksCopy
		var parts []string
		for _, c := range now.columns() {
			to := target(c)
			if c.Table != table || to == c.Definition {
				continue
			}
			parts = append(parts, "MODIFY COLUMN "+quoteName(c.Column)+" "+to)
			if integerPrefix.FindString(to) != integerPrefix.FindString(c.Definition) {
				retypes, step = true, retype
			}
			if strings.Count(to, " AUTO_INCREMENT") != strings.Count(c.Definition, " AUTO_INCREMENT") {
				locks = locksCopy + "; AUTO_INCREMENT changes with it"
			}
		}
		if len(parts) > 0 {
			changes = append(changes, AdoptStatement{Step: step, Table: table, SQL: []string{"ALTER TABLE " + quoteName(table) + " " + strings.Join(parts, ", ")},
				Ladder: ladder, Locks: locks})
		}
	}
	back := missing(was.ForeignKeys, now.ForeignKeys, AdoptForeignKey.same)
	if retypes {
		back = was.ForeignKeys
		for _, k := range now.ForeignKeys {
			comments.left(k)
		}
		all = comments.notes(now.comments)
		for _, k := range now.ForeignKeys {
			all = append(all, AdoptStatement{Step: "release", Table: k.Table, SQL: []string{"ALTER TABLE " + quoteName(k.Table) + " DROP FOREIGN KEY " + quoteName(k.Name)},
				Ladder: ladder[:1], Locks: locksInplace})
		}
	}
	all = append(all, changes...)
	for _, k := range back {
		all = append(all, AdoptStatement{Step: "bind", Table: k.Table, SQL: []string{"ALTER TABLE " + quoteName(k.Table) + " ADD " + k.Definition},
			Ladder: ladder, Locks: locksInplace + "; the rows are looked at afterwards"})
	}
	noted := maps.Clone(comments)
	for _, k := range slices.Concat(now.ForeignKeys, back) {
		comments.back(k)
	}
	return append(all, comments.notes(noted)...)
}

// run tries the statement's ladder. The server refuses an ending that it doesn't
// offer with 1845 or 1846, before it begins.
func (a *mysqlAdopter) run(ctx context.Context, s AdoptStatement) error {
	if s.Step == "note" {
		sql, err := a.note(ctx, s)
		if err != nil {
			return err
		}
		s.SQL = []string{sql}
	}
	for i, ending := range s.Ladder {
		check := 1
		switch {
		case s.Step == "bind" && i == 0: // INPLACE is to be had without the check only
			check = 0
		case s.Step == "unnumber" || s.Step == "renumber":
			// MySQL takes AUTO_INCREMENT for a part of the type, and refuses to change
			// it under a foreign key; the type itself stays.
			check = 0
		}
		if _, err := a.conn.ExecContext(ctx, fmt.Sprintf("SET SESSION foreign_key_checks = %d", check)); err != nil {
			return err
		}
		err := a.ddl(ctx, s.SQL[0]+", "+ending)
		if code := mysqlError(err); (code == 1845 || code == 1846) && i+1 < len(s.Ladder) {
			continue
		}
		if err != nil || s.Step != "bind" || check == 1 {
			return err
		}
		break
	}
	if s.Step != "bind" {
		return nil
	}
	return a.checkBound(ctx, s)
}

// checkBound looks for rows that came in while the foreign key was away.
func (a *mysqlAdopter) checkBound(ctx context.Context, s AdoptStatement) error {
	name, _ := cutName(s.SQL[0][strings.Index(s.SQL[0], " ADD CONSTRAINT ")+len(" ADD CONSTRAINT "):])
	k := AdoptForeignKey{Table: s.Table, Name: name}
	err := a.conn.QueryRowContext(ctx, `SELECT COLUMN_NAME, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE
		WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND CONSTRAINT_NAME = ? AND REFERENCED_TABLE_NAME IS NOT NULL`, s.Table, name).
		Scan(&k.Column, &k.ToTable, &k.ToColumn)
	if err != nil {
		return fmt.Errorf("expected the foreign key %s to be back: %w", name, err)
	}
	n, err := orphans(ctx, a, k)
	if err != nil {
		return err
	}
	if n > 0 {
		return fmt.Errorf("%w: %d rows of %s.%s have no row in %s, since its foreign key was away; delete or mend them", ErrNotAdopted, n, k.Table, k.Column, k.ToTable)
	}
	return nil
}
