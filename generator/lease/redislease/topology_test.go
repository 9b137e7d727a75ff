package redislease_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/redislease"
	"github.com/gormflake/gormflake/internal/servers"
)

// node starts a member of a Cluster.
func node(t *testing.T) (*servers.Server, *redis.Client) {
	return private(t, promptly, servers.Setting("cluster-enabled", "yes"), servers.Setting("cluster-node-timeout", "2000"))
}

func join(t *testing.T, admin *redis.Client, other *servers.Server) {
	do(t, admin, "CLUSTER", "MEET", "127.0.0.1", port(other))
}

func knownNodes(t *testing.T, admin *redis.Client, n int) func() bool {
	return func() bool {
		text, err := admin.ClusterNodes(within(t)).Result()
		return err == nil && strings.Count(text, "connected") >= n && !strings.Contains(text, "handshake")
	}
}

// recovers calls until there is no error, which must come before a minute.
func recovers(t *testing.T, what string, call func(context.Context) error) {
	t.Helper()
	var last error
	eventually(t, what, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		last = call(ctx)
		if errors.Is(last, lease.ErrLost) {
			t.Fatalf("%s: %v", what, last)
		}
		return last == nil
	})
}

// TestCluster leases on a Cluster with the documented permissions, while its
// slot moves to another node and while a replica is promoted.
func TestCluster(t *testing.T) {
	one, admin := node(t)
	two, adminTwo := node(t)
	three, adminThree := node(t)
	do(t, admin, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	join(t, admin, two)
	join(t, admin, three)
	for _, a := range []*redis.Client{admin, adminTwo, adminThree} {
		eventually(t, "the nodes know each other", knownNodes(t, a, 3))
		user(t, a, "flake", permissions+" +cluster")
	}
	idOne, idTwo := do(t, admin, "CLUSTER", "MYID").(string), do(t, adminTwo, "CLUSTER", "MYID").(string)
	do(t, adminThree, "CLUSTER", "REPLICATE", idTwo)
	awaitReplicas(t, adminTwo, 1)
	eventually(t, "the slots are served", func() bool {
		for _, a := range []*redis.Client{admin, adminTwo, adminThree} {
			if text, err := a.ClusterInfo(within(t)).Result(); err != nil || !strings.Contains(text, "cluster_state:ok") {
				return false
			}
		}
		return true
	})

	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{one.Process().Addr()}, Username: "flake", Password: "secret",
	})
	t.Cleanup(func() { _ = client.Close() })
	store, ns := redislease.New(client, redislease.WithDurable(), redislease.WithGuard(0)), "app"
	held := acquire(t, store, request(ns, 8))
	waiting := redislease.New(client, redislease.WithReplicas(1))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := waiting.Acquire(ctx, request(ns, 8)); !errors.Is(err, redislease.ErrNotReplicated) {
		t.Errorf("Acquire that waits for a replica on a node that has none: error %v; want ErrNotReplicated", err)
	}

	// While the slot moves, its keys are on two nodes.
	slot := do(t, admin, "CLUSTER", "KEYSLOT", "{gormflake:app}:meta")
	do(t, adminTwo, "CLUSTER", "SETSLOT", slot, "IMPORTING", idOne)
	do(t, admin, "CLUSTER", "SETSLOT", slot, "MIGRATING", idTwo)
	do(t, admin, "MIGRATE", "127.0.0.1", port(two), "{gormflake:app}:slots", 0, 5000)
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if grant, err := store.Acquire(ctx, request(ns, 8)); err == nil || errors.Is(err, lease.ErrLost) {
		t.Errorf("Acquire while the rows are elsewhere = %+v, error %v; want an error", grant, err)
	}
	if _, err := store.Extend(ctx, held, held.Through+1); err == nil || errors.Is(err, lease.ErrLost) {
		t.Errorf("Extend while the rows are elsewhere: error %v; want one that is no loss", err)
	}
	for _, name := range []string{"meta", "expiry"} {
		do(t, admin, "MIGRATE", "127.0.0.1", port(two), "{gormflake:app}:"+name, 0, 5000)
	}
	do(t, adminTwo, "CLUSTER", "SETSLOT", slot, "NODE", idTwo)
	do(t, admin, "CLUSTER", "SETSLOT", slot, "NODE", idTwo)
	recovers(t, "an extension finds the slot's new node", func(ctx context.Context) error {
		next, err := store.Extend(ctx, held, held.Through+1)
		if err == nil {
			held = next
		}
		return err
	})
	grant := acquire(t, waiting, request(ns, 8))
	if rows, err := waiting.(lease.Lister).List(within(t), ns); err != nil || len(rows) < 2 {
		t.Errorf("List = %v, error %v; want both rows", rows, err)
	}

	var asked time.Time
	eventually(t, "the replica is promoted", func() bool {
		// A failover is given up after 5 s where the nodes are slow to vote.
		if time.Since(asked) > 6*time.Second {
			do(t, adminThree, "CLUSTER", "FAILOVER")
			asked = time.Now()
		}
		text, err := adminThree.Info(within(t), "replication").Result()
		return err == nil && strings.Contains(text, "role:master")
	})
	recovers(t, "an extension finds the promoted node", func(ctx context.Context) error {
		next, err := store.Extend(ctx, held, held.Through+1)
		if err == nil {
			held = next
		}
		return err
	})
	recovers(t, "one that waits for replicas finds it too", func(ctx context.Context) error {
		_, err := waiting.Extend(ctx, grant, grant.Through+1)
		return err
	})
}

