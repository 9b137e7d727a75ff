package redislease

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	crand "crypto/rand"

	"github.com/redis/go-redis/v9"

	"github.com/gormflake/gormflake/generator/lease"
)

// New returns a store that leases in Redis, through a client of one server
// (redis.NewClient), of one behind Sentinel (redis.NewFailoverClient) or of a
// Cluster (redis.NewClusterClient). It sends nothing yet; the first use
// reports an option's fault, and a client that is none of these.
//
// The client stays the caller's: it serves other work at the same time, keeps
// its hooks, and is closed after the last generator. Its retries and timeouts
// don't apply: a lease's commands are sent once, within their context. The
// user needs the permissions in the package's comment.
func New(client redis.UniversalClient, options ...Option) lease.Store {
	common, own := newSettings(options)
	return &store{client: client, settings: common, own: own}
}

type store struct {
	client   redis.UniversalClient
	settings lease.Settings
	own      *settings
}

var (
	_ lease.Store      = (*store)(nil)
	_ lease.Lister     = (*store)(nil)
	_ lease.Describer  = (*store)(nil)
	_ lease.Backfiller = (*store)(nil)
)

// serverKey is a store's Key where a client names one server.
type serverKey struct {
	address  string
	database int
}

// Key returns the server's address and database, or the client where the
// address does not tell: behind Sentinel, and on a Cluster.
func (s *store) Key() any {
	if c, ok := s.client.(interface{ Options() *redis.Options }); ok {
		if o := c.Options(); o.Addr != "FailoverClient" {
			return serverKey{o.Addr, o.DB}
		}
	}
	return s.client
}

// Timing returns the window and intervals.
func (s *store) Timing() lease.Timing { return s.settings.Timing }

// Describe names the server and what is promised.
func (s *store) Describe() string {
	var stated string
	switch {
	case s.own.durable && s.own.replicas > 0:
		stated = fmt.Sprintf("stated durable, waits for %d replicas", s.own.replicas)
	case s.own.durable:
		stated = "stated durable"
	case s.own.replicas > 0:
		stated = fmt.Sprintf("waits for %d replicas", s.own.replicas)
	default:
		stated = "a failover may lose writes"
	}
	return fmt.Sprintf("redis %s: %s, newcomers wait %v, a new namespace %v", address(s.client), stated,
		s.own.newcomer(s.settings.Timing), s.own.newborn(s.settings.Timing))
}

// Acquire takes a random row that is free. See lease.Store.
func (s *store) Acquire(ctx context.Context, req lease.Request) (lease.Grant, error) {
	if err := s.check(); err != nil {
		return lease.Grant{}, err
	}
	if err := req.Validate(); err != nil {
		return lease.Grant{}, err
	}
	k := keysOf(req.Namespace)
	acquire := func(ctx context.Context, conn *redis.Conn) (lease.Grant, error) {
		if err := s.inspect(ctx, conn); err != nil {
			return lease.Grant{}, err
		}
		grant, err := s.acquire(ctx, conn, k, req)
		if err != nil {
			return lease.Grant{}, err
		}
		if err := s.wait(ctx, conn); err != nil {
			s.abandon(k, grant)
			return lease.Grant{}, err
		}
		return grant, nil
	}
	return on(ctx, s, k, acquire, func(grant lease.Grant) { s.abandon(k, grant) })
}

func (s *store) acquire(ctx context.Context, conn *redis.Conn, k keys, req lease.Request) (lease.Grant, error) {
	t := s.settings.Timing
	workers := s.workers(req.Workers, req.Layout)
	start := int64(0)
	if n := workers.Len(); n > 0 {
		// A random row: the lowest free one is just the one whose grant was lost.
		start = rand.Int64N(n)
	}
	r, err := acquireScript.run(ctx, conn, k.lease(),
		req.Layout.String(), workers.Lo, workers.Hi, start, req.Avoid, req.Token,
		req.Now, req.MaxAhead, t.Window.Milliseconds(), t.Slack.Milliseconds(), t.Expiry.Milliseconds(),
		s.own.newcomer(t).Milliseconds(), s.own.newborn(t).Milliseconds(), s.generation())
	if err != nil {
		return lease.Grant{}, err
	}
	switch r.word() {
	case "ok":
		n, err := r.numbers(1, 2, 3, 4, 5, 6)
		if err != nil {
			return lease.Grant{}, err
		}
		return lease.Grant{
			Namespace: req.Namespace, Worker: n[0], Term: n[1], Token: req.Token,
			From: n[2], Through: n[3], NotBefore: n[4], Because: s.because(n[4] - n[5]), StoreNow: n[5],
		}, nil
	case "full":
		rows, err := r.rows(2)
		if err != nil {
			return lease.Grant{}, err
		}
		return lease.Grant{}, &lease.NoWorkerError{Namespace: req.Namespace, Workers: workers, Rows: rows}
	}
	return lease.Grant{}, s.refused(r, req.Namespace, req.Layout)
}

// because says what a wait of so many ms is for.
func (s *store) because(wait int64) string {
	guard := s.own.newcomer(s.settings.Timing).Milliseconds()
	switch {
	case wait <= 0:
		return ""
	case guard > 0 && wait <= guard:
		return "owners that a failover of Redis may have forgotten"
	}
	return "the namespace was begun just now, and Redis can't tell a new one from one whose owners were wiped; WithGuard(0) leaves this out where it is new for certain"
}

