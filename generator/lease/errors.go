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
)

// NoWorkerError is the detail of ErrNoWorker.
type NoWorkerError struct {
	Namespace string
	Workers   Range
	Rows      []Row // the rows that are held, by worker id
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
		fmt.Fprintf(&b, " %d=%s until %s", r.Worker, r.Host(), time.UnixMilli(r.ExpiresAt).UTC().Format(time.RFC3339))
	}
	if len(e.Rows) == 0 {
		b.WriteString(" owners that raced us for every row")
	}
	b.WriteString("; stop one of them, wait for its lease to expire, or widen the range of workers")
	return b.String()
}

// Unwrap returns ErrNoWorker.
func (e *NoWorkerError) Unwrap() error { return ErrNoWorker }
