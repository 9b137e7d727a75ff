package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// obstacles refuses what an online move of the units would break or couldn't
// bring along. Postgres' own record of what depends on a column is asked last, so
// that whatever isn't known to be carried along is refused.
func (a *postgresAdopter) obstacles(ctx context.Context, r *AdoptReport, units []*pgUnit) error {
	s := r.state
	const orRewrite = ", or choose the widening rewrite (--widening rewrite)"
	if s.version < 120000 && len(units) > 0 {
		r.refuse("version", "", "", "Postgres before 12 sets NOT NULL only by reading the table under ACCESS EXCLUSIVE", "choose the widening rewrite (--widening rewrite)")
	}
	for _, t := range pgTables(units) {
		all := slices.DeleteFunc(slices.Clone(units), func(u *pgUnit) bool { return u.table != t })
		switch {
		case !t.plain:
			r.refuse("partition", "", t.name, "table "+t.name+" is partitioned, inherited or a view", "widen its columns by hand first")
			continue
		case len(t.published) > 0:
			r.refuse("publication", "", t.published[0], "table "+t.name+" is published by "+strings.Join(t.published, ", ")+", and subscribers lack the second column",
				"take it out of the publication meanwhile"+orRewrite)
		case len(t.rules) > 0:
			r.refuse("rule", "", t.rules[0], "table "+t.name+" has the rule "+strings.Join(t.rules, ", ")+", which rewrites the statements of the move", "drop the rule meanwhile"+orRewrite)
		case t.secured:
			r.refuse("row-security", "", t.name, "row level security of table "+t.name+" is forced, so that the backfill may not see every row", "lift it meanwhile"+orRewrite)
		case t.rangeKey() == "" && s.version < 140000:
			r.refuse("no-range", "", t.name, "table "+t.name+" has no key of one integer column, and Postgres before 14 reads no ranges of blocks", "give it one"+orRewrite)
		}
		a.refuseTriggers(r, t, all, orRewrite)
		for _, u := range all {
			refuseColumn(r, u, orRewrite)
			if err := a.refuseDependents(ctx, r, u, orRewrite); err != nil {
				return err
			}
		}
	}
	for _, k := range s.keys {
		for _, u := range units {
			from := k.tableOID == u.table.oid && (slices.Contains(k.columns, u.base.name) || slices.Contains(k.columns, u.shadowName()))
			to := k.toOID == u.table.oid && (slices.Contains(k.toColumns, u.base.name) || slices.Contains(k.toColumns, u.shadowName()))
			if (from || to) && len(k.columns) > 1 && !slices.ContainsFunc(r.Refusals, func(x Refusal) bool { return x.Name == k.name }) {
				r.refuse("foreign-key", u.reference().String(), k.name, "the foreign key "+k.name+" is of several columns", "drop it first, and declare its column as a reference"+orRewrite)
			}
		}
	}
	return nil
}

// refuseColumn refuses what the column itself has and its successor wouldn't.
func refuseColumn(r *AdoptReport, u *pgUnit, orRewrite string) {
	refuse := func(code, name, reason, remedy string) {
		r.refuse(code, u.reference().String(), name, reason, remedy+orRewrite)
	}
	c := u.base
	if len(c.name)+len(shadowSuffix) > longestName {
		refuse("name", "", "its name leaves no room for that of a second column", "give it a name of at most "+fmt.Sprint(longestName-len(shadowSuffix))+" bytes")
	}
	if c.generated != "" {
		refuse("generated", "", "it is a generated column", "make it a plain one")
	}
	if c.granted {
		refuse("privileges", "", "it has privileges or options of its own", "grant them on the table instead")
	}
	if c.identity != "" && !r.Key.same(AdoptColumn{Table: u.table.name, Column: c.name}) {
		refuse("default", "", "it is an identity column beside the key", "drop the identity first")
	}
	for _, x := range u.table.indexes {
		has := slices.Contains(x.columns, c.name)
		switch {
		case x.constraint == "x" && (has || pgNames(x.expressions, c.name)):
			refuse("index", x.name, "the exclusion constraint "+x.name+" uses it", "drop it first, and add it again afterwards")
		case pgNames(x.expressions, c.name):
			refuse("index", x.name, "an expression or the predicate of the index "+x.name+" uses it", "drop the index first, and create it again afterwards")
		case has && x.deferrable:
			refuse("index", x.name, "the constraint "+x.name+" is deferrable", "make it one that isn't")
		case slices.Contains(x.classed, c.name):
			refuse("index", x.name, "the index "+x.name+" has an operator class of its old type", "drop it first, and create it again afterwards")
		case has && x.identity:
			refuse("index", x.name, "the index "+x.name+" is the table's replica identity", "set another one meanwhile")
		case has && !x.valid:
			refuse("index", x.name, "the index "+x.name+" isn't valid", "drop it or build it anew")
		}
		if twin := u.table.index(pgName(x.name, shadowSuffix)); has && twin != nil && twin.valid && !slices.ContainsFunc(twin.columns, func(name string) bool { return strings.HasSuffix(name, shadowSuffix) }) {
			refuse("name", twin.name, "an index has the name "+twin.name+", which the move needs", "rename that index")
		}
	}
	if u.shadow != nil && !u.prepared() {
		refuse("name", u.shadowName(), "its table has a column "+u.shadowName()+" without the trigger and the constraint that an online widening gives it", "drop or rename that column")
	}
}

