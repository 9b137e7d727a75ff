package gormflake

import (
	"fmt"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake/generator/lease"
)

// storeOf returns the store that leases in a database.
func storeOf(db *gorm.DB) (lease.Store, error) {
	return nil, fmt.Errorf("%w: no lease store for a %s database; name a Store", ErrNotStarted, db.Name())
}
