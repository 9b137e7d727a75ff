package migrate

import (
	"context"
	"fmt"
	"strings"
)

// shownKeys bounds the keys that a report names per column.
const shownKeys = 5

// VerifyReport compares the old and the new columns over the whole table.
type VerifyReport struct {
	Table   string
	Phase   BoolPhase
	Rows    int64
	Columns []VerifyColumn
}

// VerifyColumn is the comparison for one column.
type VerifyColumn struct {
	Column       string
	Differ       int64    // rows whose two columns don't say the same
	Keys         []string // the first of their keys
	Unmapped     int64    // rows that hold a value which nobody has mapped
	UnmappedKeys []string
}

// OK reports whether every row agrees.
func (r *VerifyReport) OK() bool {
	for _, c := range r.Columns {
		if c.Differ > 0 || c.Unmapped > 0 {
			return false
		}
	}
	return true
}

// Verify compares the old and the new columns of every row in one consistent
// read, which takes no locks. It works before Swap and after it. If a row
// disagrees, the error is a [*DisagreeError] and the report comes with it.
func (p *BoolPlan) Verify(ctx context.Context) (report *VerifyReport, err error) {
	err = p.step(ctx, "Verify", func(s *boolSession, st boolState) error {
		if st.phase != PhasePrepared && st.phase != PhaseSwapped {
			return p.outOfOrder("Verify", st.phase, "there are two columns to compare between Prepare and Cleanup")
		}
		report, err = s.verify(ctx, p.record, st.phase)
		if err == nil && !report.OK() {
			err = &DisagreeError{Report: report}
		}
		return err
	})
	return report, err
}

func (s *boolSession) verify(ctx context.Context, r *planRecord, phase BoolPhase) (*VerifyReport, error) {
	swapped := phase == PhaseSwapped
	report := &VerifyReport{Table: r.Table, Phase: phase, Columns: make([]VerifyColumn, len(r.Columns))}
	sums := []string{"COUNT(*)"}
	to := []any{&report.Rows}
	for i, c := range r.Columns {
		report.Columns[i].Column = c.Name
		sums = append(sums, fmt.Sprintf("IFNULL(SUM(%s), 0)", c.disagrees(swapped)), fmt.Sprintf("IFNULL(SUM(IFNULL(%s, 0)), 0)", c.isUnmapped(swapped)))
		to = append(to, &report.Columns[i].Differ, &report.Columns[i].Unmapped)
	}
	query := "SELECT " + strings.Join(sums, ", ") + " FROM " + quoteName(r.Table)
	if err := s.conn.QueryRowContext(ctx, query).Scan(to...); err != nil {
		return nil, fmt.Errorf("migrate: verifying %s: %w", r.Table, err)
	}
	for i, c := range r.Columns {
		v := &report.Columns[i]
		var err error
		if v.Differ > 0 {
			if v.Keys, err = s.keysOf(ctx, r, c.disagrees(swapped)); err != nil {
				return nil, err
			}
		}
		if v.Unmapped > 0 {
			if v.UnmappedKeys, err = s.keysOf(ctx, r, c.isUnmapped(swapped)); err != nil {
				return nil, err
			}
		}
	}
	return report, nil
}

func (s *boolSession) keysOf(ctx context.Context, r *planRecord, predicate string) (keys []string, err error) {
	key := quoteName(r.Key)
	rows, err := s.conn.QueryContext(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d", key, quoteName(r.Table), predicate, key, shownKeys))
	if err != nil {
		return nil, fmt.Errorf("migrate: verifying %s: %w", r.Table, err)
	}
	defer rows.Close()
	for rows.Next() {
		var k string
		if err := rows.Scan(&k); err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, rows.Err()
}
