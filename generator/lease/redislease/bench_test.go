package redislease_test

import (
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/redislease"
	"github.com/gormflake/gormflake/internal/servers"
)

// BenchmarkExtend is what a generator costs its server in the steady state,
// once in each interval.
func BenchmarkExtend(b *testing.B) {
	store := redislease.New(servers.Shared(b, servers.Redis).OpenRedis(b), redislease.WithDurable(), redislease.WithGuard(0))
	held, err := store.Acquire(b.Context(), request(newNamespace(), 8))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if held, err = store.Extend(b.Context(), held, held.Through); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAcquireLastOf1024 takes the one free row of 1,024.
func BenchmarkAcquireLastOf1024(b *testing.B) {
	store := redislease.New(servers.Shared(b, servers.Redis).OpenRedis(b), redislease.WithDurable(), redislease.WithGuard(0))
	ns := newNamespace()
	// Hours behind, so that a row is free as soon as it is released.
	late := func() lease.Request {
		req := request(ns, 1024)
		req.Now -= 5 * time.Hour.Milliseconds()
		return req
	}
	for range 1023 {
		if _, err := store.Acquire(b.Context(), late()); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		held, err := store.Acquire(b.Context(), late())
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := store.Release(b.Context(), held, held.From); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
