package redislease_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/redislease"
	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/internal/servers/proxy"
)

// permissions is what the documentation says that the namespace app needs.
const permissions = "~{gormflake:app}:* -@all +eval +evalsha +time +hget +hmget +hset +zscore +zadd +wait +info +ping +hello +client"

// user makes a user with permissions and returns a client logged in as it.
func user(t *testing.T, admin *redis.Client, name, permissions string) *redis.Client {
	args := []any{"ACL", "SETUSER", name, "reset", "on", ">secret"}
	for word := range strings.FieldsSeq(permissions) {
		args = append(args, word)
	}
	do(t, admin, args...)
	client := redis.NewClient(&redis.Options{Addr: admin.Options().Addr, Username: name, Password: "secret"})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// everything does all that a store can, and returns the first error.
func everything(t *testing.T, client *redis.Client, options ...redislease.Option) error {
	ctx, store, ns := within(t), redislease.New(client, options...), "app"
	held, err := store.Acquire(ctx, request(ns, 1000))
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	if held, err = store.Extend(ctx, held, held.Through+1); err != nil {
		return fmt.Errorf("extend: %w", err)
	}
	if _, ok, err := store.Lookup(ctx, ns, held.Worker); err != nil || !ok {
		return fmt.Errorf("lookup: found %v: %w", ok, err)
	}
	if rows, err := store.(lease.Lister).List(ctx, ns); err != nil || len(rows) == 0 {
		return fmt.Errorf("list: %d rows: %w", len(rows), err)
	}
	if _, err := store.(lease.Backfiller).ReserveBlock(ctx, blocks(ns)); err != nil {
		return fmt.Errorf("reserve: %w", err)
	}
	if err := store.Release(ctx, held, held.From); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

func TestLeastPrivilege(t *testing.T) {
	srv, admin := private(t, promptly)
	servers.Private(t, servers.Redis, servers.Args("--replicaof", "127.0.0.1", port(srv)))
	awaitReplicas(t, admin, 1)
	flake := user(t, admin, "flake", permissions)
	if err := everything(t, flake, redislease.WithReplicas(1)); err != nil {
		t.Fatalf("with the documented permissions: %v", err)
	}
	if err := flake.Do(within(t), "CONFIG", "GET", "dir").Err(); err == nil {
		t.Error("the user may read the configuration; want the test to use a real, narrow user")
	}
	if _, err := redislease.New(flake, redislease.WithReplicas(1)).Acquire(within(t), request("other", 4)); !errors.Is(err, redislease.ErrNoPermission) {
		t.Errorf("Acquire in another namespace: error %v; want ErrNoPermission", err)
	}
	// None of what a script or the store itself sends can be left out.
	for _, word := range []string{"evalsha", "time", "hget", "hmget", "hset", "zscore", "zadd", "wait", "info", "eval"} {
		t.Run("without "+word, func(t *testing.T) {
			narrow := user(t, admin, "narrow", permissions+" -"+word)
			if word == "eval" {
				do(t, admin, "SCRIPT", "FLUSH") // or a script that is known would not need it
			}
			if err := everything(t, narrow, redislease.WithReplicas(1)); !errors.Is(err, redislease.ErrNoPermission) {
				t.Errorf("error %v; want ErrNoPermission", err)
			}
		})
	}
	t.Run("granted again", func(t *testing.T) {
		if err := everything(t, flake, redislease.WithReplicas(1)); err != nil {
			t.Errorf("after all these: %v", err)
		}
	})
}

// promptly makes a primary serve a new replica at once.
var promptly = servers.Setting("repl-diskless-sync-delay", "0")

func port(srv *servers.Server) string {
	_, port, _ := strings.Cut(srv.Process().Addr(), ":")
	return port
}

// awaitReplicas waits until n replicas follow a server.
func awaitReplicas(t *testing.T, admin *redis.Client, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d replicas are in step", n), func() bool {
		text, err := admin.Info(within(t), "replication").Result()
		return err == nil && strings.Count(text, "state=online") == n
	})
}

