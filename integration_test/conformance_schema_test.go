package integration_test

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/internal/servers"
)

// statements is a GORM logger that keeps the SQL.
type statements struct {
	logger.Interface
	mu  sync.Mutex
	sql []string
}

func newStatements() *statements { return &statements{Interface: logger.Discard} }

func (s *statements) LogMode(logger.LogLevel) logger.Interface { return s }

func (s *statements) Trace(_ context.Context, _ time.Time, sql func() (string, int64), _ error) {
	text, _ := sql()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sql = append(s.sql, text)
}

// take returns what was kept since the last call.
func (s *statements) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.sql
	s.sql = nil
	return taken
}

var ddl = regexp.MustCompile(`(?i)^\s*(CREATE|ALTER|DROP|RENAME|INSERT)\b`)

// wantPlainKey fails the test unless a table's key is a BIGINT NOT NULL, an
// INTEGER on SQLite, that no sequence or AUTO_INCREMENT numbers.
func (s *suite) wantPlainKey(t *testing.T, table, key string) {
	t.Helper()
	var kind, nullable, extra string
	var err error
	switch s.server.Kind() {
	case servers.SQLite:
		err = s.db.Raw("SELECT type, CASE WHEN pk > 0 THEN 'NO' ELSE 'YES' END, (SELECT sql FROM sqlite_master WHERE name = ?) FROM pragma_table_info(?) WHERE name = ?",
			table, table, key).Row().Scan(&kind, &nullable, &extra)
		if !strings.Contains(strings.ToUpper(extra), "AUTOINCREMENT") {
			extra = ""
		}
	case servers.Postgres:
		err = s.db.Raw("SELECT data_type, is_nullable, COALESCE(column_default, '') || COALESCE(is_identity, '') FROM information_schema.columns WHERE table_name = ? AND column_name = ? AND table_schema = CURRENT_SCHEMA()",
			table, key).Row().Scan(&kind, &nullable, &extra)
		extra = strings.TrimSuffix(extra, "NO")
	default:
		err = s.db.Raw("SELECT data_type, is_nullable, extra FROM information_schema.columns WHERE table_name = ? AND column_name = ? AND table_schema = DATABASE()",
			table, key).Row().Scan(&kind, &nullable, &extra)
	}
	want := "bigint"
	if s.server.Kind() == servers.SQLite {
		want = "integer"
	}
	if err != nil || strings.ToLower(kind) != want || nullable != "NO" || extra != "" {
		t.Errorf("%s.%s: want a plain %s NOT NULL, got %s, nullable %s, %q, error %v", table, key, want, kind, nullable, extra, err)
	}
}

// TestSchema migrates models whose keys are plain, twice.
func TestSchema(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		log := newStatements()
		models := append(filledModels(), &user{}, &company{}, &language{}, &profile{}, &toy{}, &pet{}, &group{})
		s := newSuite(t, server, gormflake.Config{Models: models}, &gorm.Config{Logger: log, DisableForeignKeyConstraintWhenMigrating: true}, models...)
		for table, key := range map[string]string{
			"typeds": "id", "plains": "id", "unsigneds": "id", "pointeds": "id", "pointed_ids": "id", "renameds": "number", "modelleds": "id",
			"prefixeds": "base_id", "nil_embeddeds": "id", "severals": "id", "pairs": "number", "languages": "id", "profiles": "id", "users": "id",
			"user_languages": "user_id",
		} {
			s.wantPlainKey(t, table, key)
		}
		log.take()
		if err := s.db.AutoMigrate(models...); err != nil {
			t.Fatal(err)
		}
		for _, sql := range log.take() {
			if ddl.MatchString(sql) {
				t.Errorf("want no DDL from a second AutoMigrate, got %s", sql)
			}
		}
		if lines := s.log.lines(); len(lines) != 0 {
			t.Errorf("want no warnings, got %q", lines)
		}
	})
}

