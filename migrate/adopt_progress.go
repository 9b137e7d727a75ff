package migrate

import (
	"fmt"
	"slices"
	"strings"
)

// AdoptProgress says how far the adoption of a table has come, as its schema and the
// journal show.
type AdoptProgress string

const (
	AdoptNotBegun AdoptProgress = ""          // nothing has begun, or all was rolled back
	AdoptUnderWay AdoptProgress = "under way" // some steps are done: Apply goes on, Rollback goes back
	AdoptDone     AdoptProgress = "done"      // nothing is left to do
)

// progress enters into the report how far the adoption has come. On MySQL it tells
// of every foreign key that is away.
func (p *AdoptPlan) progress(was, now *AdoptReport) {
	now.Progress, now.Next = AdoptNotBegun, nil
	if was == nil && len(now.away) == 0 && (now.state == nil || !now.state.begun(now)) {
		return
	}
	now.Progress, now.Next = AdoptUnderWay, adoptStepNames(p.Statements)
	if p.Empty() {
		now.Progress = AdoptDone
	}
	away := now.away
	if was != nil && now.Dialect == "mysql" {
		away = slices.Concat(away, missing(missing(was.ForeignKeys, now.ForeignKeys, AdoptForeignKey.same), away, AdoptForeignKey.same))
	}
	for _, k := range away {
		now.hazard("foreign-key-away", "the foreign key %s of %s is away: nothing is checked until the step bind", k.Name, k.Table)
	}
}

// adoptStepNames are the statements' steps and tables, each once in a row.
func adoptStepNames(all []AdoptStatement) []string {
	return slices.Compact(each(all, func(s AdoptStatement) string { return s.Step + " " + s.Table }))
}

// progressText is a line for people, "" for a table whose adoption hasn't begun.
func (r *AdoptReport) progressText() string {
	switch r.Progress {
	case AdoptUnderWay:
		next := "no step can be planned, see below"
		if len(r.Next) > 0 {
			next = "next is the step " + r.Next[0]
		}
		return "under way: " + next + "; gormflake adopt apply (Apply) goes on, gormflake adopt rollback (Rollback) goes back"
	case AdoptDone:
		return "done; gormflake adopt rollback (Rollback) goes back"
	}
	return ""
}

// firstSnowflake is the smallest key that may be a snowflake id. A table that was
// rolled back may have some of an earlier adoption.
func (r *AdoptReport) firstSnowflake() int64 {
	if r.EarlierFirstID > 0 {
		return min(r.EarlierFirstID, r.FirstID)
	}
	return r.FirstID
}

// product is the server's name, which is MariaDB's own where it speaks MySQL's dialect.
func (r *AdoptReport) product() string {
	if r.Dialect == "mysql" && strings.Contains(strings.ToLower(r.Server), "mariadb") {
		return "MariaDB"
	}
	return map[string]string{"mysql": "MySQL", "postgres": "Postgres", "sqlite": "SQLite"}[r.Dialect]
}

// Restored reports that Rollback has nothing to do: the database numbers the table,
// and no adoption of it is under way. So it is before an adoption and after Rollback.
func (p *AdoptPlan) Restored() bool {
	return !p.Begun && p.now.Progress == AdoptNotBegun && p.now.Key.Numbering != ""
}

// RollbackHazards is what a person should know before Rollback.
func (p *AdoptPlan) RollbackHazards() []AdoptHazard {
	if !p.Begun || p.now.Dialect == "postgres" || p.now.MaxID < p.Report.firstSnowflake() {
		return nil
	}
	return []AdoptHazard{{"numbering", fmt.Sprintf("the counter follows the largest key, so new numbers go on from %d: they look like snowflake ids and belong to no worker. "+
		"Stop the programs with the plugin first, or two rows may be given one key", p.now.MaxID+1)}}
}
