package integration_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/internal/servers"
)

// suite is one database with the plugin on it.
type suite struct {
	server *servers.Server
	dsn    string
	db     *gorm.DB
	flake  *gormflake.Plugin
	log    *recorder
}

// recorder keeps what the plugin warns about.
type recorder struct {
	slog.Handler
	mu      sync.Mutex
	records []string
}

func newRecorder() *recorder { return &recorder{Handler: slog.DiscardHandler} }

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }

func (r *recorder) Handle(_ context.Context, record slog.Record) error {
	line := record.Message
	record.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, line)
	return nil
}

func (r *recorder) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.records)
}

// newSuite opens a fresh database of the server with the plugin installed,
// started, and the models migrated.
func newSuite(t *testing.T, server *servers.Server, config gormflake.Config, gormConfig *gorm.Config, models ...any) *suite {
	t.Helper()
	s := &suite{server: server, dsn: server.Database(t), log: newRecorder()}
	if gormConfig == nil {
		gormConfig = &gorm.Config{}
	}
	if gormConfig.Logger == nil {
		gormConfig.Logger = logger.Discard
	}
	s.db = server.OpenDSN(t, s.dsn, gormConfig)
	config.Logger = slog.New(s.log)
	s.flake = gormflake.New(config)
	if err := s.db.Use(s.flake); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.flake.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if err := s.flake.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := s.db.AutoMigrate(models...); err != nil {
		t.Fatal(err)
	}
	return s
}

// wantRows fails the test unless every id is set, given once, and that of a
// row of the model.
func (s *suite) wantRows(t *testing.T, model any, key string, ids ...int64) {
	t.Helper()
	seen := map[int64]bool{}
	for i, id := range ids {
		if id == 0 {
			t.Errorf("id %d of %d is zero", i+1, len(ids))
		}
		if seen[id] {
			t.Errorf("id %d was given twice", id)
		}
		seen[id] = true
	}
	var found []int64
	if err := s.db.Unscoped().Model(model).Where(fmt.Sprintf("%s IN ?", key), ids).Order(key).Pluck(key, &found).Error; err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(ids))
	if !slices.Equal(found, want) {
		t.Errorf("want rows %v, found %v", want, found)
	}
}

// wantIncreasing fails the test unless the ids rise strictly, as given.
func wantIncreasing(t *testing.T, ids []int64) {
	t.Helper()
	for i := 1; i < len(ids); i++ {
		if ids[i] <= ids[i-1] {
			t.Errorf("want ids that rise in slice order, got %v", ids)
			return
		}
	}
}

func count(t *testing.T, db *gorm.DB, model any) int64 {
	t.Helper()
	var n int64
	if err := db.Unscoped().Model(model).Count(&n).Error; err != nil {
		t.Fatal(err)
	}
	return n
}
