package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// postgresAdopter speaks to Postgres.
type postgresAdopter struct {
	conn   *sql.Conn
	spec   AdoptSpec
	locked []int64                                             // the advisory locks' keys
	after  func(sql string)                                    // see AdoptPlan
	inside func(s AdoptStatement, tx *sql.Tx, done bool) error // see AdoptPlan
}

func (a *postgresAdopter) db() *sql.Conn            { return a.conn }
func (a *postgresAdopter) quote(name string) string { return doubleQuoted(name) }
func (a *postgresAdopter) placeholder(n int) string { return fmt.Sprintf("$%d", n) }

func doubleQuoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// adoptLock is the key of the table itself: search paths may differ.
const adoptLock = "SELECT hashtextextended('gormflake.adopt.' || COALESCE(to_regclass(quote_ident($1))::oid::text, $1), 0)"

func (a *postgresAdopter) lock(ctx context.Context, table string) error {
	giveUp := time.Now().Add(10 * time.Second)
	var key int64
	if err := a.conn.QueryRowContext(ctx, adoptLock, table).Scan(&key); err != nil {
		return fmt.Errorf("migrate: the key of the advisory lock: %w", err)
	}
	for {
		var locked bool
		if err := a.conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", key).Scan(&locked); err != nil {
			return fmt.Errorf("migrate: pg_try_advisory_lock: %w", err)
		}
		if locked {
			a.locked = append(a.locked, key)
			return nil
		}
		if !time.Now().Before(giveUp) {
			return fmt.Errorf("%w: expected the advisory lock of table %s within 10 s", ErrLocked, table)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// close hands the connection back to the pool, and with it no lock.
func (a *postgresAdopter) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, key := range a.locked {
		_, _ = a.conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", key)
	}
	_ = a.conn.Close()
}

func (a *postgresAdopter) inspect(ctx context.Context, spec AdoptSpec) (*AdoptReport, error) {
	r := &AdoptReport{Dialect: "postgres", Table: spec.Table, FirstID: spec.FirstID}
	var kind string
	var partition, inherits bool
	err := a.conn.QueryRowContext(ctx, `SELECT current_setting('server_version'), c.relkind::text, c.relispartition,
		EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhrelid = c.oid OR i.inhparent = c.oid)
		FROM pg_class c WHERE c.oid = to_regclass(quote_ident($1))`, spec.Table).Scan(&r.Server, &kind, &partition, &inherits)
	if err != nil {
		return nil, fmt.Errorf("migrate: expected a table %s on the search path: %w", spec.Table, err)
	}
	if kind != "r" || partition || inherits {
		r.refuse("partition", "", "", "it isn't a plain table, but partitioned, inherited or a view", "adopt plain tables only, and partition them afterwards")
		return r, nil
	}
	keys, err := texts(ctx, a.conn, `SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
		WHERE i.indrelid = to_regclass(quote_ident($1)) AND i.indisprimary`, spec.Table)
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
	if err := a.numbering(ctx, r); err != nil {
		return nil, err
	}
	if err := a.references(ctx, r, spec); err != nil {
		return nil, err
	}
	if err := a.choose(ctx, r, spec.Widening); err != nil {
		return nil, err
	}
	return r, a.hazards(ctx, r)
}

// choose says how the columns will be widened, if any needs it, and refuses what
// stands in the way of doing it online.
func (a *postgresAdopter) choose(ctx context.Context, r *AdoptReport, asked Widening) (err error) {
	if r.state, err = a.readState(ctx, r); err != nil {
		return err
	}
	units := r.state.units(r, widened)
	if len(units) == 0 {
		return nil
	}
	if r.Widening = a.way(r, asked); r.Widening == WidenOnline {
		return a.obstacles(ctx, r, units)
	}
	return nil
}

// way is the one that was asked for, unless an online widening is under way. The
// largest table decides for all, since a rewrite of a small one looks at the
// foreign keys of all rows that refer to it.
func (a *postgresAdopter) way(r *AdoptReport, asked Widening) Widening {
	if r.state.begun(r) {
		return WidenOnline
	}
	if asked != WidenBySize {
		return asked
	}
	for _, t := range r.state.tables {
		if t.bytes > rewriteLimit {
			return WidenOnline
		}
	}
	return WidenRewrite
}

func widened(AdoptColumn) string { return "bigint" }

func (a *postgresAdopter) column(ctx context.Context, ref Reference) (c AdoptColumn, err error) {
	c = AdoptColumn{Table: ref.Table, Column: ref.Column}
	err = a.conn.QueryRowContext(ctx, `SELECT format_type(a.atttypid, a.atttypmod), GREATEST(c.reltuples, -1)::bigint
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		WHERE c.oid = to_regclass(quote_ident($1)) AND a.attname = $2 AND a.attnum > 0 AND NOT a.attisdropped`, ref.Table, ref.Column).Scan(&c.Type, &c.Rows)
	if err != nil {
		return c, fmt.Errorf("migrate: expected a column %s: %w", ref, err)
	}
	c.Bits = map[string]int{"smallint": 16, "integer": 32, "bigint": 64}[c.Type]
	return c, nil
}

// numbering finds what gives the key its values.
func (a *postgresAdopter) numbering(ctx context.Context, r *AdoptReport) error {
	var identity, expression string
	var sequence, used sql.NullInt64
	err := a.conn.QueryRowContext(ctx, `SELECT a.attidentity::text, COALESCE(pg_get_expr(d.adbin, d.adrelid), ''),
			COALESCE(s.refobjid, pg_get_serial_sequence(quote_ident($1), $2)::regclass)::bigint,
			(SELECT COUNT(DISTINCT o.objid) FROM pg_depend o WHERE o.classid = 'pg_attrdef'::regclass AND o.refobjid = s.refobjid)
		FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		LEFT JOIN pg_depend s ON s.classid = 'pg_attrdef'::regclass AND s.objid = d.oid AND s.refclassid = 'pg_class'::regclass
			AND (SELECT relkind FROM pg_class WHERE oid = s.refobjid) = 'S'
		WHERE a.attrelid = to_regclass(quote_ident($1)) AND a.attname = $2`, r.Table, r.Key.Column).Scan(&identity, &expression, &sequence, &used)
	if err != nil {
		return fmt.Errorf("migrate: the default of %s: %w", r.Key.reference(), err)
	}
	switch {
	case identity == "a":
		r.Key.Numbering = "identity always"
	case identity == "d":
		r.Key.Numbering = "identity by default"
	case expression == "":
		return nil
	case sequence.Valid && strings.HasPrefix(expression, "nextval("):
		r.Key.Numbering = "sequence"
	default:
		r.refuse("default", r.Key.Column, "", "its default is "+expression+", which isn't a plain nextval", "drop the default first")
		return nil
	}
	q := &AdoptSequence{Shared: used.Int64 > 1}
	err = a.conn.QueryRowContext(ctx, `SELECT n.nspname, c.relname, format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache, s.seqcycle,
			COALESCE(pg_sequence_last_value(c.oid), s.seqstart - s.seqincrement),
			EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('a', 'i') AND d.refobjid = to_regclass(quote_ident($2)))
		FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1::bigint::oid`, sequence.Int64, r.Table).
		Scan(&q.Schema, &q.Name, &q.Type, &q.Start, &q.Increment, &q.Min, &q.Max, &q.Cache, &q.Cycle, &q.Last, &q.Owned)
	if err != nil {
		return fmt.Errorf("migrate: the sequence of %s: %w", r.Key.reference(), err)
	}
	r.Sequence = q
	return nil
}

func (a *postgresAdopter) references(ctx context.Context, r *AdoptReport, spec AdoptSpec) error {
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
	for _, ref := range spec.References {
		if err := add(ref, true); err != nil {
			return err
		}
	}
	for done := 0; done < 1+len(r.References); done++ {
		found, err := a.incoming(ctx, r, append([]AdoptColumn{r.Key}, r.References...)[done])
		if err != nil {
			return err
		}
		for _, k := range found {
			if err := add(Reference{k.Table, k.Column}, false); err != nil {
				return err
			}
			r.ForeignKeys = append(r.ForeignKeys, k)
		}
	}
	return nil
}

func (a *postgresAdopter) incoming(ctx context.Context, r *AdoptReport, c AdoptColumn) (all []AdoptForeignKey, err error) {
	// An online widening has keys that lead from and to second columns, and twins.
	rows, err := a.conn.QueryContext(ctx, `SELECT t.relname, COALESCE((SELECT b.attname FROM pg_attribute b
				WHERE b.attrelid = k.attrelid AND b.attname || $4::text = k.attname), k.attname), f.conname, pg_get_constraintdef(f.oid), array_length(f.conkey, 1),
			COALESCE(to_regclass(quote_ident(t.relname)) = t.oid, false), t.relkind = 'r' AND NOT t.relispartition
		FROM pg_constraint f JOIN pg_class t ON t.oid = f.conrelid
		JOIN pg_attribute p ON p.attrelid = f.confrelid AND p.attname IN ($2, $3)
		JOIN pg_attribute k ON k.attrelid = f.conrelid AND k.attnum = f.conkey[array_position(f.confkey, p.attnum)]
		WHERE f.contype = 'f' AND f.confrelid = to_regclass(quote_ident($1)) ORDER BY 1, 3`, c.Table, c.Column, c.Column+shadowSuffix, shadowSuffix)
	if err != nil {
		return nil, fmt.Errorf("migrate: the foreign keys to %s: %w", c.reference(), err)
	}
	defer rows.Close()
	var twins []Reference // tables and names
	for rows.Next() {
		var width int
		var visible, plain bool
		k := AdoptForeignKey{ToTable: c.Table, ToColumn: c.Column}
		if err := rows.Scan(&k.Table, &k.Column, &k.Name, &k.Definition, &width, &visible, &plain); err != nil {
			return nil, err
		}
		twins = append(twins, Reference{k.Table, pgName(k.Name, shadowSuffix)})
		switch {
		case !visible:
			r.refuse("foreign-key", "", k.Name, "the foreign key "+k.Name+" comes from a table that the search path doesn't find", "put its schema on the search path, or drop it first")
		case !plain:
			r.refuse("foreign-key", "", k.Name, "the foreign key "+k.Name+" comes from the partitioned table "+k.Table, "drop it first, and widen its column by hand")
		case width != 1:
			r.refuse("foreign-key", k.Column, k.Name, "the foreign key "+k.Name+" is of several columns", "drop it first, and declare its column as a reference")
		default:
			all = append(all, k)
		}
	}
	return slices.DeleteFunc(all, func(k AdoptForeignKey) bool { return slices.Contains(twins, Reference{k.Table, k.Name}) }), rows.Err()
}

func (a *postgresAdopter) hazards(ctx context.Context, r *AdoptReport) error {
	for _, c := range r.columns() {
		if r.Widening != WidenRewrite || c.Bits == 64 {
			continue // online, views are obstacles among others
		}
		views, err := texts(ctx, a.conn, `SELECT DISTINCT w.ev_class::regclass::text FROM pg_depend d JOIN pg_rewrite w ON w.oid = d.objid
			JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
			WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = to_regclass(quote_ident($1)) AND a.attname = $2 AND w.ev_class <> d.refobjid`, c.Table, c.Column)
		if err != nil {
			return err
		}
		for _, view := range views {
			r.refuseView(c.reference(), view)
		}
	}
	narrow := slices.ContainsFunc(r.columns(), func(c AdoptColumn) bool { return !c.ready() })
	for _, table := range r.tables() {
		for _, look := range []struct{ code, query, format string }{
			{"triggers", "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = to_regclass(quote_ident($1)) AND NOT starts_with(tgname, '" + triggerPrefix + "')", "table %s has %s; look for variables of 32 bits"},
			{"replication", "SELECT pubname FROM pg_publication_tables WHERE schemaname = current_schema() AND tablename = $1", "table %s is published by %s; widen the subscribers' columns first"},
		} {
			found, err := texts(ctx, a.conn, look.query, table)
			if err != nil {
				return err
			}
			if len(found) > 0 {
				r.hazard(look.code, look.format, table, strings.Join(found, ", "))
			}
		}
	}
	if narrow {
		during := ""
		if r.Widening == WidenOnline {
			during = ", and those that return * once before, when there is a column more"
		}
		r.hazard("cached-plans", `each prepared statement that returns * or one of these columns (GORM's First, Find and INSERT ... RETURNING) fails once on each connection with "cached plan must not change result type" (SQLSTATE 0A000) when a column's type changes%s; nothing of it is done: try it again, or open the programs with default_query_exec_mode=exec or pgx's simple protocol meanwhile`, during)
	}
	if err := a.leftovers(ctx, r); err != nil {
		return err
	}
	if r.Widening == WidenOnline {
		r.hazard("column-order", "a widened column becomes the last of its table, and meanwhile there is one more: programs that insert without a list of columns, or scan SELECT * by position, must name their columns first")
	}
	if r.Key.Numbering != "" && !a.spec.KeepNumbering {
		r.hazard("numbering", "after the step unnumber, programs that leave the key out fail; until then they get old numbers, which no snowflake id equals")
	}
	return nil
}

// leftovers looks for columns on their way to another type that no adoption in the
// journal knows, which may belong to this one if the journal was lost.
func (a *postgresAdopter) leftovers(ctx context.Context, r *AdoptReport) error {
	all, err := read(ctx, a.conn, `SELECT c.relname, g.tgname FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
		WHERE c.relnamespace = current_schema()::regnamespace AND starts_with(g.tgname, $1) ORDER BY 1, 2`,
		func(rows *sql.Rows) (ref Reference, err error) {
			err = rows.Scan(&ref.Table, &ref.Column)
			return ref, err
		}, triggerPrefix)
	if err != nil || len(all) == 0 {
		return err
	}
	known := r.columns()
	others, err := readAdoptions(ctx, a)
	if err != nil {
		return err
	}
	for _, o := range others {
		known = append(known, o.columns()...)
	}
	for _, ref := range all {
		if !slices.ContainsFunc(known, func(c AdoptColumn) bool {
			return c.Table == ref.Table && pgName(triggerPrefix+c.Column, "") == ref.Column
		}) {
			column := Reference{ref.Table, strings.TrimPrefix(ref.Column, triggerPrefix)}
			r.hazard("journal", "%s is on its way to another type, and %s doesn't say why; if it holds this table's keys, declare it as a reference (--reference %s)", column, adoptJournal, column)
		}
	}
	return nil
}

const (
	locksRewrite = "rewrites the table under ACCESS EXCLUSIVE: reads and writes wait until it ends"
	locksBrief   = "ACCESS EXCLUSIVE for a moment, no row is touched"
)

func (a *postgresAdopter) forward(ctx context.Context, was, now *AdoptReport) (all []AdoptStatement, err error) {
	if all, err = a.reshape(ctx, "widen", now, widened); err != nil || a.spec.KeepNumbering {
		return all, err
	}
	table, key := a.quote(now.Table), a.quote(now.Key.Column)
	var statements []string
	switch now.Key.Numbering {
	case "identity always", "identity by default":
		statements = []string{"ALTER TABLE " + table + " ALTER COLUMN " + key + " DROP IDENTITY"}
	case "sequence":
		statements = []string{"ALTER TABLE " + table + " ALTER COLUMN " + key + " DROP DEFAULT"}
		if q := now.Sequence; q.Owned && !q.Shared {
			statements = append(statements, "DROP SEQUENCE "+a.quote(q.Schema)+"."+a.quote(q.Name))
		}
	default:
		return all, nil
	}
	return append(all, AdoptStatement{Step: "unnumber", Table: now.Table, SQL: statements, Locks: locksBrief}), nil
}

// reshape gives the columns their target's types, in the way that was chosen.
func (a *postgresAdopter) reshape(ctx context.Context, step string, now *AdoptReport, target func(AdoptColumn) string) ([]AdoptStatement, error) {
	units := now.state.units(now, target)
	if len(units) == 0 {
		return nil, nil
	}
	if a.way(now, a.spec.Widening) == WidenRewrite {
		return a.retype(step, now, target), nil
	}
	r := *now
	r.Refusals = nil
	if err := a.obstacles(ctx, &r, units); err != nil {
		return nil, err
	}
	if len(r.Refusals) > 0 {
		return nil, &RefusedError{Table: r.Table, Refusals: r.Refusals}
	}
	all, err := a.online(now, units)
	for i, s := range all {
		if s.Step == "swap" {
			all[i].still = func(ctx context.Context) error { return a.unaltered(ctx, now, target, s) }
		}
	}
	return all, err
}

// unaltered looks, once the swap has locked its tables, whether it is what there is
// to do still. The plan may be hours old, and with the first column Postgres drops,
// without a word, what others have made of it since: indexes, unique constraints,
// foreign keys, a default, privileges.
func (a *postgresAdopter) unaltered(ctx context.Context, now *AdoptReport, target func(AdoptColumn) string, s AdoptStatement) (err error) {
	r := *now
	r.Refusals = nil
	if r.state, err = a.readState(ctx, &r); err != nil {
		return err
	}
	units := r.state.units(&r, target)
	if err := a.obstacles(ctx, &r, units); err != nil {
		return err
	}
	if len(r.Refusals) > 0 {
		return &RefusedError{Table: r.Table, Refusals: r.Refusals}
	}
	left, err := a.online(&r, units)
	if err != nil {
		return err
	}
	if len(left) == 0 || left[0].Step != s.Step || left[0].Table != s.Table || !slices.Equal(left[0].SQL, s.SQL) {
		return fmt.Errorf("%w: expected table %s as it was when the plan was made; somebody has altered it since, and nothing of that is lost", ErrOutOfOrder, s.Table)
	}
	return nil
}

// retype makes one statement of each table whose columns have other types than
// they should. Postgres compares integers of two widths in a foreign key, so
// these stay.
func (a *postgresAdopter) retype(step string, now *AdoptReport, target func(AdoptColumn) string) (all []AdoptStatement) {
	for _, table := range now.tables() {
		var parts []string
		for _, c := range now.columns() {
			if to := target(c); c.Table == table && c.Type != to {
				parts = append(parts, "ALTER COLUMN "+a.quote(c.Column)+" TYPE "+to)
			}
		}
		if len(parts) > 0 {
			all = append(all, AdoptStatement{Step: step, Table: table, SQL: []string{"ALTER TABLE " + a.quote(table) + " " + strings.Join(parts, ", ")}, Locks: locksRewrite})
		}
	}
	return all
}

func (a *postgresAdopter) backward(ctx context.Context, was, now *AdoptReport, narrow []AdoptColumn, next int64) ([]AdoptStatement, error) {
	all, err := a.reshape(ctx, "narrow", now, func(c AdoptColumn) string {
		if i := slices.IndexFunc(narrow, c.same); i >= 0 {
			return narrow[i].Type
		}
		return c.Type
	})
	if err != nil {
		return nil, err
	}
	q := was.Sequence
	if q == nil || now.Key.Numbering != "" {
		return all, nil
	}
	// The sequence goes on after the last number it gave, or after a larger key
	// that somebody brought along.
	if next = max(next, q.Last+q.Increment); q.Increment < 0 {
		next = q.Last + q.Increment
	}
	if next < q.Min || next > q.Max {
		return nil, fmt.Errorf("%w: expected the sequence %s to go on from %d within [%d, %d]", ErrOutOfOrder, q.Name, next, q.Min, q.Max)
	}
	options := q.options(next)
	table, key, name := a.quote(now.Table), a.quote(now.Key.Column), a.quote(q.Schema)+"."+a.quote(q.Name)
	var statements []string
	switch was.Key.Numbering {
	case "identity always", "identity by default":
		kind := strings.ToUpper(strings.TrimPrefix(was.Key.Numbering, "identity "))
		statements = []string{"ALTER TABLE " + table + " ALTER COLUMN " + key + " ADD GENERATED " + kind + " AS IDENTITY (SEQUENCE NAME " + name + " " + options + ")"}
	case "sequence":
		if q.Owned && !q.Shared {
			statements = []string{"CREATE SEQUENCE " + name + " AS " + q.Type + " " + options + " OWNED BY " + table + "." + key}
		}
		statements = append(statements, "ALTER TABLE "+table+" ALTER COLUMN "+key+" SET DEFAULT nextval("+quoteString(name)+"::regclass)")
	}
	return append(all, AdoptStatement{Step: "renumber", Table: now.Table, SQL: statements, Locks: locksBrief}), nil
}

// options are the sequence's, for CREATE SEQUENCE and for an identity.
func (q *AdoptSequence) options(start int64) string {
	cycle := "NO CYCLE"
	if q.Cycle {
		cycle = "CYCLE"
	}
	return fmt.Sprintf("INCREMENT BY %d MINVALUE %d MAXVALUE %d START WITH %d CACHE %d %s", q.Increment, q.Min, q.Max, start, q.Cache, cycle)
}
