// Legacybool moves the booleans of a legacy MySQL table from enum('N','Y') to
// tinyint(1) while programs of two generations go on working with it: an old one
// that speaks 'Y' and 'N', and a new one that speaks Go bools through the codec.
// The rows are 1,707 real earthquakes, and in the end every value is compared
// with their source.
//
//	go run ./examples/legacybool
//	go run ./examples/legacybool -dsn 'root@tcp(127.0.0.1:3306)/test'
//
// Without -dsn it starts a MariaDB of its own and removes it in the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake/examples/internal/quakes"
	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/migrate"
)

const table = "legacy_quakes"

func main() {
	dsn := flag.String("dsn", "", "a MySQL or MariaDB database to work in, as root@tcp(127.0.0.1:3306)/test; empty: a private MariaDB")
	flag.Parse()
	err := run(context.Background(), os.Stdout, *dsn)
	if errors.Is(err, servers.ErrUnavailable) && os.Getenv("GORMFLAKE_REQUIRE_SERVERS") != "1" {
		fmt.Println("legacybool: nothing was run:", err)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "legacybool:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, dsn string) error {
	if dsn == "" {
		server, err := servers.Start(ctx, servers.MariaDB)
		if err != nil {
			return err
		}
		defer server.Close()
		if dsn, err = private(server.DSN("")); err != nil {
			return err
		}
	}
	all, err := quakes.Load()
	if err != nil {
		return err
	}
	db, pool, err := open(dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	if db.Migrator().HasTable(table) {
		return fmt.Errorf("there is a table %s already; give -dsn a database without one", table)
	}
	if err := db.Exec(`CREATE TABLE ` + table + ` (
		id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
		event varchar(20) NOT NULL UNIQUE,
		place varchar(200) NOT NULL,
		reviewed enum('N','Y') NOT NULL DEFAULT 'N',
		felt enum('N','Y') NOT NULL DEFAULT 'N',
		KEY by_felt (felt))`).Error; err != nil {
		return err
	}
	defer db.Exec("DROP TABLE IF EXISTS " + table)

	programs, err := start(ctx, dsn, all)
	if err != nil {
		return err
	}
	defer programs.stop()
	if err := move(ctx, out, db, programs); err != nil {
		return errors.Join(err, programs.failed())
	}
	if err := programs.finish(ctx); err != nil {
		return err
	}
	return compare(ctx, out, pool, all)
}

// move is the migration, step by step. Between two steps it waits until both
// programs have written more, so that every phase sees their work.
func move(ctx context.Context, out io.Writer, db *gorm.DB, programs *programs) error {
	if err := programs.progress(ctx, 200); err != nil {
		return err
	}
	report, err := migrate.InspectBools(ctx, db, table)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%v\n", report)
	plan, err := migrate.PlanBools(ctx, db, migrate.BoolSpec{Table: table, Columns: []string{"reviewed", "felt"}})
	if err != nil {
		return err
	}
	if err := plan.Err(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n", plan.SQL())
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"Prepare: new columns and triggers", plan.Prepare},
		{"Backfill", func(ctx context.Context) error {
			return plan.Backfill(ctx, migrate.BackfillOptions{BatchSize: 50, Pause: 5 * time.Millisecond, Progress: func(p migrate.BackfillProgress) {
				fmt.Fprintf(out, "  filled %d rows, up to key %s of %s\n", p.Changed, p.LastKey, p.MaxKey)
			}})
		}},
		{"Verify", func(ctx context.Context) error { return verify(ctx, out, plan) }},
		{"The old program is stopped", programs.retire},
		{"Swap", plan.Swap},
		{"Verify after the swap", func(ctx context.Context) error { return verify(ctx, out, plan) }},
		{"Cleanup: the old columns go", plan.Cleanup},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Fprintf(out, "%-36s %8v   written so far: %d\n", step.name, time.Since(began).Round(time.Millisecond), programs.written())
		if err := programs.progress(ctx, 100); err != nil {
			return err
		}
	}
	return nil
}

func verify(ctx context.Context, out io.Writer, plan *migrate.BoolPlan) error {
	report, err := plan.Verify(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  old and new columns agree in all %d rows\n", report.Rows)
	return nil
}

// compare reads the table with nothing of this project and checks every value.
func compare(ctx context.Context, out io.Writer, pool queryer, all []quakes.Quake) error {
	rows, err := pool.QueryContext(ctx, "SELECT event, CAST(reviewed AS CHAR), CAST(felt AS CHAR) FROM "+table)
	if err != nil {
		return err
	}
	defer rows.Close()
	stored := map[string][2]string{}
	for rows.Next() {
		var event, reviewed, felt string
		if err := rows.Scan(&event, &reviewed, &felt); err != nil {
			return err
		}
		stored[event] = [2]string{reviewed, felt}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(stored) != len(all) {
		return fmt.Errorf("expected %d events, met %d", len(all), len(stored))
	}
	digit := map[bool]string{false: "0", true: "1"}
	for _, q := range all {
		if want := [2]string{digit[q.Reviewed], digit[q.Felt]}; stored[q.Event] != want {
			return fmt.Errorf("event %s: expected reviewed, felt = %v, met %v", q.Event, want, stored[q.Event])
		}
	}
	fmt.Fprintf(out, "all %d events have their values: none lost, none inverted, none invented\n", len(all))
	return nil
}

// open connects one program.
func open(dsn string) (*gorm.DB, poolCloser, error) {
	db, err := gorm.Open(mysql.Open(dsn), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, nil, err
	}
	pool, err := db.DB()
	return db, pool, err
}

// private makes a database on a server of our own.
func private(dsn string) (string, error) {
	db, pool, err := open(dsn)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	const name = "legacybool"
	if err := db.Exec("CREATE DATABASE " + name).Error; err != nil {
		return "", err
	}
	return withDatabase(dsn, name)
}
