//go:build unix

// Fleet starts eight processes on one database or Redis, kills one, pauses one
// for longer than its lease, lets newcomers take over their worker ids, wakes
// the paused one, and checks every id of all of them: none comes twice.
//
//	go run ./examples/fleet                        # on a SQLite file
//	go run ./examples/fleet -on redis              # starts a private Redis; also postgres, mariadb
//	go run ./examples/fleet -dsn redis://127.0.0.1:6379/0
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/gormflake/gormflake/examples/internal/database"
	"github.com/gormflake/gormflake/internal/servers"
)

// childVariable tells a process that it is one of the fleet.
const childVariable = "GORMFLAKE_FLEET_CHILD"

type options struct {
	on, dsn string
	pause   time.Duration // the least time between two scenes
	limit   time.Duration // of the whole story
}

func main() {
	var o options
	flag.StringVar(&o.on, "on", "sqlite", "store to start: sqlite, redis, postgres or mariadb")
	flag.StringVar(&o.dsn, "dsn", "", database.Flag+",\nor redis://host:port/0 for Redis")
	flag.DurationVar(&o.pause, "pause", 500*time.Millisecond, "least time between two scenes, for the onlooker")
	flag.DurationVar(&o.limit, "limit", 2*time.Minute, "give up after this time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := runFleet
	if os.Getenv(childVariable) != "" {
		run = runChild
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// provide returns the DSN of a store: the one that was named, or a private
// one, which done ends.
func provide(ctx context.Context, o options) (dsn string, done func(), err error) {
	if o.dsn != "" {
		return o.dsn, func() {}, nil
	}
	if o.on == "sqlite" {
		folder, err := os.MkdirTemp("", "fleet")
		if err != nil {
			return "", nil, err
		}
		return filepath.Join(folder, "fleet.db"), func() { _ = os.RemoveAll(folder) }, nil
	}
	kind, database := servers.Kind(o.on), ""
	switch kind {
	case servers.Redis:
	case servers.Postgres:
		database = "postgres"
	case servers.MariaDB:
		database = "mysql"
	default:
		return "", nil, fmt.Errorf("-on wants sqlite, redis, postgres or mariadb, got %q", o.on)
	}
	process, err := servers.Start(ctx, kind)
	if err != nil {
		return "", nil, err
	}
	dsn = process.DSN(database)
	return dsn, func() { _ = process.Close() }, nil
}
