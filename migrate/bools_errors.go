package migrate

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrRefused reports that a plan has refusals, so that no step of it runs. The
	// error's type is [*RefusedError].
	ErrRefused = errors.New("migrate: the plan refuses this table")

	// ErrLocked reports that another runner holds the table's advisory lock.
	ErrLocked = errors.New("migrate: another runner is migrating this table")

	// ErrBusy reports that a DDL statement didn't get the table's metadata lock
	// within BoolSpec.Patience, because transactions of others kept it.
	ErrBusy = errors.New("migrate: the table stayed busy")

	// ErrOutOfOrder reports a step that the table's state doesn't allow yet or
	// any more: a swap before the backfill, a rollback after the cleanup.
	ErrOutOfOrder = errors.New("migrate: the table isn't in the state that this step starts from")

	// ErrDisagree reports rows whose new column doesn't say what the old one says.
	// The error's type is [*DisagreeError].
	ErrDisagree = errors.New("migrate: the old and the new column disagree")

	// ErrPlanChanged reports a plan that differs from the one that is under way on
	// the same table.
	ErrPlanChanged = errors.New("migrate: another plan is under way on this table")

	// ErrNotMySQL reports a database that is neither MySQL nor MariaDB.
	ErrNotMySQL = errors.New("migrate: the migration of booleans needs MySQL or MariaDB")
)

// RefusedError carries the reasons why a plan won't run. errors.Is(err,
// ErrRefused) holds for it.
type RefusedError struct {
	Table    string
	Refusals []Refusal
}

// Error lists every refusal with its remedy.
func (e *RefusedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "migrate: the plan refuses table %s:", e.Table)
	for _, r := range e.Refusals {
		b.WriteString("\n  - " + r.String())
	}
	return b.String()
}

// Unwrap makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Unwrap() error { return ErrRefused }

// PartialError reports a step that failed after its first statements were
// applied, since MySQL commits every DDL statement by itself. Calling the same
// step again, from this process or another, resumes it; Rollback undoes it.
type PartialError struct {
	Step    string   // "Prepare", "Swap" and so on
	Applied []string // the statements that took effect, in order; a long backfill keeps its last ones
	Failed  string   // the statement that failed; whether it took effect is unknown if the connection broke
	Err     error    // why
}

// Error says what failed, what was applied before, and how to go on.
func (e *PartialError) Error() string {
	statements := "statements"
	if len(e.Applied) == 1 {
		statements = "statement"
	}
	back := ", or Rollback"
	if e.Step == "Rollback" || e.Step == "Cleanup" {
		back = "" // it is this one, or there is none
	}
	return fmt.Sprintf("migrate: %s failed after %d %s: %v (in: %s); call %s again to resume%s",
		e.Step, len(e.Applied), statements, e.Err, e.Failed, e.Step, back)
}

// Unwrap returns the cause.
func (e *PartialError) Unwrap() error { return e.Err }

// DisagreeError carries a verification that failed. errors.Is(err, ErrDisagree)
// holds for it.
type DisagreeError struct{ Report *VerifyReport }

// Error names the columns and the first keys.
func (e *DisagreeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "migrate: table %s has rows whose columns disagree:", e.Report.Table)
	for _, c := range e.Report.Columns {
		if c.Differ > 0 {
			fmt.Fprintf(&b, " %s in %d rows (keys %s);", c.Column, c.Differ, strings.Join(c.Keys, ", "))
		}
		if c.Unmapped > 0 {
			fmt.Fprintf(&b, " %s has %d values that nobody has mapped (keys %s);", c.Column, c.Unmapped, strings.Join(c.UnmappedKeys, ", "))
		}
	}
	b.WriteString(" mend or map these values, then call Backfill again")
	return b.String()
}

// Unwrap makes errors.Is(err, ErrDisagree) true.
func (e *DisagreeError) Unwrap() error { return ErrDisagree }
