package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
)

// tableCreate is SHOW CREATE TABLE taken apart by lines. A column's definition
// is kept verbatim: what is written back is what was read, on every server.
type tableCreate struct {
	text    string
	columns map[string]string // by name: what follows it
	others  []string          // keys, constraints
	tail    string            // the options and the partitioning
}

func (s *boolSession) showCreate(ctx context.Context, table string) (tableCreate, error) {
	var name, text string
	if err := s.conn.QueryRowContext(ctx, "SHOW CREATE TABLE "+quoteName(table)).Scan(&name, &text); err != nil {
		return tableCreate{}, fmt.Errorf("migrate: SHOW CREATE TABLE %s: %w", table, err)
	}
	return parseCreate(text), nil
}

func parseCreate(text string) tableCreate {
	c := tableCreate{text: text, columns: map[string]string{}}
	lines := strings.Split(text, "\n")
	for i, line := range lines[1:] {
		if strings.HasPrefix(line, ")") {
			c.tail = strings.Join(lines[i+1:], "\n")
			break
		}
		line = strings.TrimSuffix(strings.TrimSpace(line), ",")
		if !strings.HasPrefix(line, "`") {
			c.others = append(c.others, line)
			continue
		}
		name, rest := cutName(line)
		c.columns[name] = strings.TrimSpace(rest)
	}
	return c
}

// cutName splits a quoted identifier off a line.
func cutName(line string) (name, rest string) {
	var b strings.Builder
	for i := 1; i < len(line); i++ {
		if line[i] != '`' {
			b.WriteByte(line[i])
			continue
		}
		if i+1 < len(line) && line[i+1] == '`' {
			b.WriteByte('`')
			i++
			continue
		}
		return b.String(), line[i+1:]
	}
	return b.String(), ""
}

var autoIncrement = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

// comparable is the text without the table's AUTO_INCREMENT= option, which moves
// by itself. Only the tail is touched, never a comment of a column.
func (c tableCreate) comparable() string {
	return strings.TrimSuffix(c.text, c.tail) + autoIncrement.ReplaceAllString(c.tail, "")
}

// Default is a column's default, the same on servers that quote it in
// information_schema and on those that don't.
type Default struct {
	Kind DefaultKind
	Text string // the literal's text, or the expression
}

// DefaultKind tells the sorts of default apart.
type DefaultKind string

// The kinds of default.
const (
	NoDefault         DefaultKind = ""
	NullDefault       DefaultKind = "null"
	LiteralDefault    DefaultKind = "literal"
	ExpressionDefault DefaultKind = "expression"
)

// readDefault reads COLUMN_DEFAULT. MySQL gives the bare text, and SQL NULL both
// for DEFAULT NULL and for none; MariaDB gives a literal, and the text NULL.
func readDefault(raw sql.NullString, nullable, mariadb bool) Default {
	text := raw.String
	switch {
	case !raw.Valid && nullable:
		return Default{Kind: NullDefault}
	case !raw.Valid:
		return Default{}
	case strings.HasPrefix(text, "b'"):
		return Default{Kind: LiteralDefault, Text: strings.Trim(text[1:], "'")}
	case !mariadb:
		return Default{Kind: LiteralDefault, Text: text}
	case text == "NULL":
		return Default{Kind: NullDefault}
	case len(text) >= 2 && strings.HasPrefix(text, "'") && strings.HasSuffix(text, "'"):
		return Default{Kind: LiteralDefault, Text: strings.ReplaceAll(text[1:len(text)-1], "''", "'")}
	case numeric.MatchString(text):
		return Default{Kind: LiteralDefault, Text: text}
	}
	return Default{Kind: ExpressionDefault, Text: text}
}

var numeric = regexp.MustCompile(`^-?\d+$`)

// mentions reports whether an SQL text holds the name as a word of its own,
// quoted or not. It errs on the side of yes: a comment counts.
func mentions(text, name string) bool {
	lower, word := strings.ToLower(text), strings.ToLower(name)
	if strings.Contains(word, "`") { // doubled in SQL, and by some servers not quite so
		return strings.Contains(lower, word) || strings.Contains(lower, strings.ReplaceAll(word, "`", "``"))
	}
	for from := 0; ; {
		i := strings.Index(lower[from:], word)
		if i < 0 {
			return false
		}
		i += from
		if end := i + len(word); (i == 0 || !nameByte(lower[i-1])) && (end == len(lower) || !nameByte(lower[end])) {
			return true
		}
		from = i + 1
	}
}

func nameByte(b byte) bool {
	return b == '_' || b == '$' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 0x80
}
