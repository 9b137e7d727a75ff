package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gormflake/gormflake/migrate"
)

// spelledError is an error of package migrate in the words of the command line.
type spelledError struct {
	text string
	err  error
}

func (e *spelledError) Error() string { return e.text }
func (e *spelledError) Unwrap() error { return e.err }

// spellError writes the steps and decisions that an error names as commands and
// flags.
func spellError(err error) error {
	if err == nil {
		return nil
	}
	text := spell(err.Error())
	if errors.Is(err, migrate.ErrPlanChanged) {
		text = strings.NewReplacer(" and overrides [", " and decisions [", "finish it or roll it back with its own plan",
			"give this step the same --column, --target and decisions as run, or roll back with them").Replace(text)
	}
	return &spelledError{text, err}
}

// goString is a text as %q writes it.
const goString = `"((?:[^"\\]|\\.)*)"`

// decisions are the overrides as they are written in Go, with ... for a value
// that is still to be decided.
var decisions = []struct {
	form *regexp.Regexp
	flag string
	with string // the flag's value, with %s for what was matched
}{
	{regexp.MustCompile(`\bMapNull\(` + goString + `, (true|false|\.\.\.)\)`), "--map-null", "%s=%s"},
	{regexp.MustCompile(`\bKeepNull\(` + goString + `\)`), "--keep-null", "%s"},
	{regexp.MustCompile(`\bMapEmpty\(` + goString + `, (true|false|\.\.\.)\)`), "--map-empty", "%s=%s"},
	{regexp.MustCompile(`\bMapLabel\(` + goString + `, ` + goString + `, (true|false|\.\.\.)\)`), "--map-label", "%s:%s=%s"},
	{regexp.MustCompile(`\bMapNumber\(` + goString + `, (-?\d+), (true|false|\.\.\.)\)`), "--map-number", "%s:%s=%s"},
	{regexp.MustCompile(`\bLabels\(` + goString + `, ` + goString + `, ` + goString + `\)`), "--labels", "%s=%s,%s"},
	{regexp.MustCompile(`\bAccept\(` + goString + `, ` + goString + `\)`), "--accept", "%s:%s"},
}

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[\w.:=,@%/+-]+$`)

// steps are the names of the steps in Go and as commands.
var steps = regexp.MustCompile(`(^|[^\w` + "`" + `'"])(Prepare and Backfill|Prepare|Backfill|Verify|Swap|Rollback|Cleanup)([^\w` + "`" + `'"]|$)`)

func spell(text string) string {
	for _, d := range decisions {
		text = d.form.ReplaceAllStringFunc(text, func(found string) string {
			var parts []any
			for _, part := range d.form.FindStringSubmatch(found)[1:] {
				if plain, err := strconv.Unquote(`"` + part + `"`); err == nil {
					part = plain
				}
				if part == "..." {
					part = "false"
				}
				parts = append(parts, part)
			}
			value := fmt.Sprintf(d.with, parts...)
			if !plainWord.MatchString(value) {
				value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
			}
			if strings.Contains(found, ", ...)") {
				value += " (or true)"
			}
			return d.flag + " " + value
		})
	}
	text = strings.ReplaceAll(text, "declare its two labels with Labels", "declare its two labels with --labels column=off,on")
	text = strings.ReplaceAll(text, "then plan the way back with Target", "then plan the way back with --target")
	return steps.ReplaceAllStringFunc(text, func(found string) string {
		m := steps.FindStringSubmatch(found)
		command := "bools run"
		switch m[2] {
		case "Verify", "Swap", "Rollback", "Cleanup":
			command = "bools " + strings.ToLower(m[2])
		}
		return m[1] + command + m[3]
	})
}

// spellPlan spells the refusals and notes of a plan, and leaves its SQL alone.
func spellPlan(sql string) string {
	lines := strings.Split(sql, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "-- REFUSED: ") || strings.HasPrefix(line, "-- Note: ") {
			lines[i] = spell(line)
		}
	}
	return strings.Join(lines, "\n")
}

// spellPhase says how far a table has come and which commands may follow.
func spellPhase(phase migrate.BoolPhase, filled bool) string {
	switch {
	case phase == migrate.PhasePartial:
		return "partial: bools run was interrupted; next: bools run again (or bools rollback)"
	case phase == migrate.PhasePrepared && filled:
		return "filled and verified; next: bools swap (or bools rollback)"
	case phase == migrate.PhasePrepared:
		return "prepared; next: bools run, which fills and verifies (or bools rollback)"
	case phase == migrate.PhaseSwapped:
		return "swapped; next: bools cleanup (or bools rollback)"
	case phase == migrate.PhaseClosing:
		return "closing: bools cleanup was interrupted; next: bools cleanup again"
	}
	return string(phase)
}

// spellMigration is a migration that is under way, in the words of the command
// line.
func spellMigration(m *migrate.BoolMigration) string {
	next := m.Problem
	switch m.Phase {
	case migrate.PhaseOriginal:
		next = "begun, but no column was added yet; next: bools run (or bools rollback)"
	case migrate.PhaseFinished:
		next = "finished, but for its entry in the journal; next: bools cleanup again"
	default:
		if m.Phase != "" {
			next = spellPhase(m.Phase, m.Filled)
		}
	}
	return fmt.Sprintf("a migration of %s to %s is under way: %s", strings.Join(m.Columns, ", "), m.Target, next)
}