// Extend raises the high water of a row. See lease.Store.
func (s *store) Extend(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
	if err := s.check(); err != nil {
		return lease.Grant{}, err
	}
	k := keysOf(held.Namespace)
	t := s.settings.Timing
	return on(ctx, s, k, func(ctx context.Context, conn *redis.Conn) (lease.Grant, error) {
		r, err := extendScript.run(ctx, conn, k.lease(), held.Worker, held.Term, held.Token,
			held.Through, through, t.Expiry.Milliseconds(), (t.Window + t.Slack).Milliseconds())
		if err != nil {
			return lease.Grant{}, err
		}
		switch r.word() {
		case "ok":
		case "lost":
			return lease.Grant{}, lease.LostError(held)
		default:
			return lease.Grant{}, s.refused(r, held.Namespace, lease.Layout{})
		}
		n, err := r.numbers(1, 2)
		if err != nil {
			return lease.Grant{}, err
		}
		if err := s.wait(ctx, conn); err != nil {
			return lease.Grant{}, err
		}
		extended := held
		extended.Through, extended.StoreNow = n[0], n[1]
		return extended, nil
	}, nil)
}

// Release frees a row; used is of no use here. It does not wait for replicas:
// a release that is lost with the primary leaves a row that expires. See
// lease.Store.
func (s *store) Release(ctx context.Context, held lease.Grant, _ int64) error {
	if err := s.check(); err != nil {
		return err
	}
	k := keysOf(held.Namespace)
	_, err := on(ctx, s, k, func(ctx context.Context, conn *redis.Conn) (reply, error) {
		return releaseScript.run(ctx, conn, k.lease(), held.Worker, held.Term, held.Token)
	}, nil)
	return err
}

// abandon releases a row that nobody will use: the caller has gone, or the
// replicas did not answer. It expires anyway.
func (s *store) abandon(k keys, grant lease.Grant) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = onConnection(ctx, s, k, func(ctx context.Context, conn *redis.Conn) (reply, error) {
		return releaseScript.run(ctx, conn, k.lease(), grant.Worker, grant.Term, grant.Token)
	})
}

// Lookup reads one row. Since a generator adopts what it finds, WithReplicas
// makes sure that the replicas have it too. See lease.Store.
func (s *store) Lookup(ctx context.Context, namespace string, worker int64) (lease.Row, bool, error) {
	if err := s.check(); err != nil {
		return lease.Row{}, false, err
	}
	k := keysOf(namespace)
	rows, err := on(ctx, s, k, func(ctx context.Context, conn *redis.Conn) ([]lease.Row, error) {
		rewrite := "0"
		if s.own.replicas > 0 {
			rewrite = "1"
		}
		r, err := lookupScript.run(ctx, conn, k.lease(), worker, rewrite)
		if err != nil || r.word() != "ok" {
			return nil, err
		}
		if err := s.wait(ctx, conn); err != nil {
			return nil, err
		}
		return r.rows(2)
	}, nil)
	if err != nil || len(rows) == 0 {
		return lease.Row{}, false, err
	}
	return rows[0], true, nil
}

// check returns the fault of the options.
func (s *store) check() error {
	if s.client == nil {
		return fmt.Errorf("%w: want a client, got nil", ErrUnsupported)
	}
	return s.settings.Err
}

// generation names a new one, or is empty where none may be begun.
func (s *store) generation() string {
	if s.own.noBootstrap {
		return ""
	}
	var random [16]byte
	_, _ = crand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}

// widest is more workers than any layout has.
const widest = int64(1) << 40

// workers is the range that the store may hand out of those asked for.
func (s *store) workers(asked lease.Range, layout lease.Layout) lease.Range {
	limit := widest
	if layout.WorkerBits > 0 && layout.WorkerBits < 40 {
		limit = int64(1) << layout.WorkerBits
	}
	return asked.Intersect(s.settings.Workers).Intersect(lease.Range{Lo: 0, Hi: limit - 1})
}

// refused turns what a script says about the namespace into an error.
func (s *store) refused(r reply, namespace string, layout lease.Layout) error {
	switch r.word() {
	case "skew":
		n, err := r.numbers(1, 2)
		if err != nil {
			return err
		}
		t := s.settings.Timing
		return &lease.ClockSkewError{HighWater: n[1], StoreNow: n[0], Allowed: t.Window + t.Slack}
	case "floor":
		n, err := r.numbers(1, 2)
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: namespace %q was begun when Redis' clock was ahead: its first id is due at %s, Redis' clock shows %s; set the clock right, or delete all keys %s:* and keep every generator stopped until then",
			lease.ErrClockSkew, namespace, day(n[1]), day(n[0]), "{gormflake:"+namespace+"}")
	case "layout":
		if len(r) == 2 {
			return &lease.LayoutMismatchError{Namespace: namespace, Recorded: r[1], Requested: layout.String()}
		}
	case "format":
		if len(r) == 2 {
			return fmt.Errorf("%w: want keys of format 1 in namespace %q, got %s; use a newer version of this package", ErrUnsupported, namespace, strconv.Quote(r[1]))
		}
	case "absent":
		return fmt.Errorf("%w: want the keys %s, got none; leave out WithoutBootstrap where it is new, or look where its data went",
			ErrNotBootstrapped, keysOf(namespace).meta)
	}
	return r.unexpected()
}

func day(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
