package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"gorm.io/gorm"
)

// Without a strict sql_mode the server tells nobody when a value doesn't fit: 'Y'
// in a column that has just become a tinyint is stored as 0. While a migration is
// under way, such a write therefore pins the table first: a transaction that has
// read from a table holds its metadata lock, so that no ALTER comes in between, and
// what the schema says then holds until the end.

// strict reports whether the connections refuse values that don't fit.
func (c *catalog) strict() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return strings.Contains(c.mode, "STRICT_") || strings.Contains(c.mode, "TRADITIONAL")
}

// pins reports whether the statement must pin its tables.
func (p *pool) pins(r ready) bool {
	if !r.assigns || !r.plan.writes || p.pinned || p.catalog.strict() {
		return false
	}
	for _, t := range r.plan.tables {
		if t.moving() {
			return true
		}
	}
	return false
}

// moving reports whether the table has both columns of a migration.
func (t *table) moving() bool {
	for _, c := range t.booleans {
		if c.partner != nil {
			return true
		}
	}
	return false
}

// pin calls do with a pool whose tables keep their schema until it is done.
func (p *pool) pin(ctx context.Context, r ready, do func(*pool) error) error {
	inner := *p
	inner.pinned = true
	if _, ok := p.ConnPool.(gorm.TxCommitter); ok {
		if err := inner.hold(ctx, r.plan.tables); err != nil {
			return err
		}
		return do(&inner)
	}
	tx, err := begin(ctx, p.ConnPool)
	if err != nil {
		return fmt.Errorf("migrate: pinning a table that is being migrated: %w", err)
	}
	inner.ConnPool = tx
	if err = inner.hold(ctx, r.plan.tables); err == nil {
		err = do(&inner)
	}
	if err != nil {
		return also(err, tx.(gorm.TxCommitter).Rollback())
	}
	return tx.(gorm.TxCommitter).Commit()
}

// hold takes the metadata locks and then reads the schema. FOR UPDATE takes the
// lock that the write needs: to take it after a reader's lock would deadlock with
// a LOCK TABLES that waits in between. LIMIT 0 locks no row.
func (p *pool) hold(ctx context.Context, tables []*table) error {
	for _, t := range tables {
		rows, err := p.ConnPool.QueryContext(ctx, "SELECT 1 FROM "+quoteName(t.database)+"."+quoteName(t.name)+" LIMIT 0 FOR UPDATE")
		if err != nil {
			return fmt.Errorf("migrate: pinning a table that is being migrated: %w", err)
		}
		if err := also(rows.Close(), rows.Err()); err != nil {
			return fmt.Errorf("migrate: pinning a table that is being migrated: %w", err)
		}
	}
	_, err := p.catalog.refresh(ctx, p.ConnPool, tables)
	return err
}

// begin starts a transaction on whatever GORM has for a pool.
func begin(ctx context.Context, pool gorm.ConnPool) (gorm.ConnPool, error) {
	switch b := pool.(type) {
	case gorm.TxBeginner:
		return b.BeginTx(ctx, &sql.TxOptions{})
	case gorm.ConnPoolBeginner:
		return b.BeginTx(ctx, &sql.TxOptions{})
	}
	return nil, gorm.ErrInvalidTransaction
}