// Bits of pg_trigger.tgtype.
const (
	triggerRow    = 1
	triggerBefore = 2
	triggerInsert = 4
	triggerUpdate = 16
)

func (a *postgresAdopter) refuseTriggers(r *AdoptReport, t *pgTable, units []*pgUnit, orRewrite string) {
	for _, g := range t.triggers {
		if slices.ContainsFunc(units, func(u *pgUnit) bool { return u.triggerName() == g.name }) {
			continue
		}
		if strings.HasPrefix(g.name, triggerPrefix) {
			r.refuse("triggers", "", g.name, "the trigger "+g.name+" of table "+t.name+" says that another column of it is on its way to another type", "let that adoption end, or roll it back")
			continue
		}
		if g.bits&triggerRow > 0 && g.bits&triggerBefore > 0 && g.bits&(triggerInsert|triggerUpdate) > 0 && slices.ContainsFunc(units, func(u *pgUnit) bool { return u.triggerName() < g.name }) {
			r.refuse("trigger-order", "", g.name, "the trigger "+g.name+" of table "+t.name+" would fire after "+units[0].triggerName()+", and might change what that one copies",
				"rename it, since triggers fire in the order of their names"+orRewrite)
		}
		if !g.fires() {
			continue
		}
		switch {
		case g.enabled != "O":
			r.refuse("triggers", "", g.name, "the trigger "+g.name+" of table "+t.name+" fires for updates always or on replicas, so the backfill can't pass it by", "disable it meanwhile"+orRewrite)
		case !r.state.silence:
			r.refuse("triggers", "", g.name, "the trigger "+g.name+" of table "+t.name+" would fire for every row of the backfill",
				"let a role do it that may set session_replication_role"+orRewrite)
		}
	}
}

// fires says that an UPDATE of the second column alone fires it.
func (g pgTrigger) fires() bool { return g.bits&triggerUpdate > 0 && !g.listed && g.enabled != "D" }

// refuseDependents asks what depends on the column, and knows what the move
// carries along.
func (a *postgresAdopter) refuseDependents(ctx context.Context, r *AdoptReport, u *pgUnit, orRewrite string) error {
	type dependent struct {
		class, kind, what, view string
		name                    string
	}
	all, err := read(ctx, a.conn, `SELECT DISTINCT d.classid::regclass::text, COALESCE(k.contype::text, c.relkind::text, ''), pg_describe_object(d.classid, d.objid, d.objsubid),
			COALESCE(w.ev_class::regclass::text, ''), COALESCE(k.conname, c.relname, '')
		FROM pg_depend d
		LEFT JOIN pg_constraint k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid
		LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
		LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
		LEFT JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
		WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = $1::bigint::oid AND d.refobjsubid = $2
			AND NOT (f.oid IS NOT NULL AND f.adrelid = d.refobjid AND f.adnum = d.refobjsubid) ORDER BY 3`,
		func(rows *sql.Rows) (d dependent, err error) {
			err = rows.Scan(&d.class, &d.kind, &d.what, &d.view, &d.name)
			return d, err
		}, u.table.oid, u.base.number)
	if err != nil {
		return fmt.Errorf("migrate: what depends on %s: %w", u.reference(), err)
	}
	for _, d := range all {
		carried := d.class == "pg_constraint" && (strings.Contains("pufn", d.kind) || d.kind == "x" || d.name == u.checkName()) ||
			d.class == "pg_class" && (d.kind == "i" || d.kind == "S" && r.Sequence != nil && r.Sequence.Owned && r.Sequence.Name == d.name)
		switch {
		case carried: // or refused with the indexes and foreign keys
		case d.view != "":
			if d.view != u.table.name {
				r.refuseView(u.reference(), d.view)
			}
		default:
			remedy := "drop that first, and create it again afterwards"
			if d.class == "pg_constraint" || d.class == "pg_statistic_ext" { // Postgres refuses a change of the type under all else
				remedy += orRewrite
			}
			r.refuse("dependent", u.reference().String(), d.name, d.what+" depends on it", remedy)
		}
	}
	return nil
}

func (r *AdoptReport) refuseView(c Reference, view string) {
	if !slices.ContainsFunc(r.Refusals, func(x Refusal) bool { return x.Code == "view" && x.Name == view }) {
		r.refuse("view", c.String(), view, "the view "+view+" uses it, and Postgres changes no type under a view", "drop the view first, and create it again afterwards")
	}
}
