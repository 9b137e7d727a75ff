// Package lease says how a generator comes by a worker id that nobody else
// uses, and holds the stores that need neither a database nor Redis.
//
// A store keeps one row per worker id: its owner, its term (a fencing number
// that grows with each owner) and its high water, an exclusive upper bound on
// the time that any id of this worker carries. Three rules make every id
// unique; clocks, expiry and pauses take no part in the argument:
//
//  1. Per worker, the high water and the term never go down, on release
//     neither.
//  2. A grant is the half-open range [From, Through) of one committed
//     compare-and-swap, with From at or above the high water before it and
//     Through equal to the high water after it. Grants of one worker are
//     therefore pairwise disjoint.
//  3. A generator issues strictly increasing ids, and only inside a grant
//     whose success it has seen.
//
// All times in this package are Unix milliseconds in an int64.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"strings"
	"time"
)

// Unbounded is the high water of a grant that never needs an extension.
const Unbounded int64 = math.MaxInt64

// Store hands out worker ids. Its methods are safe for concurrent use, honour
// their context, and never run inside a transaction of the application.
// Every store passes leasetest.Run.
type Store interface {
	// Key identifies what the store talks to: two stores with equal keys lease
	// the same rows. It must be comparable.
	Key() any

	// Timing returns the store's window and intervals. It is constant.
	Timing() Timing

	// Acquire takes a row that is absent, released or expired, by one
	// compare-and-swap that raises its term by one, sets the owner to
	// Request.Token and the high water to max(H, Request.Now+Timing.Window).
	// It passes over rows that can't be used now: those further ahead than
	// Request.MaxAhead or than the store's own cap.
	// It returns ErrNoWorker (with a NoWorkerError) when no row of the range
	// can be taken, ErrLayoutMismatch when the namespace has another layout, and
	// ErrClockSkew when the new high water lies further ahead of the store's
	// clock than the window and its slack. When the outcome is unknown it
	// returns an error; the caller tries again with a new token and never
	// adopts the row.
	Acquire(ctx context.Context, req Request) (Grant, error)

	// Extend raises the high water of a row that is still held, by one
	// compare-and-swap on owner, term and held.Through, to through. It never
	// creates a row. A through below held.Through counts as held.Through: the
	// row stays held for longer and its high water stays. It does not ask
	// whether the row has expired: an owner that nobody followed goes on. It
	// returns ErrLost when the row is held by another owner,
	// another term or another high water, and ErrClockSkew as Acquire does.
	// When the outcome is unknown it returns any other error; the caller then
	// asks Lookup.
	Extend(ctx context.Context, held Grant, through int64) (Grant, error)

	// Release frees a row that is still held. It keeps the high water, and
	// lets the row be taken as soon as the high water has passed. used is an
	// exclusive upper bound on the time of the ids that were issued; a store
	// that keeps no high water of its own remembers it. Releasing a row that
	// is lost or was released before is no error.
	Release(ctx context.Context, held Grant, used int64) error

	// Lookup reads one row. ok is false when there is none.
	Lookup(ctx context.Context, namespace string, worker int64) (row Row, ok bool, err error)
}

// Lister is a store that can list the rows of a namespace, by worker id, for
// people and for the command line.
type Lister interface {
	List(ctx context.Context, namespace string) ([]Row, error)
}

// Describer is a store that says in a few words what it is and which
// guarantee it gives, for logs. It names no password.
type Describer interface {
	Describe() string
}

// Timing is a store's window and intervals.
type Timing struct {
	// Window is how far past the clock a grant reaches; 0 means that grants
	// are Unbounded and are never extended.
	Window time.Duration
	// Interval is the time between two extensions.
	Interval time.Duration
	// Expiry is how long after its last extension a row may be taken by
	// another process. It serves liveness alone.
	Expiry time.Duration
	// Slack is how far past its own clock plus Window the store lets a high
	// water lie.
	Slack time.Duration
}

// CheckCap returns ErrClockSkew with its detail when a high water lies further
// past the store's clock than the window and its slack, or nil. Stores share
// it; without it one clock in a far year would make a row unusable until then.
func (t Timing) CheckCap(highWater, storeNow int64) error {
	if allowed := t.Window + t.Slack; highWater > storeNow+allowed.Milliseconds() {
		return &ClockSkewError{HighWater: highWater, StoreNow: storeNow, Allowed: allowed}
	}
	return nil
}

