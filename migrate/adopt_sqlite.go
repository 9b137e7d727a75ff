package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// sqliteAdopter speaks to SQLite, whose integers have 64 bits whatever their
// declared type says, so that only AUTOINCREMENT is to be dropped.
type sqliteAdopter struct {
	conn *sql.Conn
	spec AdoptSpec
}

func (a *sqliteAdopter) db() *sql.Conn            { return a.conn }
func (a *sqliteAdopter) quote(name string) string { return doubleQuoted(name) }
func (a *sqliteAdopter) placeholder(int) string   { return "?" }
func (a *sqliteAdopter) close()                   { _ = a.conn.Close() }

// lock is nothing: the one statement that changes something takes the database's
// write lock first, and looks again.
func (a *sqliteAdopter) lock(context.Context, string) error { return nil }

func (a *sqliteAdopter) inspect(ctx context.Context, spec AdoptSpec) (*AdoptReport, error) {
	r := &AdoptReport{Dialect: "sqlite", Table: spec.Table, FirstID: spec.FirstID}
	err := a.conn.QueryRowContext(ctx, "SELECT name, sql, sqlite_version() FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE", spec.Table).Scan(&r.Table, &r.Create, &r.Server)
	if err != nil {
		return nil, fmt.Errorf("migrate: expected a table %s: %w", spec.Table, err)
	}
	keys, err := texts(ctx, a.conn, "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", r.Table)
	if err != nil {
		return nil, err
	}
	if len(keys) != 1 {
		refuseKey(r, keys)
		return r, nil
	}
	if r.Key, err = a.column(ctx, Reference{r.Table, keys[0]}); err != nil {
		return nil, err
	}
	if _, has := withoutAutoincrement(r.Create); has {
		r.Key.Numbering = "AUTOINCREMENT"
	}
	if err := a.references(ctx, r, spec); err != nil {
		return nil, err
	}
	return r, a.hazards(ctx, r)
}

// column takes a type of integer affinity for 64 bits.
func (a *sqliteAdopter) column(ctx context.Context, ref Reference) (c AdoptColumn, err error) {
	c = AdoptColumn{Table: ref.Table, Column: ref.Column, Rows: -1}
	err = a.conn.QueryRowContext(ctx, "SELECT name, type FROM pragma_table_info(?) WHERE name = ? COLLATE NOCASE", ref.Table, ref.Column).Scan(&c.Column, &c.Type)
	if err != nil {
		return c, fmt.Errorf("migrate: expected a column %s: %w", ref, err)
	}
	if strings.Contains(strings.ToUpper(c.Type), "INT") {
		c.Bits = 64
	}
	return c, nil
}

func (a *sqliteAdopter) references(ctx context.Context, r *AdoptReport, spec AdoptSpec) error {
	found, err := a.foreignKeys(ctx, r)
	if err != nil {
		return err
	}
	r.ForeignKeys = found
	var all []Reference
	for _, k := range found {
		all = append(all, Reference{k.Table, k.Column})
	}
	for i, ref := range append(all, spec.References...) {
		c, err := a.column(ctx, ref)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(r.columns(), c.same) {
			c.Declared = i >= len(found)
			r.References = append(r.References, c)
		}
	}
	return nil
}

func (a *sqliteAdopter) foreignKeys(ctx context.Context, r *AdoptReport) (all []AdoptForeignKey, err error) {
	rows, err := a.conn.QueryContext(ctx, `SELECT m.name, f."from", f.id FROM sqlite_master m, pragma_foreign_key_list(m.name) f
		WHERE m.type = 'table' AND f."table" = ? COLLATE NOCASE AND (f."to" IS NULL OR f."to" = ? COLLATE NOCASE) ORDER BY m.name, f.id`, r.Table, r.Key.Column)
	if err != nil {
		return nil, fmt.Errorf("migrate: the foreign keys to %s: %w", r.Table, err)
	}
	defer rows.Close()
	for rows.Next() {
		k := AdoptForeignKey{ToTable: r.Table, ToColumn: r.Key.Column}
		var id int
		if err := rows.Scan(&k.Table, &k.Column, &id); err != nil {
			return nil, err
		}
		k.Name = fmt.Sprintf("foreign key %d of %s", id, k.Table)
		all = append(all, k)
	}
	return all, rows.Err()
}

func (a *sqliteAdopter) hazards(ctx context.Context, r *AdoptReport) error {
	r.hazard("numbering", "SQLite gives an INTEGER PRIMARY KEY that is left out the largest one plus one, with or without AUTOINCREMENT; programs that leave it out must be replaced")
	if r.Key.Numbering != "" {
		r.hazard("copy", "table %s is copied in one transaction; writers wait, and need a busy_timeout that outlasts it", r.Table)
	}
	triggers, err := texts(ctx, a.conn, "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE", r.Table)
	if err == nil && len(triggers) > 0 {
		r.hazard("triggers", "table %s has %s, which are created again as they are", r.Table, strings.Join(triggers, ", "))
	}
	return err
}

