package migrate

import "strings"

// sqliteToken is a stretch of a statement: a word, a sign, or something quoted.
type sqliteToken struct {
	from, to int
	word     bool
}

// sqliteTokens splits a statement as far as is needed to tell keywords from
// names, strings and comments, which it leaves out.
func sqliteTokens(s string) (all []sqliteToken) {
	for i := 0; i < len(s); {
		from := i
		switch ch := s[i]; {
		case ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r' || ch == '\f':
			i++
			continue
		case strings.HasPrefix(s[i:], "--"):
			i = end(s, i, "\n")
			continue
		case strings.HasPrefix(s[i:], "/*"):
			i = end(s, i+2, "*/")
			continue
		case ch == '\'' || ch == '"' || ch == '`':
			// A doubled quote is read as two strings side by side, which ends at the
			// same place.
			i = end(s, i+1, string(ch))
			all = append(all, sqliteToken{from: from, to: i})
		case ch == '[':
			i = end(s, i+1, "]")
			all = append(all, sqliteToken{from: from, to: i})
		case wordByte(ch):
			for i < len(s) && wordByte(s[i]) {
				i++
			}
			all = append(all, sqliteToken{from, i, true})
		default:
			i++
			all = append(all, sqliteToken{from: from, to: i})
		}
	}
	return all
}

func wordByte(b byte) bool { return nameByte(b) || b >= 'A' && b <= 'Z' }

// end is the place after the next terminator, or the end of s.
func end(s string, from int, terminator string) int {
	if at := strings.Index(s[from:], terminator); at >= 0 {
		return from + at + len(terminator)
	}
	return len(s)
}

// withoutAutoincrement takes the keyword out of a CREATE TABLE. It is reserved,
// so that as a bare word it can't be a name.
func withoutAutoincrement(create string) (without string, has bool) {
	for _, t := range sqliteTokens(create) {
		if t.word && strings.EqualFold(create[t.from:t.to], "AUTOINCREMENT") {
			return strings.TrimRight(create[:t.from], " \t\r\n") + create[t.to:], true
		}
	}
	return create, false
}
