package gormflake

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
	"github.com/gormflake/gormflake/internal/memorylease"
)

// source is where the plugin's generator comes from.
type source struct {
	config generator.Config
	local  bool // leasing does no I/O
}

func (s source) open(ctx context.Context) (*generator.Generator, error) {
	return generator.Shared(ctx, s.config)
}

// source decides where to lease: the Store of the config, the environment's
// worker id, or the database.
func (p *Plugin) source() (source, error) {
	s := source{config: generator.Config{
		Store:     p.config.Store,
		Namespace: p.config.Namespace,
		Layout:    p.config.Layout,
		MaxLead:   p.config.MaxLead,
		MaxWait:   p.config.MaxWait,
		Logger:    p.config.Logger,
	}}
	if s.config.Store == nil {
		store, ok, err := lease.FromEnvironment()
		if err != nil {
			return s, err
		}
		if ok {
			s.config.Store = store
		}
	}
	if s.config.Store == nil {
		if p.home == nil {
			return s, fmt.Errorf("%w: the plugin is installed on no database; call db.Use first, or name a Store", ErrNotStarted)
		}
		store, inMemory, err := p.home.store()
		if err != nil {
			return s, err
		}
		s.config.Store, s.local = store, inMemory
	}
	return s, nil
}

// store returns the store that leases in the database itself, or in memory
// where the database is itself there.
func (h *home) store() (store lease.Store, inMemory bool, err error) {
	pool := h.pool
	if pool == nil {
		return nil, false, fmt.Errorf("%w: the database has no *sql.DB to lease on; name a Store", ErrNotStarted)
	}
	if h.memory {
		return memorylease.Of(pool, sqllease.DefaultTable, h.memoryName), true, nil
	}
	// The config of db may have another pool by now: gorm.Open puts its own
	// into whatever config it is given.
	return sqllease.New(pool, h.dialect), false, nil
}

// memoryName reports whether a SQLite database lives in memory, and under
// which name connections of other pools share it, "" for none.
func memoryName(db *gorm.DB) (name string, inMemory bool) {
	dsn, ok := dsnOf(db)
	if !ok {
		return "", false
	}
	file, query, _ := strings.Cut(dsn, "?")
	file = strings.TrimPrefix(file, "file:")
	named := strings.Contains(query, "mode=memory") || strings.Contains(query, "vfs=memdb")
	if file != ":memory:" && file != "" && !named {
		return "", false
	}
	if strings.Contains(query, "cache=shared") || strings.Contains(query, "vfs=memdb") {
		return file, true
	}
	return "", true
}

// dsnOf reads the data source name that dialectors keep in a field DSN, unless
// they were given a connection instead.
func dsnOf(db *gorm.DB) (string, bool) {
	conn, ok := dialectorField(db, "Conn")
	if ok && conn.Kind() == reflect.Interface && !conn.IsNil() {
		return "", false
	}
	dsn, ok := dialectorField(db, "DSN")
	if !ok || dsn.Kind() != reflect.String {
		return "", false
	}
	return dsn.String(), true
}

func dialectorField(db *gorm.DB, name string) (reflect.Value, bool) {
	dialector := reflect.Indirect(reflect.ValueOf(db.Dialector))
	if dialector.Kind() != reflect.Struct {
		return reflect.Value{}, false
	}
	field, ok := dialector.Type().FieldByName(name)
	if !ok {
		return reflect.Value{}, false
	}
	value, err := dialector.FieldByIndexErr(field.Index)
	return value, err == nil
}
