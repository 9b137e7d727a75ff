package migrate

import (
	"fmt"
	"strings"
)

// BoolStatement is one statement of a plan, as a reviewer wants to see it.
type BoolStatement struct {
	Step      string // "Prepare", "Backfill", "Verify", "Swap", "Rollback", "Cleanup"
	SQL       string
	Algorithm string // INSTANT, INPLACE; "" for what isn't an ALTER
	Lock      string // what it keeps others from
}

// The locks that the statements take, in words.
const (
	lockBrief   = "reads and writes go on; the metadata lock is exclusive for a moment"
	lockRebuild = "reads and writes go on while the table is rebuilt; the metadata lock is exclusive for a moment at either end"
	lockRows    = "the rows of one batch"
	lockNothing = "nothing"
)

// Statements lists the plan in the order of its steps. Backfill's UPDATE runs
// once per batch. A plan with refusals lists what it would have done.
func (p *BoolPlan) Statements() (all []BoolStatement) {
	r := p.record
	if len(r.Columns) == 0 {
		return nil // every column is refused
	}
	table := quoteName(r.Table)
	alter := func(step, kind, statement string, rebuilds bool) {
		a := r.Algorithms[kind]
		lock := lockBrief
		if rebuilds && a.Algorithm != "INSTANT" {
			lock = lockRebuild
		}
		all = append(all, BoolStatement{Step: step, SQL: statement + a.clause(), Algorithm: a.Algorithm, Lock: lock})
	}
	other := func(step, statement, lock string) {
		all = append(all, BoolStatement{Step: step, SQL: statement, Lock: lock})
	}
	dropTriggers := func(step string) {
		for _, event := range triggerEvents {
			other(step, r.dropTrigger(event), lockBrief)
		}
	}
	alter("Prepare", alterAdd, addColumns(r.Table, r.Columns), true)
	for _, event := range triggerEvents {
		other("Prepare", createTrigger(triggerName(r.Table, event), r.Table, event, r.Triggers[event]), lockBrief)
	}
	other("Backfill", r.batch("?", "?"), lockRows)
	if len(r.Indexes) > 0 {
		alter("Backfill", alterIndex, r.addIndexes(r.Table), true)
	}
	for _, c := range r.Columns {
		other("Verify", fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE %s", table, c.disagrees(false)), lockNothing)
	}
	alter("Swap", alterSwap, swapColumns(r.Table, r.Columns), false)
	alter("Rollback", alterSwapBack, swapBack(r.Table, r.Columns), false)
	dropTriggers("Rollback")
	alter("Rollback", alterUndo, r.undo(r.Table), true)
	dropTriggers("Cleanup")
	alter("Cleanup", alterClean, r.clean(r.Table), true)
	return all
}

// SQL is the plan as a script to review. It isn't meant to be run by hand: the
// steps choose the batches, check before every statement and cancel what waits.
func (p *BoolPlan) SQL() string {
	var b strings.Builder
	fmt.Fprintf(&b, "-- %s on %s\n", p.Table, p.Report.Server)
	for _, refusal := range p.Refusals {
		fmt.Fprintf(&b, "-- REFUSED: %s\n", refusal)
	}
	for _, warning := range p.Warnings {
		fmt.Fprintf(&b, "-- Note: %s.\n", warning)
	}
	step := ""
	for _, s := range p.Statements() {
		if s.Step != step {
			step = s.Step
			fmt.Fprintf(&b, "\n-- %s\n", step)
			if step == "Rollback" {
				b.WriteString("-- (instead of Cleanup; the first statement only after Swap)\n")
			}
		}
		how := ""
		if s.Algorithm != "" {
			how = "algorithm " + s.Algorithm + "; "
		}
		fmt.Fprintf(&b, "-- %slocks: %s\n%s;\n", how, s.Lock, s.SQL)
	}
	return b.String()
}