func (a *sqliteAdopter) forward(ctx context.Context, was, now *AdoptReport) ([]AdoptStatement, error) {
	create, has := withoutAutoincrement(now.Create)
	if !has {
		return nil, nil
	}
	return a.rebuild(ctx, "unnumber", now.Table, create)
}

func (a *sqliteAdopter) backward(ctx context.Context, was, now *AdoptReport, _ []AdoptColumn, _ int64) ([]AdoptStatement, error) {
	before, had := withoutAutoincrement(was.Create)
	if !had || now.Key.Numbering != "" {
		return nil, nil
	}
	if body(before) != body(now.Create) {
		return nil, fmt.Errorf("%w: expected table %s as the adoption left it, but its definition was changed since; add AUTOINCREMENT by hand", ErrOutOfOrder, now.Table)
	}
	return a.rebuild(ctx, "renumber", now.Table, was.Create)
}

// body is a CREATE TABLE from its first parenthesis on: a rename quotes the name.
func body(create string) string {
	for _, t := range sqliteTokens(create) {
		if create[t.from:t.to] == "(" {
			return create[t.from:]
		}
	}
	return create
}

// rebuild follows the steps that SQLite's documentation of ALTER TABLE gives for
// changes which ALTER TABLE doesn't make.
func (a *sqliteAdopter) rebuild(ctx context.Context, step, table, create string) ([]AdoptStatement, error) {
	columns, err := texts(ctx, a.conn, "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid", table)
	if err != nil {
		return nil, err
	}
	objects, err := texts(ctx, a.conn, "SELECT sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND tbl_name = ? COLLATE NOCASE AND sql IS NOT NULL ORDER BY type, name", table)
	if err != nil {
		return nil, err
	}
	fresh := a.quote(table + "__gf")
	list := strings.Join(each(columns, a.quote), ", ")
	return []AdoptStatement{{Step: step, Table: table, Locks: "one transaction with foreign_keys=OFF and legacy_alter_table=ON; writers wait, readers in WAL mode go on",
		SQL: append([]string{
			"CREATE TABLE " + fresh + " " + body(create),
			"INSERT INTO " + fresh + " (" + list + ") SELECT " + list + " FROM " + a.quote(table),
			"DROP TABLE " + a.quote(table),
			"ALTER TABLE " + fresh + " RENAME TO " + a.quote(table),
		}, objects...)}}, nil
}

// run rebuilds the table. foreign_keys can be changed outside a transaction only,
// and is brought back for whoever uses the connection next.
func (a *sqliteAdopter) run(ctx context.Context, s AdoptStatement) (err error) {
	for _, pragma := range []struct{ name, during string }{{"foreign_keys", "OFF"}, {"legacy_alter_table", "ON"}} {
		var before int
		if err := a.conn.QueryRowContext(ctx, "PRAGMA "+pragma.name).Scan(&before); err != nil {
			return err
		}
		if _, err := a.conn.ExecContext(ctx, "PRAGMA "+pragma.name+" = "+pragma.during); err != nil {
			return err
		}
		defer func() {
			_, back := a.conn.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf("PRAGMA %s = %d", pragma.name, before))
			err = errors.Join(err, back)
		}()
	}
	if _, err := a.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := a.rebuildInside(ctx, s); err != nil {
		_, _ = a.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return err
	}
	if _, err := a.conn.ExecContext(ctx, "COMMIT"); err != nil {
		_, _ = a.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return err
	}
	return nil
}

func (a *sqliteAdopter) rebuildInside(ctx context.Context, s AdoptStatement) error {
	var create string
	if err := a.conn.QueryRowContext(ctx, "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE", s.Table).Scan(&create); err != nil {
		return err
	}
	planned, err := a.rebuild(ctx, s.Step, s.Table, create)
	if err != nil {
		return err
	}
	stripped, numbered := withoutAutoincrement(create)
	target := strings.TrimPrefix(s.SQL[0], "CREATE TABLE "+a.quote(s.Table+"__gf")+" ")
	original, _ := withoutAutoincrement(target)
	if numbered != (s.Step == "unnumber") || body(stripped) != body(original) || !slices.Equal(planned[0].SQL[1:], s.SQL[1:]) {
		return fmt.Errorf("%w: table %s was changed since the plan was made; make a new one", ErrPlanChanged, s.Table)
	}
	before, err := texts(ctx, a.conn, "SELECT parent FROM pragma_foreign_key_check")
	if err != nil {
		return err
	}
	for _, statement := range s.SQL {
		if _, err := a.conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%w (in: %s)", err, statement)
		}
	}
	after, err := texts(ctx, a.conn, "SELECT parent FROM pragma_foreign_key_check")
	if err != nil {
		return err
	}
	if len(after) > len(before) {
		return fmt.Errorf("expected %d rows without a parent as before, met %d", len(before), len(after))
	}
	return nil
}
