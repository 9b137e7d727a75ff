// Timeslice cuts a week of real earthquakes by the time in their primary keys:
// by day and by hour, page by page, around one event, and off at the old end.
// The table has no column of time and no index but its key.
//
//	go run ./examples/timeslice                        # embedded SQLite, nothing else needed
//	go run ./examples/timeslice -zone Asia/Tokyo       # the days of another place
//	go run ./examples/timeslice -svg quakes.svg        # where to draw the plot
//	go run ./examples/timeslice -dsn postgres://postgres@127.0.0.1/test
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/examples/internal/database"
	"github.com/gormflake/gormflake/examples/internal/quakes"
)

// Quake is a row. When it happened is in its key.
type Quake struct {
	ID        gormflake.ID `gorm:"primaryKey"`
	Event     string       `gorm:"size:32"`
	Magnitude float64
	Place     string `gorm:"size:200"`
}

type options struct {
	dsn, svg, zone string
}

func main() {
	var o options
	flag.StringVar(&o.dsn, "dsn", "", database.Flag)
	flag.StringVar(&o.svg, "svg", filepath.Join(os.TempDir(), "timeslice.svg"), "`file` to draw the plot by hours into")
	flag.StringVar(&o.zone, "zone", "UTC", "the time `zone` whose days are counted")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "timeslice:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, o options) (err error) {
	zone, err := time.LoadLocation(o.zone)
	if err != nil {
		return fmt.Errorf("-zone wants a name such as Europe/Berlin: %w", err)
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
	flake := gormflake.New(gormflake.Config{})
	if err := db.Use(flake); err != nil {
		return err
	}
	if err := flake.Start(ctx); err != nil {
		return err
	}
	defer flake.Close(ctx)

	// A table of its own name, so that the example never touches one of yours.
	name := fmt.Sprintf("timeslice_quakes_%d", os.Getpid())
	if err := db.Table(name).AutoMigrate(&Quake{}); err != nil {
		return err
	}
	defer db.Migrator().DropTable(name)
	// Session makes the value one to start any number of statements from.
	table := db.WithContext(ctx).Table(name).Model(&Quake{}).Session(&gorm.Session{})
	rows, err := insert(ctx, table, flake)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Inserted %d earthquakes into %s, each with an id of its own time.\n", rows, db.Name())

	week, err := theWeek(table, flake, zone)
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return byDay(ctx, out, table, week, zone, rows) },
		func() error { return byHour(ctx, out, table, week, zone, o.svg) },
		func() error { return walk(ctx, out, table, flake) },
		func() error { return neighbours(out, table) },
		func() error { return retain(ctx, out, table, week, rows) },
	} {
		fmt.Fprintln(out)
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// insert gives each event an id of the time at which it happened, from worker
// ids that no live generator uses. The plugin keeps ids that are set.
func insert(ctx context.Context, table *gorm.DB, flake *gormflake.Plugin) (int, error) {
	events, err := quakes.Load() // oldest first
	if err != nil {
		return 0, err
	}
	backfill, err := flake.Generator().Backfill(ctx, events[0].Time, events[len(events)-1].Time.Add(time.Millisecond))
	if err != nil {
		return 0, err
	}
	defer backfill.Close(ctx)
	rows := make([]Quake, len(events))
	for i, e := range events {
		id, err := backfill.Next(ctx, e.Time)
		if err != nil {
			return 0, err
		}
		rows[i] = Quake{ID: id, Event: e.Event, Magnitude: e.Magnitude, Place: e.Place}
	}
	return len(rows), table.CreateInBatches(&rows, 200).Error
}

// theWeek is the window from the first row's day to the last row's.
func theWeek(table *gorm.DB, flake *gormflake.Plugin, zone *time.Location) (week [2]time.Time, err error) {
	for i, cursor := range []gormflake.Cursor{gormflake.After(0), gormflake.Before(0)} {
		var row Quake
		if err := table.Clauses(cursor).Take(&row).Error; err != nil {
			return week, err
		}
		week[i] = flake.Layout().Decompose(row.ID).Time.In(zone)
	}
	week[0] = time.Date(week[0].Year(), week[0].Month(), week[0].Day(), 0, 0, 0, 0, zone)
	week[1] = time.Date(week[1].Year(), week[1].Month(), week[1].Day()+1, 0, 0, 0, 0, zone)
	return week, nil
}
