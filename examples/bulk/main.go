// Bulk numbers 100,000 rows in one burst, inserts them in batches, and shows
// that the order of the keys is the order of the slice.
//
// Without the burst each batch would be one of its own, in order too; a burst
// for all of them lets no other row of this process come between.
//
//	go run ./examples/bulk
//	go run ./examples/bulk -rows 1000000 -dsn postgres://postgres@127.0.0.1/test
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/examples/internal/database"
	"github.com/gormflake/gormflake/examples/internal/plot"
)

// Reading is a plain model: an int64 key and no other configuration.
type Reading struct {
	ID    int64 `gorm:"primaryKey"`
	Line  int   // the row's place in the slice
	Value float64
}

// batch is how many rows one INSERT carries: SQLite is fastest with few
// hundred, servers take thousands.
const batch = 500

func main() {
	rows := flag.Int("rows", 100_000, "how many rows to insert")
	dsn := flag.String("dsn", "", database.Flag)
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *rows, *dsn); err != nil {
		fmt.Fprintln(os.Stderr, "bulk:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, n int, dsn string) error {
	if n < 1 {
		return fmt.Errorf("-rows wants at least 1, got %d", n)
	}
	db, err := database.Open(dsn)
	if err != nil {
		return err
	}
	pool, err := db.DB()
	if err != nil {
		return err
	}
	defer pool.Close()
	// Naming the model gives its table a plain BIGINT key without auto-increment.
	flake := gormflake.New(gormflake.Config{Models: []any{&Reading{}}})
	if err := db.Use(flake); err != nil {
		return err
	}
	if err := flake.Start(ctx); err != nil {
		return err
	}
	defer flake.Close(ctx)
	if db.Migrator().HasTable(&Reading{}) {
		return fmt.Errorf("there is a table readings already; give -dsn a database without one")
	}
	if err := db.AutoMigrate(&Reading{}); err != nil {
		return err
	}
	defer db.Migrator().DropTable(&Reading{})

	began := time.Now()
	ids := make([]gormflake.ID, n)
	if err := flake.Generator().Fill(ctx, ids); err != nil {
		return err
	}
	fmt.Fprintf(out, "Made %d ids in one burst in %v.\n", n, time.Since(began).Round(time.Microsecond))

	rows := make([]Reading, n)
	for i := range rows {
		rows[i] = Reading{ID: ids[i].Int64(), Line: i, Value: float64(i) / 10}
	}
	began = time.Now()
	if err := db.WithContext(ctx).CreateInBatches(&rows, batch).Error; err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Fprintf(out, "Inserted %d rows in batches of %d in %v: %.0f rows/s\n", n, batch, took.Round(time.Millisecond), float64(n)/took.Seconds())
	return check(out, db, flake, rows)
}

// check reads the table in the order of its key and compares that with the
// slice's order.
func check(out io.Writer, db *gorm.DB, flake *gormflake.Plugin, rows []Reading) error {
	var lines []int
	if err := db.Model(&Reading{}).Order("id").Pluck("line", &lines).Error; err != nil {
		return err
	}
	if len(lines) != len(rows) {
		return fmt.Errorf("the table holds %d rows, want %d", len(lines), len(rows))
	}
	for i, line := range lines {
		if line != i {
			return fmt.Errorf("by key, row %d of the slice comes at place %d", line, i)
		}
	}
	fmt.Fprintln(out, "Read back by primary key, all rows come in the order of the slice.")

	layout := flake.Generator().Layout()
	fmt.Fprintln(out, "\nThe burst fills whole milliseconds of 4,096 ids, without a gap:")
	var bars []plot.Bar
	for _, row := range rows {
		label := layout.Decompose(gormflake.ID(row.ID)).Time.Format("15:04:05.000")
		if len(bars) == 0 || bars[len(bars)-1].Label != label {
			bars = append(bars, plot.Bar{Label: label})
		}
		bars[len(bars)-1].Value++
	}
	plot.Bars(out, bars)
	return nil
}
