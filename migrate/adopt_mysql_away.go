package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// While a foreign key of MySQL is away, the comment of its table holds its
// definition, so that the schema shows it even to somebody who has lost the journal.
const (
	awayMark = " [gormflake: this foreign key is away: "
	awayEnd  = "]"
)

// longestComment is what MySQL takes for a table's comment, in characters.
const longestComment = 2048

// mark is the note of a foreign key in the comment of its table.
func (k AdoptForeignKey) mark() string { return awayMark + k.Definition + awayEnd }

// commenter holds the tables' comments as a plan changes them.
type commenter map[string]string

// left notes a foreign key that leaves, where the comment has room for it.
func (c commenter) left(k AdoptForeignKey) {
	if comment, known := c[k.Table]; known && !strings.Contains(comment, k.mark()) && len(comment)+len(k.mark()) <= longestComment {
		c[k.Table] = comment + k.mark()
	}
}

// back forgets one that is back.
func (c commenter) back(k AdoptForeignKey) { c[k.Table] = strings.Replace(c[k.Table], k.mark(), "", 1) }

// notes are the statements that bring the comments from what they were to these.
// They stand by themselves, since together with a foreign key MySQL would build the
// table anew for a comment.
func (c commenter) notes(from commenter) (all []AdoptStatement) {
	for _, table := range slices.Sorted(maps.Keys(c)) {
		if c[table] != from[table] {
			all = append(all, AdoptStatement{Step: "note", Table: table, Ladder: ladder[:1], Locks: locksInplace + "; no row is touched",
				SQL: []string{noteOf(table, c[table])}, comments: [2]string{from[table], c[table]}})
		}
	}
	return all
}

func noteOf(table, comment string) string {
	return "ALTER TABLE " + quoteName(table) + " COMMENT = " + quoteString(strings.ReplaceAll(comment, `\`, `\\`))
}

// note is the statement's SQL for the comment that the table has by now: another
// adoption may have noted something of its own there since the plan was made.
func (a *mysqlAdopter) note(ctx context.Context, s AdoptStatement) (string, error) {
	var comment string
	err := a.conn.QueryRowContext(ctx, "SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?", s.Table).Scan(&comment)
	if err != nil {
		return "", fmt.Errorf("migrate: the comment of %s: %w", s.Table, err)
	}
	was, will := s.comments[0], s.comments[1]
	for _, mark := range awayKey.FindAllString(will, -1) {
		if !strings.Contains(was, mark) && !strings.Contains(comment, mark) && len(comment)+len(mark) <= longestComment {
			comment += mark
		}
	}
	for _, mark := range awayKey.FindAllString(was, -1) {
		if !strings.Contains(will, mark) {
			comment = strings.Replace(comment, mark, "", 1)
		}
	}
	return noteOf(s.Table, comment), nil
}

var awayKey = regexp.MustCompile("(?s)" + regexp.QuoteMeta(awayMark) + "(CONSTRAINT (`(?:[^`]|``)*`) FOREIGN KEY \\((`(?:[^`]|``)*`)\\) REFERENCES (`(?:[^`]|``)*`) \\((`(?:[^`]|``)*`)\\).*?)" + regexp.QuoteMeta(awayEnd))

// comments reads the comments of all tables, and the foreign keys that are away.
func (a *mysqlAdopter) comments(ctx context.Context) (commenter, []AdoptForeignKey, error) {
	type comment struct{ table, text string }
	all, err := read(ctx, a.conn, "SELECT TABLE_NAME, TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE = 'BASE TABLE' ORDER BY TABLE_NAME",
		func(rows *sql.Rows) (c comment, err error) {
			err = rows.Scan(&c.table, &c.text)
			return c, err
		})
	if err != nil {
		return nil, nil, fmt.Errorf("migrate: the comments of the tables: %w", err)
	}
	c, away := commenter{}, []AdoptForeignKey(nil)
	for _, t := range all {
		c[t.table] = t.text
		for _, m := range awayKey.FindAllStringSubmatch(t.text, -1) {
			k := AdoptForeignKey{Table: t.table, Definition: m[1]}
			k.Name, _ = cutName(m[2])
			k.Column, _ = cutName(m[3])
			k.ToTable, _ = cutName(m[4])
			k.ToColumn, _ = cutName(m[5])
			away = append(away, k)
		}
	}
	return c, away, nil
}

// awayFrom are the foreign keys among all that lead to the column.
func awayFrom(all []AdoptForeignKey, c AdoptColumn) []AdoptForeignKey {
	return slices.DeleteFunc(slices.Clone(all), func(k AdoptForeignKey) bool { return k.ToTable != c.Table || k.ToColumn != c.Column })
}

// withoutJournal is the report of a move that is under way although the journal
// doesn't know it: the foreign keys that are away belong to it, and since nobody
// can tell the columns' old types any more, Rollback leaves them bigint.
func (r *AdoptReport) withoutJournal() *AdoptReport {
	lost := *r
	lost.ForeignKeys = append(slices.Clone(r.ForeignKeys), r.away...)
	wide := func(c AdoptColumn) AdoptColumn {
		c.Definition = integerPrefix.ReplaceAllString(c.Definition, "bigint")
		c.Type, c.Bits, c.Unsigned = "bigint", 64, false
		return c
	}
	lost.Key, lost.References = wide(r.Key), slices.Clone(r.References)
	for i, c := range lost.References {
		lost.References[i] = wide(c)
	}
	return &lost
}
