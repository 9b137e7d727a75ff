package migrate

import "context"

// Prepare adds the new columns beside the old ones, and the triggers that fill
// them from then on. Programs that know nothing of it go on as before. After Swap
// it does nothing.
func (p *BoolPlan) Prepare(ctx context.Context) error {
	return p.step(ctx, "Prepare", func(s *boolSession, st boolState) error {
		return p.prepare(ctx, s, st)
	})
}

func (p *BoolPlan) prepare(ctx context.Context, s *boolSession, st boolState) error {
	r := p.record
	switch st.phase {
	case PhasePrepared, PhaseSwapped, PhaseClosing, PhaseFinished:
		return nil
	case PhaseOriginal:
		under, err := s.readRecord(ctx, p.Table)
		if err != nil {
			return err
		}
		now, err := s.showCreate(ctx, p.Table)
		if err != nil {
			return err
		}
		if now.comparable() != r.Original {
			return p.outOfOrder("Prepare", st.phase, "somebody altered the table since it was planned; "+again(under))
		}
		if under == nil {
			if err := s.writeRecord(ctx, r); err != nil {
				return err
			}
		}
		if err := s.ddl(ctx, addColumns(r.Table, r.Columns)+r.Algorithms[alterAdd].clause()); err != nil {
			return err
		}
	}
	for _, event := range triggerEvents {
		if st.triggers[event] {
			continue
		}
		// Rows may have changed while a trigger was missing: the backfill must not
		// trust what it noted before.
		if _, err := s.exec(ctx, "UPDATE "+journalTable+" SET last_key = NULL WHERE table_name = ?", r.Table); err != nil {
			return err
		}
		if err := s.ddl(ctx, createTrigger(triggerName(r.Table, event), r.Table, event, r.Triggers[event])); err != nil {
			return err
		}
	}
	return nil
}

func again(under *planRecord) string {
	if under == nil {
		return "make a new plan"
	}
	return "call Rollback, then make a new plan"
}
