// Quickstart does the main job once, on real data: it installs the plugin,
// inserts the earthquakes of a week, decodes a few of the ids, and asks for a
// time window through the primary key alone.
//
//	go run ./examples/quickstart                 # embedded SQLite, nothing else needed
//	go run ./examples/quickstart -rows 100       # the data a hundred times over
//	go run ./examples/quickstart -history        # ids that carry the earthquakes' own time
//	go run ./examples/quickstart -dsn postgres://postgres@127.0.0.1/test
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/examples/internal/database"
	"github.com/gormflake/gormflake/examples/internal/plot"
	"github.com/gormflake/gormflake/examples/internal/quakes"
)

// Quake is a row. Its key is filled before the INSERT, and carries the time,
// so there is no created_at and no index on one.
type Quake struct {
	ID        gormflake.ID `gorm:"primaryKey"`
	Event     string       `gorm:"size:32"`
	Magnitude float64
	DepthKM   float64
	Latitude  float64
	Longitude float64
	Reviewed  bool
	Felt      bool
	Place     string `gorm:"size:200"`
}

// batch is how many rows one INSERT carries.
const batch = 200

type options struct {
	rows    int
	dsn     string
	history bool
}

func main() {
	var o options
	flag.IntVar(&o.rows, "rows", 1, "insert the data `N` times over, 1,707 rows each")
	flag.StringVar(&o.dsn, "dsn", "", database.Flag)
	flag.BoolVar(&o.history, "history", false, "give each row an id of its own time and slice the week by day")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, o options) error {
	if o.rows < 1 {
		return fmt.Errorf("-rows wants at least 1, got %d", o.rows)
	}
	rows, times, err := load(o.rows)
	if err != nil {
		return err
	}
	db, err := database.Open(o.dsn)
	if err != nil {
		return err
	}
	pool, err := db.DB()
	if err != nil {
		return err
	}
	defer pool.Close()

	// The whole set-up: one plugin, which leases a worker id in this database.
	flake := gormflake.New(gormflake.Config{})
	if err := db.Use(flake); err != nil {
		return err
	}
	if err := flake.Start(ctx); err != nil {
		return err
	}
	defer flake.Close(ctx)

	// A table of its own name, so that the example never touches one of yours.
	table := fmt.Sprintf("quickstart_quakes_%d", os.Getpid())
	db = db.WithContext(ctx)
	if err := db.Table(table).AutoMigrate(&Quake{}); err != nil {
		return err
	}
	defer db.Migrator().DropTable(table)

	if o.history {
		if err := numberByTheirTime(ctx, flake, rows, times); err != nil {
			return err
		}
	}
	// An id's time is the start of its millisecond, so a window that is to hold
	// it begins there, too.
	began := flake.Generator().Now().Truncate(time.Millisecond)
	if err := db.Table(table).CreateInBatches(&rows, batch).Error; err != nil {
		return err
	}
	took := time.Since(began)
	ended := flake.Generator().Now().Add(time.Second)
	fmt.Fprintf(out, "Inserted %d rows into %s in %v: %.0f rows/s\n\n",
		len(rows), db.Name(), took.Round(time.Millisecond), float64(len(rows))/took.Seconds())

	showIDs(out, flake, rows)
	if o.history {
		return sliceByDay(out, db.Table(table), times)
	}
	if err := showWindow(out, db.Table(table), began, ended, len(rows)); err != nil {
		return err
	}
	return showPlot(out, flake, rows)
}

// load returns the data n times over, and the time of each row.
func load(n int) ([]Quake, []time.Time, error) {
	week, err := quakes.Load()
	if err != nil {
		return nil, nil, err
	}
	rows, times := make([]Quake, 0, n*len(week)), make([]time.Time, 0, n*len(week))
	for range n {
		for _, q := range week {
			rows = append(rows, Quake{
				Event: q.Event, Magnitude: q.Magnitude, DepthKM: q.DepthKM,
				Latitude: q.Latitude, Longitude: q.Longitude,
				Reviewed: q.Reviewed, Felt: q.Felt, Place: q.Place,
			})
			times = append(times, q.Time)
		}
	}
	return rows, times, nil
}

// showIDs prints what the first ids hold.
func showIDs(out io.Writer, flake *gormflake.Plugin, rows []Quake) {
	fmt.Fprintln(out, "Each id holds its time, the worker id of this process, and a sequence:")
	for _, row := range rows[:5] {
		p := flake.Generator().Layout().Decompose(row.ID)
		fmt.Fprintf(out, "  %d = %s, worker %d, sequence %d   %s\n",
			row.ID, p.Time.Format("2006-01-02T15:04:05.000Z"), p.Worker, p.Sequence, row.Place)
	}
	fmt.Fprintln(out)
}

// showWindow asks for a range of time, and how the database finds it.
func showWindow(out io.Writer, table *gorm.DB, from, to time.Time, want int) error {
	window := gormflake.Between(from, to)
	query := table.Model(&Quake{}).Where(window).Session(&gorm.Session{})
	var count int64
	if err := query.Count(&count).Error; err != nil {
		return err
	}
	fmt.Fprintf(out, "Rows of the window since the start: %d, without an index on time:\n", count)
	if int(count) != want {
		return fmt.Errorf("the window holds %d rows, want the %d that were inserted", count, want)
	}
	plan, err := explain(query)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  %s\n\n", strings.Join(plan, "\n  "))
	return nil
}

// showPlot draws how many ids came about in each slice of the time taken.
func showPlot(out io.Writer, flake *gormflake.Plugin, rows []Quake) error {
	layout := flake.Generator().Layout()
	first, last := layout.Decompose(rows[0].ID).Time, layout.Decompose(rows[len(rows)-1].ID).Time
	const slices = 12
	width := max(time.Millisecond, (last.Sub(first)+slices)/slices)
	bars := make([]plot.Bar, slices)
	for i := range bars {
		bars[i].Label = fmt.Sprintf("+%v", (time.Duration(i) * width).Round(time.Microsecond*100))
	}
	for _, row := range rows {
		bars[min(slices-1, int(layout.Decompose(row.ID).Time.Sub(first)/width))].Value++
	}
	fmt.Fprintf(out, "Ids per %v since %s:\n", width.Round(time.Microsecond*100), first.Format("15:04:05.000"))
	plot.Bars(out, bars)
	return nil
}
