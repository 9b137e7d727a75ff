package migrate

import (
	"fmt"
	"slices"
	"strings"
)

// An online widening gives a column a second one of the other type, keeps both
// equal by a trigger, fills the rows that exist, builds twins of the indexes and
// foreign keys, and in one short transaction drops the first column and gives the
// second its name. Every statement either leaves both columns whole or is part of
// one transaction, so that the schema shows how far a killed runner came. The way
// back is the same move to the old type, or, before the swap, dropping the second
// column again.

// text says why a widening was chosen.
func (w Widening) text(asked Widening) string {
	why := "as asked for"
	if asked != w {
		why = fmt.Sprintf("since no table has more than %d MiB; choose %q to keep programs going", rewriteLimit>>20, WidenOnline)
		if w == WidenOnline {
			why = fmt.Sprintf("since a table has more than %d MiB, or it has begun; %q would make reads and writes wait meanwhile", rewriteLimit>>20, WidenRewrite)
		}
	}
	switch w {
	case WidenOnline:
		return why + ". Widened columns move to the end of their tables"
	case WidenRewrite:
		return why
	}
	return ""
}

// pgUnit is one column on its way to another type.
type pgUnit struct {
	table  *pgTable
	base   pgAttribute
	shadow *pgAttribute // nil before the step prepare
	to     string       // the type that it shall have
}

func (u *pgUnit) reference() Reference { return Reference{u.table.name, u.base.name} }

func (u *pgUnit) shadowName() string  { return u.base.name + shadowSuffix }
func (u *pgUnit) triggerName() string { return pgName(triggerPrefix+u.base.name, "") }
func (u *pgUnit) checkName() string   { return pgName(u.base.name, shadowSuffix+"_check") }

// functionName is hashed, since functions share their schema: user.group_id and
// user_group.id must not have one.
func (u *pgUnit) functionName() string {
	return pgName(u.table.name+"_"+u.base.name, "_"+shortHash(u.table.name+"."+u.base.name)+shadowSuffix)
}

// source is the trigger function's.
func (u *pgUnit) source() string {
	return "BEGIN NEW." + doubleQuoted(u.shadowName()) + " := NEW." + doubleQuoted(u.base.name) + "; RETURN NEW; END"
}

// equal is the constraint that proves the backfill, and NOT NULL with it.
func (u *pgUnit) equal() string {
	base, shadow := doubleQuoted(u.base.name), doubleQuoted(u.shadowName())
	if u.base.notNull {
		return shadow + " IS NOT NULL AND " + shadow + " = " + base
	}
	return shadow + " IS NOT DISTINCT FROM " + base
}

// prepared says that the second column is there as the step prepare made it.
func (u *pgUnit) prepared() bool {
	g := u.table.trigger(u.triggerName())
	_, checked := u.table.checks[u.checkName()]
	return u.shadow != nil && g != nil && g.enabled == "A" && g.source == u.source() && checked
}

func (u *pgUnit) validated() bool { return u.prepared() && u.table.checks[u.checkName()] }

// discards says that the second column is to go, since the first has the right type.
func (u *pgUnit) discards() bool { return u.base.kind == u.to }

// heading is the column that will have the name in the end.
func (u *pgUnit) heading() string {
	if u.discards() {
		return u.base.name
	}
	return u.shadowName()
}

// units are the columns that haven't the type they should have, or have a second
// column still.
func (s *pgState) units(r *AdoptReport, target func(AdoptColumn) string) (all []*pgUnit) {
	for _, c := range r.columns() {
		t := s.tables[c.Table]
		if t == nil || c.Bits == 0 {
			continue
		}
		u := &pgUnit{table: t, base: *t.column(c.Column), to: target(c)}
		u.shadow = t.column(u.shadowName())
		if u.discards() && (u.shadow == nil || !u.prepared()) {
			continue // in order, or somebody else's column
		}
		all = append(all, u)
	}
	return all
}

// begun says that an online widening has left a second column.
func (s *pgState) begun(r *AdoptReport) bool {
	same := func(c AdoptColumn) string { return c.Type }
	return len(s.units(r, same)) > 0
}

// pgTables are the units' tables, in their order.
func pgTables(units []*pgUnit) (all []*pgTable) {
	for _, u := range units {
		if !slices.Contains(all, u.table) {
			all = append(all, u.table)
		}
	}
	// The key's table comes last, though a column of it may refer to itself.
	if n := len(units); n > 0 {
		last := units[n-1].table
		all = append(slices.DeleteFunc(all, func(t *pgTable) bool { return t == last }), last)
	}
	return all
}

