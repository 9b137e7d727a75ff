// Command starter is one process of a fleet that starts at once: small, so
// that hundreds of them fit on one machine, and without the race detector,
// whatever the test is built with.
//
// It connects to nothing until a line comes on its standard input. Then it
// leases, as often as it takes, prints "leased" with the worker id and twenty
// times "id" with an id. It closes its generator when its input ends.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
)

func main() {
	driver := flag.String("driver", "", "name of the database/sql driver: pgx or mysql")
	dialect := flag.String("dialect", "", "what the database speaks: postgres or mysql")
	dsn := flag.String("dsn", "", "data source name")
	namespace := flag.String("namespace", "", "the id space")
	flag.Parse()
	if err := run(*driver, *dsn, sqllease.Dialect(*dialect), *namespace); err != nil {
		name := "other"
		if errors.Is(err, generator.ErrSealed) {
			name = "sealed"
		}
		report(name, err)
		os.Exit(1)
	}
}

// report prints an error as the test reads it.
func report(name string, err error) { fmt.Printf("error %s %q\n", name, err) }

func run(driver, dsn string, dialect sqllease.Dialect, namespace string) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	config := generator.Config{
		Store: sqllease.New(db, dialect), Namespace: namespace,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	fmt.Println("ready")
	input := bufio.NewReader(os.Stdin)
	if _, err := input.ReadString('\n'); err != nil {
		return nil // nobody wants it any more
	}
	ctx := context.Background()
	g, err := generator.Open(ctx, config)
	for err != nil {
		if !errors.Is(err, generator.ErrNotStarted) {
			return err
		}
		report("not-started", err) // the machine is slow
		<-time.After(50 * time.Millisecond)
		g, err = generator.Open(ctx, config)
	}
	fmt.Println("leased", g.Stats().Worker)
	for range 20 {
		id, err := g.Next(ctx)
		if err != nil {
			return errors.Join(err, g.Close(ctx))
		}
		fmt.Println("id", int64(id))
	}
	fmt.Println("drawn")
	_, _ = io.Copy(io.Discard, input)
	return g.Close(ctx)
}
