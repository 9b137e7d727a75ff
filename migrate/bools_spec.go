package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
)

// BoolSpec says which columns to migrate, and how gently.
type BoolSpec struct {
	Table   string   // a table of the connection's database; "" takes the Model's
	Model   any      // a GORM model, instead of Table
	Columns []string // all of them in one pass; none named: every legacy boolean that Inspect recognises

	// Target is what the columns become: "" means "tinyint(1)". An enum of two
	// known labels, such as "enum('N','Y')", is the way back for those who must
	// serve old programs: tinyint columns become that enum.
	Target string

	// MaxBlock is how long a DDL statement may wait for the table's metadata
	// lock before it is cancelled and tried again; writers queue behind it
	// meanwhile. 0 means 100 ms.
	MaxBlock time.Duration

	// Patience is how long such a statement is tried again before ErrBusy.
	// 0 means one minute.
	Patience time.Duration

	// LockWait is how long a step waits for another runner's advisory lock before
	// ErrLocked, in whole seconds. 0 means 10 s, for a runner that was killed
	// while the server still executes its statement; negative doesn't wait.
	LockWait time.Duration
}

const defaultTarget = "tinyint(1)"

// Override spells out a decision that a plan would otherwise refuse to take.
type Override struct {
	kind   string
	column string
	text   string // a label, a number, or an object's name
	other  string
	value  bool
}

const (
	overrideNull     = "MapNull"
	overrideKeepNull = "KeepNull"
	overrideEmpty    = "MapEmpty"
	overrideLabel    = "MapLabel"
	overrideNumber   = "MapNumber"
	overrideLabels   = "Labels"
	overrideAccept   = "Accept"
)

// MapNull lets NULL in the column become v, and the new column NOT NULL.
func MapNull(column string, v bool) Override {
	return Override{kind: overrideNull, column: column, value: v}
}

// KeepNull lets NULL in the column stay NULL in the new one.
func KeepNull(column string) Override { return Override{kind: overrideKeepNull, column: column} }

// MapEmpty lets the empty string become v: an enum's error value, which
// non-strict servers store for anything that isn't a label.
func MapEmpty(column string, v bool) Override {
	return Override{kind: overrideEmpty, column: column, value: v}
}

// MapLabel lets one more text, such as the lower-case "y" of a char(1), become v.
// It is compared byte by byte.
func MapLabel(column, label string, v bool) Override {
	return Override{kind: overrideLabel, column: column, text: label, value: v}
}

// MapNumber lets one more number of a tinyint, such as -1 or 2, become v.
func MapNumber(column string, number int64, v bool) Override {
	return Override{kind: overrideNumber, column: column, text: fmt.Sprint(number), value: v}
}

// Labels declares the labels of an enum, char or varchar that don't speak for
// themselves: enum('off','on'), or a char(1) of T and F.
func Labels(column, falseLabel, trueLabel string) Override {
	return Override{kind: overrideLabels, column: column, text: falseLabel, other: trueLabel}
}

// Accept says that an object which mentions the column has been dealt with:
// kind is a Refusal's Code ("view", "trigger", "routine", "event"), name is the
// object's name as the Refusal gives it.
func Accept(kind, name string) Override {
	return Override{kind: overrideAccept, column: kind, text: name}
}

// String spells the override as it is written in Go.
func (o Override) String() string {
	switch o.kind {
	case overrideNull, overrideEmpty:
		return fmt.Sprintf("%s(%q, %t)", o.kind, o.column, o.value)
	case overrideKeepNull:
		return fmt.Sprintf("%s(%q)", o.kind, o.column)
	case overrideNumber:
		return fmt.Sprintf("%s(%q, %s, %t)", o.kind, o.column, o.text, o.value)
	case overrideLabels:
		return fmt.Sprintf("%s(%q, %q, %q)", o.kind, o.column, o.text, o.other)
	case overrideAccept:
		return fmt.Sprintf("%s(%q, %q)", o.kind, o.column, o.text)
	default:
		return fmt.Sprintf("%s(%q, %q, %t)", o.kind, o.column, o.text, o.value)
	}
}

// resolve fills in the defaults and the table's name.
func (s BoolSpec) resolve(db *gorm.DB) (BoolSpec, error) {
	if s.Table == "" && s.Model != nil {
		stmt := &gorm.Statement{DB: db}
		if err := stmt.Parse(s.Model); err != nil {
			return s, fmt.Errorf("migrate: the model %T: %w", s.Model, err)
		}
		s.Table = stmt.Table
	}
	if s.Table == "" || strings.ContainsAny(s.Table, ".`\x00") {
		return s, fmt.Errorf("migrate: expected the plain name of a table of the connection's database, without a dot or a backtick, met %q", s.Table)
	}
	s.Target = cmp.Or(s.Target, defaultTarget)
	s.MaxBlock = cmp.Or(s.MaxBlock, 100*time.Millisecond)
	s.Patience = cmp.Or(s.Patience, time.Minute)
	s.LockWait = cmp.Or(s.LockWait, 10*time.Second)
	if s.MaxBlock < 0 || s.Patience < 0 {
		return s, fmt.Errorf("migrate: MaxBlock and Patience must not be negative, met %v and %v", s.MaxBlock, s.Patience)
	}
	s.Columns = slices.Clone(s.Columns)
	return s, nil
}

// target reads Target: the encoding of the new column.
func (s BoolSpec) target() (Encoding, error) {
	dataType, _, _ := strings.Cut(s.Target, "(")
	e, ok := ParseColumn(dataType, s.Target)
	if !ok || (e.Kind != Integer && e.Kind != Enum) {
		return e, fmt.Errorf("migrate: expected Target to be tinyint(1) or an enum of two known labels such as enum('N','Y'), met %q", s.Target)
	}
	return e, nil
}
