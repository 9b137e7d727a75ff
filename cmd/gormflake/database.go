package main

import (
	"context"
	"errors"
	"fmt"
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

// open opens the SQL database that the flags name. The returned function
// closes it.
func (f *dsnFlags) open(ctx context.Context) (*gorm.DB, func(), error) {
	name, err := f.value()
	if err != nil {
		return nil, nil, err
	}
	var dialector gorm.Dialector
	switch dsn.KindOf(name) {
	case dsn.Postgres:
		dialector = postgres.Open(name)
	case dsn.MySQL:
		config, err := dsn.MySQLConfig(name)
		if err != nil {
			return nil, nil, dsn.Hide(err, name)
		}
		dialector = mysql.Open(config.FormatDSN())
	case dsn.SQLite:
		if _, err := os.Stat(dsn.SQLiteFile(name)); err != nil {
			return nil, nil, fmt.Errorf("want a database that exists, got the SQLite file %q: %w", dsn.SQLiteFile(name), err)
		}
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

// store opens the lease store that the flags name.
func (f *dsnFlags) store(ctx context.Context, options ...lease.Option) (lease.Store, func(), error) {
	name, err := f.value()
	if err != nil {
		return nil, nil, err
	}
	if dsn.KindOf(name) == dsn.Redis {
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
