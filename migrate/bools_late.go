package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Between two steps anybody may alter the table or create what depends on it. The
// schema is looked through again before a step that such a thing wouldn't survive.

// unchanged refuses to swap what the plan doesn't know of: the new column has no
// twin of it, or it goes by the type that the column is about to lose.
func (p *BoolPlan) unchanged(ctx context.Context, s *boolSession) error {
	now, err := s.showCreate(ctx, p.Table)
	if err != nil {
		return err
	}
	if found := p.record.latecomer(now); found != "" {
		return p.outOfOrder("Swap", PhasePrepared, "somebody has altered the table since the plan was made, and this would go with the old column: "+found+
			"; call Rollback and make a new plan, or take it back")
	}
	return p.settled(ctx, s, "Swap", PhasePrepared)
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

// settled refuses a step that gives the columns another type, while somebody's
// view, trigger, routine, event or key goes by the present one.
func (p *BoolPlan) settled(ctx context.Context, s *boolSession, step string, phase BoolPhase) error {
	found, err := p.newcomers(ctx, s, func(c columnPlan) string { return c.Name })
	if err != nil || len(found) == 0 {
		return err
	}
	o := found[0]
	advice := fmt.Sprintf("the %s %s uses column %s by its present type, and isn't part of the plan; drop it first", o.Code, o.Name, o.Column)
	if slices.Contains(acceptable, o.Code) {
		advice += fmt.Sprintf(", or, once it is ready for both types, repeat the plan with Accept(%q, %q)", o.Code, o.Name)
	}
	return p.outOfOrder(step, phase, advice)
}

// unused refuses a step that drops the second columns, while somebody's view,
// trigger, routine, event or key names one of them and would fail without it.
func (p *BoolPlan) unused(ctx context.Context, s *boolSession, step string, phase BoolPhase) error {
	found, err := p.newcomers(ctx, s, func(c columnPlan) string { return c.Helper })
	if err != nil || len(found) == 0 {
		return err
	}
	o := found[0]
	return p.outOfOrder(step, phase, fmt.Sprintf("the %s %s names column %s, which %s drops; drop or change it first", o.Code, o.Name, o.Column, step))
}

// quiet refuses a backfill that would fire somebody's trigger for every row.
func (p *BoolPlan) quiet(ctx context.Context, s *boolSession, phase BoolPhase) error {
	found, err := s.triggersOf(ctx, &BoolReport{Table: p.Table})
	if err != nil {
		return fmt.Errorf("migrate: the triggers of %s: %w", p.Table, err)
	}
	for _, o := range found {
		if strings.HasSuffix(o.Detail, "UPDATE") && !p.accepts(o) {
			return p.outOfOrder("Backfill", phase, fmt.Sprintf("the trigger %s isn't part of the plan, and would fire for every row; drop it first, or, once it may, repeat the plan with Accept(%q, %q)",
				o.Name, o.Code, o.Name))
		}
	}
	return nil
}

// newcomers are the objects that mention a column of the plan, by the one or the
// other of its names, and that the plan neither made nor accepted. Nothing can be
// accepted for the second name: that column goes.
func (p *BoolPlan) newcomers(ctx context.Context, s *boolSession, name func(columnPlan) string) ([]Object, error) {
	r, all, err := s.readTable(ctx, p.Table)
	if err != nil {
		return nil, err
	}
	names := each(p.record.Columns, name)
	r.Columns = slices.DeleteFunc(all, func(c BoolColumn) bool { return !slices.Contains(names, c.Name) })
	found, err := s.objects(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("migrate: what depends on %s: %w", p.Table, err)
	}
	return slices.DeleteFunc(found, func(o Object) bool {
		planned := func(ix indexPlan) bool { return o.Name == ix.Name || o.Name == ix.Helper }
		switch {
		case o.Column == "":
			return true
		case o.Code == "index":
			return slices.ContainsFunc(p.record.Indexes, planned)
		}
		column := slices.IndexFunc(p.record.Columns, func(c columnPlan) bool { return c.Name == o.Column })
		return column >= 0 && p.accepts(o)
	}), nil
}

// accepts reports whether the plan, as it was begun or as it is repeated, accepts
// the object.
func (p *BoolPlan) accepts(o Object) bool {
	spelled := Accept(o.Code, o.Name).String()
	return slices.Contains(acceptable, o.Code) && (slices.Contains(p.record.Overrides, spelled) || slices.Contains(p.overrides, spelled))
}
