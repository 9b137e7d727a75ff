package gormflake

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
)

// pluginName is the key in gorm.Config.Plugins.
const pluginName = "gormflake"

// Plugin is a gorm.Plugin that gives every row a Snowflake id before it is
// inserted. Make one with New for each database and install it with db.Use, or
// name it in gorm.Config.Plugins. It is safe for concurrent use.
type Plugin struct {
	// generator is nil before the first lease and after Close.
	generator atomic.Pointer[generator.Generator]
	lastPlan  atomic.Pointer[plan]
	plans     sync.Map  // *schema.Schema to *plan
	buffers   sync.Pool // of *[]generator.ID

	config    Config
	configErr error

	mu      sync.Mutex
	home    *home // the database of the first Initialize
	opening *opening
	closed  bool
}

// New returns a plugin. What is wrong with the config is an error of Use.
func New(config Config) *Plugin {
	p := &Plugin{}
	p.config, p.configErr = config.validate()
	if p.configErr == nil && config.Generator != nil {
		p.generator.Store(config.Generator)
	}
	return p
}

// From returns the plugin that is installed on a database.
func From(db *gorm.DB) (*Plugin, bool) {
	if db == nil || db.Config == nil {
		return nil, false
	}
	if p, ok := db.Plugins[pluginName].(*Plugin); ok {
		return p, true
	}
	for _, installed := range db.Plugins { // gorm.Config.Plugins under another key
		if p, ok := installed.(*Plugin); ok {
			return p, true
		}
	}
	return nil, false
}

// Name returns "gormflake".
func (p *Plugin) Name() string { return pluginName }

// Initialize installs the plugin's callbacks and makes the keys of
// Config.Models plain. It does no I/O. GORM calls it, and dbresolver once more
// for each of its sources and replicas; to install a plugin call db.Use.
//
// A plugin value serves one database. Installing it on a second one is
// ErrInvalidConfig, unless Config names a Store or a Generator, from which
// both then draw.
func (p *Plugin) Initialize(db *gorm.DB) error {
	if p.configErr != nil {
		return p.configErr
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	found := newHome(db)
	if p.home != nil && p.config.Store == nil && p.config.Generator == nil {
		if err := p.home.accepts(found); err != nil {
			return err
		}
	}
	seen := seenSchemas{}
	for _, model := range p.config.Models {
		if err := p.prepare(db, model, "", seen); err != nil {
			return err
		}
	}
	if err := p.register(db); err != nil {
		return err
	}
	// A gorm.Open that failed leaves a closed pool behind, so the latest of
	// equals counts until somebody leases.
	if p.home == nil || p.home.dsn == found.dsn && found.dsn != "" && p.opening == nil && p.generator.Load() == nil {
		p.home = found
	}
	return nil
}

// Generator returns the plugin's generator, for ids outside of GORM. It is nil
// before Start or the first create, and after Close.
func (p *Plugin) Generator() *generator.Generator { return p.generator.Load() }

// Layout returns the layout of the ids. It needs no lease.
func (p *Plugin) Layout() generator.Layout { return p.config.Layout }

// Now returns the time by the generator's clock, and by the machine's while
// there is no generator.
func (p *Plugin) Now() time.Time {
	if g := p.generator.Load(); g != nil {
		return g.Now()
	}
	return time.Now()
}

// Ready returns nil when an id can be had, for readiness probes. It begins to
// lease if nobody has yet, and waits at most MaxWait within ctx. Errors:
// ErrNotStarted, ErrSealed, ErrClockBehind, ErrClockSkew, ErrClosed, those of
// Start, and ctx's own.
func (p *Plugin) Ready(ctx context.Context) error {
	g, err := p.await(ctx, false)
	if err != nil {
		return err
	}
	return g.Ready(ctx)
}

// home is what the plugin remembers of the database that it serves.
type home struct {
	config  *gorm.Config
	plugins uintptr // the identity of its map of plugins
	pool    *sql.DB // nil where it has another kind
	dialect sqllease.Dialect
	dsn     string // "" where it is not known or says too little

	memory     bool   // a SQLite database without a file
	memoryName string // under which other pools share it
}

func newHome(db *gorm.DB) *home {
	h := &home{config: db.Config, plugins: reflect.ValueOf(db.Plugins).Pointer()}
	if pool, err := db.DB(); err == nil {
		h.pool = pool
	}
	if db.Dialector != nil {
		h.dialect = sqllease.Dialect(db.Name())
	}
	h.dsn, _ = dsnOf(db)
	if h.dialect == sqllease.SQLite {
		h.memoryName, h.memory = memoryName(db)
		if h.memory && h.memoryName == "" {
			h.dsn = "" // every pool has a database of its own
		}
	}
	return h
}

// accepts tells the database itself, perhaps opened anew, and the copies that
// dbresolver opens of it, from other databases. A copy has the application's map of plugins in a
// Config of its own; what has the very Config is a gorm.Open that was given
// the Config of another.
func (h *home) accepts(other *home) error {
	same := h.pool != nil && h.pool == other.pool || h.dsn != "" && h.dsn == other.dsn && h.dialect == other.dialect
	copied := h.plugins == other.plugins && h.config != other.config
	if same || copied {
		return nil
	}
	if h.config == other.config {
		return fmt.Errorf("%w: one gorm.Config serves two databases, and its plugin with it; give each gorm.Open its own Config and its own gormflake.New, or name a Store for both",
			ErrInvalidConfig)
	}
	return fmt.Errorf("%w: the plugin is installed on another database already; install gormflake.New(...) on each, or name a Store or a Generator for both",
		ErrInvalidConfig)
}
