package redislease_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/servers"
)

var standard = lease.Layout{EpochMillis: 1420070400000, TickMillis: 1, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}

func newNamespace() string { return "test-" + rand.Text() }

// request asks for one of n workers by this machine's clock.
func request(namespace string, n int64) lease.Request {
	return lease.Request{
		Namespace: namespace, Layout: standard, Workers: lease.Range{Lo: 0, Hi: n - 1}, Token: lease.NewToken(),
		Now: time.Now().UnixMilli(), MaxAhead: 60_000, MaxLead: 10, Avoid: -1,
	}
}

func blocks(namespace string) lease.BlockRequest {
	return lease.BlockRequest{
		Namespace: namespace, Layout: standard, Workers: lease.Range{Lo: 1008, Hi: 1023},
		FirstTick: 1000, LastTick: 2000, Sequences: 16,
	}
}

// within bounds a test; it decides none.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func acquire(t *testing.T, store lease.Store, req lease.Request) lease.Grant {
	t.Helper()
	grant, err := store.Acquire(within(t), req)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return grant
}

func extend(t *testing.T, store lease.Store, held lease.Grant) lease.Grant {
	t.Helper()
	grant, err := store.Extend(within(t), held, held.Through+1)
	if err != nil {
		t.Fatalf("Extend: %v", err)
	}
	return grant
}

func lookup(t *testing.T, store lease.Store, namespace string, worker int64) lease.Row {
	t.Helper()
	row, ok, err := store.Lookup(within(t), namespace, worker)
	if err != nil || !ok {
		t.Fatalf("Lookup(%d) = ok %v, error %v; want the row", worker, ok, err)
	}
	return row
}

// do sends a command to the server as its administrator.
func do(t *testing.T, client redis.UniversalClient, args ...any) any {
	t.Helper()
	reply, err := client.Do(within(t), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// private returns a server of the test's own, which it may break, and its
// administrator's client.
func private(t *testing.T, options ...servers.Option) (*servers.Server, *redis.Client) {
	srv := servers.Private(t, servers.Redis, options...)
	return srv, connect(t, srv.Process().Addr())
}

func connect(t *testing.T, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// eventually polls a condition of the servers.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the test has ended")
		case <-time.After(5 * time.Millisecond):
		}
	}
}
