package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
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

// keyedReading is a sensor's value, sliced by its key. Its created_at is a
// plain column.
type keyedReading struct {
	ID        gormflake.ID `gorm:"primaryKey"`
	CreatedAt time.Time
	Sensor    int64
	Value     int64
}

// datedReading is the same table with an index on created_at.
type datedReading struct {
	ID        gormflake.ID `gorm:"primaryKey"`
	CreatedAt time.Time    `gorm:"index"`
	Sensor    int64
	Value     int64
}

const (
	windowShare = 20          // a window is this part of the table: 100,000 rows of 2 million
	windowChunk = 10_000      // rows inserted into one table before the other's turn
	windowBatch = 1_000       // rows in a statement
	spacing     = time.Second // on average, between two rows
	readers     = 4           // at once, where several read windows
)

// windows compares time windows over the key with an index on created_at, on
// each server: queries, inserts and size.
func windows(out io.Writer, rounds, rows int) error {
	fmt.Fprintf(out, "Windows by the key against an indexed created_at, through GORM: %d rows, windows of %d; how many times faster, or smaller\n\n",
		rows, rows/windowShare)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "server\taggregate\tFind\tFind, %d readers\tcount\tinsert\tsize, of theirs\tms: aggregate\tFind\tFind, %d readers\tinsert/1000\t\n", readers, readers)
	for _, kind := range []servers.Kind{servers.Postgres, servers.MariaDB, servers.MySQL57} {
		c, err := compareWindows(kind, rounds, rows)
		if errors.Is(err, servers.ErrUnavailable) && os.Getenv("GORMFLAKE_REQUIRE_SERVERS") == "" {
			fmt.Fprintf(os.Stderr, "skipped: %v\n", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", kind,
			c.aggregate.all().ratio(), c.find.all().ratio(), c.crowd.all().ratio(), c.count.all().ratio(), c.insert.ratio(), float64(c.size[0])/float64(c.size[1]),
			c.aggregate.all().ms(windowShare), c.find.all().ms(windowShare), c.crowd.all().ms(windowShare), c.insert.ms(rows/windowBatch))
	}
	return w.Flush()
}

// versus is the time that both sides took: ours and theirs.
type versus [2]time.Duration

func (v versus) ratio() float64   { return float64(v[1]) / float64(v[0]) }
func (v versus) ms(n int) float64 { return float64(v[0].Microseconds()) / 1000 / float64(max(n, 1)) }

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
		sum[0], sum[1] = sum[0]+v[0], sum[1]+v[1]
	}
	return sum
}

