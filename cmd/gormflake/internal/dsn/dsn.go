// Package dsn tells the forms of data source names apart, and keeps their
// passwords from being printed.
package dsn

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Kind is the family of databases that a DSN names.
type Kind string

// The kinds of databases. Unknown is what has no known form, unless there is a
// file of that name, which is SQLite.
const (
	Postgres Kind = "postgres"
	MySQL    Kind = "mysql"
	SQLite   Kind = "sqlite"
	Redis    Kind = "redis"
	Unknown  Kind = ""
)

// ErrInvalid says that a DSN has no known form, or doesn't keep to its form. No
// error of this package quotes any part of the DSN: what isn't understood may
// be a password anywhere.
var ErrInvalid = errors.New("want a valid DSN")

// schemes are those of URLs.
var schemes = map[string]Kind{
	"postgres": Postgres, "postgresql": Postgres,
	"mysql": MySQL, "mariadb": MySQL,
	"redis": Redis, "rediss": Redis, "unix": Redis,
}

var (
	schemeForm    = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://`)
	mysqlForm     = regexp.MustCompile(`@(?:tcp[46]?|unix)?\(|^(?:tcp[46]?|unix)\(|@/`)
	keywordForm   = regexp.MustCompile(`(?:^|\s)(?:host|hostaddr|dbname|user|service)\s*=`)
	startsKeyword = regexp.MustCompile(`^[A-Za-z_ ]+=`)
	keywordsOnly  = regexp.MustCompile(`^\s*(?:[A-Za-z_][\w.]*\s*=\s*(?:'(?:[^'\\]|\\.)*'|(?:[^\s'\\;]|\\.)(?:[^\s\\;]|\\.)*|)(?:\s+|$))+$`)
	forgotTCP     = regexp.MustCompile(`:.*@[^(]*$`)
)

// Clean returns a DSN without what a shell or a copied line may leave around
// it: blanks, and quotes at both ends.
func Clean(text string) string {
	for {
		text = strings.TrimSpace(text)
		n := len(text)
		if n < 2 || text[0] != text[n-1] || !strings.ContainsRune("'\"`", rune(text[0])) {
			return text
		}
		text = text[1 : n-1]
	}
}

// KindOf tells by a clean DSN's form which database it names.
func KindOf(text string) Kind {
	if m := schemeForm.FindStringSubmatch(text); m != nil {
		if kind, ok := schemes[strings.ToLower(m[1])]; ok {
			return kind
		}
		if !strings.Contains(text, "@tcp(") && !strings.Contains(text, "@unix(") {
			return Unknown
		}
	}
	switch {
	case !startsKeyword.MatchString(text) && mysqlForm.MatchString(text):
		return MySQL
	case keywordForm.MatchString(text):
		return Postgres
	}
	return Unknown
}

// Parse cleans a DSN, tells which database it names, and makes sure that its
// password can't be taken for another part of it, and so be quoted by a driver.
// The errors are ErrInvalid.
func Parse(text string) (clean string, kind Kind, err error) {
	text = Clean(text)
	kind = KindOf(text)
	scheme := schemeForm.FindStringSubmatch(text)
	switch {
	case kind == Unknown:
		if _, err := os.Stat(SQLiteFile(text)); err == nil {
			return text, SQLite, nil
		}
		return "", Unknown, noForm(text)
	case scheme != nil && schemes[strings.ToLower(scheme[1])] == kind:
		name := strings.ToLower(scheme[1])
		text = name + text[len(name):]
		if kind == MySQL {
			_, err = parseMySQL(text)
			return text, kind, err
		}
		return text, kind, checkURL(name, text)
	case kind == Postgres && !keywordsOnly.MatchString(text):
		return "", kind, fmt.Errorf("%w: not a valid list of keyword=value; write a value with blanks, quotes or ; in 'quotes', with a backslash before ' and \\", ErrInvalid)
	case kind == MySQL:
		_, err = parseMySQL(text)
	}
	return text, kind, err
}

func noForm(text string) error {
	err := fmt.Errorf("%w: it has none of these forms: postgres://user:password@host/name, host=... user=... password=... dbname=..., "+
		"user:password@tcp(host:3306)/name, mysql://user:password@host/name, redis://host:6379/0, and there is no file of that name", ErrInvalid)
	if forgotTCP.MatchString(text) && !schemeForm.MatchString(text) {
		return fmt.Errorf("%w; MySQL's form is user:password@tcp(host:3306)/name", err)
	}
	return err
}

// checkURL makes sure that the user's part ends where the parsers end it: a /,
// ? or # in a password would move its rest into the path, and its begin into
// the port. Several hosts are left to Postgres' driver.
func checkURL(scheme, text string) error {
	invalid := fmt.Errorf("%w: not a valid %s:// URL; percent-encode /, ?, # and @ in the password", ErrInvalid, scheme)
	rest := text[len(scheme)+len("://"):]
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	if strings.ContainsAny(rest[len(authority):], "@#") {
		return invalid
	}
	user := strings.LastIndexByte(authority, '@')
	if strings.Contains(authority[user+1:], ",") {
		text = scheme + "://" + authority[:user+1] + "host" + rest[len(authority):]
	}
	if _, err := url.Parse(text); err != nil {
		return invalid
	}
	return nil
}

// MySQLConfig reads the driver's own form and URLs, and asks for time.Time.
func MySQLConfig(text string) (*mysql.Config, error) {
	config, err := parseMySQL(text)
	if err != nil {
		return nil, err
	}
	config.ParseTime = true
	return config, nil
}

func parseMySQL(text string) (*mysql.Config, error) {
	if m := schemeForm.FindStringSubmatch(text); m != nil && schemes[strings.ToLower(m[1])] == MySQL {
		if err := checkURL(m[1], text); err != nil {
			return nil, err
		}
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%w: not a valid %s:// URL", ErrInvalid, m[1])
		}
		host := u.Host
		if u.Port() == "" {
			host += ":3306"
		}
		plain := "tcp(" + host + ")/" + strings.TrimPrefix(u.EscapedPath(), "/")
		if u.RawQuery != "" {
			plain += "?" + u.RawQuery
		}
		config, err := mysql.ParseDSN(plain)
		if err != nil {
			return nil, fmt.Errorf("%w: after the host of the %s:// URL: %w", ErrInvalid, m[1], Hide(err, text))
		}
		config.User = u.User.Username()
		config.Passwd, _ = u.User.Password()
		return config, nil
	}
	// The driver takes the last slash for the end of the address, and what is
	// before it back to the last @ for the address.
	const form = "MySQL's form is user:password@tcp(host:3306)/name, with / and @ percent-encoded in name and parameters"
	slash, at := strings.LastIndexByte(text, '/'), strings.LastIndexByte(text, '@')
	if slash < at {
		return nil, fmt.Errorf("%w: %s", ErrInvalid, form)
	}
	config, err := mysql.ParseDSN(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, form, Hide(err, text))
	}
	return config, nil
}

// SQLiteFile returns the path in a SQLite DSN.
func SQLiteFile(dsn string) string {
	file, _, _ := strings.Cut(strings.TrimPrefix(dsn, "file:"), "?")
	return file
}