// Range is an inclusive range of worker ids.
type Range struct{ Lo, Hi int64 }

// Contains reports whether w lies in the range.
func (r Range) Contains(w int64) bool { return r.Lo <= w && w <= r.Hi }

// Len returns how many worker ids the range holds; 0 when it is empty.
func (r Range) Len() int64 { return max(0, r.Hi-r.Lo+1) }

// Intersect returns the worker ids that lie in both ranges.
func (r Range) Intersect(o Range) Range {
	return Range{Lo: max(r.Lo, o.Lo), Hi: min(r.Hi, o.Hi)}
}

// String returns the range as "0 to 1007", or "none".
func (r Range) String() string {
	if r.Len() == 0 {
		return "none"
	}
	return fmt.Sprintf("%d to %d", r.Lo, r.Hi)
}

// Layout is the record of a namespace's id layout. Ids of two layouts in one
// namespace could be equal, so a store refuses a second one.
type Layout struct {
	EpochMillis  int64 // Unix milliseconds of time part 0
	TickMillis   int64 // milliseconds per tick
	TimeBits     int
	WorkerBits   int
	SequenceBits int
}

// String returns the record in the form that stores keep: epoch, tick, and
// the bits of time, worker and sequence, such as "1420070400000/1/41/10/12".
func (l Layout) String() string {
	return fmt.Sprintf("%d/%d/%d/%d/%d", l.EpochMillis, l.TickMillis, l.TimeBits, l.WorkerBits, l.SequenceBits)
}

// Request is what a generator asks of Acquire.
type Request struct {
	Namespace string
	Layout    Layout
	// Workers is the range of worker ids that a live lease may use.
	Workers Range
	// Token is a fresh random owner token, see NewToken. Never used twice.
	Token string
	// Now is the caller's clock.
	Now int64
	// MaxAhead, in milliseconds, is how far past Now a row's high water may
	// lie for the caller to want it; rows further ahead are passed over.
	MaxAhead int64
	// MaxLead, in milliseconds, is how far the caller's ids may run ahead of
	// its clock. A store without a persisted high water waits it out.
	MaxLead int64
	// Avoid is a worker id to be taken only when there is no other; -1 for
	// none.
	Avoid int64
}

// Grant is the permission to issue ids of one worker in [From, Through).
type Grant struct {
	Namespace string
	Worker    int64
	Term      int64
	Token     string
	// From and Through bound the ids' time. Through may be at or below From:
	// such a grant permits nothing until an extension has raised Through.
	From, Through int64
	// NotBefore is the time that the caller's clock must have reached before
	// it issues anything; 0 for no wait. Leading the clock is not enough.
	NotBefore int64
	// Because says in a few words what NotBefore waits out; "" where there is
	// no wait, or no more to say than that.
	Because string
	// StoreNow is the store's clock during the call; 0 when it has none.
	StoreNow int64
}

// Row is what a store keeps of one worker id.
type Row struct {
	Worker    int64  `json:"worker"`
	Term      int64  `json:"term"`
	Owner     string `json:"owner"` // a token; "" when the row was released
	HighWater int64  `json:"high_water"`
	// ExpiresAt is when the row may be taken, by the store's clock.
	ExpiresAt int64 `json:"expires_at"`
	// Held reports whether the row could not be taken at the time of the
	// call: ExpiresAt had not passed. A row that was released is held, by
	// nobody, until its high water has passed.
	Held bool `json:"held"`
}

// Host returns the part of the owner's token that names host and process.
func (r Row) Host() string {
	host, _, _ := strings.Cut(r.Owner, "/")
	return host
}

// tokenLength is what the owner column of every store has room for.
const tokenLength = 64

// NewToken returns a fresh owner token of at most 64 ASCII characters: the
// host's name and the process id for people to read, a slash, and 128 random
// bits in hexadecimal.
func NewToken() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	tail := "." + fmt.Sprint(os.Getpid()) + "/" + hex.EncodeToString(random[:])
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	host = strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f && r != '/' && r != '|' {
			return r
		}
		return '-'
	}, host)
	return host[:min(len(host), tokenLength-len(tail))] + tail
}
