package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/glebarez/sqlite"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake/cmd/gormflake/internal/dsn"
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
		if err != nil { // without the name: it may be a DSN, password and all
			var path *fs.PathError
			if errors.As(err, &path) {
				err = path.Err
			}
			return "", fmt.Errorf("--dsn-file wants a file that can be read: %w", err)
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

// parse returns the DSN and which database it names.
func (f *dsnFlags) parse() (string, dsn.Kind, error) {
	name, err := f.value()
	if err != nil {
		return "", dsn.Unknown, err
	}
	return dsn.Parse(name)
}

// open opens the SQL database that the flags name. The returned function
// closes it.
func (f *dsnFlags) open(ctx context.Context) (*gorm.DB, func(), error) {
	name, kind, err := f.parse()
	if err != nil {
		return nil, nil, err
	}
	var dialector gorm.Dialector
	switch kind {
	case dsn.Postgres:
		dialector = postgres.Open(name)
	case dsn.MySQL:
		config, err := dsn.MySQLConfig(name)
		if err != nil {
			return nil, nil, err
		}
		dialector = mysql.Open(config.FormatDSN())
	case dsn.SQLite:
		dialector = sqlite.Open(name)
	default:
		return nil, nil, usagef("this command wants a SQL database, got Redis")
	}
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, nil, dsn.Hide(fmt.Errorf("the database does not open: %w", err), name)
	}
	pool, err := db.DB()
	if err != nil {
		return nil, nil, err
	}
	pinging, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := pool.PingContext(pinging); err != nil {
		return nil, nil, dsn.Hide(errors.Join(fmt.Errorf("the database does not answer: %w", err), pool.Close()), name)
	}
	return db.WithContext(ctx), func() { _ = pool.Close() }, nil
}

// quiet is a logger that says nothing.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// store opens the lease store that the flags name.
func (f *dsnFlags) store(ctx context.Context, options ...lease.Option) (lease.Store, func(), error) {
	name, kind, err := f.parse()
	if err != nil {
		return nil, nil, err
	}
	if kind == dsn.Redis {
		redis.SetLogger(quiet{}) // what fails comes back as an error
		parsed, err := redis.ParseURL(name)
		if err != nil {
			return nil, nil, dsn.Hide(err, name)
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
