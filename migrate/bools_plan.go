package migrate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"
)

// BoolPlan is a migration of some columns of one table, made for the server and
// the table as they are. Its steps are Prepare, Backfill, Verify, Swap and
// Cleanup; Rollback undoes everything before Cleanup. Every step looks at the
// schema first, does what is missing, and may be called again at any time, also
// by another process after this one was killed. One runner at a time: an advisory
// lock keeps others out.
type BoolPlan struct {
	Table    string
	Refusals []Refusal // why the plan won't run; empty if it will
	Warnings []string  // what the plan can't see to by itself
	Report   *BoolReport
	Resumed  bool // a migration with this very plan is under way

	db     *gorm.DB
	spec   BoolSpec
	record *planRecord

	overrides []string // spelled, as this plan was made: it may accept more than the one that was begun

	hook func(statement string) // tests only
}

// PlanBools inspects the table and plans its migration. It scans the columns, and
// it plays the migration on an empty copy of the table, which it creates and
// drops, so that every ALTER is known to run online on this server. It changes
// nothing else: a direct MODIFY, which would copy an enum's index, is never part
// of a plan. When a migration of the table is under way, the plan is the one that
// was begun, and a different spec is [ErrPlanChanged].
//
// The plan may have refusals. It is returned with a nil error all the same, to be
// read; its steps return a [*RefusedError].
func PlanBools(ctx context.Context, db *gorm.DB, spec BoolSpec, overrides ...Override) (*BoolPlan, error) {
	spec, err := spec.resolve(db)
	if err != nil {
		return nil, err
	}
	target, err := spec.target()
	if err != nil {
		return nil, err
	}
	mode, err := sessionMode(ctx, db)
	if err != nil {
		return nil, err
	}
	p := &BoolPlan{db: db, spec: spec}
	s, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	spelled := spellOverrides(overrides)
	p.overrides = spelled
	if p.record, err = s.readRecord(ctx, spec.Table); err != nil {
		return nil, err
	}
	if p.record != nil {
		if err := p.record.sameAs(spec.Columns, spec.Target, spelled); err != nil {
			return nil, err
		}
		p.Resumed, p.Table = true, p.record.Table
		names := each(p.record.Columns, func(c columnPlan) string { return c.Name })
		if p.Report, err = s.inspect(ctx, p.Table, names, false); err != nil {
			return nil, err
		}
		p.Report.setMode(mode)
		if err := p.warn(ctx, s); err != nil {
			return nil, err
		}
		return p, nil
	}
	if p.Report, err = s.inspect(ctx, spec.Table, spec.Columns, target.Kind == Enum); err != nil {
		return nil, err
	}
	p.Report.setMode(mode)
	p.Table = p.Report.Table
	j := &judge{report: p.Report, target: target, overrides: overrides}
	if err := j.checkOverrides(); err != nil {
		return nil, err
	}
	p.record = &planRecord{Table: p.Table, Key: p.Report.Key.Name, Target: spec.Target, Overrides: spelled, Original: p.Report.create.comparable()}
	j.table()
	for _, c := range p.Report.Columns {
		if planned, ok := j.column(c); ok {
			p.record.Columns = append(p.record.Columns, planned)
		}
	}
	p.record.Triggers = map[string]string{}
	for _, event := range triggerEvents {
		p.record.Triggers[event] = triggerBody(p.record.Columns, event)
	}
	j.objects(s.manyTriggers())
	if err := s.complete(ctx, p.record); err != nil {
		return nil, err
	}
	if p.Refusals = j.refusals; len(p.Refusals) == 0 {
		if err := p.rehearse(ctx, s); err != nil {
			return nil, err
		}
	}
	if err := p.warn(ctx, s); err != nil {
		return nil, err
	}
	return p, nil
}

func spellOverrides(overrides []Override) []string {
	all := make([]string, 0, len(overrides))
	for _, o := range overrides {
		all = append(all, o.String())
	}
	slices.Sort(all)
	return all
}

// open takes a session with the plan's patience and hook.
func (p *BoolPlan) open(ctx context.Context) (*boolSession, error) {
	s, err := openBoolSession(ctx, p.db)
	if err != nil {
		return nil, err
	}
	s.maxBlock, s.patience, s.hook = p.spec.MaxBlock, p.spec.Patience, p.hook
	return s, nil
}

// rehearse holds the lock, since the copy's name is the same for every runner.
func (p *BoolPlan) rehearse(ctx context.Context, s *boolSession) error {
	if err := s.lock(ctx, p.Table, p.spec.LockWait); err != nil {
		return err
	}
	refusal, err := s.rehearse(ctx, p.record)
	if err != nil {
		return err
	}
	if refusal != "" {
		p.Refusals = append(p.Refusals, Refusal{Code: "rehearsal", Reason: "on an empty copy of the table this server refused: " + refusal,
			Remedy: "migrate the table by other means"})
	}
	return nil
}

