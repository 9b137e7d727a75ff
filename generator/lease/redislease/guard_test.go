package redislease_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/redislease"
	"github.com/gormflake/gormflake/internal/servers"
)

// TestGuard checks how long the first id of a lease waits: when the namespace
// is begun, and when it exists.
func TestGuard(t *testing.T) {
	client := servers.Shared(t, servers.Redis).OpenRedis(t)
	tests := []struct {
		name           string
		options        []redislease.Option
		begun, existed time.Duration
	}{
		{"by default", nil, 12 * time.Second, 12 * time.Second},
		{"durable", []redislease.Option{redislease.WithDurable()}, 11 * time.Second, 0},
		{"a shorter window", []redislease.Option{lease.Window(300 * time.Millisecond)}, 2300 * time.Millisecond, 2300 * time.Millisecond},
		{"a longer isolation", []redislease.Option{redislease.WithIsolation(12 * time.Second)}, 23 * time.Second, 23 * time.Second},
		{"durable with an isolation", []redislease.Option{redislease.WithIsolation(time.Hour), redislease.WithDurable()}, 11 * time.Second, 0},
		{"set by hand", []redislease.Option{redislease.WithGuard(5 * time.Second)}, 5 * time.Second, 5 * time.Second},
		{"set to none", []redislease.Option{redislease.WithDurable(), redislease.WithGuard(0)}, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store, ns := redislease.New(client, tt.options...), newNamespace()
			req := request(ns, 8)
			first := acquire(t, store, req)
			checkGuard(t, "the first lease", first, req, tt.begun)
			// The floor of a namespace that was begun long ago has passed.
			do(t, client, "HSET", "{gormflake:"+ns+"}:meta", "floor", first.StoreNow-1)
			req = request(ns, 8)
			checkGuard(t, "the second lease", acquire(t, store, req), req, tt.existed)
		})
	}
}

func checkGuard(t *testing.T, what string, grant lease.Grant, req lease.Request, guard time.Duration) {
	t.Helper()
	if guard == 0 {
		if grant.NotBefore > grant.StoreNow || grant.From > max(req.Now, grant.StoreNow) || grant.Because != "" {
			t.Errorf("%s = %+v at %d; want no wait", what, grant, req.Now)
		}
		return
	}
	if grant.Because == "" {
		t.Errorf("%s = %+v; want it to say what it waits for", what, grant)
	}
	if want := grant.StoreNow + guard.Milliseconds(); grant.NotBefore != want || grant.From != want {
		t.Errorf("%s = %+v; want it from %v after the store's clock on, not before that", what, grant, guard)
	}
}

// TestNamespaceIsBegun checks that a namespace which loses its record or its
// rows is begun anew: former owners are refused, and newcomers wait, durable or
// not.
func TestNamespaceIsBegun(t *testing.T) {
	client := servers.Shared(t, servers.Redis).OpenRedis(t)
	tests := []struct {
		name     string
		lost     []string
		keepRows bool
	}{
		{"everything", []string{"meta", "slots", "expiry"}, false},
		{"the record", []string{"meta"}, true},
		{"the rows", []string{"slots"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store, ns := redislease.New(client, redislease.WithDurable()), newNamespace()
			key := "{gormflake:" + ns + "}:"
			held := acquire(t, store, request(ns, 4))
			do(t, client, "HSET", key+"meta", "floor", 1)
			generation := do(t, client, "HGET", key+"meta", "generation")
			for _, name := range tt.lost {
				do(t, client, "DEL", key+name)
			}
			strict := redislease.New(client, redislease.WithDurable(), redislease.WithoutBootstrap())
			if grant, err := strict.Acquire(within(t), request(ns, 4)); !errors.Is(err, redislease.ErrNotBootstrapped) {
				t.Errorf("Acquire without bootstrap = %+v, error %v; want ErrNotBootstrapped", grant, err)
			}
			if grant, err := store.Extend(within(t), held, held.Through+1); !errors.Is(err, lease.ErrLost) && !tt.keepRows {
				t.Errorf("Extend = %+v, error %v before the namespace is begun anew; want ErrLost", grant, err)
			}
			next := acquire(t, store, request(ns, 4))
			if !strings.Contains(next.Because, "the namespace was begun") {
				t.Errorf("the first lease of the new generation waits because of %q; want that it was begun", next.Because)
			}
			if want := next.StoreNow + 11_000; next.NotBefore != want || next.From < want {
				t.Errorf("the first lease of the new generation = %+v; want it to wait for 11 s", next)
			}
			if now := do(t, client, "HGET", key+"meta", "generation"); now == generation || now == nil {
				t.Errorf("the generation is %v, it was %v; want a new one", now, generation)
			}
			if grant, err := store.Extend(within(t), held, held.Through+1); !errors.Is(err, lease.ErrLost) {
				t.Errorf("Extend by an owner of the former generation = %+v, error %v; want ErrLost", grant, err)
			}
			row, ok, err := store.Lookup(within(t), ns, held.Worker)
			switch {
			case err != nil:
				t.Error(err)
			case tt.keepRows && (!ok || row.Owner != held.Token || row.HighWater != held.Through):
				t.Errorf("the former owner's row = %+v, ok %v; want its term and high water kept", row, ok)
			case !tt.keepRows && next.Worker != held.Worker && ok:
				t.Errorf("a refused Extend made the row %+v", row)
			}
			extend(t, store, next)
		})
	}
}

