package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// BoolPhase is how far a migration has come, read off the schema.
type BoolPhase string

// The phases. A killed runner leaves the table in one of them, never between two.
const (
	PhaseOriginal BoolPhase = "original" // no new column
	PhasePartial  BoolPhase = "partial"  // the new column is there, but not both triggers
	PhasePrepared BoolPhase = "prepared" // the triggers fill the new column
	PhaseSwapped  BoolPhase = "swapped"  // the new column has the name; the triggers fill the old one
	PhaseClosing  BoolPhase = "closing"  // swapped, and a cleanup has begun to drop the triggers
	PhaseFinished BoolPhase = "finished" // the old column is gone
)

// boolState is what the schema shows.
type boolState struct {
	phase    BoolPhase
	triggers map[string]bool // by event
	indexes  map[string]bool // by name
}

// state reads the phase off the columns' types and the triggers. The two columns
// of a plan never have the same DATA_TYPE, so a type tells which one has the name.
func (s *boolSession) state(ctx context.Context, r *planRecord) (st boolState, err error) {
	types := map[string]string{}
	rows, err := s.conn.QueryContext(ctx, "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?", r.Table)
	if err != nil {
		return st, fmt.Errorf("migrate: the state of %s: %w", r.Table, err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, dataType string
		if err := rows.Scan(&name, &dataType); err != nil {
			return st, err
		}
		types[name] = strings.ToLower(dataType)
	}
	if err := rows.Err(); err != nil {
		return st, err
	}
	if st.triggers, err = s.ownTriggers(ctx, r); err != nil {
		return st, err
	}
	st.indexes = map[string]bool{}
	indexes, err := s.readIndexes(ctx, r.Table)
	if err != nil {
		return st, fmt.Errorf("migrate: the state of %s: %w", r.Table, err)
	}
	for _, ix := range indexes {
		st.indexes[ix.Name] = true
	}
	both := st.triggers["update"] && st.triggers["insert"]
	for i, c := range r.Columns {
		phase, err := c.phase(types, both)
		if err != nil {
			return st, fmt.Errorf("%w (table %s)", err, r.Table)
		}
		if i > 0 && phase != st.phase {
			return st, fmt.Errorf("%w: column %s of table %s is %s, but %s is %s; somebody else altered the table",
				ErrOutOfOrder, c.Name, r.Table, phase, r.Columns[0].Name, st.phase)
		}
		st.phase = phase
	}
	return st, nil
}

func (c columnPlan) phase(types map[string]string, triggers bool) (BoolPhase, error) {
	name, helper := types[c.Name], types[c.Helper]
	source, target := dataType(c.Source.ColumnType), dataType(c.Target.ColumnType)
	switch {
	case name == source && helper == "":
		return PhaseOriginal, nil
	case name == source && helper == target && triggers:
		return PhasePrepared, nil
	case name == source && helper == target:
		return PhasePartial, nil
	case name == target && helper == source && triggers:
		return PhaseSwapped, nil
	case name == target && helper == source:
		return PhaseClosing, nil
	case name == target && helper == "":
		return PhaseFinished, nil
	}
	return "", fmt.Errorf("%w: expected %s and %s to be of type %s and %s in either order, met %q and %q",
		ErrOutOfOrder, c.Name, c.Helper, source, target, name, helper)
}

func dataType(columnType string) string {
	name, _, _ := strings.Cut(columnType, "(")
	name, _, _ = strings.Cut(name, " ")
	return strings.ToLower(name)
}

// ownTriggers finds our triggers and makes sure that they are ours. MySQL's
// information_schema spells a body's quoted backticks and rarer characters wrong,
// so the trigger's own statement is what is compared.
func (s *boolSession) ownTriggers(ctx context.Context, r *planRecord) (map[string]bool, error) {
	found := map[string]bool{}
	for _, event := range triggerEvents {
		name := triggerName(r.Table, event)
		statement, err := s.showTrigger(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("migrate: the triggers of %s: %w", r.Table, err)
		}
		if statement == "" {
			continue
		}
		want := " FOR EACH ROW " + r.Triggers[event]
		if !strings.HasSuffix(strings.TrimSpace(statement), want) { // what comes before it, a dump may have spelled anew
			return nil, fmt.Errorf("%w: expected the trigger %s to be\n%s\nmet\n%s\ndrop or rename it, then call the step again", ErrOutOfOrder, name, r.Triggers[event], statement)
		}
		found[event] = true
	}
	return found, nil
}

// showTrigger returns the statement that created a trigger, or "" if there is none.
func (s *boolSession) showTrigger(ctx context.Context, name string) (string, error) {
	rows, err := s.conn.QueryContext(ctx, "SHOW CREATE TRIGGER "+quoteName(name))
	if mysqlError(err) == 1360 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer rows.Close()
	names, err := rows.Columns() // their number differs from server to server
	if err != nil {
		return "", err
	}
	var statement sql.NullString
	to := make([]any, len(names))
	for i, name := range names {
		if to[i] = new(sql.RawBytes); name == "SQL Original Statement" {
			to[i] = &statement
		}
	}
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return "", err
		}
	}
	return statement.String, rows.Err()
}