// TestSchemaUnderAnotherName migrates models under table names of their own.
func TestSchemaUnderAnotherName(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		log := newStatements()
		s := newSuite(t, server, gormflake.Config{Models: []any{&plain{}}}, &gorm.Config{Logger: log})
		if err := s.db.Table("typeds_2024").AutoMigrate(&typed{}); err != nil {
			t.Fatal(err)
		}
		table := func() *gorm.DB { return s.db.Table("plains_2024") }
		if err := s.flake.Prepare(table(), &plain{}); err != nil {
			t.Fatal(err)
		}
		if err := table().AutoMigrate(&plain{}); err != nil {
			t.Fatal(err)
		}
		s.wantPlainKey(t, "typeds_2024", "id")
		s.wantPlainKey(t, "plains_2024", "id")
		log.take()
		if err := table().AutoMigrate(&plain{}); err != nil {
			t.Fatal(err)
		}
		for _, sql := range log.take() {
			if ddl.MatchString(sql) {
				t.Errorf("want no DDL from a second AutoMigrate, got %s", sql)
			}
		}
		row := plain{Name: "a"}
		if err := table().Create(&row).Error; err != nil {
			t.Fatal(err)
		}
		var found plain
		if err := table().First(&found, row.ID).Error; err != nil || row.ID < aSnowflake {
			t.Errorf("want row %d in its table, got %+v, error %v", row.ID, found, err)
		}
		m := map[string]any{"name": "m"}
		if err := s.db.Table("plains_2024").Model(&plain{}).Create(m).Error; err != nil || m["id"] == nil {
			t.Errorf("want the map filled, got %v, error %v", m, err)
		}
	})
}

// TestUnpreparedModel is warned about once, with what to do.
func TestUnpreparedModel(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		s := newSuite(t, server, gormflake.Config{}, nil, &plain{}, &typed{})
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				for range 5 {
					if err := s.db.Create(&plain{}).Error; err != nil {
						t.Error(err)
					}
					m := []map[string]any{{"name": "a"}, {"name": "b"}}
					if err := s.db.Model(&plain{}).Create(m).Error; err != nil {
						t.Error(err)
					}
					for _, row := range m {
						if id, _ := row["id"].(int64); id < aSnowflake {
							t.Errorf("want an id of the plugin's in the map, got %v", row)
						}
					}
				}
			})
		}
		wait.Wait()
		if err := s.db.Create(&typed{}).Error; err != nil {
			t.Fatal(err)
		}
		lines := s.log.lines()
		if len(lines) != 1 || !strings.Contains(lines[0], "model=plain") || !strings.Contains(lines[0], "Config.Models") {
			t.Errorf("want one warning of the model plain with the remedy, got %q", lines)
		}
		var low int64
		if err := s.db.Model(&plain{}).Where("id < ?", aSnowflake).Count(&low).Error; err != nil || low != 0 {
			t.Errorf("want no row that the database has numbered, got %d, error %v", low, err)
		}
	})
}

// TestMarkedKeys leaves tables alone that the database numbers.
func TestMarkedKeys(t *testing.T) {
	type marked struct {
		ID   int64  `gorm:"primaryKey;autoIncrement:false"`
		Name string `gorm:"size:100"`
	}
	type filled struct {
		ID   int64  `gorm:"primaryKey" gormflake:"fill"`
		Name string `gorm:"size:100"`
	}
	type old struct {
		ID      int64 `gorm:"primaryKey"`
		PlainID int64
		Plain   *plain
	}
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		config := gormflake.Config{Match: gormflake.MarkedKeys, Models: []any{&plain{}}}
		s := newSuite(t, server, config, nil, &plain{}, &typed{}, &marked{}, &filled{}, &old{}, &legacy{})
		var (
			a typed
			b plain
			c marked
			d filled
			e = old{Plain: &plain{}}
			f legacy
		)
		for _, row := range []any{&a, &b, &c, &d, &e, &f} {
			if err := s.db.Create(row).Error; err != nil {
				t.Fatalf("%T: %v", row, err)
			}
		}
		for name, id := range map[string]int64{"ID": int64(a.ID), "Config.Models": b.ID, "autoIncrement:false": c.ID, "fill": d.ID, "associated": e.Plain.ID} {
			if id < aSnowflake {
				t.Errorf("%s: want an id of the plugin's, got %d", name, id)
			}
		}
		if e.ID != 1 || f.ID != 1 || e.PlainID != e.Plain.ID {
			t.Errorf("want rows that the database numbers from 1, got %d and %d, and the association kept, got %d", e.ID, f.ID, e.PlainID)
		}
		s.wantPlainKey(t, "plains", "id")
	})
}
