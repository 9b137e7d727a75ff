package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
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

// The ways to number the same rows. Their tables differ in nothing but
// the key's definition.
type (
	// presetRow has ids before Create is called: the floor.
	presetRow struct {
		ID   gormflake.ID `gorm:"primaryKey"`
		Name string       `gorm:"size:64"`
		N    int
	}
	// againRow is presetRow once more: what its times differ by is the machine's noise.
	againRow struct {
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

const (
	singles = 3000 // rows created one by one in a round
	stretch = 20   // of them by one way, before it is another's turn
	batches = 10   // batches created in a round
)

// turn is how long each way took for the same rows, one right after the other.
type turn struct{ preset, again, flake, auto time.Duration }

// turns are the turns of one kind of create.
type turns []turn

// ratio is the median, over the turns, of what one way took of another's time.
// What disturbs the machine for longer than a turn falls on both.
func (t turns) ratio(of, to func(turn) time.Duration) float64 {
	ratios := make([]float64, len(t))
	for i := range t {
		ratios[i] = float64(of(t[i])) / float64(to(t[i]))
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

func (t turns) print(w io.Writer) {
	preset := func(t turn) time.Duration { return t.preset }
	again := func(t turn) time.Duration { return t.again }
	flake := func(t turn) time.Duration { return t.flake }
	auto := func(t turn) time.Duration { return t.auto }
	fmt.Fprintf(w, "%.3f\t%.3f\t%.3f\t", t.ratio(flake, preset), t.ratio(again, preset), t.ratio(flake, auto))
}

// create measures db.Create and CreateInBatches on each database. The ways take
// turns, in small stretches, so that the machine's noise falls on all of them. The
// floor has two turns: what its second one takes of the first is that noise.
//
// A stretch is more than a row, since a program does not change its way from row
// to row: GORM's code, which all ways run, would be in the processor's caches and
// the plugin's, which one in four runs, would not.
func create(out io.Writer, rounds, rows int) error {
	fmt.Fprintf(out, "Creating rows: what the plugin takes of the time of rows with preset ids (the floor), what the floor itself takes of that when it is measured again, and what the plugin takes of the database's own numbering; medians of %d turns of %d rows one by one, and of %d batches\n\n",
		rounds*singles/stretch, stretch, rounds*batches)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "database\tCreate: to preset\tpreset again\tto auto-increment\tCreateInBatches(%d): to preset\tpreset again\tto auto-increment\t\n", rows)
	for _, on := range []struct {
		name string
		kind servers.Kind
		file bool
	}{
		{"sqlite, in memory", servers.SQLite, false},
		{"sqlite, in a file", servers.SQLite, true},
		{"postgres", servers.Postgres, false},
		{"mariadb", servers.MariaDB, false},
	} {
		single, batch, err := createOn(on.kind, on.file, rounds, rows)
		if err != nil {
			return fmt.Errorf("%s: %w", on.name, err)
		}
		fmt.Fprintf(w, "%s\t", on.name)
		single.print(w)
		batch.print(w)
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func createOn(kind servers.Kind, file bool, rounds, rows int) (single, batch turns, err error) {
	pool, done, err := open(kind, file)
	if err != nil {
		return single, batch, err
	}
	defer done()
	// A handle for each way, on one pool: the floor has no plugin in its
	// callbacks, and none finds what another has left in the processor's caches.
	var handles [4]*gorm.DB
	for i := range handles {
		if handles[i], err = gorm.Open(dialector(kind, pool), &gorm.Config{Logger: logger.Discard}); err != nil {
			return single, batch, err
		}
	}
	bench := &bench{preset: handles[0], again: handles[1], flaked: handles[2], auto: handles[3], order: rand.New(rand.NewPCG(5, 6))}
	flake := gormflake.New(gormflake.Config{Logger: slog.New(slog.DiscardHandler)})
	ctx := context.Background()
	if err := bench.flaked.Use(flake); err != nil {
		return single, batch, err
	}
	if err := flake.Start(ctx); err != nil {
		return single, batch, err
	}
	defer flake.Close(ctx)
	bench.generator = flake.Generator()
	if err := bench.auto.AutoMigrate(&presetRow{}, &againRow{}, &flakeRow{}, &autoRow{}); err != nil {
		return single, batch, err
	}
	for range rounds * 5 {
		for range singles / 5 / stretch {
			if err := bench.add(&single, stretch, 1); err != nil {
				return single, batch, err
			}
		}
		for range batches / 5 {
			if err := bench.add(&batch, rows, rows); err != nil {
				return single, batch, err
			}
		}
	}
	return single, batch, nil
}

// bench is one database, and a handle on it for each way.
type bench struct {
	preset, again, flaked, auto *gorm.DB
	generator                   *generator.Generator
	order                       *rand.Rand
}

// add lets each way create n rows, size rows a statement: one turn.
func (b *bench) add(all *turns, n, size int) error {
	preset, again, flaked, auto := make([]presetRow, n), make([]againRow, n), make([]flakeRow, n), make([]autoRow, n)
	ids := make([]gormflake.ID, 2*n)
	if err := b.generator.Fill(context.Background(), ids); err != nil {
		return err
	}
	for i := range n {
		name := fmt.Sprintf("row %d", i)
		preset[i] = presetRow{ID: ids[i], Name: name, N: i}
		again[i] = againRow{ID: ids[n+i], Name: name, N: i}
		flaked[i] = flakeRow{Name: name, N: i}
		auto[i] = autoRow{Name: name, N: i}
	}
	var t turn
	ways := []struct {
		took *time.Duration
		db   *gorm.DB
		rows []any
	}{
		{&t.preset, b.preset, portions(preset, size)},
		{&t.flake, b.flaked, portions(flaked, size)},
		{&t.again, b.again, portions(again, size)},
		{&t.auto, b.auto, portions(auto, size)},
	}
	// By chance: a way takes longer after one than after another.
	for _, k := range b.order.Perm(len(ways)) {
		way := ways[k]
		if size > 1 {
			runtime.GC() // the garbage of the batch before is not this one's
		}
		began := time.Now()
		for _, rows := range way.rows {
			if err := way.db.Create(rows).Error; err != nil {
				return err
			}
		}
		*way.took = time.Since(began)
	}
	*all = append(*all, t)
	return nil
}

// portions are the rows as db.Create takes them: one by one, or in slices.
func portions[T any](rows []T, size int) []any {
	all := make([]any, 0, len(rows)/size+1)
	for i := 0; i < len(rows); i += size {
		if size == 1 {
			all = append(all, &rows[i])
			continue
		}
		part := rows[i:min(i+size, len(rows))]
		all = append(all, &part)
	}
	return all
}

// open returns a pool on an embedded or a private, fresh server.
func open(kind servers.Kind, file bool) (*sql.DB, func(), error) {
	if kind == servers.SQLite {
		return openSQLite(file)
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

func openSQLite(file bool) (*sql.DB, func(), error) {
	dsn, remove := ":memory:", func() {}
	if file {
		directory, err := os.MkdirTemp("", "gormflake")
		if err != nil {
			return nil, nil, err
		}
		remove = func() { _ = os.RemoveAll(directory) }
		dsn = filepath.Join(directory, "create.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"
	}
	pool, err := sql.Open(sqlite.DriverName, dsn)
	if err != nil {
		remove()
		return nil, nil, err
	}
	pool.SetMaxOpenConns(1)
	return pool, func() {
		_ = pool.Close()
		remove()
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
