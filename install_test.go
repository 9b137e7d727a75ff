package gormflake_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"
	"gorm.io/plugin/dbresolver"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

func TestUseRefuses(t *testing.T) {
	g, err := generator.Open(context.Background(), generator.Config{Store: lease.Memory()})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.Background())
	type notAModel int
	type badTag struct {
		ID int64 `gormflake:"fil"`
	}
	type badFill struct {
		ID   int64
		Name string `gormflake:"fill"`
	}
	type badTime struct {
		ID       int64 `gormflake:"time:CollectedAt;business:SensorID"`
		SensorID int64
	}
	type badBusiness struct {
		ID          int64 `gormflake:"time:CreatedAt;business:Sensor"`
		CreatedAt   string
		CollectedAt string
	}
	type onlyTime struct {
		ID int64 `gormflake:"time:CreatedAt"`
	}
	for name, c := range map[string]struct {
		config gormflake.Config
		want   error
		says   string
	}{
		"Generator and Store":     {gormflake.Config{Generator: g, Store: lease.Memory()}, gormflake.ErrInvalidConfig, "Store"},
		"Generator and Namespace": {gormflake.Config{Generator: g, Namespace: "n"}, gormflake.ErrInvalidConfig, "Namespace"},
		"Generator and Layout":    {gormflake.Config{Generator: g, Layout: generator.Standard()}, gormflake.ErrInvalidConfig, "Layout"},
		"layout":                  {gormflake.Config{Layout: generator.Layout{TimeBits: 70}}, gormflake.ErrInvalidLayout, "Layout"},
		"nil model":               {gormflake.Config{Models: []any{nil}}, gormflake.ErrInvalidConfig, "nil"},
		"no model":                {gormflake.Config{Models: []any{new(notAModel)}}, gormflake.ErrInvalidConfig, "notAModel"},
		"unknown tag":             {gormflake.Config{Models: []any{&badTag{}}}, gormflake.ErrInvalidTag, "fil"},
		"fill of a string":        {gormflake.Config{Models: []any{&badFill{}}}, gormflake.ErrInvalidTag, "Name"},
		"no time column":          {gormflake.Config{Models: []any{&badTime{}}}, gormflake.ErrInvalidTag, "CollectedAt"},
		"time of another type":    {gormflake.Config{Models: []any{&badBusiness{}}}, gormflake.ErrInvalidTag, "CreatedAt"},
		"time alone":              {gormflake.Config{Models: []any{&onlyTime{}}}, gormflake.ErrInvalidTag, "both"},
	} {
		t.Run(name, func(t *testing.T) {
			db := openMemory(t, &gorm.Config{})
			err := db.Use(gormflake.New(c.config))
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("want %v that says %q, got %v", c.want, c.says, err)
			}
			if db.Callback().Create().Get("gormflake:ready") != nil {
				t.Error("want no callbacks of a plugin that was refused")
			}
			if _, ok := gormflake.From(db); ok {
				t.Error("want no plugin, found one")
			}
		})
	}
	// A tag that can't be followed is an error of the create where the model
	// was not named.
	db := openMemory(t, &gorm.Config{})
	install(t, db, gormflake.Config{})
	if err := db.Create(&badTime{}).Error; !errors.Is(err, gormflake.ErrInvalidTag) {
		t.Errorf("want ErrInvalidTag, got %v", err)
	}
}

func TestUseTwice(t *testing.T) {
	db := openMemory(t, &gorm.Config{})
	flake := install(t, db, gormflake.Config{})
	for _, again := range []*gormflake.Plugin{flake, gormflake.New(gormflake.Config{})} {
		if err := db.Use(again); !errors.Is(err, gorm.ErrRegistered) {
			t.Errorf("want ErrRegistered, got %v", err)
		}
	}
	if found, ok := gormflake.From(db.Session(&gorm.Session{})); !ok || found != flake {
		t.Errorf("want the plugin from a session, got %v", found)
	}
}

// warnings keeps what GORM warns about, such as duplicate callbacks.
type warnings struct {
	logger.Interface
	mu    sync.Mutex
	lines []string
}

func (w *warnings) LogMode(logger.LogLevel) logger.Interface { return w }