const (
	locksPrepare  = "ACCESS EXCLUSIVE for a moment, no row is touched; from here on a trigger fills the second column"
	locksBackfill = "ROW EXCLUSIVE: reads and writes go on, but for those of rows that a batch has locked"
	locksValidate = "SHARE UPDATE EXCLUSIVE: reads the table; reads and writes go on"
	locksIndex    = "SHARE UPDATE EXCLUSIVE: reads and writes go on; it waits for transactions that began before it"
	locksBind     = "SHARE ROW EXCLUSIVE on both tables for a moment, no row is touched"
	locksSwap     = "ACCESS EXCLUSIVE for a moment, on the tables that it refers to, too; no row is touched; the column is the table's last afterwards"
	locksRelease  = "ACCESS EXCLUSIVE on both tables for a moment, no row is touched"
)

// pgMove writes the statements of a move.
type pgMove struct {
	a     *postgresAdopter
	r     *AdoptReport
	units []*pgUnit
	all   []AdoptStatement

	changes map[string][]pgKeyChange // by table: for its swap
}

// pgKeyChange drops a foreign key and gives its twin the name.
type pgKeyChange struct {
	key pgForeignKey
	sql []string
}

// online lists what is left of the move of the units, from the schema as it is.
func (a *postgresAdopter) online(r *AdoptReport, units []*pgUnit) ([]AdoptStatement, error) {
	m := &pgMove{a: a, r: r, units: units, changes: map[string][]pgKeyChange{}}
	for _, u := range units {
		if u.shadow != nil && !u.discards() && u.shadow.kind != u.to {
			return nil, fmt.Errorf("%w: expected %s.%s to be %s, met %s; somebody else altered the table", ErrOutOfOrder, u.table.name, u.shadowName(), u.to, u.shadow.kind)
		}
	}
	tables := pgTables(units)
	for _, t := range tables {
		m.prepare(t)
	}
	for _, t := range tables {
		m.backfill(t)
	}
	for _, t := range tables {
		m.index(t)
	}
	m.foreignKeys()
	for _, t := range tables {
		m.swap(t)
	}
	for _, t := range tables {
		m.discard(t)
	}
	return m.all, nil
}

func (m *pgMove) add(step, table, locks string, s AdoptStatement, sql ...string) {
	s.Step, s.Table, s.Locks, s.SQL = step, table, locks, sql
	m.all = append(m.all, s)
}

// of are the table's units that move, or that go.
func (m *pgMove) of(t *pgTable, discards bool) (all []*pgUnit) {
	for _, u := range m.units {
		if u.table == t && u.discards() == discards {
			all = append(all, u)
		}
	}
	return all
}

func (m *pgMove) prepare(t *pgTable) {
	table := doubleQuoted(t.name)
	var columns, functions, triggers, rest []string
	for _, u := range m.of(t, false) {
		if u.shadow != nil {
			continue
		}
		function, trigger := doubleQuoted(t.schema)+"."+doubleQuoted(u.functionName()), doubleQuoted(u.triggerName())
		columns = append(columns, "ADD COLUMN "+doubleQuoted(u.shadowName())+" "+u.to)
		functions = append(functions, "CREATE OR REPLACE FUNCTION "+function+"() RETURNS trigger LANGUAGE plpgsql AS "+quoteString(u.source()))
		triggers = append(triggers, "CREATE TRIGGER "+trigger+" BEFORE INSERT OR UPDATE ON "+table+" FOR EACH ROW EXECUTE FUNCTION "+function+"()")
		rest = append(rest, "ENABLE ALWAYS TRIGGER "+trigger, "ADD CONSTRAINT "+doubleQuoted(u.checkName())+" CHECK ("+u.equal()+") NOT VALID")
	}
	if len(columns) == 0 {
		return
	}
	sql := slices.Concat([]string{"ALTER TABLE " + table + " " + strings.Join(columns, ", ")}, functions, triggers, []string{"ALTER TABLE " + table + " " + strings.Join(rest, ", ")})
	m.add("prepare", t.name, locksPrepare, AdoptStatement{}, sql...)
}

