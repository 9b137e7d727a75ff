package migrate

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"gorm.io/gorm"
)

// Param is the value to bind for v where the codec can't prove the column, such as
//
//	db.Where("COALESCE(active, ?) = ?", migrate.Param(db, &Order{}, "active", false), ...)
//
// model names the table: a struct, a pointer to one, or a table's name
// ("orders_2024", "archive.orders"). The value takes its form when the statement is
// executed, so it may be kept across the migration. On any dialect but MySQL it is
// v itself. A model or column that doesn't exist, or a database without the codec,
// makes the statement fail with [ErrNotBoolean] or [ErrNoCodec].
func Param(db *gorm.DB, model any, column string, v bool) any {
	if db.Dialector == nil || db.Dialector.Name() != "mysql" {
		return v
	}
	p := param{db: db, v: v}
	b, ok := installed(db)
	if !ok {
		p.err = ErrNoCodec
		return p
	}
	p.bools = b
	name, isName := model.(string)
	if !isName {
		stmt := &gorm.Statement{DB: db}
		if p.err = stmt.Parse(model); p.err != nil {
			p.err = fmt.Errorf("%w: Param: parsing %T: %w", ErrNotBoolean, model, p.err)
			return p
		}
		name = stmt.Schema.Table
		if field := stmt.Schema.LookUpField(column); field != nil && field.DBName != "" {
			column = field.DBName
		}
		stmt.Table = name
		if p.err = b.observe(stmt); p.err != nil {
			return p
		}
	}
	if database, table, ok := strings.Cut(name, "."); ok {
		p.database, name = database, table
	}
	p.table, p.column = name, column
	return p
}

const asStored = pluginName + ":as-stored"

// AsStored is a scope, for db.Scopes, whose results the codec leaves as the server
// sends them. Where the destination isn't known before the rows are, in Rows, Row,
// Scan and maps without a model, a legacy column is delivered as a bool; with this
// scope a string gets the label.
func AsStored(db *gorm.DB) *gorm.DB { return db.Set(asStored, true) }

// param is a bool with the column that it is for.
type param struct {
	db                      *gorm.DB
	bools                   *Bools
	database, table, column string
	v                       bool
	err                     error
}

var errDetached = errors.New("migrate: a value of Param can only be bound through GORM")

// bind is the form of this moment.
func (p param) bind(ctx context.Context, c *catalog, pool gorm.ConnPool) (any, error) {
	if p.err != nil {
		return nil, p.err
	}
	if c.bools != p.bools {
		return nil, fmt.Errorf("migrate: a value of Param for %s.%s was made for another database", p.table, p.column)
	}
	col, err := c.column(ctx, pool, p.database, p.table, p.column)
	if err != nil {
		return nil, err
	}
	return col.bind(p.v), nil
}

// Value serves the log, and statements that don't pass through GORM.
func (p param) Value() (driver.Value, error) {
	if p.err != nil {
		return nil, p.err
	}
	pool := p.db.Statement.ConnPool
	if pool == nil {
		return nil, errDetached
	}
	return p.bind(p.db.Statement.Context, p.bools.catalogOf(p.db), pool)
}
