package dsn

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// passwords are the places of a DSN where a password stands.
var passwords = []*regexp.Regexp{
	regexp.MustCompile(`^[a-z]+://[^:@/]*:([^@]*)@`),                  // URL
	regexp.MustCompile(`^[a-z]+://[^:@/]*:([^/?#]*)@`),                // URL whose password holds @
	regexp.MustCompile(`^[^:@/]*:(.*)@(?:tcp|unix|[a-z]*)?\(?[^@]*/`), // go-sql-driver
	regexp.MustCompile(`password\s*=\s*((?:'(?:[^'\\]|\\.)*'?|[^\s&'])+)`),
}

// Redact returns the DSN without its password. What looks like a password in
// several ways is taken out in all of them.
func Redact(dsn string) string {
	const hidden = "xxxxx"
	for range len(dsn) + 1 {
		before := dsn
		for _, p := range passwords {
			if m := p.FindStringSubmatchIndex(dsn); m != nil && m[2] < m[3] {
				dsn = dsn[:m[2]] + hidden + dsn[m[3]:]
			}
		}
		if dsn == before {
			break
		}
	}
	return dsn
}

// Hide keeps a driver's error from quoting the DSN or its password.
func Hide(err error, dsn string) error {
	text := strings.ReplaceAll(err.Error(), dsn, Redact(dsn))
	for _, p := range passwords {
		if m := p.FindStringSubmatch(dsn); m != nil && len(m[1]) > 2 {
			text = strings.ReplaceAll(text, m[1], "xxxxx")
			if plain, unescapeErr := url.PathUnescape(m[1]); unescapeErr == nil {
				text = strings.ReplaceAll(text, plain, "xxxxx")
			}
		}
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}
