package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/servers"
)

// The tables hold the same rows. They are as narrow as readings can be: every
// further column takes GORM the same time to scan on all sides.
type (
	// keyedReading has its time in the key, and nowhere else.
	keyedReading struct {
		ID    gormflake.ID `gorm:"primaryKey"`
		Value int64
	}
	// unindexedReading has a created_at too, which is not indexed.
	unindexedReading struct {
		ID        gormflake.ID `gorm:"primaryKey"`
		CreatedAt time.Time
		Value     int64
	}
	// datedReading has an index on it, and is asked by that.
	datedReading struct {
		ID        gormflake.ID `gorm:"primaryKey"`
		CreatedAt time.Time    `gorm:"index"`
		Value     int64
	}
)

const (
	windowShare = 20          // a window is this part of the table: 100,000 rows of 2 million
	windowChunk = 10_000      // rows inserted into one table before the next one's turn
	windowBatch = 1_000       // rows in a statement
	spacing     = time.Second // on average, between two rows
	readers     = 4           // at once, where several read windows
)

// The sides of the comparison.
const (
	keyed = iota
	unindexed
	dated
	sides
)

var sideTables = [sides]string{"keyed_readings", "unindexed_readings", "dated_readings"}

// windows compares time windows over the key with an index on created_at, on
// each server: queries, inserts and size.
func windows(out io.Writer, rounds, rows int) error {
	fmt.Fprintf(out, "Windows by the key against the same table with an indexed created_at, through GORM: %d rows, windows of %d; how many times faster, or smaller; rows are inserted with their ids set\n\n",
		rows, rows/windowShare)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "server\ttable\taggregate\tFind\tFind, %d readers\tcount\tinsert\tsize, of theirs\tms: aggregate\tFind\tFind, %d readers\tinsert/1000\t\n", readers, readers)
	for _, kind := range []servers.Kind{servers.Postgres, servers.MariaDB, servers.MySQL57} {
		c, err := compareWindows(kind, rounds, rows)
		if errors.Is(err, servers.ErrUnavailable) && os.Getenv("GORMFLAKE_REQUIRE_SERVERS") == "" {
			fmt.Fprintf(os.Stderr, "skipped: %v\n", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		for side, name := range [...]string{keyed: "without created_at", unindexed: "created_at, no index"} {
			aggregate, find, crowd, count := c.aggregate.all(), c.find.all(), c.crowd.all(), c.count.all()
			fmt.Fprintf(w, "%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", kind, name,
				aggregate.ratio(side), find.ratio(side), crowd.ratio(side), count.ratio(side), c.insert.ratio(side), float64(c.size[side])/float64(c.size[dated]),
				aggregate.ms(side, windowShare), find.ms(side, windowShare), crowd.ms(side, windowShare), c.insert.ms(side, rows/windowBatch))
		}
	}
	return w.Flush()
}

// versus is the time that each side took.
type versus [sides]time.Duration

// ratio is how many times faster a side is than the index on created_at.
func (v versus) ratio(side int) float64 { return float64(v[dated]) / float64(v[side]) }

func (v versus) ms(side, n int) float64 {
	return float64(v[side].Microseconds()) / 1000 / float64(max(n, 1))
}

// windowTimes are the times that each of the windows took, or each few of them.
type windowTimes []versus

// best keeps the shorter times: other programs can only make a round slower.
func (v *versus) best(took versus) {
	for side, t := range took {
		if old := v[side]; old == 0 || t < old {
			v[side] = t
		}
	}
}

// all is the time that all the windows took.
func (w windowTimes) all() (sum versus) {
	for _, v := range w {
		for side := range v {
			sum[side] += v[side]
		}
	}
	return sum
}

type comparison struct {
	aggregate, find, count windowTimes
	crowd                  windowTimes // Find, by several readers, a window each
	insert                 versus
	size                   [sides]int64 // bytes, with indexes
}

func compareWindows(kind servers.Kind, rounds, rows int) (c comparison, err error) {
	ctx := context.Background()
	settings := []servers.Option{servers.Setting("innodb-buffer-pool-size", "1G"), servers.Setting("innodb-log-file-size", "256M")}
	if kind == servers.Postgres {
		settings = []servers.Option{servers.Setting("shared_buffers", "1GB"), servers.Setting("max_wal_size", "4GB"), servers.Setting("jit", "off")}
	}
	server, err := servers.Start(ctx, kind, settings...)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	db, err := openWindows(ctx, kind, server)
	if err != nil {
		return c, err
	}
	r := rand.New(rand.NewPCG(1, 2))
	first, last, err := fillWindows(db, rows, r, &c)
	if err != nil {
		return c, err
	}
	for side, table := range sideTables {
		if c.size[side], err = tableSize(db, table); err != nil {
			return c, err
		}
	}
	// The windows tile the table, and every round asks for each of them once, in
	// an order of its own: an application's windows move with its clock. Were one
	// asked for several times in a row, InnoDB's adaptive hash index, which MySQL
	// has switched on, would answer from what the time before has built.
	width := last.Sub(first) / windowShare
	c.aggregate, c.find, c.count = make(windowTimes, windowShare), make(windowTimes, windowShare), make(windowTimes, windowShare)
	c.crowd = make(windowTimes, windowShare/readers)
	crowd := make([]pages, readers)
	for range rounds {
		for _, tile := range r.Perm(windowShare) {
			from := first.Add(time.Duration(tile) * width)
			if err := measureWindow(db, from, from.Add(width), tile, r, &crowd[0], &c); err != nil {
				return c, err
			}
		}
		for _, group := range r.Perm(len(c.crowd)) {
			if err := measureCrowd(db, first, width, group, r, crowd, &c); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

func openWindows(ctx context.Context, kind servers.Kind, server *servers.Process) (*gorm.DB, error) {
	config := func() *gorm.Config {
		return &gorm.Config{Logger: logger.Discard, SkipDefaultTransaction: true, PrepareStmt: true}
	}
	dialector := postgres.Open(server.DSN(""))
	if kind != servers.Postgres {
		root, err := gorm.Open(mysql.Open(server.DSN("")), config())
		if err != nil {
			return nil, err
		}
		if err := root.Exec("CREATE DATABASE windows").Error; err != nil {
			return nil, err
		}
		dialector = mysql.Open(server.DSN("windows"))
	}
	db, err := gorm.Open(dialector, config())
	if err != nil {
		return nil, err
	}
	g, err := generator.Open(ctx, generator.Config{Store: lease.Memory(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if err := db.Use(gormflake.New(gormflake.Config{Generator: g})); err != nil {
		return nil, err
	}
	return db, db.AutoMigrate(&keyedReading{}, &unindexedReading{}, &datedReading{})
}

// fillWindows inserts the same rows into all tables, by turns.
func fillWindows(db *gorm.DB, rows int, r *rand.Rand, c *comparison) (first, last time.Time, err error) {
	layout := generator.Standard()
	first = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	last = first
	for done := 0; done < rows; {
		n := min(windowChunk, rows-done)
		keyed, unindexed, dated := make([]keyedReading, n), make([]unindexedReading, n), make([]datedReading, n)
		for i := range dated {
			last = last.Add(time.Duration(r.Int64N(int64(2 * spacing)))).Truncate(time.Millisecond).Add(time.Millisecond)
			id, err := layout.Compose(last, 1, int64(i%4096))
			if err != nil {
				return first, last, err
			}
			dated[i] = datedReading{ID: id, CreatedAt: last, Value: r.Int64N(100_000)}
			unindexed[i] = unindexedReading(dated[i])
			keyed[i] = keyedReading{ID: id, Value: dated[i].Value}
		}
		took, err := race(r, [sides]func() error{
			func() error { return db.CreateInBatches(&keyed, windowBatch).Error },
			func() error { return db.CreateInBatches(&unindexed, windowBatch).Error },
			func() error { return db.CreateInBatches(&dated, windowBatch).Error },
		})
		if err != nil {
			return first, last, err
		}
		for side := range took {
			c.insert[side] += took[side]
		}
		done += n
	}
	pool, err := db.DB() // unprepared: a prepared ANALYZE TABLE never ends on MariaDB
	if err != nil {
		return first, last, err
	}
	analyze := "ANALYZE TABLE "
	if db.Name() == "postgres" {
		analyze = "VACUUM ANALYZE "
	}
	for _, table := range sideTables {
		if _, err := pool.Exec(analyze + table); err != nil {
			return first, last, err
		}
	}
	if db.Name() == "postgres" {
		_, err = pool.Exec("CHECKPOINT")
	}
	return first, last, err
}

func tableSize(db *gorm.DB, table string) (size int64, err error) {
	query := "SELECT DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?"
	if db.Name() == "postgres" {
		query = "SELECT pg_total_relation_size(CAST(? AS text)::regclass)"
	}
	return size, db.Raw(query, table).Scan(&size).Error
}

// window asks one side for a window: by the key, or by created_at.
func window(db *gorm.DB, side int, from, to time.Time) *gorm.DB {
	switch side {
	case keyed:
		return db.Model(&keyedReading{}).Where(gormflake.Between(from, to))
	case unindexed:
		return db.Model(&unindexedReading{}).Where(gormflake.Between(from, to))
	default:
		return db.Model(&datedReading{}).Where("created_at >= ? AND created_at < ?", from, to)
	}
}

// pages are what a reader reads windows into, one after the other, as programs
// do: otherwise most of Find is the growing of a slice.
type pages struct {
	keyed     []keyedReading
	unindexed []unindexedReading
	dated     []datedReading
}

// find reads a window of one side.
func (p *pages) find(db *gorm.DB, side int, from, to time.Time) error {
	into := [sides]any{&p.keyed, &p.unindexed, &p.dated}
	return window(db, side, from, to).Find(into[side]).Error
}

// measureWindow asks all tables for one window.
func measureWindow(db *gorm.DB, from, to time.Time, tile int, r *rand.Rand, p *pages, c *comparison) error {
	type sums struct{ Sum, N, Most int64 }
	var aggregates [sides]sums
	var counts [sides]int64
	const columns = "SUM(value) AS sum, COUNT(*) AS n, MAX(value) AS most"
	for _, m := range []struct {
		into *windowTimes
		run  func(side int) error
	}{
		{&c.aggregate, func(side int) error {
			return window(db, side, from, to).Select(columns).Scan(&aggregates[side]).Error
		}},
		{&c.count, func(side int) error { return window(db, side, from, to).Count(&counts[side]).Error }},
		{&c.find, func(side int) error { return p.find(db, side, from, to) }},
	} {
		var run [sides]func() error
		for side := range run {
			run[side] = func() error { return m.run(side) }
		}
		took, err := race(r, run)
		if err != nil {
			return err
		}
		(*m.into)[tile].best(took)
	}
	found := [sides]int{len(p.keyed), len(p.unindexed), len(p.dated)}
	for side, n := range found {
		if aggregates[side] != aggregates[dated] || counts[side] != int64(n) || aggregates[side].N != int64(n) || n == 0 {
			return fmt.Errorf("the tables hold the same rows, yet a window has %+v, %v and %v", aggregates, counts, found)
		}
	}
	return nil
}

// measureCrowd lets several readers find a window each, far from one another. One
// reader alone leaves most of the machine idle, and while GORM scans a row, the
// server is already reading the next: then the slower of the two is all that is
// seen. With no core to spare, all that either does is.
func measureCrowd(db *gorm.DB, first time.Time, width time.Duration, group int, r *rand.Rand, crowd []pages, c *comparison) error {
	var run [sides]func() error
	for side := range run {
		run[side] = func() error {
			var all errgroup.Group
			for i := range crowd {
				from := first.Add(time.Duration(group+i*windowShare/readers) * width)
				all.Go(func() error { return crowd[i].find(db, side, from, from.Add(width)) })
			}
			return all.Wait()
		}
	}
	took, err := race(r, run)
	if err == nil {
		c.crowd[group].best(took)
	}
	return err
}

// race times all sides, in an order drawn by chance. Each begins without the
// garbage of another.
func race(r *rand.Rand, run [sides]func() error) (took versus, err error) {
	for _, side := range r.Perm(sides) {
		runtime.GC()
		began := time.Now()
		if err := run[side](); err != nil {
			return took, err
		}
		took[side] = time.Since(began)
	}
	return took, nil
}
