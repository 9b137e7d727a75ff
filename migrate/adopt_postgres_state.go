package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// pgState is what an online widening has to know of the tables it touches.
type pgState struct {
	version int  // server_version_num
	silence bool // the role may set session_replication_role
	tables  map[string]*pgTable
	keys    []pgForeignKey // that lead from or to one of tables
}

type pgTable struct {
	name, schema string
	oid          int64
	plain        bool // neither partitioned nor inherited, nor a view
	secured      bool // row level security holds for its owner, too
	published    []string
	rules        []string
	bytes        int64 // with indexes
	columns      []pgAttribute
	triggers     []pgTrigger
	indexes      []pgIndex
	checks       map[string]bool // by name: validated
}

type pgAttribute struct {
	name, kind, fallback         string // kind is the type, fallback the default's expression
	identity, generated, comment string
	notNull, granted             bool // granted: has privileges or options of its own
	number, statistics           int
}

type pgTrigger struct {
	name, source, enabled string
	bits                  int  // pg_trigger.tgtype
	listed                bool // fires for UPDATE OF some columns only
}

type pgIndex struct {
	name, definition, constraint string // constraint is pg_constraint.contype, or ""
	columns                      []string
	classed                      []string // columns with an operator class that isn't their type's default
	expressions                  string   // and the predicate
	comment, reason              string   // its own, and that of its constraint
	valid, deferrable            bool
	clustered, identity          bool // identity: the table's REPLICA IDENTITY
}

// pgForeignKey is one as it stands, whichever columns it leads between.
type pgForeignKey struct {
	table, name, definition string
	toSQL                   string // the other table as a statement finds it
	tableOID, toOID         int64
	columns, toColumns      []string
	valid                   bool
	comment                 string
}

// shadowSuffix ends the names of whatever an online widening makes.
const shadowSuffix = "__gf"

// triggerPrefix begins the names of its triggers, so that they fire last.
const triggerPrefix = "zz_gormflake_"

// longestName is what Postgres keeps of an identifier, in bytes.
const longestName = 63

// pgName appends a suffix, and shortens a name that would become too long.
func pgName(name, suffix string) string {
	if len(name)+len(suffix) <= longestName {
		return name + suffix
	}
	hash := "_" + shortHash(name)
	return strings.ToValidUTF8(name[:longestName-len(suffix)-len(hash)], "") + hash + suffix
}

func (t *pgTable) column(name string) *pgAttribute {
	for i, c := range t.columns {
		if c.name == name {
			return &t.columns[i]
		}
	}
	return nil
}

func (t *pgTable) trigger(name string) *pgTrigger {
	for i, g := range t.triggers {
		if g.name == name {
			return &t.triggers[i]
		}
	}
	return nil
}

func (t *pgTable) index(name string) *pgIndex {
	for i, x := range t.indexes {
		if x.name == name {
			return &t.indexes[i]
		}
	}
	return nil
}

// rangeKey is the column whose ranges a backfill goes by, or "": then it goes by blocks.
func (t *pgTable) rangeKey() string {
	for _, x := range t.indexes {
		if x.constraint == "p" && len(x.columns) == 1 && slices.Contains([]string{"smallint", "integer", "bigint"}, t.column(x.columns[0]).kind) {
			return x.columns[0]
		}
	}
	return ""
}

func (s *pgState) key(table int64, name string) *pgForeignKey {
	for i, k := range s.keys {
		if k.tableOID == table && k.name == name {
			return &s.keys[i]
		}
	}
	return nil
}

