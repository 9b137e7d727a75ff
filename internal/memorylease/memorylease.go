// Package memorylease keeps the Memory store of each in-memory database of the
// process, so that all who lease in one database lease the same rows: plugins
// and stores of sqllease alike.
package memorylease

import (
	"database/sql"
	"runtime"
	"sync"
	"weak"

	"github.com/gormflake/gormflake/generator/lease"
)

// Being one per process is what the stores are for, hence a variable of the
// package. It keeps no pool alive.
var stores = struct {
	mu     sync.Mutex
	byPool map[poolKey]lease.Store
	byName map[nameKey]lease.Store
}{byPool: map[poolKey]lease.Store{}, byName: map[nameKey]lease.Store{}}

type poolKey struct {
	pool  weak.Pointer[sql.DB]
	table string
}

type nameKey struct{ name, table string }

// Of returns the store that stands for a table of the database behind a pool.
// name is that under which other pools share the database, "" where it is not
// known or there is none. The options count when the store is made.
func Of(pool *sql.DB, table, name string, options ...lease.Option) lease.Store {
	stores.mu.Lock()
	defer stores.mu.Unlock()
	pooled, named := poolKey{weak.Make(pool), table}, nameKey{name, table}
	store, known := stores.byPool[pooled]
	if !known && name != "" {
		store = stores.byName[named]
	}
	if store == nil {
		store = lease.Memory(options...)
	}
	if name != "" && stores.byName[named] == nil {
		stores.byName[named] = store
	}
	if !known {
		stores.byPool[pooled] = store
		runtime.AddCleanup(pool, forget, pooled)
	}
	return store
}

func forget(key poolKey) {
	stores.mu.Lock()
	defer stores.mu.Unlock()
	delete(stores.byPool, key)
}
