package migrate

import "context"

// Cleanup ends a migration after Swap: the triggers and the old columns go, and
// the indexes get their own names. It can't be undone. Call it when no program
// needs the old columns any more and nobody will want Rollback; a view, trigger,
// routine, event or key that names one of them is [ErrOutOfOrder].
func (p *BoolPlan) Cleanup(ctx context.Context) error {
	return p.step(ctx, "Cleanup", func(s *boolSession, st boolState) error {
		r := p.record
		switch st.phase {
		case PhaseOriginal, PhasePartial, PhasePrepared:
			return p.outOfOrder("Cleanup", st.phase, "call Swap first, or Rollback to give up")
		case PhaseSwapped:
			if err := p.afterSwap(ctx, s); err != nil {
				return err
			}
			fallthrough
		case PhaseClosing:
			if err := p.unused(ctx, s, "Cleanup", st.phase); err != nil {
				return err
			}
			if err := p.dropTriggers(ctx, s); err != nil {
				return err
			}
			if err := s.ddl(ctx, r.clean(r.Table)+r.Algorithms[alterClean].clause()); err != nil {
				return err
			}
		}
		return s.forget(ctx, r.Table)
	})
}
