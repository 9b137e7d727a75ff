package integration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/internal/servers"
)

// aSnowflake is far below any id of today and far above what a database
// numbers.
const aSnowflake = 1 << 40

// TestKeysLeftAlone creates rows of models whose keys are not the plugin's.
func TestKeysLeftAlone(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		s := newSuite(t, server, gormflake.Config{}, nil, append(otherModels(), &plain{})...)
		for _, c := range []struct {
			name   string
			create func(db *gorm.DB) (id int64, err error)
			wantID int64 // 0: any that a database numbers
			err    bool
		}{
			{"int32", func(db *gorm.DB) (int64, error) { r := small{}; err := db.Create(&r).Error; return int64(r.ID), err }, 0, false},
			{"int", func(db *gorm.DB) (int64, error) { r := signed{}; err := db.Create(&r).Error; return int64(r.ID), err }, 0, false},
			{"gorm.Model", func(db *gorm.DB) (int64, error) { r := legacy{}; err := db.Create(&r).Error; return int64(r.ID), err }, 0, false},
			{"autoIncrement tag", func(db *gorm.DB) (int64, error) { r := numbered{}; err := db.Create(&r).Error; return r.ID, err }, 0, false},
			{"map of an autoIncrement model", func(db *gorm.DB) (int64, error) {
				m := map[string]any{"name": "m"}
				err := db.Model(&numbered{}).Create(m).Error
				id, _ := m["id"].(int64)
				return id, err
			}, 0, false},
			{"Table and map of a table that the database numbers", func(db *gorm.DB) (int64, error) {
				return 1, db.Table("numbereds").Create(map[string]any{"name": "m"}).Error
			}, 1, false},
			{"Table and map of a model that nobody has prepared", func(db *gorm.DB) (int64, error) {
				return 1, db.Table("plains").Create(map[string]any{"name": "m"}).Error
			}, 1, false},
			{"string", func(db *gorm.DB) (int64, error) {
				r := worded{ID: "w"}
				err := db.Create(&r).Error
				if r.ID != "w" {
					err = errors.Join(err, errors.New("the key was changed to "+r.ID))
				}
				return 1, err
			}, 1, false},
			{"composite without fill", func(db *gorm.DB) (int64, error) {
				r := pairOfKeys{Right: 2}
				err := db.Create(&r).Error
				return r.Left + 1, err
			}, 1, false},
			{"gormflake:\"-\"", func(db *gorm.DB) (int64, error) {
				r := skipped{ID: 3}
				err := db.Create(&r).Error
				return r.ID, err
			}, 3, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				id, err := c.create(s.db)
				if err != nil {
					t.Fatal(err)
				}
				if c.wantID == 0 && (id <= 0 || id > aSnowflake) || c.wantID != 0 && id != c.wantID {
					t.Errorf("want id %d (0: the database's), got %d", c.wantID, id)
				}
			})
		}
	})
}

