package gormflake

import (
	"fmt"
	"log/slog"
	"time"

	"gorm.io/gorm/schema"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// Config says where the plugin's ids come from and which fields get one. The
// zero value leases a worker id in the database that the plugin is installed
// on, and fills the 64-bit primary keys of every model.
type Config struct {
	// Generator is one that is open already, to be shared with other plugins
	// or with code outside GORM. The plugin does not close it. Beside it
	// Store, Namespace and Layout must be unset.
	Generator *generator.Generator

	// Store leases the worker id. Nil: the fixed worker id that the
	// environment variable GORMFLAKE_WORKER_ID names, or else a table in the
	// database that the plugin is installed on. An in-memory SQLite database,
	// which no other process can see, leases in memory.
	Store lease.Store

	// Namespace is the id space: worker ids are unique within it, and so are
	// ids. 1 to 64 characters; "" means "default".
	Namespace string

	// Layout of the ids; the zero value means generator.Standard().
	Layout generator.Layout

	// Models are models whose key is a plain int64 or uint64, as pointers to
	// structs. GORM makes such a key auto-incrementing; for these models, and
	// for all that they are associated with, Use makes it a plain BIGINT. They
	// must be named before they are first migrated or used. Models whose key
	// is an ID need no mention.
	Models []any

	// Match says which fields to fill, beside those that are tagged
	// gormflake:"fill"; it is asked once per model. Fields that are not 64-bit
	// integers are never filled, nor those tagged gormflake:"-". Nil means
	// Int64Keys.
	Match func(*schema.Field) bool

	// AfterHooks assigns ids only after the model's BeforeSave and
	// BeforeCreate hooks, for hooks that make keys of their own when they see
	// none. Otherwise hooks see the id, and may change it.
	AfterHooks bool

	// MaxLead is how far the time in the ids may run ahead of the clock
	// without waiting. 0 means 10 ms, negative not at all; at most a quarter
	// of the lease store's window.
	MaxLead time.Duration

	// MaxWait is how long a create may wait for the first lease, for the
	// clock, or for a lease to be renewed, within its context. 0 means 2 s,
	// negative not at all. Nothing waits while a transaction is open, unless
	// the application opened it, and nothing for a lease that is renewed on a
	// connection which the transaction itself holds.
	MaxWait time.Duration

	// Logger gets warnings; nil means slog.Default().
	Logger *slog.Logger
}

// validate returns the config with its defaults, or in which way it
// contradicts itself.
func (c Config) validate() (Config, error) {
	if c.Generator != nil {
		for _, other := range []struct {
			name string
			set  bool
		}{
			{"Store", c.Store != nil},
			{"Namespace", c.Namespace != ""},
			{"Layout", c.Layout != (generator.Layout{})},
		} {
			if other.set {
				return c, fmt.Errorf("%w: Config.Generator stands beside Config.%s; the generator brings its own, so set one of the two",
					ErrInvalidConfig, other.name)
			}
		}
		c.Layout = c.Generator.Layout()
	}
	if c.Layout == (generator.Layout{}) {
		c.Layout = generator.Standard()
	}
	if err := c.Layout.Validate(); err != nil {
		return c, fmt.Errorf("gormflake: Config.Layout: %w", err)
	}
	if c.Match == nil {
		c.Match = Int64Keys
	}
	switch {
	case c.MaxWait == 0:
		c.MaxWait = generator.DefaultMaxWait
	case c.MaxWait < 0:
		c.MaxWait = -1
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}
