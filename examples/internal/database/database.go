// Package database opens the database that an example's -dsn names.
package database

import (
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/glebarez/sqlite"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// Flag is the help text of an example's -dsn flag.
const Flag = `database to use instead of an embedded one:
postgres://user:password@host/name, user:password@tcp(host:3306)/name for MySQL and MariaDB,
or the path of a SQLite file`

// Open opens the database that dsn names; an embedded in-memory SQLite when dsn
// is empty.
func Open(dsn string) (*gorm.DB, error) {
	db, err := gorm.Open(dialector(dsn), &gorm.Config{
		Logger: logger.New(log.New(os.Stderr, "", 0), logger.Config{LogLevel: logger.Warn, SlowThreshold: time.Minute}),
	})
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if dsn == "" {
		// Each connection to :memory: is a database of its own, so there is one.
		pool, err := db.DB()
		if err != nil {
			return nil, err
		}
		pool.SetMaxOpenConns(1)
	}
	return db, nil
}

func dialector(dsn string) gorm.Dialector {
	switch {
	case dsn == "":
		return sqlite.Open(":memory:")
	case strings.HasPrefix(dsn, "postgres://"), strings.HasPrefix(dsn, "postgresql://"), strings.Contains(dsn, "host="):
		return postgres.Open(dsn)
	case strings.Contains(dsn, "@"), strings.Contains(dsn, "tcp("), strings.Contains(dsn, "unix("):
		return mysql.Open(withParseTime(dsn))
	default:
		return sqlite.Open(dsn)
	}
}

// withParseTime lets MySQL's driver return time.Time.
func withParseTime(dsn string) string {
	switch {
	case strings.Contains(dsn, "parseTime="):
		return dsn
	case strings.Contains(dsn, "?"):
		return dsn + "&parseTime=true"
	}
	return dsn + "?parseTime=true"
}
