package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/examples/internal/plot"
)

// numberByTheirTime gives each row an id of its own time, from worker ids that
// no live generator uses. The plugin keeps ids that are set.
func numberByTheirTime(ctx context.Context, flake *gormflake.Plugin, rows []Quake, times []time.Time) error {
	first, last := times[0], times[0]
	for _, t := range times {
		if t.Before(first) {
			first = t
		}
		if t.After(last) {
			last = t
		}
	}
	backfill, err := flake.Generator().Backfill(ctx, first, last.Add(time.Millisecond))
	if err != nil {
		return err
	}
	defer backfill.Close(ctx)
	for i := range rows {
		if rows[i].ID, err = backfill.Next(ctx, times[i]); err != nil {
			return err
		}
	}
	return nil
}

// sliceByDay counts each day's rows through the primary key, and compares
// with the data.
func sliceByDay(out io.Writer, table *gorm.DB, times []time.Time) error {
	want, first, last := map[string]int64{}, times[0], times[0]
	for _, t := range times {
		want[t.Format(time.DateOnly)]++
		if t.Before(first) {
			first = t
		}
		if t.After(last) {
			last = t
		}
	}
	table = table.Session(&gorm.Session{})
	var bars []plot.Bar
	for day := first.Truncate(24 * time.Hour); !day.After(last); day = day.AddDate(0, 0, 1) {
		bar := plot.Bar{Label: day.Format(time.DateOnly)}
		if err := table.Model(&Quake{}).Where(gormflake.On(day)).Count(&bar.Value).Error; err != nil {
			return err
		}
		if bar.Value != want[bar.Label] {
			return fmt.Errorf("%s holds %d rows, want %d", bar.Label, bar.Value, want[bar.Label])
		}
		bars = append(bars, bar)
	}
	fmt.Fprintln(out, "Earthquakes by day (UTC), counted by ranges of the primary key:")
	plot.Bars(out, bars)
	return nil
}
