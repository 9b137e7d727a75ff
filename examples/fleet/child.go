//go:build unix

package main

import (
	"context"
	"encoding/gob"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gormflake/gormflake/examples/internal/database"
	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/redislease"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
)

// report is what a child tells the parent: ids that it has made, and how it is.
type report struct {
	State  string
	Worker int64
	Term   int64
	IDs    []int64
}

const (
	workers = 8 // as many worker ids as processes, so that newcomers must take over
	burst   = 200
	pace    = 10 * time.Millisecond
	window  = time.Second // a row is free 1.5 s after its last extension
)

// runChild makes ids until SIGTERM or the end of the parent, and tells the
// parent each one.
func runChild(ctx context.Context, o options) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	out := gob.NewEncoder(os.Stdout)
	store, done, err := openStore(o.dsn)
	for err != nil { // a SQLite file may be busy for a while
		if err := out.Encode(report{State: err.Error(), Worker: -1}); err != nil || !sleep(ctx, 100*time.Millisecond) {
			return err
		}
		store, done, err = openStore(o.dsn)
	}
	defer done()
	var g *generator.Generator
	for g == nil {
		g, err = generator.Open(ctx, generator.Config{Store: store, Namespace: "fleet", Logger: slog.New(slog.DiscardHandler)})
		if errors.Is(err, generator.ErrNoWorker) {
			err = out.Encode(report{State: "no worker id is free", Worker: -1})
		}
		if err != nil || !sleep(ctx, 100*time.Millisecond) {
			return err
		}
	}
	ids := make([]generator.ID, burst)
	for sleep(ctx, pace) {
		var r report
		if err := g.Fill(ctx, ids); err == nil {
			for _, id := range ids {
				r.IDs = append(r.IDs, id.Int64())
			}
		}
		s := g.Stats()
		r.State, r.Worker, r.Term = string(s.State), s.Worker, s.Term
		if err := out.Encode(r); err != nil {
			return ignoreClosed(err)
		}
	}
	return g.Close(context.WithoutCancel(ctx))
}

// openStore leases one of eight worker ids with a short window, so that the
// story fits into seconds.
func openStore(dsn string) (lease.Store, func(), error) {
	options := []lease.Option{lease.Workers(0, workers-1), lease.Window(window)}
	if strings.HasPrefix(dsn, "redis://") {
		parsed, err := redis.ParseURL(dsn)
		if err != nil {
			return nil, nil, err
		}
		client := redis.NewClient(parsed)
		// This Redis neither fails over nor loses a write while the story lasts.
		return redislease.New(client, append(options, redislease.WithDurable())...), func() { _ = client.Close() }, nil
	}
	db, err := database.Open(dsn)
	if err != nil {
		return nil, nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, nil, err
	}
	store, err := sqllease.FromGORM(db, options...)
	return store, func() { _ = pool.Close() }, err
}

// sleep returns false when the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ignoreClosed drops the error of a parent that is gone.
func ignoreClosed(err error) error {
	if errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}
