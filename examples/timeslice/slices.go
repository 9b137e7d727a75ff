package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/examples/internal/plot"
)

// byDay counts the rows of each calendar day, and their magnitudes.
func byDay(ctx context.Context, out io.Writer, table *gorm.DB, week [2]time.Time, zone *time.Location, want int) error {
	days, err := gormflake.AggregateBy(ctx, table, gormflake.Between(week[0], week[1]), gormflake.Days(zone), "magnitude")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "By day in %s, from one statement over the key's range:\n", zone)
	var bars []plot.Bar
	sum := 0
	for _, d := range days {
		label := d.From.Format(time.DateOnly)
		if d.Max != nil {
			label += fmt.Sprintf("  mean %.1f  strongest %.1f", *d.Avg, *d.Max)
		}
		bars = append(bars, plot.Bar{Label: label, Value: d.Count})
		sum += int(d.Count)
	}
	plot.Bars(out, bars)
	if sum != want {
		return fmt.Errorf("the days hold %d rows, want %d", sum, want)
	}
	return nil
}

// byHour draws the clock hours, those without a row included.
func byHour(ctx context.Context, out io.Writer, table *gorm.DB, week [2]time.Time, zone *time.Location, path string) error {
	hours, err := gormflake.CountBy(ctx, table, gormflake.Between(week[0], week[1]), gormflake.Hours(zone))
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	title := fmt.Sprintf("Earthquakes by hour, %s to %s", hours[0].From.Format(time.DateOnly), hours[len(hours)-1].From.Format(time.DateOnly))
	if err := drawSVG(file, title, hours); err != nil {
		file.Close()
		return err
	}
	fmt.Fprintf(out, "By hour: %d bars, drawn in %s\n", len(hours), path)
	return file.Close()
}

// walk reads the strong ones page by page, newest first, as a client would
// that knows nothing but the last page's cursor.
func walk(ctx context.Context, out io.Writer, table *gorm.DB, flake *gormflake.Plugin) error {
	strong := table.Where("magnitude >= ?", 5.5).Session(&gorm.Session{})
	var want int64
	if err := strong.Count(&want).Error; err != nil {
		return err
	}
	fmt.Fprintf(out, "The %d of magnitude 5.5 and more, newest first, by pages of 5:\n", want)
	args := gormflake.PageArgs{First: 5, Descending: true}
	var seen int64
	for number := 1; ; number++ {
		page, err := gormflake.Page[Quake](ctx, strong, args)
		if err != nil {
			return err
		}
		for _, edge := range page.Edges {
			fmt.Fprintf(out, "  page %d  %s  %s  %.1f  %s\n", number, edge.Cursor,
				flake.Layout().Decompose(edge.Node.ID).Time.Format(time.DateTime), edge.Node.Magnitude, edge.Node.Place)
		}
		seen += int64(len(page.Edges))
		if !page.PageInfo.HasNextPage {
			break
		}
		args.After = page.PageInfo.EndCursor
	}
	if seen != want {
		return fmt.Errorf("the pages hold %d rows, want %d", seen, want)
	}
	return nil
}

// neighbours reads what happened just before and after the strongest one.
func neighbours(out io.Writer, table *gorm.DB) error {
	var strongest Quake
	if err := table.Order("magnitude DESC").Limit(1).Take(&strongest).Error; err != nil {
		return err
	}
	var rows []struct {
		Quake
		At string
	}
	err := table.Select("*, ? AS at", gormflake.TimeOf("id")).Clauses(gormflake.Around(strongest.ID, 3)).Scan(&rows).Error
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "The strongest with the 3 before it and the 3 after, their times computed by the database:")
	for _, row := range rows {
		mark := " "
		if row.ID == strongest.ID {
			mark = "▶"
		}
		fmt.Fprintf(out, "%s %s  %.1f  %s\n", mark, row.At, row.Magnitude, row.Place)
	}
	if len(rows) != 7 {
		return fmt.Errorf("%d rows around the strongest, want 7", len(rows))
	}
	return nil
}

// retain deletes what is older than the last three days, after a look at how
// much that is.
func retain(ctx context.Context, out io.Writer, table *gorm.DB, week [2]time.Time, rows int) error {
	before := week[1].AddDate(0, 0, -3)
	opts := gormflake.RetentionOptions{DryRun: true}
	would, err := gormflake.DeleteBefore(ctx, table, &Quake{}, before, opts)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Before %s there are %d rows; deleting them by ranges of the key:\n", before.Format(time.RFC3339), would.Rows)
	opts = gormflake.RetentionOptions{BatchSize: 400, Progress: func(r gormflake.RetentionResult) {
		fmt.Fprintf(out, "  batch %d: %d deleted, up to id %d\n", r.Batches, r.Rows, r.Last)
	}}
	done, err := gormflake.DeleteBefore(ctx, table, &Quake{}, before, opts)
	if err != nil {
		return err
	}
	var left, young int64
	if err := table.Count(&left).Error; err != nil {
		return err
	}
	if err := table.Where(gormflake.Since(before)).Count(&young).Error; err != nil {
		return err
	}
	fmt.Fprintf(out, "  %d rows are left, all of the last three days.\n", left)
	if done.Rows != would.Rows || left != young || int(left+done.Rows) != rows {
		return fmt.Errorf("deleted %d of %d rows, %d are left and %d of them young; they don't add up to %d", done.Rows, would.Rows, left, young, rows)
	}
	return nil
}
