package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/gormflake/gormflake/examples/internal/quakes"
	"github.com/gormflake/gormflake/migrate"
)

// Quake is the table as the new program sees it: plain bools.
type Quake struct {
	ID       int64
	Event    string
	Place    string
	Reviewed bool
	Felt     bool
}

// TableName is the old program's name for it.
func (Quake) TableName() string { return table }

type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

type poolCloser interface {
	queryer
	Close() error
}

// programs are what goes on working: an old writer, a new writer and a new
// reader, each with its own connections as in processes of their own.
type programs struct {
	todo    chan quakes.Quake
	known   map[string]quakes.Quake
	count   atomic.Int64
	cancel  context.CancelFunc
	old     context.CancelFunc
	oldDone chan struct{}
	writer  sync.WaitGroup
	reader  sync.WaitGroup
	pools   []poolCloser

	mu   sync.Mutex
	done []string // events whose last write has been acknowledged
	errs []error
}

// start launches them. Each takes the next earthquake and writes it twice: first
// as it came in, then with the seismologists' review.
func start(ctx context.Context, dsn string, all []quakes.Quake) (*programs, error) {
	ctx, cancel := context.WithCancel(ctx)
	oldContext, retire := context.WithCancel(ctx)
	p := &programs{todo: make(chan quakes.Quake, len(all)), known: map[string]quakes.Quake{}, cancel: cancel, old: retire, oldDone: make(chan struct{})}
	for _, q := range all {
		p.known[q.Event] = q
		p.todo <- q
	}
	close(p.todo)
	oldWrite, err := p.oldProgram(dsn)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	newWrite, newRead, err := p.newProgram(dsn)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	p.writer.Go(func() {
		defer close(p.oldDone)
		p.work(oldContext, "the old program", oldWrite)
	})
	p.writer.Go(func() { p.work(ctx, "the new program", newWrite) })
	p.reader.Go(func() { p.read(ctx, newRead) })
	return p, nil
}

// oldProgram speaks labels, in plain SQL.
func (p *programs) oldProgram(dsn string) (func(quakes.Quake) error, error) {
	db, pool, err := open(dsn)
	if err != nil {
		return nil, err
	}
	p.pools = append(p.pools, pool)
	label := map[bool]string{false: "N", true: "Y"}
	return func(q quakes.Quake) error {
		if err := db.Exec("INSERT INTO "+table+" (event, place, felt) VALUES (?, ?, ?)", q.Event, q.Place, label[q.Felt]).Error; err != nil {
			return err
		}
		return db.Exec("UPDATE "+table+" SET reviewed = ? WHERE event = ?", label[q.Reviewed], q.Event).Error
	}, nil
}

// newProgram speaks bools. The codec is all that it has; of the migration it
// knows nothing, and it isn't restarted.
func (p *programs) newProgram(dsn string) (write func(quakes.Quake) error, read func() ([]Quake, error), err error) {
	db, pool, err := open(dsn)
	if err != nil {
		return nil, nil, err
	}
	p.pools = append(p.pools, pool)
	if err := db.Use(migrate.LegacyBools(&Quake{}).Logger(slog.New(slog.DiscardHandler))); err != nil {
		return nil, nil, err
	}
	write = func(q quakes.Quake) error {
		row := Quake{Event: q.Event, Place: q.Place, Felt: q.Felt}
		if err := db.Create(&row).Error; err != nil {
			return err
		}
		return db.Model(&row).Update("reviewed", q.Reviewed).Error
	}
	read = func() (rows []Quake, err error) {
		return rows, db.Where("felt = ?", true).Find(&rows).Error
	}
	return write, read, nil
}

// work writes one earthquake after the other, some hundred a second.
func (p *programs) work(ctx context.Context, who string, write func(quakes.Quake) error) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		q, ok := <-p.todo
		if !ok {
			return
		}
		if err := write(q); err != nil {
			p.fail(fmt.Errorf("%s, event %s: %w", who, q.Event, err))
			return
		}
		p.mu.Lock()
		p.done = append(p.done, q.Event)
		p.mu.Unlock()
		p.count.Add(1)
	}
}

// read looks for the felt earthquakes again and again: each that comes must have
// been felt, and each that was written before must come.
func (p *programs) read(ctx context.Context, felt func() ([]Quake, error)) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		before := len(p.done)
		p.mu.Unlock()
		rows, err := felt()
		if err != nil {
			p.fail(fmt.Errorf("the reader: %w", err))
			return
		}
		came := map[string]bool{}
		for _, r := range rows {
			if came[r.Event] = true; !r.Felt || !p.known[r.Event].Felt {
				p.fail(fmt.Errorf("the reader: event %s came as felt, which it was not", r.Event))
				return
			}
		}
		p.mu.Lock()
		for _, event := range p.done[:before] {
			if p.known[event].Felt && !came[event] {
				p.errs = append(p.errs, fmt.Errorf("the reader: event %s was felt and written, and did not come", event))
				p.mu.Unlock()
				return
			}
		}
		p.mu.Unlock()
	}
}

func (p *programs) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, err)
}

func (p *programs) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.errs...)
}

func (p *programs) written() int64 { return p.count.Load() }

// progress waits until n more earthquakes have been written, or all of them.
func (p *programs) progress(ctx context.Context, n int64) error {
	goal := min(p.written()+n, int64(len(p.known)))
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for p.written() < goal {
		if err := p.failed(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// retire stops the old program between two earthquakes.
func (p *programs) retire(ctx context.Context) error {
	p.old()
	select {
	case <-p.oldDone:
		return p.failed()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish waits for the last earthquake.
func (p *programs) finish(ctx context.Context) error {
	if err := p.progress(ctx, int64(len(p.known))); err != nil {
		return err
	}
	p.writer.Wait()
	p.cancel()
	p.reader.Wait()
	return p.failed()
}

func (p *programs) stop() error {
	p.cancel()
	p.writer.Wait()
	p.reader.Wait()
	var errs []error
	for _, pool := range p.pools {
		errs = append(errs, pool.Close())
	}
	p.pools = nil
	return errors.Join(errs...)
}

// withDatabase names a database in a data source name.
func withDatabase(dsn, name string) (string, error) {
	c, err := driver.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	c.DBName = name
	return c.FormatDSN(), nil
}
