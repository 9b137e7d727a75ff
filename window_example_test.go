package gormflake_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// Sale is a row whose time is in its key.
type Sale struct {
	ID     gormflake.ID `gorm:"primaryKey"`
	Amount int64
}

// sales opens a database with a sale every six hours of the first four days of
// May 2024, and with a clock that stands at their end.
func sales() *gorm.DB {
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{})
	if err != nil {
		log.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		log.Fatal(err)
	}
	pool.SetMaxOpenConns(1) // each connection to :memory: is a database of its own
	first := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	g, err := generator.Open(context.Background(), generator.Config{
		Store: lease.Memory(), MaxSkew: -1, Logger: slog.New(slog.DiscardHandler),
		Clock: func() time.Time { return first.AddDate(0, 0, 4) },
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Use(gormflake.New(gormflake.Config{Generator: g})); err != nil {
		log.Fatal(err)
	}
	if err := db.AutoMigrate(&Sale{}); err != nil {
		log.Fatal(err)
	}
	for n := range 16 {
		id, err := generator.Standard().Compose(first.Add(time.Duration(n)*6*time.Hour), 1, 0)
		if err != nil {
			log.Fatal(err)
		}
		if err := db.Create(&Sale{ID: id, Amount: int64(n + 1)}).Error; err != nil {
			log.Fatal(err)
		}
	}
	return db
}

func amounts(rows []Sale) (out []int64) {
	for _, r := range rows {
		out = append(out, r.Amount)
	}
	return out
}

func ExampleBetween() {
	db := sales()
	noon := time.Date(2024, 5, 2, 12, 0, 0, 0, time.UTC)
	var rows []Sale
	if err := db.Where(gormflake.Between(noon, noon.Add(12*time.Hour))).Find(&rows).Error; err != nil {
		log.Fatal(err)
	}
	fmt.Println(amounts(rows))
	// Output: [7 8]
}

func ExampleOn() {
	db := sales()
	auckland, err := time.LoadLocation("Pacific/Auckland")
	if err != nil {
		log.Fatal(err)
	}
	rows, err := gorm.G[Sale](db).Where(gormflake.On(time.Date(2024, 5, 2, 0, 0, 0, 0, auckland))).Find(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(amounts(rows)) // from noon of the first in UTC
	// Output: [3 4 5 6]
}

func ExampleLast() {
	db := sales()
	var n int64
	if err := db.Model(&Sale{}).Where(gormflake.Last(24 * time.Hour)).Count(&n).Error; err != nil {
		log.Fatal(err)
	}
	fmt.Println(n)
	// Output: 4
}

func ExampleAfter() {
	db := sales()
	var last gormflake.ID // the zero ID starts with the first row
	for {
		var rows []Sale
		if err := db.Clauses(gormflake.After(last)).Limit(6).Find(&rows).Error; err != nil {
			log.Fatal(err)
		}
		if len(rows) == 0 {
			break
		}
		fmt.Println(amounts(rows))
		last = rows[len(rows)-1].ID
	}
	// Output:
	// [1 2 3 4 5 6]
	// [7 8 9 10 11 12]
	// [13 14 15 16]
}

func ExamplePage() {
	db := sales()
	args := gormflake.PageArgs{First: 3, Descending: true}
	for range 2 {
		page, err := gormflake.Page[Sale](context.Background(), db.Where("amount > ?", 10), args)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(amounts(page.Nodes()), page.PageInfo.HasPreviousPage, page.PageInfo.HasNextPage)
		args.After = page.PageInfo.EndCursor
	}
	// Output:
	// [16 15 14] false true
	// [13 12 11] true false
}

func ExampleAround() {
	db := sales()
	var sale Sale
	if err := db.Where("amount = ?", 8).Take(&sale).Error; err != nil {
		log.Fatal(err)
	}
	var rows []Sale
	if err := db.Where("amount % 2 = 0").Clauses(gormflake.Around(sale.ID, 2)).Find(&rows).Error; err != nil {
		log.Fatal(err)
	}
	fmt.Println(amounts(rows))
	// Output: [4 6 8 10 12]
}

func ExampleTimeOf() {
	db := sales()
	var at string // a timestamp, where the database has them
	err := db.Model(&Sale{}).Where("amount = ?", 8).Select("?", gormflake.TimeOf("id")).Scan(&at).Error
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(at)
	// Output: 2024-05-02 18:00:00+00:00
}

func ExampleCountBy() {
	db := sales()
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		log.Fatal(err)
	}
	month := gormflake.Between(time.Date(2024, 5, 1, 0, 0, 0, 0, newYork), time.Date(2024, 5, 6, 0, 0, 0, 0, newYork))
	days, err := gormflake.CountBy(context.Background(), db.Model(&Sale{}), month, gormflake.Days(newYork))
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range days {
		fmt.Println(d.From.Format("Jan 2"), d.Count)
	}
	// Output:
	// May 1 4
	// May 2 4
	// May 3 4
	// May 4 3
	// May 5 0
}

func ExampleDeleteBefore() {
	db := sales()
	opts := gormflake.RetentionOptions{BatchSize: 5, Progress: func(r gormflake.RetentionResult) { fmt.Println(r.Rows, "rows") }}
	result, err := gormflake.DeleteBefore(context.Background(), db, &Sale{}, time.Date(2024, 5, 3, 0, 0, 0, 0, time.UTC), opts)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("done:", result.Done)
	// Output:
	// 5 rows
	// 8 rows
	// done: true
}

func ExampleSQL() {
	window := gormflake.On(time.Date(2024, 5, 3, 0, 0, 0, 0, time.UTC)).In(generator.Standard())
	where, args, err := gormflake.SQL(window, "postgres")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("SELECT * FROM readings WHERE", where, args)
	// Output: SELECT * FROM readings WHERE ("id" >= $1 AND "id" < $2) [1235742621696000000 1236105009561600000]
}

func ExamplePartmanInterval() {
	interval, err := gormflake.PartmanInterval(generator.Standard(), 24*time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("SELECT partman.create_parent('public.readings', 'id', '%d')\n", interval)
	// Output: SELECT partman.create_parent('public.readings', 'id', '362387865600000')
}

func ExamplePlanPartitions() {
	// A plan is made for a table of Postgres, MySQL or MariaDB.
	_, err := gormflake.PlanPartitions(context.Background(), sales(), &Sale{}, gormflake.PartitionOptions{Width: gormflake.Months(time.UTC)})
	fmt.Println(err)
	// Output: gormflake: not on this database: SQLite has no partitions; use DeleteBefore for retention
}