func TestKeysNeverExpire(t *testing.T) {
	client := servers.Shared(t, servers.Redis).OpenRedis(t)
	store, ns := redislease.New(client, redislease.WithDurable()), newNamespace()
	held := extend(t, store, acquire(t, store, request(ns, 4)))
	if _, err := store.(lease.Backfiller).ReserveBlock(within(t), blocks(ns)); err != nil {
		t.Fatal(err)
	}
	if err := store.Release(within(t), held, held.From); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"meta", "slots", "expiry", "blocks"} {
		key := "{gormflake:" + ns + "}:" + name
		if ttl := do(t, client, "PTTL", key); ttl != int64(-1) {
			t.Errorf("PTTL %s = %v; want -1, a key that stays", key, ttl)
		}
		// The hash tag decides alone.
		tag := key[strings.IndexByte(key, '{')+1 : strings.IndexByte(key, '}')]
		if tag != "gormflake:"+ns {
			t.Errorf("%s has the hash tag %q; want one for all of the namespace", key, tag)
		}
	}
}

// TestAPoisonedFloor checks that a namespace begun while Redis' clock was a
// year ahead is an error and no silent wait.
func TestAPoisonedFloor(t *testing.T) {
	client := servers.Shared(t, servers.Redis).OpenRedis(t)
	store, ns := redislease.New(client), newNamespace()
	acquire(t, store, request(ns, 4))
	do(t, client, "HSET", "{gormflake:"+ns+"}:meta", "floor", time.Now().AddDate(1, 0, 0).UnixMilli())
	if grant, err := store.Acquire(within(t), request(ns, 4)); !errors.Is(err, lease.ErrClockSkew) {
		t.Errorf("Acquire = %+v, error %v; want ErrClockSkew", grant, err)
	}
}

// TestAForgottenRow plays a failover that loses the last grant: the row's
// successor starts no earlier than the forgotten owner can end.
func TestAForgottenRow(t *testing.T) {
	client := servers.Shared(t, servers.Redis).OpenRedis(t)
	store, ns := redislease.New(client), newNamespace()
	key := "{gormflake:" + ns + "}:"
	forgotten := acquire(t, store, request(ns, 1))
	// It goes on for as long as the old primary lives.
	forgotten = extend(t, store, forgotten)
	last, err := store.Extend(within(t), forgotten, time.Now().UnixMilli()+11_000)
	if err != nil {
		t.Fatal(err)
	}
	do(t, client, "HDEL", key+"slots", "0")
	do(t, client, "ZREM", key+"expiry", "0")
	next := acquire(t, store, request(ns, 1))
	if next.Worker != last.Worker || next.From < last.Through || next.NotBefore < last.Through {
		t.Errorf("%+v was forgotten and followed by %+v; want the successor to start, and to wait, until the end of the former", last, next)
	}
}

// TestSuccessor checks that a lease starts where the one before it ended, when
// neither a guard nor the caller's clock would see to it.
func TestSuccessor(t *testing.T) {
	client := servers.Shared(t, servers.Redis).OpenRedis(t)
	store, ns := redislease.New(client, redislease.WithDurable(), redislease.WithGuard(0)), newNamespace()
	key := "{gormflake:" + ns + "}:"
	first := extend(t, store, acquire(t, store, request(ns, 1)))
	do(t, client, "ZADD", key+"expiry", 1, "0")
	do(t, client, "HSET", key+"meta", "floor", 1)
	req := request(ns, 1)
	req.Now = first.Through - 9_000
	second := acquire(t, store, req)
	if second.From != first.Through || second.Term != first.Term+1 || second.Through < first.Through || second.NotBefore != 0 {
		t.Errorf("%+v was followed by %+v; want the next term, from its high water on, without a wait", first, second)
	}
}
