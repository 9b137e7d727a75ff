package gormflake

import (
	"errors"

	"github.com/gormflake/gormflake/generator"
)

// Errors of the plugin, wrapped with detail and added to the statement, which
// then inserts nothing. Match them with errors.Is.
var (
	// ErrInvalidConfig says that a Config contradicts itself, or that a plugin
	// value was installed where it can't serve.
	ErrInvalidConfig = generator.ErrInvalidConfig
	// ErrNotStarted says that there is no worker id yet: the first lease is
	// not there within MaxWait, or was asked for inside a transaction, where
	// nothing waits for it. Call Start at boot.
	ErrNotStarted = generator.ErrNotStarted
	// ErrClosed says that the plugin was closed.
	ErrClosed = generator.ErrClosed
	// ErrSealed says that the lease is used up or lost and not renewed yet. The
	// plugin recovers by itself when the lease store answers again.
	ErrSealed = generator.ErrSealed
	// ErrConnectionHeld comes with ErrSealed: the lease is not renewed because
	// the statement's own transaction holds the only connection of the pool
	// that the lease is renewed on. End the transaction and try again.
	ErrConnectionHeld = errors.New("gormflake: the pool's only connection is held")
	// ErrClockBehind says that the clock is too far behind the last id.
	ErrClockBehind = generator.ErrClockBehind
	// ErrClockSkew says that this machine's clock and the store's differ too much.
	ErrClockSkew = generator.ErrClockSkew
	// ErrNoWorker says that every worker id is held by a process.
	ErrNoWorker = generator.ErrNoWorker
	// ErrWorkerInUse says that a fixed worker id has a generator already.
	ErrWorkerInUse = generator.ErrWorkerInUse
	// ErrTimeExhausted says that the layout's last tick has passed.
	ErrTimeExhausted = generator.ErrTimeExhausted
	// ErrInvalidLayout says that a layout's widths, epoch or tick are no layout.
	ErrInvalidLayout = generator.ErrInvalidLayout
	// ErrLayoutMismatch says that the namespace was begun with another layout.
	ErrLayoutMismatch = generator.ErrLayoutMismatch
	// ErrBurstTooLarge says that one statement wants more ids than MaxWait,
	// MaxLead and the lease's window allow. Use CreateInBatches.
	ErrBurstTooLarge = generator.ErrBurstTooLarge
	// ErrOutOfRange says that a business number does not fit its bits.
	ErrOutOfRange = generator.ErrOutOfRange

	// ErrNotAddressable says that a model was passed by value, so that its id
	// could not be set.
	ErrNotAddressable = errors.New("gormflake: value can't be set")
	// ErrNoID says that a row of a model with snowflake keys has no id and can
	// be given none.
	ErrNoID = errors.New("gormflake: row without an id")
	// ErrInvalidTag says that a field's gormflake tag can't be followed.
	ErrInvalidTag = errors.New("gormflake: invalid tag")
	// ErrBusinessID says that the columns that a row's id is made of are
	// missing or can't be read.
	ErrBusinessID = errors.New("gormflake: id can't be made of the row's columns")
)
