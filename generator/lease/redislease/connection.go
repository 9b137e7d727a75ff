package redislease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// keys are a namespace's keys, in one hash slot.
type keys struct{ meta, slots, expiry, blocks string }

func keysOf(namespace string) keys {
	slot := "{gormflake:" + namespace + "}"
	return keys{slot + ":meta", slot + ":slots", slot + ":expiry", slot + ":blocks"}
}

func (k keys) lease() []string { return []string{k.meta, k.slots, k.expiry} }

// A slot that is being moved is asked for again, since such a refusal has no
// effect.
const (
	moveFirst = 10 * time.Millisecond
	moveLast  = 200 * time.Millisecond
)

// single is a client of one server, or of the one that Sentinel names.
type single interface {
	WithTimeout(time.Duration) *redis.Client
	Conn() *redis.Conn
}

// cluster is a client of several.
type cluster interface {
	MasterForKey(context.Context, string) (*redis.Client, error)
	ReloadState(context.Context)
}

// unlimited is the time that a call without a deadline is given, and the
// longest wait for replicas.
const unlimited = 5 * time.Second

// on runs work on one connection to the primary of a namespace, and returns
// when it is done or ctx is, whichever comes first. go-redis looks at a
// context between commands and, by default, not while it reads; so the work
// has a goroutine of its own, which ends by the read timeout that is set here.
// Work that succeeds after the caller has left is undone, if undo is given.
func on[T any](ctx context.Context, s *store, k keys, work func(context.Context, *redis.Conn) (T, error), undo func(T)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, fmt.Errorf("redislease: %w", err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, unlimited)
		defer cancel()
	}
	done := make(chan outcome) // without a buffer: either it is handed over or the caller has left
	go func() {
		value, err := onPrimary(ctx, s, k, work)
		select {
		case done <- outcome{value, err}:
		case <-ctx.Done():
			if err == nil && undo != nil {
				undo(value)
			}
		}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return none, fmt.Errorf("%w: the server did not answer in time: %w", ErrUnknownOutcome, ctx.Err())
	}
}

// onPrimary finds the primary and runs work there, again where a Cluster says
// that the slot is elsewhere.
func onPrimary[T any](ctx context.Context, s *store, k keys, work func(context.Context, *redis.Conn) (T, error)) (T, error) {
	for pause := moveFirst; ; pause = min(2*pause, moveLast) {
		value, err := onConnection(ctx, s, k, work)
		many, ok := s.client.(cluster)
		if !ok || err == nil || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknownOutcome) && !errors.Is(err, ErrReadOnly) {
			return value, err
		}
		// The primary may be another one by now.
		many.ReloadState(ctx)
		switch code(err) {
		case "MOVED", "ASK", "TRYAGAIN":
		default:
			return value, err
		}
		select {
		case <-ctx.Done():
			return value, err
		case <-time.After(pause):
		}
	}
}

func onConnection[T any](ctx context.Context, s *store, k keys, work func(context.Context, *redis.Conn) (T, error)) (T, error) {
	var none T
	client, err := s.primary(ctx, k)
	if err != nil {
		return none, err
	}
	conn := client.WithTimeout(left(ctx)).Conn()
	defer conn.Close()
	return work(ctx, conn)
}

// left is the time until the context's deadline, for a read or write timeout.
func left(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return unlimited
	}
	return max(time.Millisecond, time.Until(deadline))
}

// primary returns the client of the server that holds the keys.
func (s *store) primary(ctx context.Context, k keys) (single, error) {
	switch c := s.client.(type) {
	case cluster:
		node, err := c.MasterForKey(ctx, k.meta)
		if err != nil {
			return nil, fmt.Errorf("%w: no primary is known for %s: %w", ErrUnavailable, k.meta, err)
		}
		return node, nil
	case single:
		return c, nil
	}
	return nil, fmt.Errorf("%w: want a *redis.Client (NewClient, NewFailoverClient) or a *redis.ClusterClient, got %T", ErrUnsupported, s.client)
}

// wait returns once all stated replicas have the connection's writes.
func (s *store) wait(ctx context.Context, conn *redis.Conn) error {
	if s.own.replicas == 0 {
		return nil
	}
	// Asked for less than the time left, the server says how many replicas it
	// is short of before the read times out. It looks ten times a second.
	patience := max(1, (min(left(ctx), unlimited)*9/10 - 150*time.Millisecond).Milliseconds())
	cmd := once{redis.NewCmd(ctx, "wait", s.own.replicas, patience)}
	if err := conn.Process(ctx, cmd); err != nil {
		return typed(ctx, err)
	}
	acknowledged, err := cmd.Int()
	if err != nil {
		return typed(ctx, err)
	}
	if acknowledged < s.own.replicas {
		return &ReplicasError{Stated: s.own.replicas, Met: acknowledged, err: ErrNotReplicated}
	}
	return nil
}

// address describes the client's servers, without a password.
func address(client redis.UniversalClient) string {
	switch c := client.(type) {
	case interface{ Options() *redis.Options }:
		return fmt.Sprintf("%s, database %d", c.Options().Addr, c.Options().DB)
	case interface{ Options() *redis.ClusterOptions }:
		return "cluster " + strings.Join(c.Options().Addrs, ",")
	}
	return fmt.Sprintf("%T", client)
}