// TestRefusals asks for what can't be, which must be an error of the plugin's
// that inserts nothing and leaves no transaction open.
func TestRefusals(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		s := newSuite(t, server, gormflake.Config{Models: []any{&plain{}}}, nil, filledModels()...)
		pool, err := s.db.DB()
		if err != nil {
			t.Fatal(err)
		}
		pool.SetMaxOpenConns(2)
		when := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		for _, c := range []struct {
			name   string
			create func(db *gorm.DB) error
			want   error
			says   string
		}{
			{"struct by value", func(db *gorm.DB) error { return db.Create(typed{}).Error }, gormflake.ErrNotAddressable, "pass &value"},
			{"int64 struct by value", func(db *gorm.DB) error { return db.Create(plain{}).Error }, gormflake.ErrNotAddressable, "plain"},
			{"array by value", func(db *gorm.DB) error { return db.Create([2]typed{}).Error }, gormflake.ErrNotAddressable, "array"},
			{"nil pointer", func(db *gorm.DB) error { return db.Create((*typed)(nil)).Error }, gorm.ErrInvalidValue, ""},
			{"nil element", func(db *gorm.DB) error { return db.Create([]*typed{{}, nil}).Error }, gorm.ErrInvalidData, ""},
			{"empty slice", func(db *gorm.DB) error { return db.Create(&[]typed{}).Error }, gorm.ErrEmptySlice, ""},
			{"empty slice of maps", func(db *gorm.DB) error { return db.Model(&typed{}).Create([]map[string]any{}).Error }, gorm.ErrEmptySlice, ""},
			{"Table and map", func(db *gorm.DB) error {
				return db.Table("typeds").Create(map[string]any{"name": "m"}).Error
			}, gormflake.ErrNoID, "Model(&typed{})"},
			{"Table and maps", func(db *gorm.DB) error {
				return db.Table("plains").Create([]map[string]any{{"id": 1, "name": "m"}, {"name": "m"}}).Error
			}, gormflake.ErrNoID, "row 1"},
			{"Omit of everything", func(db *gorm.DB) error { return db.Omit("*").Create(&typed{}).Error }, gormflake.ErrNoID, "Omit"},
			{"zero time", func(db *gorm.DB) error { return db.Create(&reading{SensorID: 1}).Error }, gormflake.ErrBusinessID, "collected_at"},
			{"number too wide", func(db *gorm.DB) error {
				return db.Create(&reading{SensorID: 1 << 22, CollectedAt: when}).Error
			}, gormflake.ErrOutOfRange, "sensor_id"},
			{"negative number", func(db *gorm.DB) error {
				return db.Create(&reading{SensorID: -1, CollectedAt: when}).Error
			}, gormflake.ErrOutOfRange, "sensor_id"},
			{"time before the epoch", func(db *gorm.DB) error {
				return db.Create(&reading{SensorID: 1, CollectedAt: when.AddDate(-50, 0, 0)}).Error
			}, generator.ErrBeforeEpoch, "collected_at"},
			{"map without the time", func(db *gorm.DB) error {
				return db.Model(&reading{}).Create(map[string]any{"sensor_id": 1}).Error
			}, gormflake.ErrBusinessID, "collected_at"},
			{"map without the number", func(db *gorm.DB) error {
				return db.Model(&reading{}).Create(map[string]any{"collected_at": when}).Error
			}, gormflake.ErrBusinessID, "sensor_id"},
		} {
			t.Run(c.name, func(t *testing.T) {
				err := c.create(s.db)
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("want %v that says %q, got %v", c.want, c.says, err)
				}
				if open := pool.Stats().InUse; open != 0 {
					t.Errorf("want no connection in use, got %d", open)
				}
			})
		}
		for _, model := range []any{&typed{}, &plain{}, &reading{}} {
			if n := count(t, s.db, model); n != 0 {
				t.Errorf("%T: want nothing inserted, got %d rows", model, n)
			}
		}
	})
}

// TestSeveralIDs fills all fields of a model that are tagged.
func TestSeveralIDs(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		s := newSuite(t, server, gormflake.Config{}, nil, &several{})
		rows := []several{{}, {Trace: 5}, {}}
		if err := s.db.Create(&rows).Error; err != nil {
			t.Fatal(err)
		}
		var found []several
		if err := s.db.Order("id").Find(&found).Error; err != nil {
			t.Fatal(err)
		}
		for i, row := range rows {
			if row.ID == 0 || row.Trace == 0 || row.Batch == nil || row.Other != 0 {
				t.Errorf("row %d: want ID, Trace and Batch filled and Other left, got %+v", i, row)
			}
			if got := found[i]; got.ID != row.ID || got.Trace != row.Trace || *got.Batch != *row.Batch {
				t.Errorf("row %d: want %+v in the table, got %+v", i, row, got)
			}
		}
		if rows[1].Trace != 5 {
			t.Errorf("want the explicit id kept, got %d", rows[1].Trace)
		}
	})
}

