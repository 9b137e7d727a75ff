package migrate

import (
	"context"
	"errors"
	"fmt"
)

// Swap verifies every row and then exchanges the names of the old and the new
// columns in one atomic ALTER that copies nothing. From then on the triggers fill
// the old columns from the new ones, so that Rollback loses nothing.
//
// Should a value that nobody has mapped be written between the verification and
// the exchange, Swap finds it afterwards, exchanges the names back and returns a
// [*DisagreeError]. A view, trigger, routine, event or key that uses a column and
// was created since the plan was made is [ErrOutOfOrder], found before the exchange
// or right after it.
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
		if err := p.unchanged(ctx, s); err != nil {
			return err
		}
		report, err := s.verify(ctx, p.record, PhasePrepared)
		if err != nil {
			return err
		}
		if !report.OK() {
			return &DisagreeError{Report: report}
		}
		if err := p.unchanged(ctx, s); err != nil { // reading a large table took its time
			return err
		}
		if err := s.ddl(ctx, swapColumns(p.record.Table, p.record.Columns)+p.record.Algorithms[alterSwap].clause()); err != nil {
			return err
		}
		if err := p.settled(ctx, s, "Swap", PhasePrepared); errors.Is(err, ErrOutOfOrder) {
			return p.undoSwap(ctx, s, err)
		} else if err != nil {
			return err
		}
		return p.afterSwap(ctx, s)
	})
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
	report.Phase = PhasePrepared
	return p.undoSwap(ctx, s, &DisagreeError{Report: report})
}

// undoSwap exchanges the names back and returns why.
func (p *BoolPlan) undoSwap(ctx context.Context, s *boolSession, why error) error {
	r := p.record
	if err := s.ddl(ctx, swapBack(r.Table, r.Columns)+r.Algorithms[alterSwapBack].clause()); err != nil {
		return fmt.Errorf("%w, while undoing the swap because of %w", err, why)
	}
	return why
}