func (w *warnings) Warn(_ context.Context, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

func openFile(t *testing.T, config *gorm.Config) *gorm.DB {
	t.Helper()
	if config.Logger == nil {
		config.Logger = logger.Discard
	}
	db, err := gorm.Open(sqlite.Open(filepath.Join(t.TempDir(), "test.db")), config)
	if err != nil {
		t.Fatal(err)
	}
	closeWith(t, db)
	return db
}

func closeWith(t *testing.T, db *gorm.DB) {
	t.Helper()
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
}

func wantFilled(t *testing.T, db *gorm.DB) gormflake.ID {
	t.Helper()
	if err := db.AutoMigrate(&order{}); err != nil {
		t.Fatal(err)
	}
	row := order{Customer: "a"}
	if err := db.Create(&row).Error; err != nil || row.ID == 0 {
		t.Fatalf("want a row with an id, got %+v, error %v", row, err)
	}
	var found order
	if err := db.Clauses(dbresolver.Write).First(&found, row.ID).Error; err != nil {
		t.Fatalf("want row %d in the table: %v", row.ID, err)
	}
	return row.ID
}

func TestGormConfigPlugins(t *testing.T) {
	for _, key := range []string{"gormflake", "ids"} {
		flake := gormflake.New(gormflake.Config{})
		db := openFile(t, &gorm.Config{Plugins: map[string]gorm.Plugin{key: flake}})
		wantFilled(t, db)
		if found, ok := gormflake.From(db); !ok || found != flake {
			t.Errorf("%s: want the plugin of the config, got %v", key, found)
		}
		if err := flake.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func TestTwoDatabases(t *testing.T) {
	t.Run("a plugin each", func(t *testing.T) {
		first, second := openFile(t, &gorm.Config{}), openFile(t, &gorm.Config{})
		a, b := install(t, first, gormflake.Config{}), install(t, second, gormflake.Config{})
		wantFilled(t, first)
		wantFilled(t, second)
		if a.Generator() == b.Generator() {
			t.Error("want a generator for each lease table, got one")
		}
	})
	t.Run("one value on both", func(t *testing.T) {
		flake := install(t, openFile(t, &gorm.Config{}), gormflake.Config{})
		if err := openFile(t, &gorm.Config{}).Use(flake); !errors.Is(err, gormflake.ErrInvalidConfig) {
			t.Errorf("want ErrInvalidConfig, got %v", err)
		}
	})
	t.Run("one value on both with a Store", func(t *testing.T) {
		first, second := openFile(t, &gorm.Config{}), openFile(t, &gorm.Config{})
		flake := install(t, first, gormflake.Config{Store: lease.Memory()})
		if err := second.Use(flake); err != nil {
			t.Fatal(err)
		}
		if wantFilled(t, first) == wantFilled(t, second) {
			t.Error("want ids of one generator, got one twice")
		}
	})
	t.Run("one gorm.Config for both", func(t *testing.T) {
		config := &gorm.Config{}
		first := openFile(t, config)
		flake := install(t, first, gormflake.Config{})
		second, err := gorm.Open(sqlite.Open(filepath.Join(t.TempDir(), "second.db")), config)
		if second != nil {
			closeWith(t, second)
		}
		if !errors.Is(err, gormflake.ErrInvalidConfig) || !strings.Contains(err.Error(), "gorm.Config") {
			t.Errorf("want ErrInvalidConfig that says gorm.Config, got %v", err)
		}
		if err := flake.Start(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Run("one database opened again", func(t *testing.T) {
		flake := gormflake.New(gormflake.Config{})
		t.Cleanup(func() { _ = flake.Close(context.Background()) })
		config := &gorm.Config{Logger: logger.Discard, Plugins: map[string]gorm.Plugin{"gormflake": flake}}
		dsn := filepath.Join(t.TempDir(), "test.db")
		first, err := gorm.Open(sqlite.Open(dsn), config)
		if err != nil {
			t.Fatal(err)
		}
		pool, err := first.DB()
		if err != nil {
			t.Fatal(err)
		}
		if err := pool.Close(); err != nil { // as after a ping that failed
			t.Fatal(err)
		}
		second, err := gorm.Open(sqlite.Open(dsn), config)
		if err != nil {
			t.Fatal(err)
		}
		closeWith(t, second)
		wantFilled(t, second)
	})
	t.Run("in-memory databases of one name are two", func(t *testing.T) {
		var both [2]*gorm.DB
		for i := range both {
			db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{Logger: logger.Discard})
			if err != nil {
				t.Fatal(err)
			}
			closeWith(t, db)
			both[i] = db
		}
		flake := install(t, both[0], gormflake.Config{})
		if err := both[1].Use(flake); !errors.Is(err, gormflake.ErrInvalidConfig) {
			t.Errorf("want ErrInvalidConfig, got %v", err)
		}
	})
	t.Run("two connections to one pool", func(t *testing.T) {
		first := openFile(t, &gorm.Config{})
		pool, err := first.DB()
		if err != nil {
			t.Fatal(err)
		}
		second, err := gorm.Open(&sqlite.Dialector{Conn: pool}, &gorm.Config{Logger: logger.Discard})
		if err != nil {
			t.Fatal(err)
		}
		flake := install(t, first, gormflake.Config{})
		if err := second.Use(flake); err != nil {
			t.Errorf("want one value to serve one pool twice, got %v", err)
		}
		wantFilled(t, second)
	})
	t.Run("two plugins on one pool share a generator", func(t *testing.T) {
		first := openFile(t, &gorm.Config{})
		pool, err := first.DB()
		if err != nil {
			t.Fatal(err)
		}
		second, err := gorm.Open(&sqlite.Dialector{Conn: pool}, &gorm.Config{Logger: logger.Discard})
		if err != nil {
			t.Fatal(err)
		}
		a, b := install(t, first, gormflake.Config{}), install(t, second, gormflake.Config{})
		wantFilled(t, first)
		wantFilled(t, second)
		if a.Generator() != b.Generator() {
			t.Error("want one generator, got two")
		}
		if err := a.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		wantFilled(t, second)
	})
}

func TestDBResolver(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("registered before=%v", before), func(t *testing.T) {
			log := &warnings{Interface: logger.Discard}
			config := &gorm.Config{Logger: log}
			db := openFile(t, config)
			folder := t.TempDir()
			var others []*gorm.DB
			dialector := func(name string) gorm.Dialector {
				dsn := filepath.Join(folder, name)
				other, err := gorm.Open(sqlite.Open(dsn), &gorm.Config{Logger: logger.Discard})
				if err != nil {
					t.Fatal(err)
				}
				closeWith(t, other)
				if err := other.AutoMigrate(&order{}); err != nil {
					t.Fatal(err)
				}
				others = append(others, other)
				pool, err := other.DB()
				if err != nil {
					t.Fatal(err)
				}
				return &sqlite.Dialector{Conn: pool}
			}
			resolver := dbresolver.Register(dbresolver.Config{
				Sources:  []gorm.Dialector{dialector("source1"), dialector("source2")},
				Replicas: []gorm.Dialector{dialector("replica")},
			})
			if before {
				if err := db.Use(resolver); err != nil {
					t.Fatal(err)
				}
			}
			flake := install(t, db, gormflake.Config{Models: []any{&plainOrder{}}})
			if !before {
				if err := db.Use(resolver); err != nil {
					t.Fatal(err)
				}
			}
			ids := map[gormflake.ID]bool{}
			for range 20 {
				row := order{Customer: "a"}
				if err := db.Create(&row).Error; err != nil {
					t.Fatal(err)
				}
				ids[row.ID] = true
			}
			var n, total int64
			for _, source := range others[:2] {
				if err := source.Model(&order{}).Count(&n).Error; err != nil {
					t.Fatal(err)
				}
				total += n
			}
			if len(ids) != 20 || total != 20 {
				t.Errorf("want 20 ids and rows on the sources, got %d and %d", len(ids), total)
			}
			for i, other := range others {
				if other.Migrator().HasTable("gormflake_leases") || slices.ContainsFunc(tables(t, other), func(n string) bool { return strings.Contains(n, "gormflake") }) {
					t.Errorf("database %d: want the lease table only where the plugin is installed, got %v", i, tables(t, other))
				}
			}
			if flake.Generator() == nil {
				t.Error("want one generator")
			}
			if len(log.lines) != 0 {
				t.Errorf("want no warnings, got %q", log.lines)
			}
		})
	}
}

func tables(t *testing.T, db *gorm.DB) []string {
	t.Helper()
	names, err := db.Migrator().GetTables()
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestMatch(t *testing.T) {
	type narrow struct {
		ID    int32
		Trace int64
		Code  uint16
	}
	db := openMemory(t, &gorm.Config{})
	install(t, db, gormflake.Config{Match: func(*schema.Field) bool { return true }})
	if err := db.AutoMigrate(&narrow{}); err != nil {
		t.Fatal(err)
	}
	row := narrow{Code: 3}
	if err := db.Create(&row).Error; err != nil || row.ID != 1 || row.Trace == 0 || row.Code != 3 {
		t.Errorf("want the 64-bit field filled and the others left, got %+v, error %v", row, err)
	}
}
