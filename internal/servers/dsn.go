package servers

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
)

// redisDatabases is the number of logical databases of a private Redis.
const redisDatabases = 4096

// DSN returns the data source name of a database on the server, in the form
// that the driver (go-sql-driver/mysql, pgx) or redis.ParseURL takes. An empty
// name means none on MySQL, the database postgres on Postgres, and 0 on Redis.
func (p *Process) DSN(database string) string {
	switch {
	case p.kind.IsMySQL():
		return "root@tcp(" + p.Addr() + ")/" + database + "?charset=utf8mb4&parseTime=true&loc=UTC"
	case p.kind == Postgres:
		if database == "" {
			database = "postgres"
		}
		return "postgres://postgres@" + p.Addr() + "/" + database + "?sslmode=disable"
	default:
		if database == "" {
			database = "0"
		}
		return "redis://" + p.Addr() + "/" + database
	}
}

// withDatabase returns dsn with another database in it, and for MySQL with
// what the project's models need.
func withDatabase(kind Kind, dsn, database string) (string, error) {
	switch {
	case kind.IsMySQL():
		config, err := mysql.ParseDSN(dsn)
		if err != nil {
			return "", fmt.Errorf("servers: %s: %w", kind.Environment(), err)
		}
		config.DBName, config.ParseTime = database, true
		return config.FormatDSN(), nil
	case kind == Postgres:
		if _, err := pgx.ParseConfig(dsn); err != nil {
			return "", fmt.Errorf("servers: %s: %w", kind.Environment(), err)
		}
		if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
			return dsn + " dbname=" + database, nil // of two, the last counts
		}
		u, err := url.Parse(dsn)
		if err != nil {
			return "", fmt.Errorf("servers: %s: %w", kind.Environment(), err)
		}
		u.Path = "/" + database
		return u.String(), nil
	}
	return "", fmt.Errorf("servers: %s has no databases to choose from", kind)
}

// driverName returns the name that database/sql knows the driver by.
func driverName(kind Kind) string {
	switch {
	case kind.IsMySQL():
		return "mysql"
	case kind == Postgres:
		return "pgx"
	default:
		return "sqlite"
	}
}

// newDatabaseName returns a name that nobody else uses.
func newDatabaseName() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return "gf_" + hex.EncodeToString(random[:])
}

// createDatabase makes an empty database on the server behind dsn and returns
// its own data source name.
func createDatabase(ctx context.Context, kind Kind, dsn string) (own, name string, err error) {
	name = newDatabaseName()
	if own, err = withDatabase(kind, dsn, name); err != nil {
		return "", "", err
	}
	statement := "CREATE DATABASE " + name
	if kind.IsMySQL() {
		statement += " CHARACTER SET utf8mb4"
	}
	return own, name, execute(ctx, kind, dsn, statement)
}

func dropDatabase(ctx context.Context, kind Kind, dsn, name string) error {
	statement := "DROP DATABASE IF EXISTS " + name
	if kind == Postgres {
		statement += " WITH (FORCE)"
	}
	return execute(ctx, kind, dsn, statement)
}

func execute(ctx context.Context, kind Kind, dsn, statement string) error {
	db, err := sql.Open(driverName(kind), dsn)
	if err != nil {
		return fmt.Errorf("servers: open %s: %w", kind, err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("servers: %s: %s: %w", kind, statement, err)
	}
	return nil
}
