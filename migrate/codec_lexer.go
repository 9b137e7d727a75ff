package migrate

import "strings"

// tokenKind tells the tokens of a MySQL statement apart.
type tokenKind uint8

const (
	tokenWord        tokenKind = iota // an unquoted identifier or a keyword
	tokenName                         // a quoted identifier
	tokenString                       // a string literal
	tokenNumber                       // a numeric, hex or bit literal
	tokenPlaceholder                  // ?
	tokenSymbol                       // an operator or a punctuation mark
)

type token struct {
	kind       tokenKind
	start, end int    // byte offsets in the statement
	text       string // the identifier without quotes; the operator; empty for literals
	upper      string // a word in upper case; empty for all else
}

// is reports whether the token is the keyword or operator s.
func (t token) is(s string) bool {
	return t.kind == tokenWord && t.upper == s || t.kind == tokenSymbol && t.text == s
}

// isAny reports whether the token is one of the keywords or operators.
func (t token) isAny(set map[string]bool) bool {
	return t.kind == tokenWord && set[t.upper] || t.kind == tokenSymbol && set[t.text]
}

// identifier reports whether the token can name a table or a column.
func (t token) identifier() bool { return t.kind == tokenWord || t.kind == tokenName }

// tokenize splits a MySQL statement; comments vanish, but for the content of
// version comments, which the server executes. ok is false when the text ends
// inside a literal or comment, so that nothing in it can be trusted.
func tokenize(sql string, ansiQuotes, noBackslash bool) (tokens []token, ok bool) {
	tokens = make([]token, 0, len(sql)/5+2*strings.Count(sql, "?")+8)
	version := 0 // depth of /*! ... */
	for i := 0; i < len(sql); {
		c := sql[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
			i++
		case c == '#' || c == '-' && dashComment(sql[i:]):
			j := strings.IndexByte(sql[i:], '\n')
			if j < 0 {
				return tokens, version == 0
			}
			i += j + 1
		case strings.HasPrefix(sql[i:], "/*!") || strings.HasPrefix(sql[i:], "/*M!"):
			i += strings.IndexByte(sql[i:], '!') + 1
			for i < len(sql) && isDigit(sql[i]) {
				i++
			}
			version++
		case version > 0 && strings.HasPrefix(sql[i:], "*/"):
			i += 2
			version--
		case strings.HasPrefix(sql[i:], "/*"):
			j := strings.Index(sql[i+2:], "*/")
			if j < 0 {
				return tokens, false
			}
			i += j + 4
		case c == '`' || c == '"' && ansiQuotes:
			end, text, closed := quoted(sql, i, false)
			if !closed {
				return tokens, false
			}
			tokens = append(tokens, token{kind: tokenName, start: i, end: end, text: text})
			i = end
		case c == '\'' || c == '"':
			end, _, closed := quoted(sql, i, !noBackslash)
			if !closed {
				return tokens, false
			}
			tokens = append(tokens, token{kind: tokenString, start: i, end: end})
			i = end
		case c == '?':
			tokens = append(tokens, token{kind: tokenPlaceholder, start: i, end: i + 1, text: "?"})
			i++
		case (c == 'x' || c == 'X' || c == 'b' || c == 'B' || c == 'n' || c == 'N') && i+1 < len(sql) && sql[i+1] == '\'':
			end, _, closed := quoted(sql, i+1, c == 'n' || c == 'N')
			if !closed {
				return tokens, false
			}
			kind := tokenNumber
			if c == 'n' || c == 'N' {
				kind = tokenString
			}
			tokens = append(tokens, token{kind: kind, start: i, end: end})
			i = end
		case isDigit(c) || c == '.' && i+1 < len(sql) && isDigit(sql[i+1]) && !afterIdentifier(tokens, i):
			end := number(sql, i)
			tokens = append(tokens, token{kind: tokenNumber, start: i, end: end})
			i = end
		case isWordByte(c):
			end := i + 1
			for end < len(sql) && (isWordByte(sql[end]) || isDigit(sql[end])) {
				end++
			}
			text := sql[i:end]
			tokens = append(tokens, token{kind: tokenWord, start: i, end: end, text: text, upper: strings.ToUpper(text)})
			i = end
		default:
			end := i + 1
			for _, op := range operators {
				if strings.HasPrefix(sql[i:], op) {
					end = i + len(op)
					break
				}
			}
			tokens = append(tokens, token{kind: tokenSymbol, start: i, end: end, text: sql[i:end]})
			i = end
		}
	}
	return tokens, version == 0
}

// operators are the operators of more than one byte, longest first.
var operators = []string{"<=>", "->>", "<>", "!=", "<=", ">=", ":=", "||", "&&", "<<", ">>", "->"}

// dashComment reports whether s starts a comment: two dashes and then a blank, a
// control character or the end.
func dashComment(s string) bool {
	return strings.HasPrefix(s, "--") && (len(s) == 2 || s[2] <= ' ')
}

// quoted reads from the quote at start to the quote that closes it.
func quoted(sql string, start int, backslash bool) (end int, text string, closed bool) {
	quote := sql[start]
	var b strings.Builder
	for i := start + 1; i < len(sql); i++ {
		switch {
		case backslash && sql[i] == '\\':
			i++
		case sql[i] != quote:
			b.WriteByte(sql[i])
		case i+1 < len(sql) && sql[i+1] == quote:
			b.WriteByte(quote)
			i++
		default:
			return i + 1, b.String(), true
		}
	}
	return len(sql), "", false
}

// number reads a numeric literal, 0x1F and 1e-3 included.
func number(sql string, i int) (end int) {
	for end = i; end < len(sql); end++ {
		c := sql[end]
		exponent := (c == '+' || c == '-') && end > i && (sql[end-1] == 'e' || sql[end-1] == 'E') && !strings.HasPrefix(sql[i:], "0x")
		if !isDigit(c) && !isWordByte(c) && c != '.' && !exponent {
			break
		}
	}
	return end
}

// afterIdentifier tells "t.1" from ".1": the dot stands right behind a name.
func afterIdentifier(tokens []token, i int) bool {
	return len(tokens) > 0 && tokens[len(tokens)-1].identifier() && tokens[len(tokens)-1].end == i
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '$' || c == '@' || c >= 0x80
}
