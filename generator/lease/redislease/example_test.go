package redislease_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/redislease"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
)

// A server of which nothing is known: newcomers wait for 12 s.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	ids, err := generator.Open(ctx, generator.Config{Store: redislease.New(client), Namespace: "app"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ids.Close(context.Background())

	id, err := ids.Next(ctx)
	fmt.Println(id, err)
}

// Two replicas behind Sentinel, both of which have each grant before it is
// used.
func ExampleWithReplicas() {
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:    "app",
		SentinelAddrs: []string{"10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"},
	})
	defer client.Close()

	store := redislease.New(client, redislease.WithReplicas(2))
	fmt.Println(store.Timing().Window)
	// Output: 10s
}

// A Cluster whose primaries stop taking writes 10 s after they are cut off
// (min-replicas-to-write 1, min-replicas-max-lag 10).
func ExampleWithIsolation() {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"},
	})
	defer client.Close()

	store := redislease.New(client, redislease.WithIsolation(12*time.Second))
	fmt.Println(store.(lease.Describer).Describe())
	// Output: redis cluster 10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379: a failover may lose writes, newcomers wait 23s, a new namespace 23s
}

// One server with appendonly yes and appendfsync always.
func ExampleWithDurable() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer client.Close()

	store := redislease.New(client, redislease.WithDurable())
	fmt.Println(store.(lease.Describer).Describe())
	// Output: redis 127.0.0.1:6379, database 0: stated durable, newcomers wait 0s, a new namespace 11s
}

// Redis for the short window, a row in the database against its forgetting:
// nothing has to be stated about Redis, and no guard is needed.
func ExampleWithGuard() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer client.Close()
	var db *sql.DB // the application's own

	store := lease.Fenced(
		redislease.New(client, redislease.WithGuard(0)),
		sqllease.New(db, sqllease.Postgres, lease.Window(10*time.Minute)),
	)
	fmt.Println(store.Timing().Window)
	// Output: 10s
}
