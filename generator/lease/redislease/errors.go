package redislease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Errors of this package, wrapped with detail. Match them with errors.Is.
// Beside them the store returns those of package lease.
//
// The store recovers from every one of them once its cause is gone: it keeps
// no state that would have to be reset.
var (
	// ErrUnknownOutcome says that a command was sent and its reply was not
	// received in time, so that it may have taken effect or not.
	ErrUnknownOutcome = errors.New("redislease: outcome is unknown")
	// ErrUnavailable says that the server could not be reached, or that it
	// refused to work for now (LOADING, MASTERDOWN, CLUSTERDOWN, TRYAGAIN,
	// MISCONF, BUSY).
	ErrUnavailable = errors.New("redislease: server is unavailable")
	// ErrReadOnly says that the server is a replica (READONLY).
	ErrReadOnly = errors.New("redislease: server is a read-only replica")
	// ErrNotReplicated says that fewer replicas acknowledged a write than
	// WithReplicas states, or than min-replicas-to-write asks for
	// (NOREPLICAS). errors.As finds a *ReplicasError in the first case.
	ErrNotReplicated = errors.New("redislease: too few replicas acknowledged")
	// ErrReplicas says that the server has more replicas than were stated.
	// errors.As finds a *ReplicasError.
	ErrReplicas = errors.New("redislease: more replicas than stated")
	// ErrOutOfMemory says that the server has reached maxmemory (OOM).
	ErrOutOfMemory = errors.New("redislease: server is out of memory")
	// ErrEviction says that the server may delete rows to make room:
	// maxmemory-policy allkeys-*.
	ErrEviction = errors.New("redislease: maxmemory-policy may delete leases")
	// ErrNoPermission says that the user may not do what a lease needs (NOPERM,
	// NOAUTH, WRONGPASS). The package's comment has the permissions.
	ErrNoPermission = errors.New("redislease: no permission")
	// ErrNotBootstrapped says that the namespace is missing, and that
	// WithoutBootstrap forbids to begin it.
	ErrNotBootstrapped = errors.New("redislease: namespace is missing")
	// ErrNotDurable says that a backfill was refused because nothing states
	// that the server keeps what it acknowledged.
	ErrNotDurable = errors.New("redislease: durability is not stated")
	// ErrUnsupported says that the client or the server is of a kind that
	// can't lease: a Ring, a server before Redis 5, keys of another format.
	ErrUnsupported = errors.New("redislease: not supported")
	// ErrDamaged says that a namespace's keys were changed by somebody else.
	ErrDamaged = errors.New("redislease: keys are damaged")
)

// ReplicasError is the detail of ErrNotReplicated and ErrReplicas.
type ReplicasError struct {
	Stated int // by WithReplicas; 0 beside WithDurable alone
	Met    int // that acknowledged, or that are attached
	err    error
}

// Error says how many replicas were stated and how many were met.
func (e *ReplicasError) Error() string {
	if e.err == ErrNotReplicated {
		return fmt.Sprintf("%v: want %d, got %d; nothing is issued until all of them answer", e.err, e.Stated, e.Met)
	}
	return fmt.Sprintf("%v: want %d, got %d attached, one of which may be promoted without the last grant; state them with WithReplicas or detach them",
		e.err, e.Stated, e.Met)
}

// Unwrap returns ErrNotReplicated or ErrReplicas.
func (e *ReplicasError) Unwrap() error { return e.err }

// refusals map the first word of an error reply. Scripts of servers before
// Redis 7 put it into the text of another error.
var refusals = []struct {
	code string
	err  error
	hint string
}{
	{"READONLY", ErrReadOnly, "the client has to find the primary"},
	{"NOREPLICAS", ErrNotReplicated, "min-replicas-to-write is not met"},
	{"OOM", ErrOutOfMemory, "raise maxmemory or free some"},
	{"NOPERM", ErrNoPermission, "grant what the package's comment lists"},
	{"NOAUTH", ErrNoPermission, "log in"},
	{"WRONGPASS", ErrNoPermission, "correct the user or its password"},
	{"LOADING", ErrUnavailable, "it is reading its data"},
	{"MASTERDOWN", ErrUnavailable, "a replica without its primary"},
	{"CLUSTERDOWN", ErrUnavailable, "the cluster does not serve this slot"},
	{"TRYAGAIN", ErrUnavailable, "the slot is being moved"},
	{"MOVED", ErrUnavailable, "the slot was moved"},
	{"ASK", ErrUnavailable, "the slot is being moved"},
	{"MISCONF", ErrUnavailable, "it can't save its data"},
	{"BUSY", ErrUnavailable, "a script holds it up"},
	{"WRONGTYPE", ErrDamaged, "a key of the namespace is of another type"},
}

// code returns the first word of a Redis error, or that of the error inside
// the error that a script raised.
func code(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	text := reply.Error()
	word, _, _ := strings.Cut(text, " ")
	for _, r := range refusals {
		if word == r.code || strings.Contains(text, " -"+r.code+" ") {
			return r.code
		}
	}
	return word
}

// typed gives an error of the client or of the server one of this package's
// sentinels.
func typed(ctx context.Context, err error) error {
	var dial *net.OpError
	var timeout net.Error
	switch word := code(err); {
	case err == nil:
		return nil
	case word != "":
		return refusal(word, err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, errors.Join(ctx.Err(), err))
	case errors.As(err, &timeout) && timeout.Timeout() && !errors.Is(err, context.DeadlineExceeded):
		// Reads and writes time out at the context's deadline, sometimes a
		// moment before the context does.
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, errors.Join(context.DeadlineExceeded, err))
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

func refusal(word string, err error) error {
	for _, r := range refusals {
		if r.code == word {
			return fmt.Errorf("%w: %s: %w", r.err, r.hint, err)
		}
	}
	switch text := err.Error(); {
	case strings.Contains(text, "DAMAGED"):
		return fmt.Errorf("%w: restore the namespace's keys, or delete all of them: %w", ErrDamaged, err)
	case strings.Contains(text, "can't run this command"), strings.Contains(text, "can't access at least one"):
		return fmt.Errorf("%w: grant what the package's comment lists: %w", ErrNoPermission, err)
	case strings.Contains(text, "non deterministic"):
		return fmt.Errorf("%w: want Redis 5 or later: %w", ErrUnsupported, err)
	}
	return fmt.Errorf("redislease: the server refused: %w", err)
}
