package migrate

import (
	"errors"
	"fmt"
)

var (
	// ErrUnprovenBool reports a bare Go bool, or a boolean literal, beside a
	// legacy boolean column in a place where the codec can't prove which column
	// it belongs to; an assigned expression that isn't proven to yield a label; and
	// a column of labels where MySQL takes its truth or its number. Bind [Param]'s
	// result instead. The error's type is [*UnprovenBoolError].
	ErrUnprovenBool = errors.New("migrate: a bool stands beside a legacy boolean column and can't be proven to belong to it")

	// ErrUnexpectedValue reports a stored value that is neither the true nor the
	// false of its column: an enum's empty string, a third label, a 2 in a tinyint.
	ErrUnexpectedValue = errors.New("migrate: a stored value is neither true nor false")

	// ErrLegacyColumn reports a schema change that would alter a legacy boolean
	// column, which MySQL would do by label index and so corrupt every row.
	ErrLegacyColumn = errors.New("migrate: refusing to alter a legacy boolean column")

	// ErrNotBoolean reports that a column which a model or a mapping declares as
	// a boolean can't hold one, or that it has labels nobody has mapped.
	ErrNotBoolean = errors.New("migrate: the column is not a boolean that is understood")

	// ErrUse reports a USE statement. It changes the database of the one connection
	// that executes it; the codec, which knows one default database for the whole
	// pool, would then encode by the wrong table.
	ErrUse = errors.New("migrate: USE changes the database of one connection of the pool, which the codec can't follow; name the database before the table, or open it by a data source name of its own")

	// ErrNoCodec reports that a database has no codec installed.
	ErrNoCodec = errors.New("migrate: the codec is not installed on this database; call db.Use(migrate.LegacyBools(...))")
)

// UnprovenBoolError tells which column was in sight and what stood beside it.
// errors.Is(err, ErrUnprovenBool) holds for it.
type UnprovenBoolError struct {
	Table  string // the table of the legacy column
	Column string // the legacy column that is in sight
	Found  string // what stood there: "placeholder 2", "TRUE", "id > 0", "a bare column"
	Reason string // why it isn't proven, in a few words
}

// Error says what was met and what to do.
func (e *UnprovenBoolError) Error() string {
	return fmt.Sprintf("migrate: %s in a statement over the legacy boolean column %s.%s: %s; compare the column with one placeholder (\"%s = ?\"), or bind migrate.Param(db, model, %q, v)",
		e.Found, e.Table, e.Column, e.Reason, e.Column, e.Column)
}

// Unwrap makes errors.Is(err, ErrUnprovenBool) true.
func (e *UnprovenBoolError) Unwrap() error { return ErrUnprovenBool }
