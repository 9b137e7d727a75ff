package integration_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/internal/servers"
)

// shape is one way to create rows. create returns the ids as the application
// sees them afterwards, in slice order.
type shape struct {
	name   string
	model  any
	key    string // "" means id
	create func(t *testing.T, db *gorm.DB) ([]int64, error)
}

func one[T any](key func(*T) int64, create func(db *gorm.DB, row *T) error) func(*testing.T, *gorm.DB) ([]int64, error) {
	return func(_ *testing.T, db *gorm.DB) ([]int64, error) {
		row := new(T)
		err := create(db, row)
		return []int64{key(row)}, err
	}
}

func create[T any](db *gorm.DB, row *T) error { return db.Create(row).Error }

func typedIDs(rows []typed) (ids []int64) {
	for _, row := range rows {
		ids = append(ids, int64(row.ID))
	}
	return ids
}

func shapes() []shape {
	typedID := func(r *typed) int64 { return int64(r.ID) }
	return []shape{
		{"pointer", &typed{}, "", one(typedID, create)},
		{"pointer to pointer", &typed{}, "", one(typedID, func(db *gorm.DB, r *typed) error { return db.Create(&r).Error })},
		{"slice", &typed{}, "", func(_ *testing.T, db *gorm.DB) ([]int64, error) {
			rows := make([]typed, 5)
			err := db.Create(rows).Error
			return typedIDs(rows), err
		}},
		{"pointer to slice", &typed{}, "", func(_ *testing.T, db *gorm.DB) ([]int64, error) {
			rows := make([]typed, 5)
			err := db.Create(&rows).Error
			return typedIDs(rows), err
		}},
		{"slice of pointers", &typed{}, "", func(_ *testing.T, db *gorm.DB) ([]int64, error) {
			rows := []*typed{{Name: "a"}, {Name: "b"}}
			err := db.Create(rows).Error
			return []int64{int64(rows[0].ID), int64(rows[1].ID)}, err
		}},
		{"pointer to slice of pointers", &typed{}, "", func(_ *testing.T, db *gorm.DB) ([]int64, error) {
			rows := []*typed{{Name: "a"}, {Name: "b"}}
			err := db.Create(&rows).Error
			return []int64{int64(rows[0].ID), int64(rows[1].ID)}, err
		}},
		{"pointer to array", &typed{}, "", func(_ *testing.T, db *gorm.DB) ([]int64, error) {
			rows := [2]typed{}
			err := db.Create(&rows).Error
			return typedIDs(rows[:]), err
		}},
		{"array of pointers", &typed{}, "", func(_ *testing.T, db *gorm.DB) ([]int64, error) {
			rows := [2]*typed{{}, {}}
			err := db.Create(rows).Error
			return []int64{int64(rows[0].ID), int64(rows[1].ID)}, err
		}},
		{"explicit ids are kept", &typed{}, "", func(t *testing.T, db *gorm.DB) ([]int64, error) {
			rows := []typed{{}, {ID: 4711}, {}}
			err := db.Create(&rows).Error
			if rows[1].ID != 4711 {
				t.Errorf("want id 4711 kept, got %d", rows[1].ID)
			}
			return typedIDs([]typed{rows[0], rows[2], {ID: 4711}})[:2], err
		}},
		{"int64", &plain{}, "", one(func(r *plain) int64 { return r.ID }, create)},
		{"uint64", &unsigned{}, "", one(func(r *unsigned) int64 { return int64(r.ID) }, create)},
		{"*int64", &pointed{}, "", one(func(r *pointed) int64 { return *r.ID }, create)},
		{"*ID", &pointedID{}, "", one(func(r *pointedID) int64 { return int64(*r.ID) }, create)},
		{"named type, key not named ID", &renamed{}, "number", one(func(r *renamed) int64 { return int64(r.Number) }, create)},
		{"gormflake.Model", &modelled{}, "", one(func(r *modelled) int64 { return int64(r.ID) }, create)},
		{"embedded with prefix", &prefixed{}, "base_id", one(func(r *prefixed) int64 { return int64(r.Base.ID) }, create)},
		{"nil embedded pointer", &nilEmbedded{}, "", one(func(r *nilEmbedded) int64 { return int64(r.ID) }, create)},
		{"slice of int64", &plain{}, "", func(_ *testing.T, db *gorm.DB) ([]int64, error) {
			rows := make([]plain, 3)
			err := db.Create(&rows).Error
			return []int64{rows[0].ID, rows[1].ID, rows[2].ID}, err
		}},
		{"composite key with fill", &pair{}, "number", one(func(r *pair) int64 { return r.Number }, create)},
		{"CreateInBatches", &typed{}, "", func(_ *testing.T, db *gorm.DB) ([]int64, error) {
			rows := make([]typed, 7)
			err := db.CreateInBatches(&rows, 3).Error
			return typedIDs(rows), err
		}},
		{"CreateInBatches of a slice value", &typed{}, "", func(_ *testing.T, db *gorm.DB) ([]int64, error) {
			rows := make([]typed, 7)
			err := db.CreateInBatches(rows, 3).Error
			return typedIDs(rows), err
		}},
		{"CreateBatchSize", &typed{}, "", func(_ *testing.T, db *gorm.DB) ([]int64, error) {
			rows := make([]typed, 7)
			err := db.Session(&gorm.Session{CreateBatchSize: 2}).Create(&rows).Error
			return typedIDs(rows), err
		}},
		{"Save of a new row", &typed{}, "", one(typedID, func(db *gorm.DB, r *typed) error { return db.Save(r).Error })},
		{"Save of a slice", &typed{}, "", func(_ *testing.T, db *gorm.DB) ([]int64, error) {
			rows := make([]typed, 3)
			err := db.Save(&rows).Error
			return typedIDs(rows), err
		}},
		{"FirstOrCreate", &typed{}, "", one(typedID, func(db *gorm.DB, r *typed) error {
			return db.Where(typed{Name: "first or create"}).FirstOrCreate(r).Error
		})},
		{"SkipHooks", &typed{}, "", one(typedID, func(db *gorm.DB, r *typed) error {
			return db.Session(&gorm.Session{SkipHooks: true}).Create(r).Error
		})},
		{"PrepareStmt", &typed{}, "", one(typedID, func(db *gorm.DB, r *typed) error {
			return db.Session(&gorm.Session{PrepareStmt: true}).Create(r).Error
		})},
		{"SkipDefaultTransaction", &typed{}, "", one(typedID, func(db *gorm.DB, r *typed) error {
			return db.Session(&gorm.Session{SkipDefaultTransaction: true}).Create(r).Error
		})},
		{"Session and Clauses", &typed{}, "", one(typedID, func(db *gorm.DB, r *typed) error {
			return db.Session(&gorm.Session{NewDB: true, Context: context.Background()}).Model(&typed{}).Unscoped().Create(r).Error
		})},
		{"Transaction and savepoint", &typed{}, "", func(_ *testing.T, db *gorm.DB) ([]int64, error) {
			var kept, lost typed
			err := db.Transaction(func(tx *gorm.DB) error {
				if err := tx.Create(&kept).Error; err != nil {
					return err
				}
				rollback := errors.New("roll back")
				err := tx.Transaction(func(nested *gorm.DB) error {
					if err := nested.Create(&lost).Error; err != nil {
						return err
					}
					return rollback
				})
				if !errors.Is(err, rollback) {
					return err
				}
				return nil
			})
			return []int64{int64(kept.ID)}, err
		}},
		{"Connection", &typed{}, "", one(typedID, func(db *gorm.DB, r *typed) error {
			return db.Connection(func(tx *gorm.DB) error { return tx.Create(r).Error })
		})},
		{"gorm.G Create", &typed{}, "", one(typedID, func(db *gorm.DB, r *typed) error {
			return gorm.G[typed](db).Create(context.Background(), r)
		})},
		{"gorm.G CreateInBatches", &typed{}, "", func(_ *testing.T, db *gorm.DB) ([]int64, error) {
			rows := make([]typed, 5)
			err := gorm.G[typed](db).CreateInBatches(context.Background(), &rows, 2)
			return typedIDs(rows), err
		}},
		{"gorm.G Select", &typed{}, "", one(typedID, func(db *gorm.DB, r *typed) error {
			return gorm.G[typed](db).Select("Name").Create(context.Background(), r)
		})},
		{"gorm.G Omit", &typed{}, "", one(typedID, func(db *gorm.DB, r *typed) error {
			return gorm.G[typed](db).Omit("ID").Create(context.Background(), r)
		})},
		{"Select without the key", &typed{}, "", one(typedID, func(db *gorm.DB, r *typed) error { return db.Select("Name").Create(r).Error })},
		{"Select without an int64 key", &plain{}, "", one(func(r *plain) int64 { return r.ID },
			func(db *gorm.DB, r *plain) error { return db.Select("name").Create(r).Error })},
		{"Omit of the column", &typed{}, "", one(typedID, func(db *gorm.DB, r *typed) error { return db.Omit("id").Create(r).Error })},
		{"Omit of the field", &plain{}, "", one(func(r *plain) int64 { return r.ID },
			func(db *gorm.DB, r *plain) error { return db.Omit("ID").Create(r).Error })},
		{"Omit of table.column", &plain{}, "", one(func(r *plain) int64 { return r.ID },
			func(db *gorm.DB, r *plain) error { return db.Omit("plains.id", "Name").Create(r).Error })},
		{"Table of a model", &typed{}, "", one(typedID, func(db *gorm.DB, r *typed) error { return db.Table("typeds").Create(r).Error })},
		{"map", &plain{}, "", mapShape(func(db *gorm.DB, m map[string]any) error { return db.Model(&plain{}).Create(m).Error })},
		{"pointer to map", &plain{}, "", mapShape(func(db *gorm.DB, m map[string]any) error { return db.Model(&plain{}).Create(&m).Error })},
		{"map of an ID model", &typed{}, "", mapShape(func(db *gorm.DB, m map[string]any) error { return db.Model(&typed{}).Create(m).Error })},
		{"map with Select", &typed{}, "", mapShape(func(db *gorm.DB, m map[string]any) error {
			return db.Model(&typed{}).Select("Name").Create(m).Error
		})},
		{"map with a zero ID under the field's name", &typed{}, "", func(t *testing.T, db *gorm.DB) ([]int64, error) {
			m := map[string]any{"ID": 0, "Name": "m"}
			err := db.Model(&typed{}).Create(m).Error
			if len(m) != 2 {
				t.Errorf("want the id under its own key, got %v", m)
			}
			id, _ := m["ID"].(int64)
			return []int64{id}, err
		}},
		{"slice of maps", &plain{}, "", mapsShape(func(db *gorm.DB, m []map[string]any) error { return db.Model(&plain{}).Create(m).Error })},
		{"pointer to slice of maps", &plain{}, "", mapsShape(func(db *gorm.DB, m []map[string]any) error {
			before := len(m)
			err := db.Model(&plain{}).Create(&m).Error
			if len(m) != before {
				return errors.New("the slice of maps grew")
			}
			return err
		})},
		{"slice of maps of an ID model", &typed{}, "", mapsShape(func(db *gorm.DB, m []map[string]any) error {
			return db.Model(&typed{}).Create(m).Error
		})},
	}
}

