package migrate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
)

// column is what is known of a table's column. It never changes: a change of the
// schema makes new ones.
type column struct {
	table      *table
	name       string
	dataType   string
	columnType string
	declared   bool      // a model or a mapping says that it is a boolean
	encoding   Encoding  // how it holds a boolean
	understood bool      // encoding is valid
	text       bool      // a text that nobody declared: it takes a bool as Y and N, and that is all
	partner    *Encoding // what it was, or will be, while a migration has both columns
}

// legacy reports whether the column holds booleans in a form that a Go bool must
// be encoded for.
func (c *column) legacy() bool { return c.understood && c.encoding.Legacy() }

// broken reports whether the column should hold booleans and can't.
func (c *column) broken() bool { return !c.understood }

func (c *column) String() string {
	return c.table.database + "." + c.table.name + "." + c.name
}

// sees reports whether the codec must look at statements over this column.
func (c *column) sees() bool { return !c.text && (c.legacy() || c.broken() || c.partner != nil) }

// encodes reports whether a bool for this column must be encoded.
func (c *column) encodes() bool { return c.text || c.sees() }

// rawColumn is a row of information_schema.COLUMNS.
type rawColumn struct {
	name, dataType, columnType string
}

// table is what is known of a table. It never changes.
type table struct {
	database, name string
	exists         bool
	raw            []rawColumn
	names          map[string]bool    // every column, in lower case
	booleans       map[string]*column // the columns that may matter, by lower-case name
	watched        bool               // some column needs the codec in every statement
	encodes        bool               // some column needs it when a bool is bound
	changeable     bool               // some column may be migrated there or back
	declarations   uint64             // the declarations that it was made under
	checked        time.Time          // before the server was last asked
}

// catalog is what is known of one database server's tables, as one pool sees it.
type catalog struct {
	bools *Bools

	mu       sync.RWMutex
	ready    bool
	database string // the connection's default
	mode     string // sql_mode
	tables   map[[2]string]*table

	generation atomic.Uint64 // counts the changes
	plans      planCache
}

func newCatalog(b *Bools) *catalog {
	return &catalog{bools: b, tables: map[[2]string]*table{}}
}