// complete reads the indexes that follow the old columns, and the columns that
// would take the backfill for a change.
func (s *boolSession) complete(ctx context.Context, r *planRecord) error {
	indexes, err := s.readIndexes(ctx, r.Table)
	if err != nil {
		return fmt.Errorf("migrate: the indexes of %s: %w", r.Table, err)
	}
	toHelper, toName := map[string]string{}, map[string]string{}
	for _, c := range r.Columns {
		toHelper[c.Name], toName[c.Name] = c.Helper, c.Name
	}
	for _, ix := range indexes {
		if slices.ContainsFunc(r.Columns, func(c columnPlan) bool { return ix.has(c.Name) }) && !ix.Unique {
			r.Indexes = append(r.Indexes, indexPlan{Name: ix.Name, Helper: helperIndex(ix.Name), New: ix.definition(toHelper), Final: ix.definition(toName)})
		}
	}
	rows, err := s.conn.QueryContext(ctx, `SELECT COLUMN_NAME FROM information_schema.COLUMNS
		WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND LOWER(EXTRA) LIKE '%on update%' ORDER BY ORDINAL_POSITION`, r.Table)
	if err != nil {
		return fmt.Errorf("migrate: the columns of %s: %w", r.Table, err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		r.AutoUpdate = append(r.AutoUpdate, name)
	}
	return rows.Err()
}

var versionNumbers = regexp.MustCompile(`(\d+)\.(\d+)\.(\d+)`)

// manyTriggers reports whether a table may have several triggers for one event.
func (s *boolSession) manyTriggers() bool {
	m := versionNumbers.FindStringSubmatch(strings.TrimPrefix(s.server, "5.5.5-"))
	if m == nil {
		return false
	}
	var v [3]int
	for i := range v {
		v[i], _ = strconv.Atoi(m[i+1])
	}
	least := [3]int{5, 7, 2}
	if s.mariadb {
		least = [3]int{10, 2, 3}
	}
	return slices.Compare(v[:], least[:]) >= 0
}

// warn says what nobody but the user can see to.
func (p *BoolPlan) warn(ctx context.Context, s *boolSession) error {
	old := "before Swap, stop every program that compares or writes the old labels: after it, SELECT ... = 'Y' returns the false rows, " +
		"and DELETE ... = 'Y' removes them on MariaDB"
	if p.record.Target != defaultTarget {
		old = "before Swap, stop every program that compares or writes the numbers: an enum takes a number for the index of a label"
	}
	p.Warnings = append(p.Warnings, old,
		"an INSERT without a column list, and a scan of SELECT * by position, meet one column more from Prepare to Cleanup or Rollback")
	if !p.Report.Strict {
		p.Warnings = append(p.Warnings, "sql_mode "+strconv.Quote(p.Report.SQLMode)+" isn't strict: an old program that goes on after Swap silently stores 0 for 'Y', "+
			"and one that goes on before it may store '' for false")
	}
	if len(p.record.AutoUpdate) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the backfill keeps %v as they are, though they follow every other update", p.record.AutoUpdate))
	}
	if !p.record.rebuilds() {
		return nil
	}
	settings, err := s.readRebuildSettings(ctx)
	if err != nil {
		return err
	}
	p.Warnings = append(p.Warnings, settings.warnings(p.Report.Bytes)...)
	return nil
}

// Err is nil for a plan without refusals, else a [*RefusedError].
func (p *BoolPlan) Err() error {
	if len(p.Refusals) == 0 {
		return nil
	}
	return &RefusedError{Table: p.Table, Refusals: p.Refusals}
}

// Phase reads off the schema how far the migration has come.
func (p *BoolPlan) Phase(ctx context.Context) (BoolPhase, error) {
	s, err := p.open(ctx)
	if err != nil {
		return "", err
	}
	defer s.close()
	st, err := s.state(ctx, p.record)
	return st.phase, err
}

// step runs one step under the advisory lock and wraps a failure.
func (p *BoolPlan) step(ctx context.Context, name string, do func(*boolSession, boolState) error) error {
	if err := p.Err(); err != nil {
		return err
	}
	s, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.lock(ctx, p.Table, p.spec.LockWait); err != nil {
		return err
	}
	under, err := s.readRecord(ctx, p.Table)
	if err != nil {
		return err
	}
	if under != nil { // what was begun is what counts, should another plan have come first
		if err := under.sameAs(each(p.record.Columns, func(c columnPlan) string { return c.Name }), p.record.Target, p.overrides); err != nil {
			return err
		}
		p.record = under
	}
	st, err := s.state(ctx, p.record)
	if err != nil {
		return err
	}
	if under == nil && st.phase != PhaseOriginal && st.phase != PhaseFinished {
		return fmt.Errorf("%w: table %s is %s, but %s has no row for it; make a new plan", ErrOutOfOrder, p.Table, st.phase, journalTable)
	}
	if err := do(s, st); err != nil {
		if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) { // a driver may see no more than a lost connection
			err = fmt.Errorf("%w (%w)", err, ended)
		}
		if s.failed == "" || errors.Is(err, ErrOutOfOrder) {
			return err
		}
		return &PartialError{Step: name, Applied: slices.Clone(s.applied), Failed: s.failed, Err: err}
	}
	return nil
}

// outOfOrder is the error of a step that comes too early or too late.
func (p *BoolPlan) outOfOrder(step string, phase BoolPhase, advice string) error {
	return fmt.Errorf("%w: %s met table %s in the phase %q; %s", ErrOutOfOrder, step, p.Table, phase, advice)
}
