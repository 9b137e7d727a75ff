package generator

import (
	"errors"
	"fmt"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// Errors of this package, wrapped with detail. Match them with errors.Is.
var (
	// ErrClockBehind says that the clock is so far behind the last id that
	// waiting for it would take longer than MaxWait or the context allows.
	// errors.As finds a *ClockBehindError.
	ErrClockBehind = errors.New("generator: clock is behind the last id")
	// ErrSealed says that the grant is used up or lost and not renewed yet.
	// The generator recovers by itself when the store answers again.
	ErrSealed = errors.New("generator: sealed, the lease is not renewed")
	// ErrClosed says that the generator was closed.
	ErrClosed = errors.New("generator: closed")
	// ErrNotStarted says that the generator has no lease yet.
	ErrNotStarted = errors.New("generator: not started, there is no lease yet")
	// ErrTimeExhausted says that a time lies past the layout's last tick.
	ErrTimeExhausted = errors.New("generator: time is past the layout's end")
	// ErrBeforeEpoch says that a time lies before the layout's epoch.
	ErrBeforeEpoch = errors.New("generator: time is before the layout's epoch")
	// ErrOutOfRange says that a worker id, a sequence or a business number
	// does not fit its bits. errors.As finds a *RangeError.
	ErrOutOfRange = errors.New("generator: number does not fit its bits")
	// ErrInvalidLayout says that a layout's widths, epoch or tick are no layout.
	ErrInvalidLayout = errors.New("generator: invalid layout")
	// ErrInvalidWindow says that a time range has a zero time or ends before it
	// begins.
	ErrInvalidWindow = errors.New("generator: invalid time range")
	// ErrBurstTooLarge says that a Fill is larger than MaxWait, MaxLead and
	// the lease's window allow.
	ErrBurstTooLarge = errors.New("generator: burst is too large")
	// ErrInvalidConfig says that a Config contradicts itself.
	ErrInvalidConfig = errors.New("generator: invalid config")

	// ErrNoWorker says that every worker id is held. errors.As finds a
	// *lease.NoWorkerError, which names the holders.
	ErrNoWorker = lease.ErrNoWorker
	// ErrWorkerInUse says that a fixed worker id has a generator already.
	ErrWorkerInUse = lease.ErrWorkerInUse
	// ErrLayoutMismatch says that the namespace was begun with another layout.
	ErrLayoutMismatch = lease.ErrLayoutMismatch
	// ErrClockSkew says that this machine's clock and the store's are too far
	// apart.
	ErrClockSkew = lease.ErrClockSkew
	// ErrSequenceExhausted says that a backfill's tick is full.
	ErrSequenceExhausted = lease.ErrSequenceExhausted
)

// ClockBehindError is the detail of ErrClockBehind.
type ClockBehindError struct {
	Behind  time.Duration // how far the clock is behind the last id
	Wait    time.Duration // how long a call would have had to wait
	Allowed time.Duration // how long it was allowed to wait
}

// Error says how far the clock is behind and what was allowed.
func (e *ClockBehindError) Error() string {
	return fmt.Sprintf("%v: it is %v behind, which needs a wait of %v where %v is allowed; correct the clock, raise MaxWait or MaxLead, or wait",
		ErrClockBehind, e.Behind, e.Wait, e.Allowed)
}

// Unwrap returns ErrClockBehind.
func (e *ClockBehindError) Unwrap() error { return ErrClockBehind }

// RangeError is the detail of ErrOutOfRange.
type RangeError struct {
	Field    string // "worker", "sequence" or "business"
	Value    int64
	Min, Max int64 // both included
}

// Error says which number was met and which range was expected.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%v: want a %s from %d to %d, got %d; use a layout with wider bits or a smaller number",
		ErrOutOfRange, e.Field, e.Min, e.Max, e.Value)
}

// Unwrap returns ErrOutOfRange.
func (e *RangeError) Unwrap() error { return ErrOutOfRange }
