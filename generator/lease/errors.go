package lease

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors that stores return, wrapped with detail. Match them with errors.Is.
var (
	// ErrNoWorker says that every worker id of the range is held.
	ErrNoWorker = errors.New("lease: no worker id is free")
	// ErrWorkerInUse says that a fixed worker id has a generator already.
	ErrWorkerInUse = errors.New("lease: worker id is in use")
	// ErrLayoutMismatch says that the namespace was begun with another layout.
	ErrLayoutMismatch = errors.New("lease: layout differs from the namespace's")
	// ErrClockSkew says that the caller's clock and the store's are too far apart.
	ErrClockSkew = errors.New("lease: clock differs too much from the store's")
	// ErrLost says that the row is held by another owner, term or high water.
	ErrLost = errors.New("lease: lost to another owner")
	// ErrSequenceExhausted says that a tick has no sequence left on any worker
	// that a backfill may use.
	ErrSequenceExhausted = errors.New("lease: sequence exhausted")
	// ErrInvalid says that a setting or a request can't be right, however
	// often it is tried: a worker id outside the layout, a namespace of other
	// characters, an option's fault, a damaged state file.
	ErrInvalid = errors.New("lease: invalid")
)

// ClockSkewError is the detail of ErrClockSkew. Times are Unix milliseconds.
type ClockSkewError struct {
	HighWater int64         // the high water that was asked for
	StoreNow  int64         // the store's clock
	Allowed   time.Duration // how far past its clock the store lets a high water lie
}

// Error says how far ahead the high water is and what was allowed.
func (e *ClockSkewError) Error() string {
	return fmt.Sprintf("%v: want a high water at most %v past the store's clock %s, got %s; set this machine's clock and the store's right",
		ErrClockSkew, e.Allowed, formatMillis(e.StoreNow), formatMillis(e.HighWater))
}

// Unwrap returns ErrClockSkew.
func (e *ClockSkewError) Unwrap() error { return ErrClockSkew }

// LayoutMismatchError is the detail of ErrLayoutMismatch. Recorded and
// Requested are in the form of Layout.String.
type LayoutMismatchError struct {
	Namespace           string
	Recorded, Requested string
}

// Error says which layout the namespace has and which was asked for.
func (e *LayoutMismatchError) Error() string {
	return fmt.Sprintf("%v: namespace %q has %s (epoch ms/tick ms/bits of time/worker/sequence), got %s; use the recorded layout or another namespace",
		ErrLayoutMismatch, e.Namespace, e.Recorded, e.Requested)
}

// Unwrap returns ErrLayoutMismatch.
func (e *LayoutMismatchError) Unwrap() error { return ErrLayoutMismatch }

// NoWorkerError is the detail of ErrNoWorker.
type NoWorkerError struct {
	Namespace string
	Workers   Range
	Rows      []Row // the rows that could not be taken, by worker id
}

// Error says which range is full and who holds its rows.
func (e *NoWorkerError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: namespace %q, workers %v", ErrNoWorker, e.Namespace, e.Workers)
	if e.Workers.Len() == 0 {
		b.WriteString(": the range is empty; give it worker ids that the layout has and that are not kept for backfills")
		return b.String()
	}
	b.WriteString(": held by")
	const named = 8
	for i, r := range e.Rows {
		if i == named {
			fmt.Fprintf(&b, " and %d more", len(e.Rows)-named)
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		who := r.Host()
		if who == "" {
			who = "nobody (released; its ids' time has yet to pass)"
		}
		fmt.Fprintf(&b, " %d=%s until %s", r.Worker, who, formatMillis(max(r.ExpiresAt, r.HighWater)))
	}
	if len(e.Rows) == 0 {
		b.WriteString(" owners that raced us for every row")
	}
	b.WriteString("; stop one of them, wait for its lease to expire, or widen the range of workers")
	return b.String()
}

// Unwrap returns ErrNoWorker.
func (e *NoWorkerError) Unwrap() error { return ErrNoWorker }

// formatMillis writes a time of this package for people.
func formatMillis(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// LostError returns ErrLost with the row that was lost. Stores share it.
func LostError(held Grant) error {
	return fmt.Errorf("%w: namespace %q, worker %d, term %d", ErrLost, held.Namespace, held.Worker, held.Term)
}

// ExhaustedError returns ErrSequenceExhausted with the range that is full.
// Stores share it.
func ExhaustedError(req BlockRequest) error {
	return fmt.Errorf("%w: namespace %q, ticks %d to %d have no sequence left on workers %v; spread the rows over more time, see the backfill's precision",
		ErrSequenceExhausted, req.Namespace, req.FirstTick, req.LastTick, req.Workers)
}
