package sqllease

import (
	"database/sql"
	"fmt"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake/generator/lease"
)

// FromGORM returns a store in the database that db was opened on, with the
// dialect of its name. It uses the pool behind db alone, never a transaction
// or a session of GORM, and does no I/O.
func FromGORM(db *gorm.DB, options ...Option) (lease.Store, error) {
	if db == nil || db.Config == nil || db.Dialector == nil {
		return nil, fmt.Errorf("sqllease: %w: want an open *gorm.DB, got one without a database", lease.ErrInvalid)
	}
	dialect := Dialect(db.Name())
	if err := dialect.validate(); err != nil {
		return nil, err
	}
	pool, err := poolOf(db)
	if err != nil {
		return nil, err
	}
	return New(pool, dialect, options...), nil
}

// poolOf returns the pool of the configuration. A session's statement may hold
// a transaction instead.
func poolOf(db *gorm.DB) (*sql.DB, error) {
	switch pool := db.Config.ConnPool.(type) {
	case *sql.DB:
		if pool != nil {
			return pool, nil
		}
	case gorm.GetDBConnector:
		if found, err := pool.GetDBConn(); err == nil && found != nil {
			return found, nil
		}
	}
	pool, err := db.DB()
	if err == nil && pool == nil {
		err = gorm.ErrInvalidDB
	}
	if err != nil {
		return nil, fmt.Errorf("sqllease: want a *gorm.DB over a *sql.DB, got a pool of type %T: %w", db.Config.ConnPool, err)
	}
	return pool, nil
}
