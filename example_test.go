package gormflake_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// open opens an in-memory database for the examples.
func open() *gorm.DB {
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		panic(err)
	}
	pool, err := db.DB()
	if err != nil {
		panic(err)
	}
	pool.SetMaxOpenConns(1)
	return db
}

func Example() {
	type Order struct {
		ID       gormflake.ID `gorm:"primaryKey"`
		Customer string
	}
	ctx := context.Background()
	db := open()
	flake := gormflake.New(gormflake.Config{})
	if err := db.Use(flake); err != nil {
		panic(err)
	}
	if err := flake.Start(ctx); err != nil {
		panic(err)
	}
	defer flake.Close(ctx)
	if err := db.AutoMigrate(&Order{}); err != nil {
		panic(err)
	}

	orders := []Order{{Customer: "Ada"}, {Customer: "Grace"}, {ID: 7, Customer: "Mary"}}
	if err := db.Create(&orders).Error; err != nil {
		panic(err)
	}
	fmt.Println("in order:", 0 < orders[0].ID && orders[0].ID < orders[1].ID)
	fmt.Println("kept:", orders[2].ID)

	var recent []Order
	if err := db.Where(gormflake.Last(time.Hour)).Find(&recent).Error; err != nil {
		panic(err)
	}
	fmt.Println("of the last hour:", len(recent))
	// Output:
	// in order: true
	// kept: 7
	// of the last hour: 2
}

func ExampleConfig_models() {
	type Order struct {
		ID       int64 `gorm:"primaryKey"`
		Customer string
	}
	db := open()
	flake := gormflake.New(gormflake.Config{Models: []any{&Order{}}})
	if err := db.Use(flake); err != nil {
		panic(err)
	}
	defer flake.Close(context.Background())
	if err := db.AutoMigrate(&Order{}); err != nil {
		panic(err)
	}
	order := map[string]any{"customer": "Ada"}
	if err := db.Model(&Order{}).Create(order).Error; err != nil {
		panic(err)
	}
	var found Order
	if err := db.First(&found, order["id"]).Error; err != nil {
		panic(err)
	}
	fmt.Println(found.ID == order["id"], found.Customer)
	// Output: true Ada
}

// A fleet that must share one id space with other code gives the plugin a
// generator, or a store of its own choice.
func ExampleConfig_generator() {
	ctx := context.Background()
	g, err := generator.Open(ctx, generator.Config{Store: lease.Memory()})
	if err != nil {
		panic(err)
	}
	defer g.Close(ctx)
	db := open()
	flake := gormflake.New(gormflake.Config{Generator: g})
	if err := db.Use(flake); err != nil {
		panic(err)
	}
	fmt.Println(flake.Generator() == g)
	// Output: true
}

// In an application whose tables have AUTO_INCREMENT or sequences, MarkedKeys
// fills only what is marked.
func ExampleMarkedKeys() {
	type Old struct {
		ID int64 `gorm:"primaryKey"`
	}
	type New struct {
		ID gormflake.ID `gorm:"primaryKey"`
	}
	db := open()
	flake := gormflake.New(gormflake.Config{Match: gormflake.MarkedKeys})
	if err := db.Use(flake); err != nil {
		panic(err)
	}
	defer flake.Close(context.Background())
	if err := db.AutoMigrate(&Old{}, &New{}); err != nil {
		panic(err)
	}
	var before Old
	var after New
	if err := errors.Join(db.Create(&before).Error, db.Create(&after).Error); err != nil {
		panic(err)
	}
	fmt.Println(before.ID, after.ID > 1<<40)
	// Output: 1 true
}

// One row per sensor and millisecond: a reading that comes in twice gets the
// same id, and Save replaces it.
func ExamplePlugin_businessIDs() {
	type Reading struct {
		ID          gormflake.ID `gorm:"primaryKey" gormflake:"time:CollectedAt;business:SensorID"`
		CollectedAt time.Time
		SensorID    int64
		Value       float64
	}
	db := open()
	flake := gormflake.New(gormflake.Config{})
	if err := db.Use(flake); err != nil {
		panic(err)
	}
	defer flake.Close(context.Background())
	if err := db.AutoMigrate(&Reading{}); err != nil {
		panic(err)
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, value := range []float64{20.5, 21} {
		batch := []Reading{{CollectedAt: at, SensorID: 4711, Value: value}}
		if err := db.Save(&batch).Error; err != nil {
			panic(err)
		}
	}
	var all []Reading
	if err := db.Find(&all).Error; err != nil {
		panic(err)
	}
	fmt.Println(len(all), all[0].ID, all[0].Value)
	// Output: 1 1477636521984004711 21
}

// After an upsert the struct has the id of the row that it met.
func ExamplePlugin_upsert() {
	type Account struct {
		ID    gormflake.ID `gorm:"primaryKey"`
		Email string       `gorm:"uniqueIndex"`
	}
	db := open()
	flake := gormflake.New(gormflake.Config{})
	if err := db.Use(flake); err != nil {
		panic(err)
	}
	defer flake.Close(context.Background())
	if err := db.AutoMigrate(&Account{}); err != nil {
		panic(err)
	}
	first, again := Account{Email: "ada@example.org"}, Account{Email: "ada@example.org"}
	if err := db.Create(&first).Error; err != nil {
		panic(err)
	}
	if err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&again).Error; err != nil {
		panic(err)
	}
	fmt.Println(first.ID == again.ID)
	// Output: true
}

func ExampleFrom() {
	db := open()
	flake := gormflake.New(gormflake.Config{})
	if err := db.Use(flake); err != nil {
		panic(err)
	}
	found, ok := gormflake.From(db.Session(&gorm.Session{}))
	fmt.Println(found == flake, ok)
	// Output: true true
}
