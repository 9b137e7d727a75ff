package faults

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/redislease"
	"github.com/gormflake/gormflake/internal/servers"
)

// TestRedisRefuses makes the server refuse every write, for a reason that is
// typed, until the fleet is sealed; then it lets go, and the fleet goes on with
// the leases that it had.
func TestRedisRefuses(t *testing.T) {
	config := func(name, value string) func(*testing.T, *redis.Client) {
		return func(t *testing.T, client *redis.Client) { do(t, client, "CONFIG", "SET", name, value) }
	}
	const grants = "~{gormflake:faults}:* -@all +eval +evalsha +time +hget +hmget +hset +zscore +zadd +wait +info +ping +hello +client"
	user := func(rules string) func(*testing.T, *redis.Client) {
		return func(t *testing.T, client *redis.Client) {
			args := []any{"ACL", "SETUSER", "flake"}
			for word := range strings.FieldsSeq(rules) {
				args = append(args, word)
			}
			do(t, client, args...)
		}
	}
	tests := []struct {
		name        string
		begin       func(*testing.T, *redis.Client)
		spoil, mend func(*testing.T, *redis.Client)
		want        error
	}{
		{name: "out of memory", spoil: config("maxmemory", "1"), mend: config("maxmemory", "0"), want: redislease.ErrOutOfMemory},
		{name: "too few replicas to write", spoil: config("min-replicas-to-write", "1"), mend: config("min-replicas-to-write", "0"), want: redislease.ErrNotReplicated},
		{name: "permission of scripts denied", begin: user("on >flake " + grants), spoil: user("-evalsha"), mend: user("+evalsha"), want: redislease.ErrNoPermission},
		{name: "permission within scripts denied", begin: user("on >flake " + grants), spoil: user("-hset"), mend: user("+hset"), want: redislease.ErrNoPermission},
		{name: "permission of keys denied", begin: user("on >flake " + grants), spoil: user("resetkeys"), mend: user("~{gormflake:faults}:*"), want: redislease.ErrNoPermission},
		{
			name:  "demoted to a replica",
			spoil: func(t *testing.T, client *redis.Client) { do(t, client, "REPLICAOF", "127.0.0.1", "1") },
			mend:  func(t *testing.T, client *redis.Client) { do(t, client, "REPLICAOF", "NO", "ONE") },
			want:  redislease.ErrReadOnly,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := servers.Private(t, servers.Redis)
			client := admin(t, srv.Process().Addr())
			f := newRedisFleet(t, srv.Process().Addr())
			if tt.begin != nil {
				tt.begin(t, client)
				f.user = "flake"
			}
			monotone(t, redislease.New(client, durable...))
			members := f.join(3, append(durable, lease.Window(short))...)
			f.awaitIssue("the fleet starts")
			tt.spoil(t, client)
			f.awaitError(tt.want)
			f.awaitSealed(members...)
			tt.mend(t, client)
			f.awaitIssue("the fleet recovers")
			f.check()
			for _, m := range members {
				if n := m.opened.Load().Stats().Losses; n != 0 {
					t.Errorf("%s lost its lease %d times; want it to go on with the one it had", m.name, n)
				}
			}
		})
	}
}

// TestRedisEvicts lets a server that is full delete keys at random, under live
// owners. They are refused new leases until the policy is mended.
func TestRedisEvicts(t *testing.T) {
	t.Parallel()
	srv := servers.Private(t, servers.Redis)
	client := admin(t, srv.Process().Addr())
	f := newRedisFleet(t, srv.Process().Addr())
	options := with(lease.Window(short), lease.Workers(0, 2), redislease.WithDurable())
	members := f.join(3, options...)
	f.awaitIssue("the fleet starts")
	f.awaitLosses(members, func() {
		do(t, client, "CONFIG", "SET", "maxmemory-policy", "allkeys-random")
		do(t, client, "CONFIG", "SET", "maxmemory", "3mb")
		filler := strings.Repeat("x", 10_000)
		for i := range 2000 {
			// Full for good, the server refuses some of these.
			if err := client.Set(t.Context(), fmt.Sprint("filler:", i), filler, 0).Err(); err != nil && !strings.HasPrefix(err.Error(), "OOM") {
				t.Fatal(err)
			}
		}
		eventually(t, "the rows are evicted", func() bool {
			_ = client.Set(t.Context(), fmt.Sprint("filler:", time.Now().UnixNano()), filler, 0).Err()
			n, err := client.Exists(t.Context(), "{gormflake:faults}:slots").Result()
			return err == nil && n == 0
		})
	})
	f.awaitError(redislease.ErrEviction)
	do(t, client, "CONFIG", "SET", "maxmemory", "0")
	do(t, client, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	f.awaitIssue("the fleet recovers")
	f.check()
}

// TestRedisHasNoMoreWorkers runs one member more than there are worker ids: it
// is told who holds them, and starts when one of them ends.
func TestRedisHasNoMoreWorkers(t *testing.T) {
	t.Parallel()
	srv := servers.Private(t, servers.Redis)
	f := newRedisFleet(t, srv.Process().Addr())
	monotone(t, redislease.New(admin(t, srv.Process().Addr()), durable...))
	options := append(durable, lease.Window(short), lease.Workers(0, 2))
	f.join(3, options...)
	f.awaitIssue("the fleet starts")
	late := f.join(1, options...)
	f.awaitError(lease.ErrNoWorker)
	var full *lease.NoWorkerError
	f.mu.Lock()
	for _, err := range f.errs {
		errors.As(err, &full)
	}
	f.mu.Unlock()
	if full == nil || len(full.Rows) != 3 || full.Rows[0].Host() == "" {
		t.Errorf("the refusal is %+v; want it to name the three holders", full)
	}
	if err := f.members[0].opened.Load().Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.awaitIssue("the late member starts", late...)
	f.stop()
	if ids, wrong := f.inspect(); ids == 0 || len(wrong) > 0 {
		t.Errorf("%d ids, of which are wrong: %v", ids, wrong)
	}
}