func (m *pgMove) backfill(t *pgTable) {
	var left []*pgUnit
	for _, u := range m.of(t, false) {
		if !u.validated() {
			left = append(left, u)
		}
	}
	if len(left) == 0 {
		return
	}
	fill := newPgFill(m.r.state.version, t, left)
	m.add("backfill", t.name, locksBackfill, AdoptStatement{fill: fill, gentle: true}, fill.text())
	for _, u := range left {
		m.add("validate", t.name, locksValidate, AdoptStatement{gentle: true}, "ALTER TABLE "+doubleQuoted(t.name)+" VALIDATE CONSTRAINT "+doubleQuoted(u.checkName()))
	}
}

// shadows gives the table's moving columns their second names.
func (m *pgMove) shadows(t *pgTable) func(string) string {
	moving := m.of(t, false)
	return func(name string) string {
		for _, u := range moving {
			if u.base.name == name {
				return u.shadowName()
			}
		}
		return name
	}
}

// twins are the indexes that a swap of the table replaces.
func (m *pgMove) twins(t *pgTable) (all []pgIndex) {
	for _, x := range t.indexes {
		if slices.ContainsFunc(m.of(t, false), func(u *pgUnit) bool { return slices.Contains(x.columns, u.base.name) }) {
			all = append(all, x)
		}
	}
	return all
}

func (m *pgMove) index(t *pgTable) {
	for _, x := range m.twins(t) {
		name := pgName(x.name, shadowSuffix)
		want := m.twinDefinition(t, x, name)
		twin := t.index(name)
		if twin != nil && twin.valid && twin.definition == want {
			continue
		}
		if twin != nil {
			m.add("index", t.name, locksIndex, AdoptStatement{alone: true}, "DROP INDEX CONCURRENTLY "+doubleQuoted(t.schema)+"."+doubleQuoted(name))
		}
		m.add("index", t.name, locksIndex, AdoptStatement{alone: true}, strings.Replace(want, " INDEX ", " INDEX CONCURRENTLY ", 1))
	}
}

// twinDefinition is the index's own with another name and the second columns, just
// as Postgres will print it.
func (m *pgMove) twinDefinition(t *pgTable, x pgIndex, name string) string {
	unique := ""
	if strings.HasPrefix(x.definition, "CREATE UNIQUE ") {
		unique = "UNIQUE "
	}
	on := pgFind(x.definition, 0, "ON")
	columns := pgFind(x.definition, pgFind(x.definition, on, "USING"), "(") // past the method, which may be called as a column
	return "CREATE " + unique + "INDEX " + pgQuoted(name) + " " + x.definition[on:columns] + pgRename(x.definition[columns:], m.shadows(t))
}

// headings maps columns of a table, first or second ones, to those that will have
// the names in the end. touched says that one of them belongs to a unit.
func (m *pgMove) headings(table int64, columns []string) (to []string, touched bool) {
	for _, name := range columns {
		for _, u := range m.units {
			if u.table.oid == table && (name == u.base.name || name == u.shadowName()) {
				name, touched = u.heading(), true
			}
		}
		to = append(to, name)
	}
	return to, touched
}