type comparison struct {
	aggregate, find, count windowTimes
	crowd                  windowTimes // Find, by several readers, a window each
	insert                 versus
	size                   [2]int64 // bytes, with indexes
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
	first, last, err := fillWindows(db, rows, &c)
	if err != nil {
		return c, err
	}
	for i, table := range []string{"keyed_readings", "dated_readings"} {
		if c.size[i], err = tableSize(db, table); err != nil {
			return c, err
		}
	}
	// The windows tile the table, and every round asks for each of them once, in
	// an order of its own: an application's windows move with its clock. Were one
	// asked for several times in a row, InnoDB's adaptive hash index, which MySQL
	// has switched on, would answer from what the time before has built.
	width := last.Sub(first) / windowShare
	r := rand.New(rand.NewPCG(1, 2))
	c.aggregate, c.find, c.count = make(windowTimes, windowShare), make(windowTimes, windowShare), make(windowTimes, windowShare)
	c.crowd = make(windowTimes, windowShare/readers)
	crowd := make([]pages, readers)
	for round := range rounds {
		for turn, tile := range r.Perm(windowShare) {
			from := first.Add(time.Duration(tile) * width)
			if err := measureWindow(db, from, from.Add(width), tile, round+turn, &crowd[0], &c); err != nil {
				return c, err
			}
		}
		for turn, group := range r.Perm(len(c.crowd)) {
			if err := measureCrowd(db, first, width, group, round+turn, crowd, &c); err != nil {
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
	return db, db.AutoMigrate(&keyedReading{}, &datedReading{})
}

// fillWindows inserts the same rows into both tables, by turns.
func fillWindows(db *gorm.DB, rows int, c *comparison) (first, last time.Time, err error) {
	layout := generator.Standard()
	r := rand.New(rand.NewPCG(3, 4))
	first = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	last = first
	for done, turn := 0, 0; done < rows; turn++ {
		n := min(windowChunk, rows-done)
		ours, theirs := make([]keyedReading, n), make([]datedReading, n)
		for i := range ours {
			last = last.Add(time.Duration(r.Int64N(int64(2 * spacing)))).Truncate(time.Millisecond).Add(time.Millisecond)
			id, err := layout.Compose(last, 1, int64(i%4096))
			if err != nil {
				return first, last, err
			}
			ours[i] = keyedReading{ID: id, CreatedAt: last, Sensor: r.Int64N(1000), Value: r.Int64N(100_000)}
			theirs[i] = datedReading(ours[i])
		}
		took, err := versusOf([2]func() error{
			func() error { return db.CreateInBatches(&ours, windowBatch).Error },
			func() error { return db.CreateInBatches(&theirs, windowBatch).Error },
		}, turn)
		if err != nil {
			return first, last, err
		}
		c.insert[0], c.insert[1] = c.insert[0]+took[0], c.insert[1]+took[1]
		done += n
	}
	analyze := []string{"ANALYZE TABLE keyed_readings", "ANALYZE TABLE dated_readings"}
	if db.Name() == "postgres" {
		analyze = []string{"VACUUM ANALYZE keyed_readings", "VACUUM ANALYZE dated_readings", "CHECKPOINT"}
	}
	pool, err := db.DB() // unprepared: a prepared ANALYZE TABLE never ends on MariaDB
	if err != nil {
		return first, last, err
	}
	for _, statement := range analyze {
		if _, err := pool.Exec(statement); err != nil {
			return first, last, err
		}
	}
	return first, last, nil
}

func tableSize(db *gorm.DB, table string) (size int64, err error) {
	query := "SELECT DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?"
	if db.Name() == "postgres" {
		query = "SELECT pg_total_relation_size(CAST(? AS text)::regclass)"
	}
	return size, db.Raw(query, table).Scan(&size).Error
}

// keyedWindow asks for a window by the key, datedWindow by created_at.
func keyedWindow(db *gorm.DB, from, to time.Time) *gorm.DB {
	return db.Model(&keyedReading{}).Where(gormflake.Between(from, to))
}

func datedWindow(db *gorm.DB, from, to time.Time) *gorm.DB {
	return db.Model(&datedReading{}).Where("created_at >= ? AND created_at < ?", from, to)
}

// pages are what a reader reads windows into, one after the other, as programs
// do: otherwise most of Find is the growing of a slice.
type pages struct {
	ours   []keyedReading
	theirs []datedReading
}

// measureWindow asks both tables for one window. An even turn asks ours first.
func measureWindow(db *gorm.DB, from, to time.Time, tile, turn int, p *pages, c *comparison) error {
	type sums struct{ Sum, N, Most int64 }
	var aggregates [2]sums
	var counts [2]int64
	keyed := func() *gorm.DB { return keyedWindow(db, from, to) }
	dated := func() *gorm.DB { return datedWindow(db, from, to) }
	const columns = "SUM(value) AS sum, COUNT(*) AS n, MAX(sensor) AS most"
	for _, m := range []struct {
		into *windowTimes
		run  [2]func() error
	}{
		{&c.aggregate, [2]func() error{
			func() error { return keyed().Select(columns).Scan(&aggregates[0]).Error },
			func() error { return dated().Select(columns).Scan(&aggregates[1]).Error },
		}},
		{&c.count, [2]func() error{
			func() error { return keyed().Count(&counts[0]).Error },
			func() error { return dated().Count(&counts[1]).Error },
		}},
		{&c.find, [2]func() error{
			func() error { return keyed().Find(&p.ours).Error },
			func() error { return dated().Find(&p.theirs).Error },
		}},
	} {
		took, err := versusOf(m.run, turn)
		if err != nil {
			return err
		}
		(*m.into)[tile].best(took)
	}
	if n := int64(len(p.ours)); aggregates[0] != aggregates[1] || counts[0] != counts[1] || len(p.ours) != len(p.theirs) || n != counts[0] || n != aggregates[0].N || n == 0 {
		return fmt.Errorf("both tables hold the same rows, yet a window has %+v, %v, %d and %d", aggregates, counts, len(p.ours), len(p.theirs))
	}
	return nil
}

// measureCrowd lets several readers find a window each, far from one another. One
// reader alone leaves most of the machine idle, and while GORM scans a row, the
// server is already reading the next: then the slower of the two is all that is
// seen. With no core to spare, all that either does is.
func measureCrowd(db *gorm.DB, first time.Time, width time.Duration, group, turn int, crowd []pages, c *comparison) error {
	read := func(find func(p *pages, from, to time.Time) error) func() error {
		return func() error {
			var all errgroup.Group
			for i := range crowd {
				from := first.Add(time.Duration(group+i*windowShare/readers) * width)
				all.Go(func() error { return find(&crowd[i], from, from.Add(width)) })
			}
			return all.Wait()
		}
	}
	took, err := versusOf([2]func() error{
		read(func(p *pages, from, to time.Time) error { return keyedWindow(db, from, to).Find(&p.ours).Error }),
		read(func(p *pages, from, to time.Time) error { return datedWindow(db, from, to).Find(&p.theirs).Error }),
	}, turn)
	if err == nil {
		c.crowd[group].best(took)
	}
	return err
}

// versusOf times both sides, ours first in an even turn.
func versusOf(run [2]func() error, turn int) (took versus, err error) {
	for side := range took {
		side ^= turn & 1
		if took[side], err = timed(run[side]); err != nil {
			return took, err
		}
	}
	return took, nil
}

func timed(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}
