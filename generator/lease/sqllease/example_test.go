package sqllease_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"time"

	_ "github.com/glebarez/go-sqlite" // registers the driver "sqlite"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
)

func ExampleNew() {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store := sqllease.New(db, sqllease.SQLite,
		lease.Workers(0, 511),     // another generator has the rest
		lease.Window(time.Minute), // rides out a longer outage
		sqllease.Table("worker_ids"))
	grant, err := store.Acquire(context.Background(), lease.Request{
		Namespace: "orders", Token: lease.NewToken(), Now: time.Now().UnixMilli(), Avoid: -1,
		Layout:  lease.Layout{EpochMillis: 1420070400000, TickMillis: 1, TimeBits: 41, WorkerBits: 10, SequenceBits: 12},
		Workers: lease.Range{Lo: 7, Hi: 7},
	})
	fmt.Println("worker", grant.Worker, "term", grant.Term, err)
	// Output:
	// worker 7 term 1 <nil>
}

// For a program that may not run DDL: put this into a migration, and give the
// store WithoutCreate.
func ExampleSchema() {
	fmt.Print(sqllease.Schema(sqllease.Postgres))
	// Output:
	// CREATE TABLE IF NOT EXISTS "gormflake_leases" (
	//   namespace VARCHAR(64) NOT NULL,
	//   worker_id INTEGER NOT NULL,
	//   term BIGINT NOT NULL,
	//   owner VARCHAR(64) NOT NULL,
	//   high_water BIGINT NOT NULL,
	//   expires_at BIGINT NOT NULL,
	//   PRIMARY KEY (namespace, worker_id)
	// );
	// CREATE TABLE IF NOT EXISTS "gormflake_leases_namespaces" (
	//   namespace VARCHAR(64) NOT NULL,
	//   layout VARCHAR(64) NOT NULL,
	//   identity VARCHAR(128) NOT NULL,
	//   identity_floor BIGINT NOT NULL,
	//   reach BIGINT NOT NULL,
	//   PRIMARY KEY (namespace)
	// );
	// CREATE TABLE IF NOT EXISTS "gormflake_leases_blocks" (
	//   namespace VARCHAR(64) NOT NULL,
	//   worker_id INTEGER NOT NULL,
	//   version BIGINT NOT NULL,
	//   first_tick BIGINT NOT NULL,
	//   last_tick BIGINT NOT NULL,
	//   first_sequence BIGINT NOT NULL,
	//   last_sequence BIGINT NOT NULL,
	//   PRIMARY KEY (namespace, worker_id, version)
	// );
}
