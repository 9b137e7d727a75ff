package gormflake_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake"
)

// openMemory opens an in-memory SQLite database of the test's own.
func openMemory(t *testing.T, config *gorm.Config) *gorm.DB {
	t.Helper()
	if config.Logger == nil {
		config.Logger = logger.Discard
	}
	dsn := fmt.Sprintf("file:%s-%d?mode=memory&cache=shared", t.Name(), time.Now().UnixNano())
	db, err := gorm.Open(sqlite.Open(dsn), config)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = pool.Close() })
	return db
}

// install installs a plugin and closes it with the test.
func install(t *testing.T, db *gorm.DB, config gormflake.Config) *gormflake.Plugin {
	t.Helper()
	flake := gormflake.New(config)
	if err := db.Use(flake); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := flake.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return flake
}

type order struct {
	ID       gormflake.ID `gorm:"primaryKey"`
	Customer string
	Paid     bool
}

type plainOrder struct {
	ID       int64 `gorm:"primaryKey"`
	Customer string
}

func TestZeroConfig(t *testing.T) {
	for _, skip := range []bool{false, true} {
		t.Run(fmt.Sprintf("SkipDefaultTransaction=%v", skip), func(t *testing.T) {
			db := openMemory(t, &gorm.Config{SkipDefaultTransaction: skip})
			install(t, db, gormflake.Config{})
			if err := db.AutoMigrate(&order{}, &plainOrder{}); err != nil {
				t.Fatal(err)
			}
			orders := []order{{Customer: "a"}, {ID: 7, Customer: "b"}, {Customer: "c"}}
			if err := db.Create(&orders).Error; err != nil {
				t.Fatal(err)
			}
			if orders[0].ID == 0 || orders[1].ID != 7 || orders[2].ID <= orders[0].ID {
				t.Errorf("want the zero ids filled in order and 7 kept, got %v", orders)
			}
			plain := plainOrder{Customer: "d"}
			if err := db.Create(&plain).Error; err != nil {
				t.Fatal(err)
			}
			var found plainOrder
			if err := db.First(&found, plain.ID).Error; err != nil || plain.ID < int64(orders[2].ID) {
				t.Errorf("want row %d with an id above %d, got %+v, error %v", plain.ID, orders[2].ID, found, err)
			}
			for _, rows := range []any{
				map[string]any{"customer": "m"},
				[]map[string]any{{"customer": "n"}, {"customer": "o"}},
				&[]map[string]any{{"customer": "p"}, {"customer": "q"}},
			} {
				if err := db.Model(&plainOrder{}).Create(rows).Error; err != nil {
					t.Errorf("%T: %v", rows, err)
				}
			}
			if err := db.Create(order{Customer: "by value"}).Error; err == nil {
				t.Error("want an error for a value, got none")
			}
			err := db.Transaction(func(tx *gorm.DB) error { return tx.Create(&order{Customer: "e"}).Error })
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLeasesInTheDatabase(t *testing.T) {
	db, err := gorm.Open(sqlite.Open("file:"+t.TempDir()+"/test.db"), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	flake := install(t, db, gormflake.Config{})
	if err := flake.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := db.AutoMigrate(&order{}); err != nil {
		t.Fatal(err)
	}
	row := order{Customer: "a"}
	if err := db.Create(&row).Error; err != nil || row.ID == 0 {
		t.Fatalf("want a filled id, got %v, error %v", row.ID, err)
	}
}
