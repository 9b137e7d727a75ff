// Package dsn tells the forms of data source names apart, and keeps their
// passwords from being printed.
package dsn

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Kind is the family of databases that a DSN names.
type Kind string

// The kinds of databases.
const (
	Postgres Kind = "postgres"
	MySQL    Kind = "mysql"
	SQLite   Kind = "sqlite"
	Redis    Kind = "redis"
)

// KindOf tells by a DSN's form which database it names; what has no form is
// the path of a SQLite file.
func KindOf(dsn string) Kind {
	switch scheme, _, hasScheme := strings.Cut(dsn, "://"); {
	case hasScheme && (scheme == "postgres" || scheme == "postgresql"):
		return Postgres
	case hasScheme && (scheme == "redis" || scheme == "rediss" || scheme == "unix"):
		return Redis
	case hasScheme && (scheme == "mysql" || scheme == "mariadb"):
		return MySQL
	case strings.Contains(dsn, "@tcp("), strings.Contains(dsn, "@unix("), strings.HasPrefix(dsn, "tcp("), strings.Contains(dsn, "@/"):
		return MySQL
	case regexp.MustCompile(`(^|\s)(host|dbname|user|service)\s*=`).MatchString(dsn):
		return Postgres
	}
	return SQLite
}

// MySQLConfig reads the driver's own form and URLs, and asks for time.Time.
func MySQLConfig(dsn string) (*mysql.Config, error) {
	if scheme, _, ok := strings.Cut(dsn, "://"); ok && (scheme == "mysql" || scheme == "mariadb") {
		u, err := url.Parse(dsn)
		if err != nil {
			return nil, err
		}
		host := u.Host
		if u.Port() == "" {
			host += ":3306"
		}
		dsn = "tcp(" + host + ")" + u.Path
		if u.Path == "" {
			dsn += "/"
		}
		if u.RawQuery != "" {
			dsn += "?" + u.RawQuery
		}
		config, err := mysql.ParseDSN(dsn)
		if err != nil {
			return nil, err
		}
		config.User = u.User.Username()
		config.Passwd, _ = u.User.Password()
		config.ParseTime = true
		return config, nil
	}
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.ParseTime = true
	return config, nil
}

// SQLiteFile returns the path in a SQLite DSN.
func SQLiteFile(dsn string) string {
	file, _, _ := strings.Cut(strings.TrimPrefix(dsn, "file:"), "?")
	return file
}

// passwords are the places of a DSN where a password stands.
var passwords = []*regexp.Regexp{
	regexp.MustCompile(`^[a-z]+://[^:@/]*:([^@]*)@`),                  // URL
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
