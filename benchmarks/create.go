package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/glebarez/sqlite"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/internal/servers"
)

// The three ways to number the same rows. Their tables differ in nothing but
// the key's definition.
type (
	// presetRow has ids before Create is called: the floor.
	presetRow struct {
		ID   gormflake.ID `gorm:"primaryKey"`
		Name string       `gorm:"size:64"`
		N    int
	}
	// flakeRow has ids from the plugin.
	flakeRow struct {
		ID   gormflake.ID `gorm:"primaryKey"`
		Name string       `gorm:"size:64"`
		N    int
	}
	// autoRow has ids from the database.
	autoRow struct {
		ID   int64  `gorm:"primaryKey;autoIncrement"`
		Name string `gorm:"size:64"`
		N    int
	}
)

// singles is how many rows are created one by one in a round.
const singles = 300

// times are the medians that count, per row.
type times struct{ preset, flake, auto []time.Duration }

func (t times) ratios() (toPreset, toAuto float64) {
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2])
	}
	f := median(t.flake)
	return f / median(t.preset), f / median(t.auto)
}

// create measures db.Create and CreateInBatches on each database. The three
// ways take turns, in small portions, so that the machine's noise falls on
// all of them.
func create(out io.Writer, rounds, rows int) error {
	fmt.Fprintf(out, "Creating rows, medians of %d rounds; the plugin as a ratio to rows with preset ids (the floor) and to the database's own numbering\n\n", rounds*5)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "database\tCreate: to preset\tto auto-increment\tCreateInBatches(%d): to preset\tto auto-increment\t\n", rows)
	for _, kind := range []servers.Kind{servers.SQLite, servers.Postgres, servers.MariaDB} {
		single, batch, err := createOn(kind, rounds, rows)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		a, b := single.ratios()
		c, d := batch.ratios()
		fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%.3f\t%.3f\t\n", kind, a, b, c, d)
	}
	return w.Flush()
}

func createOn(kind servers.Kind, rounds, rows int) (single, batch times, err error) {
	pool, done, err := open(kind)
	if err != nil {
		return single, batch, err
	}
	defer done()
	// Two handles on one pool: the floor has no plugin in its callbacks.
	plain, err := gorm.Open(dialector(kind, pool), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return single, batch, err
	}
	flaked, err := gorm.Open(dialector(kind, pool), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return single, batch, err
	}
	flake := gormflake.New(gormflake.Config{Logger: slog.New(slog.DiscardHandler)})
	ctx := context.Background()
	if err := flaked.Use(flake); err != nil {
		return single, batch, err
	}
	if err := flake.Start(ctx); err != nil {
		return single, batch, err
	}
	defer flake.Close(ctx)
	if err := plain.AutoMigrate(&presetRow{}, &flakeRow{}, &autoRow{}); err != nil {
		return single, batch, err
	}
	bench := &bench{plain: plain, flaked: flaked, generator: flake.Generator()}
	for range rounds * 5 {
		if err := bench.add(&single, singles, 1); err != nil {
			return single, batch, err
		}
		if err := bench.add(&batch, rows, rows); err != nil {
			return single, batch, err
		}
	}
	return single, batch, nil
}

// bench is one database, with and without the plugin.
type bench struct {
	plain, flaked *gorm.DB
	generator     *generator.Generator
	turn          int
}

// add creates n rows in each of the three ways, size rows a statement.
func (b *bench) add(t *times, n, size int) error {
	preset, flaked, auto := make([]presetRow, n), make([]flakeRow, n), make([]autoRow, n)
	ids := make([]gormflake.ID, n)
	if err := b.generator.Fill(context.Background(), ids); err != nil {
		return err
	}
	for i := range n {
		name := fmt.Sprintf("row %d", i)
		preset[i] = presetRow{ID: ids[i], Name: name, N: i}
		flaked[i] = flakeRow{Name: name, N: i}
		auto[i] = autoRow{Name: name, N: i}
	}
	for i := 0; i < n; i += size {
		ways := []struct {
			into *[]time.Duration
			db   *gorm.DB
			rows any
		}{
			{&t.preset, b.plain, portion(preset, i, size)},
			{&t.flake, b.flaked, portion(flaked, i, size)},
			{&t.auto, b.plain, portion(auto, i, size)},
		}
		// Another one begins each time: none has the better place for good.
		b.turn++
		for k := range ways {
			way := ways[(k+b.turn)%len(ways)]
			began := time.Now()
			if err := way.db.Create(way.rows).Error; err != nil {
				return err
			}
			*way.into = append(*way.into, time.Since(began))
		}
	}
	return nil
}

// portion is one row, or a slice of them, as db.Create takes it.
func portion[T any](rows []T, i, size int) any {
	if size == 1 {
		return &rows[i]
	}
	part := rows[i:min(i+size, len(rows))]
	return &part
}

// open returns a pool on an embedded or a private, fresh server.
func open(kind servers.Kind) (*sql.DB, func(), error) {
	if kind == servers.SQLite {
		pool, err := sql.Open(sqlite.DriverName, ":memory:")
		if err != nil {
			return nil, nil, err
		}
		pool.SetMaxOpenConns(1)
		return pool, func() { _ = pool.Close() }, nil
	}
	process, err := servers.Start(context.Background(), kind)
	if err != nil {
		return nil, nil, err
	}
	driver, database := "pgx", "postgres"
	if kind.IsMySQL() {
		driver, database = "mysql", "mysql"
	}
	pool, err := sql.Open(driver, process.DSN(database))
	if err != nil {
		_ = process.Close()
		return nil, nil, err
	}
	return pool, func() {
		_ = pool.Close()
		_ = process.Close()
	}, nil
}

func dialector(kind servers.Kind, pool *sql.DB) gorm.Dialector {
	switch kind {
	case servers.SQLite:
		return &sqlite.Dialector{DriverName: sqlite.DriverName, Conn: pool}
	case servers.Postgres:
		return postgres.New(postgres.Config{Conn: pool})
	default:
		return mysql.New(mysql.Config{Conn: pool})
	}
}
