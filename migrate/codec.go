package migrate

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

const pluginName = "gormflake:legacy-bools"

// Bools is the codec for legacy MySQL booleans: a gorm.Plugin. Make one with
// [LegacyBools] and install it with db.Use. One value may serve several databases,
// and several goroutines.
//
// Its options must be called before db.Use.
type Bools struct {
	models  []any
	recheck time.Duration
	logger  *slog.Logger
	warn    bool
	maps    []labelMapping

	// declarations counts the changes of declared.
	declarations atomic.Uint64
	mu           sync.RWMutex
	declared     map[string]map[string]declaration // by table, then column, in lower case
	seen         sync.Map                          // of observed
	types        map[reflect.Type]bool             // the models that the user named
	catalogs     sync.Map                          // of *catalog by *sql.DB
	schemas      sync.Map                          // of *schema.Schema without boolean defaults, by the original
	told         sync.Map                          // what was logged already
}

// declaration is what a model or a mapping says of a column.
type declaration struct {
	other                 bool   // a model holds it as something else
	trueLabel, falseLabel string // empty: by what the column is
}

type labelMapping struct {
	table, column         string
	trueLabel, falseLabel string
}

type observed struct {
	schema *schema.Schema
	table  string
}

// LegacyBools makes the codec for the booleans of the given models, or of every
// model and table that is seen, when none is given. Every bool, *bool and
// sql.NullBool field is written, compared and read by what its column is: an enum
// of N/Y, 0/1 or false/true in either order, a char or varchar with Y and N, a
// bit(1), a tinyint. The real types are read from the server, by database, table
// and column, and read again when the server shows that they have changed.
//
// A plain bool with the tag default:true is stored as false when it is false,
// which GORM alone doesn't do.
//
// A bool that is bound beside a legacy column in a place where its column can't be
// proven is an error, see [ErrUnprovenBool] and [Param].
func LegacyBools(models ...any) *Bools {
	return &Bools{models: models, recheck: time.Second, declared: map[string]map[string]declaration{}, types: map[reflect.Type]bool{}}
}

// Mapping declares the labels of a column that doesn't hold N/Y, 0/1 or
// false/true: an enum, or a char or varchar. table may be "database.table". The
// gorm tag "legacybool:TRUELABEL,FALSELABEL" on a field does the same.
func (b *Bools) Mapping(table, column, trueLabel, falseLabel string) *Bools {
	b.maps = append(b.maps, labelMapping{table: table, column: column, trueLabel: trueLabel, falseLabel: falseLabel})
	return b
}

// WarnOnRaw turns [ErrUnprovenBool] into a warning through the logger; the
// statement is then executed as it is, with whatever MySQL makes of it.
func (b *Bools) WarnOnRaw() *Bools {
	b.warn = true
	return b
}

// Logger sets where warnings and notes go; the default is slog.Default().
func (b *Bools) Logger(l *slog.Logger) *Bools {
	b.logger = l
	return b
}

// Recheck sets how long the codec relies on what it has read of a table that holds
// booleans before it asks again; the default is one second. Negative: only when the
// server shows a change.
func (b *Bools) Recheck(d time.Duration) *Bools {
	b.recheck = d
	return b
}

// Name is the plugin's name in gorm.Config.Plugins.
func (b *Bools) Name() string { return pluginName }

// Initialize installs the codec. It does no I/O, and on any dialect but MySQL
// nothing at all.
func (b *Bools) Initialize(db *gorm.DB) error {
	if db.Dialector == nil || db.Dialector.Name() != "mysql" {
		return nil
	}
	for _, m := range b.maps {
		if m.table == "" || m.column == "" || m.trueLabel == m.falseLabel {
			return fmt.Errorf("migrate: Mapping(%q, %q, %q, %q): expected a table, a column and two different labels", m.table, m.column, m.trueLabel, m.falseLabel)
		}
		b.declare(m.table, m.column, declaration{trueLabel: m.trueLabel, falseLabel: m.falseLabel})
	}
	for _, model := range b.models {
		stmt := &gorm.Statement{DB: db}
		if err := stmt.Parse(model); err != nil {
			return fmt.Errorf("migrate: LegacyBools: parsing %T: %w", model, err)
		}
		b.mu.Lock()
		b.types[stmt.Schema.ModelType] = true
		b.mu.Unlock()
		if err := b.declareSchema(stmt.Schema, stmt.Schema.Table); err != nil {
			return err
		}
	}
	b.guard(db)
	return b.register(db)
}

// Refresh forgets what is known of every table, so that the next statements read
// the schema again.
func (b *Bools) Refresh() {
	b.catalogs.Range(func(_, c any) bool {
		c.(*catalog).forget()
		return true
	})
}

// installed finds the codec that is installed on the database.
func installed(db *gorm.DB) (*Bools, bool) {
	b, ok := db.Config.Plugins[pluginName].(*Bools)
	return b, ok
}

