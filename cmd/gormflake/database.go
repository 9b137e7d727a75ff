package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/glebarez/sqlite"
	driver "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/redislease"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
)

// dsnVariable names the database where no flag does.
const dsnVariable = "GORMFLAKE_DSN"

// dsnFlags say which database to use. The DSN may hold a password, so it can
// come from a file or the environment, and is never printed whole.
type dsnFlags struct{ dsn, file string }

func (f *dsnFlags) register(set *pflag.FlagSet) {
	set.StringVar(&f.dsn, "dsn", "", "database: postgres://user:password@host/name, user:password@tcp(host:3306)/name,\nmysql://user:password@host/name, redis://host:6379/0 or a SQLite file; default: $"+dsnVariable)
	set.StringVar(&f.file, "dsn-file", "", "file whose first line is the DSN")
}

func (f *dsnFlags) value() (string, error) {
	if f.dsn != "" && f.file != "" {
		return "", usagef("give either --dsn or --dsn-file")
	}
	if f.file != "" {
		text, err := os.ReadFile(f.file)
		if err != nil {
			return "", err
		}
		line, _, _ := strings.Cut(string(text), "\n")
		if line = strings.TrimSpace(line); line == "" {
			return "", usagef("--dsn-file %s: its first line is empty", f.file)
		}
		return line, nil
	}
	if f.dsn != "" {
		return f.dsn, nil
	}
	if dsn := os.Getenv(dsnVariable); dsn != "" {
		return dsn, nil
	}
	return "", usagef("which database? Give --dsn, --dsn-file or the environment variable %s", dsnVariable)
}

// kind is the family of databases that a DSN names.
type kind string

const (
	kindPostgres kind = "postgres"
	kindMySQL    kind = "mysql"
	kindSQLite   kind = "sqlite"
	kindRedis    kind = "redis"
)

func kindOf(dsn string) kind {
	switch scheme, _, hasScheme := strings.Cut(dsn, "://"); {
	case hasScheme && (scheme == "postgres" || scheme == "postgresql"):
		return kindPostgres
	case hasScheme && (scheme == "redis" || scheme == "rediss" || scheme == "unix"):
		return kindRedis
	case hasScheme && (scheme == "mysql" || scheme == "mariadb"):
		return kindMySQL
	case strings.Contains(dsn, "@tcp("), strings.Contains(dsn, "@unix("), strings.HasPrefix(dsn, "tcp("), strings.Contains(dsn, "@/"):
		return kindMySQL
	case regexp.MustCompile(`(^|\s)(host|dbname|user|service)\s*=`).MatchString(dsn):
		return kindPostgres
	}
	return kindSQLite
}

// open opens the SQL database that the flags name. The returned function
// closes it.
func (f *dsnFlags) open(ctx context.Context) (*gorm.DB, func(), error) {
	dsn, err := f.value()
	if err != nil {
		return nil, nil, err
	}
	var dialector gorm.Dialector
	switch kindOf(dsn) {
	case kindPostgres:
		dialector = postgres.Open(dsn)
	case kindMySQL:
		config, err := mysqlConfig(dsn)
		if err != nil {
			return nil, nil, redacted(err, dsn)
		}
		dialector = mysql.Open(config.FormatDSN())
	case kindSQLite:
		if _, err := os.Stat(sqliteFile(dsn)); err != nil {
			return nil, nil, fmt.Errorf("want a database that exists, got the SQLite file %q: %w", sqliteFile(dsn), err)
		}
		dialector = sqlite.Open(dsn)
	default:
		return nil, nil, usagef("this command wants a SQL database, got Redis")
	}
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, nil, redacted(fmt.Errorf("the database does not open: %w", err), dsn)
	}
	pool, err := db.DB()
	if err != nil {
		return nil, nil, err
	}
	pinging, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := pool.PingContext(pinging); err != nil {
		return nil, nil, redacted(errors.Join(fmt.Errorf("the database does not answer: %w", err), pool.Close()), dsn)
	}
	return db.WithContext(ctx), func() { _ = pool.Close() }, nil
}

// store opens the lease store that the flags name.
func (f *dsnFlags) store(ctx context.Context, options ...lease.Option) (lease.Store, func(), error) {
	dsn, err := f.value()
	if err != nil {
		return nil, nil, err
	}
	if kindOf(dsn) == kindRedis {
		parsed, err := redis.ParseURL(dsn)
		if err != nil {
			return nil, nil, redacted(err, dsn)
		}
		client := redis.NewClient(parsed)
		return redislease.New(client, options...), func() { _ = client.Close() }, nil
	}
	db, done, err := f.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	store, err := sqllease.FromGORM(db, options...)
	if err != nil {
		done()
		return nil, nil, err
	}
	return store, done, nil
}

// mysqlConfig reads the driver's own form and URLs.
func mysqlConfig(dsn string) (*driver.Config, error) {
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
		config, err := driver.ParseDSN(dsn)
		if err != nil {
			return nil, err
		}
		config.User = u.User.Username()
		config.Passwd, _ = u.User.Password()
		config.ParseTime = true
		return config, nil
	}
	config, err := driver.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.ParseTime = true
	return config, nil
}

func sqliteFile(dsn string) string {
	file, _, _ := strings.Cut(strings.TrimPrefix(dsn, "file:"), "?")
	return file
}

// passwords are the places of a DSN where a password stands.
var passwords = []*regexp.Regexp{
	regexp.MustCompile(`^[a-z]+://[^:@/]*:([^@]*)@`),                  // URL
	regexp.MustCompile(`^[^:@/]*:(.*)@(?:tcp|unix|[a-z]*)?\(?[^@]*/`), // go-sql-driver
	regexp.MustCompile(`password\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]+)`),
}

// redact returns the DSN without its password.
func redact(dsn string) string {
	for _, p := range passwords {
		if m := p.FindStringSubmatchIndex(dsn); m != nil && m[2] < m[3] {
			dsn = dsn[:m[2]] + "xxxxx" + dsn[m[3]:]
		}
	}
	return dsn
}

// redacted keeps a driver's error from quoting the DSN or its password.
func redacted(err error, dsn string) error {
	text := strings.ReplaceAll(err.Error(), dsn, redact(dsn))
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