// readState reads the report's tables.
func (a *postgresAdopter) readState(ctx context.Context, r *AdoptReport) (*pgState, error) {
	s := &pgState{tables: map[string]*pgTable{}}
	err := a.conn.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::int, rolsuper FROM pg_roles WHERE rolname = current_user`).Scan(&s.version, &s.silence)
	if err == nil && !s.silence && s.version >= 150000 {
		err = a.conn.QueryRowContext(ctx, "SELECT has_parameter_privilege('session_replication_role', 'SET')").Scan(&s.silence)
	}
	if err != nil {
		return nil, fmt.Errorf("migrate: the server's version and the role's rights: %w", err)
	}
	var oids []string
	for _, name := range r.tables() {
		t, err := a.readTable(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("migrate: reading table %s: %w", name, err)
		}
		s.tables[name] = t
		oids = append(oids, fmt.Sprint(t.oid))
	}
	s.keys, err = read(ctx, a.conn, `SELECT t.relname, f.conname, pg_get_constraintdef(f.oid), f.conrelid::bigint, f.confrelid::bigint, f.confrelid::regclass::text, f.convalidated, COALESCE(obj_description(f.oid, 'pg_constraint'), ''),
			(SELECT string_agg(c.attname, E'\x01' ORDER BY k.n) FROM unnest(f.conkey) WITH ORDINALITY k(att, n) JOIN pg_attribute c ON c.attrelid = f.conrelid AND c.attnum = k.att),
			(SELECT string_agg(c.attname, E'\x01' ORDER BY k.n) FROM unnest(f.confkey) WITH ORDINALITY k(att, n) JOIN pg_attribute c ON c.attrelid = f.confrelid AND c.attnum = k.att)
		FROM pg_constraint f JOIN pg_class t ON t.oid = f.conrelid
		WHERE f.contype = 'f' AND f.conparentid = 0 AND (f.conrelid::bigint = ANY ($1::bigint[]) OR f.confrelid::bigint = ANY ($1::bigint[])) ORDER BY 1, 2`,
		func(rows *sql.Rows) (k pgForeignKey, err error) {
			var from, to string
			err = rows.Scan(&k.table, &k.name, &k.definition, &k.tableOID, &k.toOID, &k.toSQL, &k.valid, &k.comment, &from, &to)
			k.columns, k.toColumns = strings.Split(from, "\x01"), strings.Split(to, "\x01")
			return k, err
		}, "{"+strings.Join(oids, ",")+"}")
	return s, err
}

func (a *postgresAdopter) readTable(ctx context.Context, name string) (*pgTable, error) {
	t := &pgTable{name: name, checks: map[string]bool{}}
	err := a.conn.QueryRowContext(ctx, `SELECT c.oid::bigint, n.nspname, c.relforcerowsecurity, pg_total_relation_size(c.oid),
			c.relkind = 'r' AND NOT c.relispartition AND NOT EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhrelid = c.oid OR i.inhparent = c.oid)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(quote_ident($1))`, name).
		Scan(&t.oid, &t.schema, &t.secured, &t.bytes, &t.plain)
	if err != nil {
		return nil, err
	}
	if t.published, err = texts(ctx, a.conn, "SELECT pubname FROM pg_publication_tables WHERE schemaname = $1 AND tablename = $2", t.schema, name); err != nil {
		return nil, err
	}
	if t.rules, err = texts(ctx, a.conn, "SELECT rulename FROM pg_rewrite WHERE ev_class = $1::bigint::oid AND rulename <> '_RETURN'", t.oid); err != nil {
		return nil, err
	}
	t.columns, err = read(ctx, a.conn, `SELECT a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), a.attnotnull, COALESCE(pg_get_expr(d.adbin, d.adrelid), ''),
			a.attidentity::text, a.attgenerated::text, COALESCE(col_description(a.attrelid, a.attnum), ''), a.attacl IS NOT NULL OR EXISTS (SELECT 1 FROM unnest(a.attoptions) o WHERE o LIKE 'n_distinct%'), COALESCE(a.attstattarget, -1)::int
		FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		WHERE a.attrelid = $1::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`,
		func(rows *sql.Rows) (c pgAttribute, err error) {
			err = rows.Scan(&c.name, &c.number, &c.kind, &c.notNull, &c.fallback, &c.identity, &c.generated, &c.comment, &c.granted, &c.statistics)
			return c, err
		}, t.oid)
	if err != nil {
		return nil, err
	}
	t.triggers, err = read(ctx, a.conn, `SELECT g.tgname, p.prosrc, g.tgenabled::text, g.tgtype, cardinality(g.tgattr::smallint[]) > 0
		FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid WHERE g.tgrelid = $1::bigint::oid AND NOT g.tgisinternal ORDER BY 1`,
		func(rows *sql.Rows) (g pgTrigger, err error) {
			err = rows.Scan(&g.name, &g.source, &g.enabled, &g.bits, &g.listed)
			return g, err
		}, t.oid)
	if err != nil {
		return nil, err
	}
	checks, err := read(ctx, a.conn, "SELECT conname, convalidated FROM pg_constraint WHERE conrelid = $1::bigint::oid AND contype = 'c'",
		func(rows *sql.Rows) (c struct {
			name  string
			valid bool
		}, err error) {
			err = rows.Scan(&c.name, &c.valid)
			return c, err
		}, t.oid)
	if err != nil {
		return nil, err
	}
	for _, c := range checks {
		t.checks[c.name] = c.valid
	}
	t.indexes, err = read(ctx, a.conn, `SELECT c.relname, pg_get_indexdef(i.indexrelid), COALESCE(k.contype::text, ''), i.indisvalid AND i.indisready,
			COALESCE(k.condeferrable, false), i.indisclustered, i.indisreplident,
			COALESCE(pg_get_expr(i.indexprs, i.indrelid), '') || ' ' || COALESCE(pg_get_expr(i.indpred, i.indrelid), ''),
			COALESCE((SELECT string_agg(a.attname, E'\x01' ORDER BY x.n) FROM unnest(i.indkey::smallint[]) WITH ORDINALITY x(att, n)
				JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = x.att), ''),
			COALESCE((SELECT string_agg(a.attname, E'\x01' ORDER BY x.n) FROM unnest(i.indkey::smallint[]) WITH ORDINALITY x(att, n)
				JOIN unnest(i.indclass::oid[]) WITH ORDINALITY o(class, n) ON o.n = x.n JOIN pg_opclass p ON p.oid = o.class AND NOT p.opcdefault
				JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = x.att), ''),
			COALESCE(obj_description(c.oid, 'pg_class'), ''), COALESCE(obj_description(k.oid, 'pg_constraint'), '')
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u', 'x')
		WHERE i.indrelid = $1::bigint::oid ORDER BY c.relname`,
		func(rows *sql.Rows) (x pgIndex, err error) {
			var columns, classed string
			err = rows.Scan(&x.name, &x.definition, &x.constraint, &x.valid, &x.deferrable, &x.clustered, &x.identity, &x.expressions, &columns, &classed, &x.comment, &x.reason)
			if columns != "" {
				x.columns = strings.Split(columns, "\x01")
			}
			if classed != "" {
				x.classed = strings.Split(classed, "\x01")
			}
			return x, err
		}, t.oid)
	return t, err
}

// read runs a query to its end.
func read[T any](ctx context.Context, conn *sql.Conn, query string, scan func(*sql.Rows) (T, error), args ...any) (all []T, err error) {
	rows, err := conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%w (in: %s)", err, query)
	}
	defer rows.Close()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// pgWord finds the words of an expression as Postgres prints it: names, quoted or
// not, strings, and every other sign by itself.
var pgWord = regexp.MustCompile(`(?s)"(?:[^"]|"")*"|'(?:[^']|'')*'|[A-Za-z_\x{80}-\x{10ffff}][0-9A-Za-z_$\x{80}-\x{10ffff}]*|.`)

// pgFind is where a word, neither quoted nor in a string, is in a text from an
// offset on; its length if it isn't.
func pgFind(text string, from int, word string) int {
	for _, at := range pgWord.FindAllStringIndex(text[from:], -1) {
		if text[from+at[0]:from+at[1]] == word {
			return from + at[0]
		}
	}
	return len(text)
}

// pgNames says whether the expression has the name of a column in it.
func pgNames(expression, column string) bool {
	return slices.ContainsFunc(pgWord.FindAllString(expression, -1), func(word string) bool { return word == column || word == doubleQuoted(column) })
}

// pgRename gives columns other names, in a list of columns as Postgres prints it.
func pgRename(text string, to func(column string) string) string {
	return pgWord.ReplaceAllStringFunc(text, func(word string) string {
		name := word
		if strings.HasPrefix(word, `"`) && len(word) > 1 {
			name = strings.ReplaceAll(word[1:len(word)-1], `""`, `"`)
		}
		if renamed := to(name); renamed != name && !strings.HasPrefix(word, "'") {
			return pgQuoted(renamed)
		}
		return word
	})
}

// pgQuoted is a name as Postgres prints it, unless it is a keyword.
func pgQuoted(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return doubleQuoted(name)
}

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)
