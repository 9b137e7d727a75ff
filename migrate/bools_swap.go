package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Swap verifies every row and then exchanges the names of the old and the new
// columns in one atomic ALTER that copies nothing. From then on the triggers fill
// the old columns from the new ones, so that Rollback loses nothing.
//
// Should a value that nobody has mapped be written between the verification and
// the exchange, Swap finds it afterwards, exchanges the names back and returns a
// [*DisagreeError].
func (p *BoolPlan) Swap(ctx context.Context) error {
	return p.step(ctx, "Swap", func(s *boolSession, st boolState) error {
		switch st.phase {
		case PhaseFinished, PhaseClosing:
			return nil
		case PhaseSwapped:
			return p.afterSwap(ctx, s)
		case PhaseOriginal, PhasePartial:
			return p.outOfOrder("Swap", st.phase, "call Prepare and Backfill first")
		}
		if missing := p.record.missingIndexes(st); len(missing) > 0 {
			return p.outOfOrder("Swap", st.phase, "Backfill hasn't come to its end: the index "+missing[0].Helper+" is missing; call Backfill again")
		}
		now, err := s.showCreate(ctx, p.Table)
		if err != nil {
			return err
		}
		if found := p.record.latecomer(now); found != "" {
			return p.outOfOrder("Swap", st.phase, "somebody has altered the table since the plan was made, and this would go with the old column: "+found+
				"; call Rollback and make a new plan, or take it back")
		}
		report, err := s.verify(ctx, p.record, PhasePrepared)
		if err != nil {
			return err
		}
		if !report.OK() {
			return &DisagreeError{Report: report}
		}
		if err := s.ddl(ctx, swapColumns(p.record.Table, p.record.Columns)+p.record.Algorithms[alterSwap].clause()); err != nil {
			return err
		}
		return p.afterSwap(ctx, s)
	})
}

// latecomer is what the table says of an old column and didn't say when the plan
// was made, or "": an index, a default, a check. The new column has no twin of it.
func (r *planRecord) latecomer(now tableCreate) string {
	was := parseCreate(r.Original)
	for _, c := range r.Columns {
		quoted := quoteName(c.Name)
		if now.columns[c.Name] != was.columns[c.Name] {
			return quoted + " " + now.columns[c.Name]
		}
		for _, line := range now.others {
			if strings.Contains(line, quoted) && !slices.Contains(was.others, line) {
				return line
			}
		}
		for name, definition := range now.columns {
			if name != c.Name && definition != was.columns[name] && strings.Contains(withoutStrings(definition), quoted) {
				return quoteName(name) + " " + definition
			}
		}
	}
	return ""
}

// afterSwap looks for unmapped values that came in just before the exchange.
// Later ones can't come: a number is true or false.
func (p *BoolPlan) afterSwap(ctx context.Context, s *boolSession) error {
	r := p.record
	report, err := s.verify(ctx, r, PhaseSwapped)
	if err != nil {
		return err
	}
	slipped := false
	for _, c := range report.Columns {
		slipped = slipped || c.Unmapped > 0
	}
	if !slipped {
		return nil
	}
	if err := s.ddl(ctx, swapBack(r.Table, r.Columns)+r.Algorithms[alterSwapBack].clause()); err != nil {
		return fmt.Errorf("%w, while undoing the swap because of %w", err, &DisagreeError{Report: report})
	}
	report.Phase = PhasePrepared
	return &DisagreeError{Report: report}
}