// foreignKeys replaces those that lead from or to a column that goes: a twin
// beside it first, then its rows, then the name. One that leads from a column
// that moves stays until the swap, since ON DELETE SET NULL and the like have to
// write to the first column: what they write to the second one its trigger undoes.
func (m *pgMove) foreignKeys() {
	var bind, validate, release []AdoptStatement
	s := m.r.state
	for _, k := range s.keys {
		if slices.ContainsFunc(s.keys, func(o pgForeignKey) bool { return o.tableOID == k.tableOID && pgName(o.name, shadowSuffix) == k.name }) {
			continue // a twin, which is seen with its own
		}
		from, a := m.headings(k.tableOID, k.columns)
		to, b := m.headings(k.toOID, k.toColumns)
		if !a && !b {
			continue
		}
		goes := func(o pgForeignKey) bool { return slices.Equal(o.columns, from) && slices.Equal(o.toColumns, to) }
		name := pgName(k.name, shadowSuffix)
		table := "ALTER TABLE " + doubleQuoted(k.table) + " "
		drop := func(name string) string { return table + "DROP CONSTRAINT " + doubleQuoted(name) }
		twin := s.key(k.tableOID, name)
		if goes(k) || twin != nil && !goes(*twin) {
			if twin != nil {
				release = append(release, AdoptStatement{Step: "release", Table: k.table, Locks: locksRelease, SQL: []string{drop(name)}, several: true})
			}
			if goes(k) {
				continue
			}
			// Not to be met by a plan of one direction, but the twin has to go first.
			bind, release, twin = append(bind, release[len(release)-1]), release[:len(release)-1], nil
		}
		if twin == nil {
			bind = append(bind, AdoptStatement{Step: "bind", Table: k.table, Locks: locksBind, several: true, SQL: []string{
				table + "ADD CONSTRAINT " + doubleQuoted(name) + " FOREIGN KEY (" + quotedList(from) + ") REFERENCES " + k.toSQL + " (" + quotedList(to) + ")" +
					m.actions(k) + " NOT VALID"}})
		}
		if k.valid && (twin == nil || !twin.valid) {
			validate = append(validate, AdoptStatement{Step: "validate", Table: k.table, Locks: locksValidate, gentle: true, SQL: []string{
				table + "VALIDATE CONSTRAINT " + doubleQuoted(name)}})
		}
		change := []string{drop(k.name), table + "RENAME CONSTRAINT " + doubleQuoted(name) + " TO " + doubleQuoted(k.name)}
		if k.comment != "" {
			change = append(change, "COMMENT ON CONSTRAINT "+doubleQuoted(k.name)+" ON "+doubleQuoted(k.table)+" IS "+quoteString(k.comment))
		}
		if slices.ContainsFunc(m.units, func(u *pgUnit) bool {
			return u.table.oid == k.tableOID && !u.discards() && slices.Contains(k.columns, u.base.name)
		}) {
			m.changes[k.table] = append(m.changes[k.table], pgKeyChange{k, change})
			continue
		}
		release = append(release, AdoptStatement{Step: "release", Table: k.table, Locks: locksRelease, SQL: change, several: true})
	}
	m.all = slices.Concat(m.all, bind, validate, release)
}

// actions is what the definition of a foreign key has after its columns.
func (m *pgMove) actions(k pgForeignKey) string {
	closed := 0
	for _, at := range pgWord.FindAllStringIndex(k.definition, -1) {
		if k.definition[at[0]:at[1]] != ")" {
			continue
		}
		if closed++; closed == 2 {
			rest := strings.TrimSuffix(k.definition[at[1]:], " NOT VALID")
			return pgRename(rest, func(name string) string { // ON DELETE SET NULL names columns
				if !slices.Contains(k.columns, name) {
					return name
				}
				to, _ := m.headings(k.tableOID, []string{name})
				return to[0]
			})
		}
	}
	return ""
}

func quotedList(names []string) string { return strings.Join(each(names, doubleQuoted), ", ") }