// TestRefusals checks that what a server refuses is typed, and that the store
// recovers by itself.
func TestRefusals(t *testing.T) {
	srv, admin := private(t)
	set := func(name, value string) { t.Helper(); do(t, admin, "CONFIG", "SET", name, value) }
	tests := []struct {
		name       string
		spoil      func()
		mend       func()
		want       error
		stillLives bool // an owner's extension goes through
	}{
		{"eviction of any key", func() { set("maxmemory-policy", "allkeys-lru") }, func() { set("maxmemory-policy", "noeviction") }, redislease.ErrEviction, true},
		{"out of memory", func() { set("maxmemory", "1") }, func() { set("maxmemory", "0") }, redislease.ErrOutOfMemory, false},
		{"too few replicas to write", func() { set("min-replicas-to-write", "1") }, func() { set("min-replicas-to-write", "0") }, redislease.ErrNotReplicated, false},
		{"a replica", func() { do(t, admin, "REPLICAOF", "127.0.0.1", "1") }, func() { do(t, admin, "REPLICAOF", "NO", "ONE") }, redislease.ErrReadOnly, false},
		{"a script flushed", func() { do(t, admin, "SCRIPT", "FLUSH") }, func() {}, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := connect(t, srv.Process().Addr())
			store, ns := redislease.New(client, redislease.WithDurable()), newNamespace()
			held := acquire(t, store, request(ns, 4))
			tt.spoil()
			grant, err := store.Acquire(within(t), request(ns, 4))
			if !errors.Is(err, tt.want) {
				t.Errorf("Acquire = %+v, error %v; want %v", grant, err, tt.want)
			}
			extended, err := store.Extend(within(t), held, held.Through+1)
			switch {
			case tt.stillLives && err != nil:
				t.Errorf("Extend: error %v; want success", err)
			case tt.stillLives:
				held = extended
			case !errors.Is(err, tt.want) || errors.Is(err, lease.ErrLost):
				t.Errorf("Extend = %+v, error %v; want %v", extended, err, tt.want)
			}
			tt.mend()
			if row := lookup(t, store, ns, held.Worker); row.HighWater != held.Through || row.Term != held.Term || row.Owner != held.Token {
				t.Errorf("the row is %+v after a refusal; want it as it was, %+v", row, held)
			}
			extend(t, store, held)
			acquire(t, store, request(ns, 4))
		})
	}
}

func TestUndeclaredReplicas(t *testing.T) {
	srv, admin := private(t, promptly)
	servers.Private(t, servers.Redis, servers.Args("--replicaof", "127.0.0.1", port(srv)))
	awaitReplicas(t, admin, 1)
	ns := newNamespace()
	var detail *redislease.ReplicasError
	_, err := redislease.New(admin, redislease.WithDurable()).Acquire(within(t), request(ns, 4))
	if !errors.Is(err, redislease.ErrReplicas) || !errors.As(err, &detail) || detail.Stated != 0 || detail.Met != 1 {
		t.Errorf("Acquire beside a replica nobody stated: error %v; want ErrReplicas with 0 and 1", err)
	}
	acquire(t, redislease.New(admin, redislease.WithDurable(), redislease.WithReplicas(1)), request(ns, 4))
	acquire(t, redislease.New(admin), request(ns, 4))
}