// connect asks once which database and mode the connections have.
func (c *catalog) connect(ctx context.Context, pool gorm.ConnPool) error {
	c.mu.RLock()
	ready := c.ready
	c.mu.RUnlock()
	if ready {
		return nil
	}
	var database, mode string
	rows, err := pool.QueryContext(ctx, "SELECT COALESCE(DATABASE(), ''), @@SESSION.sql_mode")
	if err != nil {
		return fmt.Errorf("migrate: asking for the connection's database: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&database, &mode); err != nil {
			return fmt.Errorf("migrate: asking for the connection's database: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("migrate: asking for the connection's database: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ready { // written once: what has been connected is read without the lock
		c.ready, c.database, c.mode = true, database, strings.ToUpper(mode)
	}
	return nil
}

func (c *catalog) ansiQuotes() bool  { return strings.Contains(c.mode, "ANSI") }
func (c *catalog) noBackslash() bool { return strings.Contains(c.mode, "NO_BACKSLASH_ESCAPES") }

// lookup yields the table, from memory while that is recent enough. An error means
// that the server couldn't be asked.
func (c *catalog) lookup(ctx context.Context, pool gorm.ConnPool, database, name string) (*table, error) {
	if database == "" {
		database = c.database
	}
	key := [2]string{strings.ToLower(database), strings.ToLower(name)}
	c.mu.RLock()
	t := c.tables[key]
	c.mu.RUnlock()
	if t != nil && t.declarations == c.bools.declarations.Load() && !c.stale(t) {
		return t, nil
	}
	if t != nil && t.exists && !c.stale(t) { // only the declarations are new
		now, _ := c.store(key, c.build(t.database, t.name, t.raw, t.checked))
		return now, nil
	}
	return c.load(ctx, pool, key, database, name)
}

// stale reports whether the server must be asked again. A table that no boolean
// lives in keeps; one that wasn't found is looked for again after a second.
func (c *catalog) stale(t *table) bool {
	recheck := c.bools.recheck
	if !t.exists {
		return time.Since(t.checked) > time.Second
	}
	return recheck >= 0 && t.changeable && time.Since(t.checked) > recheck
}

// load reads the table's columns from the server.
func (c *catalog) load(ctx context.Context, pool gorm.ConnPool, key [2]string, database, name string) (*table, error) {
	began := time.Now()
	rows, err := pool.QueryContext(ctx,
		"SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION",
		database, name)
	if err != nil {
		return nil, fmt.Errorf("migrate: reading the columns of %s.%s: %w", database, name, err)
	}
	defer rows.Close()
	var raw []rawColumn
	for rows.Next() {
		var r rawColumn
		if err := rows.Scan(&r.name, &r.dataType, &r.columnType); err != nil {
			return nil, fmt.Errorf("migrate: reading the columns of %s.%s: %w", database, name, err)
		}
		raw = append(raw, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("migrate: reading the columns of %s.%s: %w", database, name, err)
	}
	now, changed := c.store(key, c.build(database, name, raw, began))
	if changed && now.watched {
		c.bools.log().InfoContext(ctx, "migrate: the columns of a table have changed; what failed for that is tried again", "table", database+"."+name)
	}
	return now, nil
}

// store keeps the table, counts a change, and reports whether its columns had been
// known as others. What was asked for earlier than what is known doesn't replace it:
// its answer may be the older one.
func (c *catalog) store(key [2]string, t *table) (now *table, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.tables[key]
	if old != nil && old.declarations >= t.declarations && old.checked.After(t.checked) {
		return old, false
	}
	if old != nil && old.declarations == t.declarations && equalColumns(old.raw, t.raw) {
		fresh := *old // the same columns: plans that hold them stay good
		fresh.checked = t.checked
		c.tables[key] = &fresh
		return &fresh, false
	}
	c.tables[key] = t
	c.generation.Add(1)
	return t, old != nil && !equalColumns(old.raw, t.raw)
}

// refresh asks the server again for every table and reports whether any differs
// from the one given, which may have been replaced by another goroutine meanwhile.
func (c *catalog) refresh(ctx context.Context, pool gorm.ConnPool, tables []*table) (changed bool, err error) {
	for _, t := range tables {
		key := [2]string{strings.ToLower(t.database), strings.ToLower(t.name)}
		now, err := c.load(ctx, pool, key, t.database, t.name)
		if err != nil {
			return false, err
		}
		changed = changed || now.declarations != t.declarations || !equalColumns(now.raw, t.raw)
	}
	return changed, nil
}

func equalColumns(a, b []rawColumn) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// build works out which columns hold booleans.
func (c *catalog) build(database, name string, raw []rawColumn, checked time.Time) *table {
	// The declarations are counted first: one that comes in between is found later.
	t := &table{database: database, name: name, exists: len(raw) > 0, raw: raw, checked: checked,
		declarations: c.bools.declarations.Load(), names: make(map[string]bool, len(raw)), booleans: map[string]*column{}}
	declared := c.bools.declaredFor(database, name)
	for _, r := range raw {
		lower := strings.ToLower(r.name)
		t.names[lower] = true
		if col := classify(r, declared, c.bools.named()); col != nil {
			col.table = t
			t.booleans[lower] = col
		}
	}
	for _, col := range t.booleans {
		if p, ok := partnerOf(col, raw, declared); ok {
			col.partner = &p
		}
		t.watched = t.watched || col.sees()
		t.encodes = t.encodes || col.encodes()
		t.changeable = t.changeable || !col.text
	}
	return t
}

// classify decides whether and how a column holds booleans; nil if it doesn't.
func classify(r rawColumn, declared map[string]declaration, named bool) *column {
	col := &column{name: r.name, dataType: strings.ToLower(r.dataType), columnType: r.columnType}
	d, ok := declared[strings.ToLower(r.name)]
	switch {
	case ok && d.other: // a model holds it as something else
		return nil
	case ok && d.trueLabel != "":
		col.declared = true
		if col.encoding, col.understood = ParseMapped(r.dataType, r.columnType, d.trueLabel, d.falseLabel); !col.understood {
			// The mapping describes the old form; the column may have the new one by now.
			col.encoding, col.understood = parseNumeric(r)
		}
		return col
	case ok:
		col.declared = true
		col.encoding, col.understood = ParseColumn(r.dataType, r.columnType)
		if !col.understood && numericTypes[col.dataType] {
			return nil // a bool in an INT is MySQL's own business
		}
		return col
	case named:
		return nil
	default:
		// Nobody said so, but labels speak for themselves. Text doesn't, until a bool
		// is bound to it.
		if col.encoding, col.understood = ParseColumn(r.dataType, r.columnType); !col.understood {
			return nil
		}
		col.text = col.encoding.Kind == Char
		return col
	}
}

func parseNumeric(r rawColumn) (Encoding, bool) {
	if e, ok := ParseColumn(r.dataType, r.columnType); ok && (e.Kind == Integer || e.Kind == Bit) {
		return e, true
	}
	return Encoding{}, false
}

var numericTypes = map[string]bool{"smallint": true, "mediumint": true, "int": true, "bigint": true, "decimal": true, "float": true, "double": true, "bit": false}

// partnerOf finds the other column of a migration that is under way: what the
// column was before the swap, or will be after it.
func partnerOf(col *column, raw []rawColumn, declared map[string]declaration) (Encoding, bool) {
	helper := HelperColumn(col.name)
	for _, r := range raw {
		if !strings.EqualFold(r.name, helper) {
			continue
		}
		if d := declared[strings.ToLower(col.name)]; d.trueLabel != "" {
			if e, ok := ParseMapped(r.dataType, r.columnType, d.trueLabel, d.falseLabel); ok {
				return e, true
			}
		}
		if e, ok := ParseColumn(r.dataType, r.columnType); ok && e != col.encoding {
			return e, true
		}
	}
	return Encoding{}, false
}

// forget makes every table be read again.
func (c *catalog) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.tables)
	c.generation.Add(1)
}

// column finds a column for Param.
func (c *catalog) column(ctx context.Context, pool gorm.ConnPool, database, tableName, name string) (*column, error) {
	if err := c.connect(ctx, pool); err != nil {
		return nil, err
	}
	t, err := c.lookup(ctx, pool, database, tableName)
	if err != nil {
		return nil, err
	}
	if !t.exists {
		return nil, fmt.Errorf("%w: there is no table %s.%s", ErrNotBoolean, t.database, t.name)
	}
	if col := t.booleans[strings.ToLower(name)]; col != nil && col.understood {
		return col, nil
	}
	if !t.names[strings.ToLower(name)] {
		return nil, fmt.Errorf("%w: table %s.%s has no column %s", ErrNotBoolean, t.database, t.name, name)
	}
	for _, r := range t.raw {
		if strings.EqualFold(r.name, name) {
			if e, ok := ParseColumn(r.dataType, r.columnType); ok { // whoever asks says that it is one
				return &column{table: t, name: r.name, encoding: e, understood: true}, nil
			}
			if numericTypes[strings.ToLower(r.dataType)] {
				return &column{table: t, name: r.name, encoding: Encoding{Kind: Integer, True: "1", False: "0"}, understood: true}, nil
			}
			return nil, fmt.Errorf("%w: %s.%s.%s is %s; declare its labels with LegacyBools(...).Mapping", ErrNotBoolean, t.database, t.name, r.name, r.columnType)
		}
	}
	return nil, ErrNotBoolean
}
