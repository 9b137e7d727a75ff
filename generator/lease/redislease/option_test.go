package redislease_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/redislease"
)

func offline(t *testing.T, options *redis.Options) *redis.Client {
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestWrongOptions(t *testing.T) {
	client := offline(t, &redis.Options{Addr: "127.0.0.1:1"})
	for name, option := range map[string]redislease.Option{
		"no replicas":          redislease.WithReplicas(0),
		"fewer":                redislease.WithReplicas(-1),
		"a negative guard":     redislease.WithGuard(-1),
		"a guard of weeks":     redislease.WithGuard(25 * time.Hour),
		"a negative isolation": redislease.WithIsolation(-time.Second),
		"a long isolation":     redislease.WithIsolation(25 * time.Hour),
		"a reversed range":     lease.Workers(3, 1),
	} {
		if _, err := redislease.New(client, option).Acquire(within(t), request("app", 4)); !errors.Is(err, lease.ErrInvalid) {
			t.Errorf("%s: error %v; want ErrInvalid", name, err)
		}
	}
	if _, err := lease.Memory(redislease.WithDurable()).Acquire(within(t), request("app", 4)); !errors.Is(err, lease.ErrInvalid) {
		t.Errorf("an option given to another store: error %v; want ErrInvalid", err)
	}
}

func TestUnsupportedClients(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}, HeartbeatFrequency: time.Hour})
	t.Cleanup(func() { _ = ring.Close() })
	for name, client := range map[string]redis.UniversalClient{"a ring": ring, "none": nil} {
		if _, err := redislease.New(client).Acquire(within(t), request("app", 4)); !errors.Is(err, redislease.ErrUnsupported) {
			t.Errorf("%s: error %v; want ErrUnsupported", name, err)
		}
	}
}

func TestAnUnreachableServer(t *testing.T) {
	store := redislease.New(offline(t, &redis.Options{Addr: "127.0.0.1:1"}))
	if _, err := store.Acquire(within(t), request("app", 4)); !errors.Is(err, redislease.ErrUnavailable) {
		t.Errorf("Acquire: error %v; want ErrUnavailable", err)
	}
}

func TestKey(t *testing.T) {
	key := func(options *redis.Options) any { return redislease.New(offline(t, options)).Key() }
	a := key(&redis.Options{Addr: "127.0.0.1:1"})
	if b := key(&redis.Options{Addr: "127.0.0.1:1", Username: "other"}); a != b {
		t.Errorf("two clients of one server have keys %v and %v; want one", a, b)
	}
	for name, options := range map[string]*redis.Options{
		"another server":   {Addr: "127.0.0.1:2"},
		"another database": {Addr: "127.0.0.1:1", DB: 1},
	} {
		if b := key(options); a == b {
			t.Errorf("%s has the key %v too; want another", name, b)
		}
	}
	behind := func() *redis.Client {
		client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	one, other := behind(), behind()
	if redislease.New(one).Key() != redislease.New(one).Key() || redislease.New(one).Key() == redislease.New(other).Key() {
		t.Error("behind Sentinel the key is not the client")
	}
}

func TestDescribe(t *testing.T) {
	client := offline(t, &redis.Options{Addr: "127.0.0.1:1", Username: "flake", Password: "secret"})
	for want, store := range map[string]lease.Store{
		"a failover may lose writes, newcomers wait 12s":         redislease.New(client),
		"waits for 2 replicas, newcomers wait 0s":                redislease.New(client, redislease.WithReplicas(2)),
		"stated durable, newcomers wait 0s, a new namespace 11s": redislease.New(client, redislease.WithDurable()),
		"stated durable, waits for 1 replicas":                   redislease.New(client, redislease.WithDurable(), redislease.WithReplicas(1)),
	} {
		got := store.(lease.Describer).Describe()
		if !strings.Contains(got, want) || !strings.Contains(got, "127.0.0.1:1") || strings.Contains(got, "secret") {
			t.Errorf("Describe() = %q; want %q, the address, and no password", got, want)
		}
	}
}