// TestReplicasMustAcknowledge checks that a grant the replicas don't have is
// none, and that Lookup says nothing about a row they don't have.
func TestReplicasMustAcknowledge(t *testing.T) {
	srv, admin := private(t, promptly)
	link := proxy.New(t, srv.Process().Addr())
	_, linkPort, _ := strings.Cut(link.Addr(), ":")
	servers.Private(t, servers.Redis, servers.Args("--replicaof", "127.0.0.1", linkPort, "--repl-ping-replica-period", "1"))
	awaitReplicas(t, admin, 1)
	store, ns := redislease.New(admin, redislease.WithReplicas(1)), newNamespace()
	held := acquire(t, store, request(ns, 2))

	link.Stall(proxy.Requests, proxy.Replies)
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	var detail *redislease.ReplicasError
	through := held.Through + 5
	_, err := store.Extend(short(), held, through)
	if !errors.Is(err, redislease.ErrNotReplicated) || !errors.As(err, &detail) || detail.Stated != 1 || detail.Met != 0 {
		t.Errorf("Extend: error %v; want ErrNotReplicated with 1 and 0", err)
	}
	if errors.Is(err, lease.ErrLost) {
		t.Errorf("Extend: error %v; want an outcome that is unknown, not a loss", err)
	}
	// On a connection that has written nothing there would be nothing to wait for.
	fresh := redislease.New(connect(t, srv.Process().Addr()), redislease.WithReplicas(1))
	if row, ok, err := fresh.Lookup(short(), ns, held.Worker); !errors.Is(err, redislease.ErrNotReplicated) {
		t.Errorf("Lookup = %+v, %v, error %v; want ErrNotReplicated, since the caller would adopt it", row, ok, err)
	}
	if grant, err := store.Acquire(short(), request(ns, 2)); !errors.Is(err, redislease.ErrNotReplicated) {
		t.Errorf("Acquire = %+v, error %v; want ErrNotReplicated", grant, err)
	}
	if block, err := store.(lease.Backfiller).ReserveBlock(short(), blocks(ns)); !errors.Is(err, redislease.ErrNotReplicated) {
		t.Errorf("ReserveBlock = %+v, error %v; want ErrNotReplicated", block, err)
	}

	link.Restore()
	eventually(t, "the extension is confirmed", func() bool {
		row, ok, err := store.Lookup(short(), ns, held.Worker)
		return err == nil && ok && row.HighWater == through
	})
	held.Through = through
	extend(t, store, held)
}

// TestALostReplyIsNotRepeated checks that an extension whose reply is lost is
// an unknown outcome, though the client is set to repeat commands.
func TestALostReplyIsNotRepeated(t *testing.T) {
	srv, _ := private(t)
	link := proxy.New(t, srv.Process().Addr())
	client := connect(t, link.Addr())
	if client.Options().MaxRetries == 0 {
		t.Fatal("the client repeats nothing; want its default, or the test shows nothing")
	}
	store, ns := redislease.New(client, redislease.WithDurable()), newNamespace()
	held := extend(t, store, acquire(t, store, request(ns, 4))) // the server knows the script now
	link.LoseNextReply()
	through := held.Through + 5
	_, err := store.Extend(within(t), held, through)
	if !errors.Is(err, redislease.ErrUnknownOutcome) || errors.Is(err, lease.ErrLost) {
		t.Errorf("Extend: error %v; want ErrUnknownOutcome", err)
	}
	if row := lookup(t, store, ns, held.Worker); row.HighWater != through || row.Owner != held.Token || row.Term != held.Term {
		t.Errorf("the row is %+v; want the extension in it", row)
	}

	link.LoseNextReply()
	if grant, err := store.Acquire(within(t), request(ns, 4)); !errors.Is(err, redislease.ErrUnknownOutcome) {
		t.Errorf("Acquire = %+v, error %v; want ErrUnknownOutcome", grant, err)
	}
	rows, err := store.(lease.Lister).List(within(t), ns)
	if err != nil || len(rows) > 2 {
		t.Errorf("%d rows, error %v; want at most one acquisition to have arrived", len(rows), err)
	}
}