func (b *Bools) log() *slog.Logger {
	if b.logger != nil {
		return b.logger
	}
	return slog.Default()
}

func (b *Bools) named() bool { return len(b.models) > 0 }

// unproven decides what becomes of a bool that isn't proven.
func (b *Bools) unproven(ctx context.Context) func(*UnprovenBoolError) error {
	return func(e *UnprovenBoolError) error {
		if !b.warn {
			return e
		}
		b.log().WarnContext(ctx, "migrate: a bool beside a legacy boolean column is sent as it is", "table", e.Table, "column", e.Column, "found", e.Found, "reason", e.Reason)
		return nil
	}
}

// declare adds what is said of a column. A boolean beats something else, and
// labels beat none.
func (b *Bools) declare(table, column string, d declaration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	table, column = strings.ToLower(table), strings.ToLower(column)
	columns := b.declared[table]
	if columns == nil {
		columns = map[string]declaration{}
		b.declared[table] = columns
	}
	old, ok := columns[column]
	if ok && (old == d || d.other || old.trueLabel != "" && d.trueLabel == "") {
		return
	}
	columns[column] = d
	b.declarations.Add(1)
}

// declareSchema declares the columns of a model under a table's name.
func (b *Bools) declareSchema(sch *schema.Schema, table string) error {
	for _, field := range sch.Fields {
		if field.DBName == "" {
			continue
		}
		d := declaration{other: !isBoolField(field)}
		if labels, ok := field.TagSettings["LEGACYBOOL"]; ok && !d.other {
			d.trueLabel, d.falseLabel, ok = strings.Cut(labels, ",")
			if !ok || d.trueLabel == d.falseLabel {
				return fmt.Errorf("migrate: the tag legacybool:%s of %s.%s must hold two different labels, that of true first: \"legacybool:Y,N\"", labels, sch.Name, field.Name)
			}
		}
		b.declare(table, field.DBName, d)
	}
	return nil
}

// observe learns from a statement's model, its table and its relations.
func (b *Bools) observe(stmt *gorm.Statement) error {
	sch := stmt.Schema
	if sch == nil {
		return nil
	}
	key := observed{sch, stmt.Table}
	if _, ok := b.seen.Load(key); ok {
		return nil
	}
	if b.covered(sch) {
		if err := b.declareSchema(sch, stmt.Table); err != nil {
			return err
		}
	}
	for _, rel := range sch.Relationships.Relations {
		if rel.FieldSchema != nil && b.covered(rel.FieldSchema) {
			if err := b.declareSchema(rel.FieldSchema, rel.FieldSchema.Table); err != nil {
				return err
			}
		}
	}
	b.seen.Store(key, true)
	return nil
}

// covered reports whether the model is one of the codec's.
func (b *Bools) covered(sch *schema.Schema) bool {
	if !b.named() {
		return true
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.types[sch.ModelType]
}

// covers reports whether the table may be one of the codec's: declared, or a
// shard of a declared one ("orders_2024" of "orders").
func (b *Bools) covers(table string) bool {
	if !b.named() {
		return true
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.declaredTables("", table)) > 0
}

// declaredFor merges what is said of a table's columns: of tables that it may be a
// shard of, and, above that, of itself. Labels hold for the shards too.
func (b *Bools) declaredFor(database, table string) map[string]declaration {
	b.mu.RLock()
	defer b.mu.RUnlock()
	merged := map[string]declaration{}
	for _, name := range b.declaredTables(database, table) {
		for column, d := range b.declared[name] {
			if d.other || d.trueLabel != "" || merged[column].trueLabel == "" {
				merged[column] = d
			}
		}
	}
	return merged
}

// declaredTables are the declared names that mean the table, the best match last.
func (b *Bools) declaredTables(database, table string) (names []string) {
	table, database = strings.ToLower(table), strings.ToLower(database)
	short := func(name string) string { return name[strings.IndexByte(name, '.')+1:] }
	for name := range b.declared {
		if db, _, ok := strings.Cut(name, "."); ok && database != "" && db != database {
			continue
		}
		if s := short(name); s == table || strings.HasPrefix(table, s+"_") {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(short(a)), len(short(b))), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return names
}

// catalogOf yields the catalog of the pool that the statement works on.
func (b *Bools) catalogOf(db *gorm.DB) *catalog {
	var key any
	if pool, err := db.DB(); err == nil {
		key = pool
	} else if pool, ok := db.Config.ConnPool.(*sql.DB); ok {
		key = pool // the statement holds a *sql.Conn
	} else if reflect.TypeOf(db.Config.ConnPool).Comparable() {
		key = db.Config.ConnPool
	}
	if c, ok := b.catalogs.Load(key); ok {
		return c.(*catalog)
	}
	c, _ := b.catalogs.LoadOrStore(key, newCatalog(b))
	return c.(*catalog)
}