// TestHooks has hooks that read, change and zero the id.
func TestHooks(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		for _, after := range []bool{false, true} {
			name := map[bool]string{false: "before hooks", true: "after hooks"}[after]
			t.Run(name, func(t *testing.T) {
				s := newSuite(t, server, gormflake.Config{AfterHooks: after}, nil, &hooked{})
				for _, c := range []struct {
					act  string
					want gormflake.ID // 0: the plugin's
				}{{"read", 0}, {"override", 42}, {"zero", 0}, {"own", map[bool]gormflake.ID{true: 43}[after]}} {
					rows := []hooked{{Act: c.act, Want: c.want}, {Act: c.act, Want: c.want * 100}}
					if err := s.db.Create(&rows).Error; err != nil {
						t.Fatal(err)
					}
					s.wantRows(t, &hooked{}, "id", int64(rows[0].ID), int64(rows[1].ID))
					if saw := rows[0].Seen != 0; saw == after {
						t.Errorf("%s: want hooks to see an id: %v, got %d", c.act, !after, rows[0].Seen)
					}
					if c.want != 0 && (rows[0].ID != c.want || rows[1].ID != c.want*100) {
						t.Errorf("%s: want the hook's ids, got %d and %d", c.act, rows[0].ID, rows[1].ID)
					}
				}
			})
		}
	})
}

// TestDryRun fills what would be inserted, and inserts nothing.
func TestDryRun(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		s := newSuite(t, server, gormflake.Config{Models: filledModels()}, nil, &plain{}, &typed{})
		rows := []plain{{Name: "a"}, {Name: "b"}}
		stmt := s.db.Session(&gorm.Session{DryRun: true}).Create(&rows).Statement
		if rows[0].ID == 0 || rows[1].ID <= rows[0].ID || !strings.Contains(stmt.SQL.String(), "INSERT") {
			t.Errorf("want ids in a dry run's INSERT, got %v, %s", rows, stmt.SQL.String())
		}
		row := typed{Name: "sql"}
		text := s.db.ToSQL(func(tx *gorm.DB) *gorm.DB { return tx.Create(&row) })
		if row.ID == 0 || !strings.Contains(text, row.ID.String()) {
			t.Errorf("want the id %d in %s", row.ID, text)
		}
		if n := count(t, s.db, &plain{}) + count(t, s.db, &typed{}); n != 0 {
			t.Errorf("want nothing inserted, got %d rows", n)
		}
	})
}

// TestBusinessIDs makes ids of a row's own columns, so that an upsert keeps
// one row per sensor and millisecond.
func TestBusinessIDs(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		s := newSuite(t, server, gormflake.Config{}, nil, &reading{})
		when := time.Date(2026, 3, 1, 12, 0, 0, 7e6, time.UTC)
		rows := []reading{
			{CollectedAt: when, SensorID: 1, Value: 1},
			{CollectedAt: when, SensorID: 1<<22 - 1, Value: 2},
			{CollectedAt: when.Add(time.Millisecond), SensorID: 1, Value: 3},
			{ID: 99, Value: 4, CollectedAt: when},
		}
		if err := s.db.Create(&rows).Error; err != nil {
			t.Fatal(err)
		}
		layout := s.flake.Layout()
		for i, row := range rows[:3] {
			want, err := layout.ComposeBusiness(row.CollectedAt, row.SensorID)
			if err != nil || row.ID != want {
				t.Errorf("row %d: want id %d, got %d, error %v", i, want, row.ID, err)
			}
		}
		m := map[string]any{"CollectedAt": when.Add(time.Hour), "sensor_id": uint8(5), "value": 5.0}
		if err := s.db.Model(&reading{}).Create(m).Error; err != nil {
			t.Fatal(err)
		}
		id, _ := m["id"].(int64)
		s.wantRows(t, &reading{}, "id", int64(rows[0].ID), int64(rows[1].ID), int64(rows[2].ID), 99, id)

		again := reading{CollectedAt: when, SensorID: 1, Value: 10}
		if err := s.db.Save(&[]reading{again}).Error; err != nil {
			t.Fatal(err)
		}
		var found reading
		if err := s.db.First(&found, rows[0].ID).Error; err != nil || found.Value != 10 || count(t, s.db, &reading{}) != 5 {
			t.Errorf("want the row replaced, got %+v of %d rows, error %v", found, count(t, s.db, &reading{}), err)
		}
	})
}

// TestContextEnds has a create whose context is over.
func TestContextEnds(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		s := newSuite(t, server, gormflake.Config{}, nil, &typed{})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := s.db.WithContext(ctx).Create(&typed{}).Error; !errors.Is(err, context.Canceled) {
			t.Errorf("want context.Canceled, got %v", err)
		}
		if n := count(t, s.db, &typed{}); n != 0 {
			t.Errorf("want nothing inserted, got %d rows", n)
		}
	})
}