// TestAHungServer checks that no call outlasts its context, and that a row
// which is taken after its caller has left is given back.
func TestAHungServer(t *testing.T) {
	srv, client := private(t)
	store, ns := redislease.New(client, redislease.WithDurable()), newNamespace()
	held := acquire(t, store, request(ns, 4))
	srv.Pause(t)
	calls := map[string]func(context.Context) error{
		"Acquire": func(ctx context.Context) error { _, err := store.Acquire(ctx, request(ns, 4)); return err },
		"Extend":  func(ctx context.Context) error { _, err := store.Extend(ctx, held, held.Through+1); return err },
		"Release": func(ctx context.Context) error { return store.Release(ctx, held, held.From) },
		"Lookup":  func(ctx context.Context) error { _, _, err := store.Lookup(ctx, ns, 0); return err },
		"List":    func(ctx context.Context) error { _, err := store.(lease.Lister).List(ctx, ns); return err },
	}
	for name, call := range calls {
		for how, cause := range map[string]error{"a deadline": context.DeadlineExceeded, "a cancellation": context.Canceled} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if cause == context.Canceled {
				ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
				time.AfterFunc(100*time.Millisecond, cancel)
			}
			begun := time.Now()
			err := call(ctx)
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("%s took %v after %s at 100 ms; want it to return", name, took, how)
			}
			if !errors.Is(err, cause) {
				t.Errorf("%s: error %v; want %v", name, err, cause)
			}
			cancel()
		}
	}
	srv.Resume(t)
	eventually(t, "every row that nobody waited for is given back", func() bool {
		rows, err := store.(lease.Lister).List(within(t), ns)
		if err != nil {
			return false
		}
		for _, row := range rows {
			if row.Owner != "" && row.Owner != held.Token {
				return false
			}
		}
		return true
	})
}

func TestDamagedKeys(t *testing.T) {
	client := servers.Shared(t, servers.Redis).OpenRedis(t)
	tests := []struct {
		name  string
		spoil func(key string, held lease.Grant)
		want  error
	}{
		{"a row", func(key string, held lease.Grant) {
			do(t, client, "HSET", key+"slots", strconv.FormatInt(held.Worker, 10), "rubbish")
		}, redislease.ErrDamaged},
		{"another type", func(key string, held lease.Grant) {
			do(t, client, "DEL", key+"expiry")
			do(t, client, "SET", key+"expiry", "rubbish")
		}, redislease.ErrDamaged},
		{"another format", func(key string, held lease.Grant) {
			do(t, client, "HSET", key+"meta", "format", "2")
		}, redislease.ErrUnsupported},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store, ns := redislease.New(client, redislease.WithDurable()), newNamespace()
			key := "{gormflake:" + ns + "}:"
			held := acquire(t, store, request(ns, 1))
			tt.spoil(key, held)
			before := do(t, client, "HGETALL", key+"slots")
			if grant, err := store.Acquire(within(t), request(ns, 1)); !errors.Is(err, tt.want) {
				t.Errorf("Acquire = %+v, error %v; want %v", grant, err, tt.want)
			}
			if after := do(t, client, "HGETALL", key+"slots"); fmt.Sprint(before) != fmt.Sprint(after) {
				t.Errorf("a refused Acquire changed the rows from %v to %v", before, after)
			}
		})
	}
}

// TestBlocksLost checks that a backfill is refused once its reservations are
// known to be gone.
func TestBlocksLost(t *testing.T) {
	client := servers.Shared(t, servers.Redis).OpenRedis(t)
	store, ns := redislease.New(client, redislease.WithDurable()).(lease.Backfiller), newNamespace()
	for range 3 {
		if _, err := store.ReserveBlock(within(t), blocks(ns)); err != nil {
			t.Fatal(err)
		}
	}
	do(t, client, "DEL", "{gormflake:"+ns+"}:blocks")
	if block, err := store.ReserveBlock(within(t), blocks(ns)); !errors.Is(err, redislease.ErrDamaged) {
		t.Errorf("ReserveBlock = %+v, error %v; want ErrDamaged", block, err)
	}
	if block, err := redislease.New(client).(lease.Backfiller).ReserveBlock(within(t), blocks(ns)); !errors.Is(err, redislease.ErrNotDurable) {
		t.Errorf("ReserveBlock without stated durability = %+v, error %v; want ErrNotDurable", block, err)
	}
}