func mapShape(create func(*gorm.DB, map[string]any) error) func(*testing.T, *gorm.DB) ([]int64, error) {
	return func(_ *testing.T, db *gorm.DB) ([]int64, error) {
		m := map[string]any{"Name": "m"}
		err := create(db, m)
		id, _ := m["id"].(int64)
		return []int64{id}, err
	}
}

func mapsShape(create func(*gorm.DB, []map[string]any) error) func(*testing.T, *gorm.DB) ([]int64, error) {
	return func(_ *testing.T, db *gorm.DB) (ids []int64, err error) {
		rows := []map[string]any{{"Name": "a"}, {"name": "b"}, {"Name": "c"}}
		err = create(db, rows)
		for _, m := range rows {
			id, _ := m["id"].(int64)
			ids = append(ids, id)
		}
		return ids, err
	}
}

// TestCreateShapes creates rows in every way that GORM has, with models whose
// keys are plain and with models whose int64 keys nobody has prepared.
func TestCreateShapes(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		for _, mode := range []struct {
			name   string
			config gormflake.Config
			gorm   gorm.Config
		}{
			{"prepared", gormflake.Config{Models: filledModels()}, gorm.Config{}},
			{"unprepared", gormflake.Config{}, gorm.Config{}},
			{"after hooks, prepared statements, no transactions", gormflake.Config{AfterHooks: true},
				gorm.Config{SkipDefaultTransaction: true, PrepareStmt: true}},
		} {
			t.Run(mode.name, func(t *testing.T) {
				s := newSuite(t, server, mode.config, &mode.gorm, filledModels()...)
				for _, c := range shapes() {
					t.Run(c.name, func(t *testing.T) {
						before := count(t, s.db, c.model)
						ids, err := c.create(t, s.db)
						if err != nil {
							t.Fatal(err)
						}
						key := "id"
						if c.key != "" {
							key = c.key
						}
						s.wantRows(t, c.model, key, ids...)
						wantIncreasing(t, ids)
						grown := count(t, s.db, c.model) - before
						if kept := strings.HasPrefix(c.name, "explicit"); !kept && grown != int64(len(ids)) {
							t.Errorf("want %d more rows, got %d", len(ids), grown)
						}
					})
				}
			})
		}
	})
}
