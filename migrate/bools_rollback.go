package migrate

import "context"

// Rollback restores the table as it was before Prepare: the names are exchanged
// back if they were swapped, then the triggers, the new columns and their indexes
// go. Nothing that was written meanwhile is lost, under either name. What others
// have created meanwhile and wouldn't survive it, such as a view of the new column,
// is [ErrOutOfOrder]. After Cleanup has begun there is no way back.
func (p *BoolPlan) Rollback(ctx context.Context) error {
	return p.step(ctx, "Rollback", func(s *boolSession, st boolState) error {
		r := p.record
		switch st.phase {
		case PhaseClosing, PhaseFinished:
			return p.outOfOrder("Rollback", st.phase, "Cleanup has begun and the old columns are no longer filled; call Cleanup, then plan the way back with Target")
		case PhaseSwapped:
			if err := p.settled(ctx, s, "Rollback", st.phase); err != nil {
				return err
			}
			if err := p.unused(ctx, s, "Rollback", st.phase); err != nil {
				return err
			}
			report, err := s.verify(ctx, r, PhaseSwapped)
			if err != nil {
				return err
			}
			for _, c := range report.Columns {
				if c.Differ > 0 {
					return &DisagreeError{Report: report}
				}
			}
			if err := s.ddl(ctx, swapBack(r.Table, r.Columns)+r.Algorithms[alterSwapBack].clause()); err != nil {
				return err
			}
		case PhasePartial, PhasePrepared:
			if err := p.unused(ctx, s, "Rollback", st.phase); err != nil {
				return err
			}
		}
		if st.phase != PhaseOriginal {
			if err := p.dropTriggers(ctx, s); err != nil {
				return err
			}
			if err := s.ddl(ctx, r.undoWith(st.indexes)+r.Algorithms[alterUndo].clause()); err != nil {
				return err
			}
		}
		return s.forget(ctx, r.Table)
	})
}

// undoWith is undo without the indexes that don't exist yet.
func (r *planRecord) undoWith(have map[string]bool) string {
	partial := *r
	partial.Indexes = nil
	for _, ix := range r.Indexes {
		if have[ix.Helper] {
			partial.Indexes = append(partial.Indexes, ix)
		}
	}
	return partial.undo(r.Table)
}

func (p *BoolPlan) dropTriggers(ctx context.Context, s *boolSession) error {
	for _, event := range triggerEvents {
		if err := s.ddl(ctx, p.record.dropTrigger(event)); err != nil {
			return err
		}
	}
	return nil
}

func (r *planRecord) dropTrigger(event string) string {
	return "DROP TRIGGER IF EXISTS " + quoteName(triggerName(r.Table, event))
}
