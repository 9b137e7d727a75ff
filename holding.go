package gormflake

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/blocked"
)

// holds reports whether the caller holds what a lease may have to wait for: a
// transaction, or the last connection of the pool.
func (p *Plugin) holds(db *gorm.DB) bool {
	if onPool(db) {
		return false
	}
	switch connPool(db).(type) {
	case gorm.TxCommitter:
		return true
	case *sql.Conn:
		pool := poolOf(db)
		if pool == nil {
			return true
		}
		stats := pool.Stats()
		return stats.MaxOpenConnections > 0 && stats.InUse >= stats.MaxOpenConnections
	}
	return false
}

// patient returns the context to draw ids with: the statement's, which tells
// the generator when waiting for the lease store would be in vain.
func (p *Plugin) patient(db *gorm.DB, g *generator.Generator) context.Context {
	ctx := db.Statement.Context
	if onPool(db) {
		return ctx
	}
	switch connPool(db).(type) {
	case gorm.TxCommitter, *sql.Conn:
		// Asked before anything is allocated: nearly all pools have more than one.
		if onlyConnection(g.Store()) {
			return blocked.With(ctx, func() error { return starves(db, g.Store()) })
		}
	}
	return ctx
}

// onlyConnection reports whether a store works through a pool of a single
// connection.
func onlyConnection(store lease.Store) bool {
	switch s := store.(type) {
	case interface{ Pool() *sql.DB }:
		pool := s.Pool()
		return pool != nil && pool.Stats().MaxOpenConnections == 1
	case interface{ Stores() []lease.Store }:
		return slices.ContainsFunc(s.Stores(), onlyConnection)
	}
	return false
}

// starves returns an error when the statement runs on the only connection
// that the store could renew the lease on. Where there are more, others may
// give theirs back, and waiting helps.
func starves(db *gorm.DB, store lease.Store) error {
	pool := poolOf(db)
	if pool == nil || pool.Stats().MaxOpenConnections != 1 || !leasesOn(store, pool) {
		return nil
	}
	return fmt.Errorf("%w by the statement's own transaction, so that the lease can't be renewed on it; end the transaction and try again, keep transactions shorter than the lease's window (%v), or give the pool a second connection (SetMaxOpenConns)",
		ErrConnectionHeld, store.Timing().Window.Round(time.Millisecond))
}

// leasesOn reports whether a store works through a pool, or, as a fenced one
// does, needs another that works through it.
func leasesOn(store lease.Store, pool *sql.DB) bool {
	switch s := store.(type) {
	case interface{ Pool() *sql.DB }:
		return s.Pool() == pool
	case interface{ Stores() []lease.Store }:
		return slices.ContainsFunc(s.Stores(), func(inner lease.Store) bool { return leasesOn(inner, pool) })
	}
	return false
}

// poolOf returns the pool that the statement's connection is of, and nil where
// that can't be told. GORM tells a transaction's pool, not a connection's: that
// is the database's own.
func poolOf(db *gorm.DB) *sql.DB {
	own := &gorm.DB{Config: db.Config}
	if conn := connPool(db); conn != nil {
		if _, ok := conn.(*sql.Conn); !ok {
			own.Statement = &gorm.Statement{DB: own, ConnPool: conn}
		}
	}
	pool, err := own.DB()
	if err != nil {
		return nil
	}
	return pool
}

// onPool reports whether the statement takes a connection of its pool for
// itself, as most do: two comparisons, where connPool asks for interfaces.
func onPool(db *gorm.DB) bool {
	switch db.Statement.ConnPool.(type) {
	case *sql.DB, *gorm.PreparedStmtDB:
		return true
	}
	return false
}

// connPool is the statement's connection, beneath what other plugins have put
// around it for the time of a step, such as the codec of legacy booleans.
func connPool(db *gorm.DB) gorm.ConnPool {
	pool := db.Statement.ConnPool
	for {
		around, ok := pool.(interface{ Unwrap() gorm.ConnPool })
		if !ok {
			return pool
		}
		pool = around.Unwrap()
	}
}