// swap is the one transaction that drops the first columns and gives the second
// ones their names, their place in the indexes, and their numbers.
func (m *pgMove) swap(t *pgTable) {
	units := m.of(t, false)
	if len(units) == 0 {
		return
	}
	table := doubleQuoted(t.name)
	alter := "ALTER TABLE " + table + " "
	locks, bound := []string{table}, []string{}
	for _, change := range m.changes[t.name] {
		if !slices.Contains(locks, change.key.toSQL) && change.key.toOID != t.oid {
			locks = append(locks, change.key.toSQL)
		}
		bound = append(bound, change.sql...)
	}
	sql := append([]string{"LOCK TABLE " + strings.Join(locks, ", ") + " IN ACCESS EXCLUSIVE MODE"}, bound...)
	var drops, renames []string
	for _, u := range units {
		if u.base.notNull {
			sql = append(sql, alter+"ALTER COLUMN "+doubleQuoted(u.shadowName())+" SET NOT NULL")
		}
		sql = append(sql, u.dropTrigger()...)
		before, after := m.number(u)
		sql = append(sql, before...)
		drops = append(drops, "DROP CONSTRAINT "+doubleQuoted(u.checkName()), "DROP COLUMN "+doubleQuoted(u.base.name))
		renames = append(append(renames, after...), alter+"RENAME COLUMN "+doubleQuoted(u.shadowName())+" TO "+doubleQuoted(u.base.name))
		if u.base.comment != "" {
			renames = append(renames, "COMMENT ON COLUMN "+table+"."+doubleQuoted(u.base.name)+" IS "+quoteString(u.base.comment))
		}
		if u.base.statistics >= 0 {
			renames = append(renames, alter+"ALTER COLUMN "+doubleQuoted(u.base.name)+" SET STATISTICS "+fmt.Sprint(u.base.statistics))
		}
	}
	var indexes []string
	for _, x := range m.twins(t) {
		twin := doubleQuoted(pgName(x.name, shadowSuffix))
		switch kind := map[string]string{"p": "PRIMARY KEY", "u": "UNIQUE"}[x.constraint]; kind {
		case "":
			sql = append(sql, "DROP INDEX "+doubleQuoted(t.schema)+"."+doubleQuoted(x.name))
			indexes = append(indexes, "ALTER INDEX "+doubleQuoted(t.schema)+"."+twin+" RENAME TO "+doubleQuoted(x.name))
		default:
			sql = append(sql, alter+"DROP CONSTRAINT "+doubleQuoted(x.name))
			indexes = append(indexes, alter+"ADD CONSTRAINT "+doubleQuoted(x.name)+" "+kind+" USING INDEX "+twin)
		}
		if x.comment != "" {
			indexes = append(indexes, "COMMENT ON INDEX "+doubleQuoted(t.schema)+"."+doubleQuoted(x.name)+" IS "+quoteString(x.comment))
		}
		if x.reason != "" {
			indexes = append(indexes, "COMMENT ON CONSTRAINT "+doubleQuoted(x.name)+" ON "+table+" IS "+quoteString(x.reason))
		}
		if x.clustered {
			indexes = append(indexes, alter+"CLUSTER ON "+doubleQuoted(x.name))
		}
	}
	sql = slices.Concat(sql, []string{alter + strings.Join(drops, ", ")}, indexes, renames)
	m.add("swap", t.name, locksSwap, AdoptStatement{several: len(locks) > 1 || len(m.r.tables()) > 1}, sql...)
}

func (u *pgUnit) dropTrigger() []string {
	return []string{
		"DROP TRIGGER " + doubleQuoted(u.triggerName()) + " ON " + doubleQuoted(u.table.name),
		"DROP FUNCTION " + doubleQuoted(u.table.schema) + "." + doubleQuoted(u.functionName()) + "()",
	}
}

// number hands the default, the sequence or the identity to the second column:
// what has to be done before the first column goes, and what after.
func (m *pgMove) number(u *pgUnit) (before, after []string) {
	alter := "ALTER TABLE " + doubleQuoted(u.table.name) + " ALTER COLUMN " + doubleQuoted(u.shadowName()) + " "
	q := m.r.Sequence
	key := m.r.Key.same(AdoptColumn{Table: u.table.name, Column: u.base.name})
	if u.base.identity != "" && key && q != nil {
		temporary := doubleQuoted(q.Schema) + "." + doubleQuoted(pgName(q.Name, shadowSuffix))
		kind := "BY DEFAULT"
		if u.base.identity == "a" {
			kind = "ALWAYS"
		}
		return []string{
			alter + "ADD GENERATED " + kind + " AS IDENTITY (SEQUENCE NAME " + temporary + " " + q.options(q.Start) + ")",
			"SELECT setval(" + quoteString(temporary) + ", last_value, is_called) FROM " + doubleQuoted(q.Schema) + "." + doubleQuoted(q.Name),
		}, []string{"ALTER SEQUENCE " + temporary + " RENAME TO " + doubleQuoted(q.Name)}
	}
	if u.base.fallback != "" {
		before = append(before, alter+"SET DEFAULT "+u.base.fallback)
		if key && q != nil && q.Owned {
			before = append(before, "ALTER SEQUENCE "+doubleQuoted(q.Schema)+"."+doubleQuoted(q.Name)+" OWNED BY "+doubleQuoted(u.table.name)+"."+doubleQuoted(u.shadowName()))
		}
	}
	return before, nil
}

func (m *pgMove) discard(t *pgTable) {
	var sql, drops []string
	for _, u := range m.of(t, true) {
		sql = append(sql, u.dropTrigger()...)
		drops = append(drops, "DROP COLUMN "+doubleQuoted(u.shadowName()))
	}
	if len(drops) == 0 {
		return
	}
	table := doubleQuoted(t.name)
	m.add("discard", t.name, locksBrief, AdoptStatement{}, slices.Concat([]string{"LOCK TABLE " + table + " IN ACCESS EXCLUSIVE MODE"}, sql,
		[]string{"ALTER TABLE " + table + " " + strings.Join(drops, ", ")})...)
}