// TestSentinel leases through Sentinel, kills the primary, and goes on with the
// promoted replica.
func TestSentinel(t *testing.T) {
	primary, admin := private(t, promptly)
	replica := servers.Private(t, servers.Redis, servers.Args("--replicaof", "127.0.0.1", port(primary)))
	awaitReplicas(t, admin, 1)
	sentinel := startSentinel(t, primary)
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "flakes", SentinelAddrs: []string{sentinel}})
	t.Cleanup(func() { _ = client.Close() })
	store, ns := redislease.New(client), newNamespace()
	held := acquire(t, store, request(ns, 8))
	adminReplica := connect(t, replica.Process().Addr())
	watching := connect(t, sentinel)
	eventually(t, "Sentinel knows the replica", func() bool {
		list, err := watching.Do(within(t), "SENTINEL", "REPLICAS", "flakes").Slice()
		return err == nil && len(list) == 1
	})
	eventually(t, "the replica has the row", func() bool {
		return adminReplica.HExists(within(t), "{gormflake:"+ns+"}:slots", fmt.Sprint(held.Worker)).Val()
	})
	primary.Kill(t)
	recovers(t, "an extension finds the promoted replica", func(ctx context.Context) error {
		_, err := store.Extend(ctx, held, held.Through+1)
		return err
	})
	acquire(t, store, request(ns, 8))
	if text := adminReplica.Info(within(t), "replication").Val(); !strings.Contains(text, "role:master") {
		t.Errorf("the replica was not promoted: %s", text)
	}
}

// startSentinel watches a primary, alone, and returns its address.
func startSentinel(t *testing.T, primary *servers.Server) string {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skipf("no Sentinel: redis-server is not in PATH: %v", err)
	}
	folder := t.TempDir()
	// A port that a server of the harness has just left.
	spare := servers.Private(t, servers.Redis)
	addr, number := spare.Process().Addr(), port(spare)
	spare.Kill(t)
	config := filepath.Join(folder, "sentinel.conf")
	lines := strings.Join([]string{
		"port " + number, "bind 127.0.0.1", "dir " + folder,
		"sentinel monitor flakes 127.0.0.1 " + port(primary) + " 1",
		"sentinel down-after-milliseconds flakes 500",
		"sentinel failover-timeout flakes 5000", "",
	}, "\n")
	if err := os.WriteFile(config, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, config, "--sentinel")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	client := connect(t, addr)
	eventually(t, "Sentinel answers", func() bool { return client.Ping(within(t)).Err() == nil })
	return addr
}
