// Package ecosystem_test runs the plugin beside GORM's own ones. It is a module
// of its own, for what those depend on.
package ecosystem_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"gorm.io/plugin/opentelemetry/tracing"
	"gorm.io/plugin/prometheus"

	"github.com/gormflake/gormflake"
)

type order struct {
	ID       gormflake.ID `gorm:"primaryKey"`
	Customer string       `gorm:"uniqueIndex"`
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

// TestBesideOtherPlugins installs the plugin before, between and after others.
func TestBesideOtherPlugins(t *testing.T) {
	for place := range 3 {
		t.Run(fmt.Sprintf("as number %d", place+1), func(t *testing.T) {
			log := &warnings{Interface: logger.Discard}
			db, err := gorm.Open(sqlite.Open(filepath.Join(t.TempDir(), "test.db")), &gorm.Config{Logger: log})
			if err != nil {
				t.Fatal(err)
			}
			pool, err := db.DB()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = pool.Close() })
			flake := gormflake.New(gormflake.Config{})
			plugins := []gorm.Plugin{
				tracing.NewPlugin(),
				prometheus.New(prometheus.Config{DBName: fmt.Sprintf("test%d", place), RefreshInterval: 3600}),
			}
			plugins = append(plugins[:place], append([]gorm.Plugin{flake}, plugins[place:]...)...)
			for _, plugin := range plugins {
				if err := db.Use(plugin); err != nil {
					t.Fatalf("%s: %v", plugin.Name(), err)
				}
			}
			if err := flake.Start(context.Background()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := flake.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			if err := db.AutoMigrate(&order{}); err != nil {
				t.Fatal(err)
			}
			orders := []order{{Customer: "a"}, {Customer: "b"}}
			if err := db.Create(&orders).Error; err != nil {
				t.Fatal(err)
			}
			again := order{Customer: "a"}
			if err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&again).Error; err != nil {
				t.Fatal(err)
			}
			if again.ID != orders[0].ID || orders[1].ID <= orders[0].ID {
				t.Errorf("want ids that rise and the one of the row that was met, got %v and %v", orders, again)
			}
			for _, row := range orders {
				var found order
				if err := db.First(&found, row.ID).Error; err != nil || found != row {
					t.Errorf("want %+v in the table, got %+v, error %v", row, found, err)
				}
			}
			if len(log.lines) != 0 {
				t.Errorf("want no warnings, got %q", log.lines)
			}
		})
	}
}
