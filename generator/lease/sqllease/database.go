package sqllease

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/memorylease"
)

// database is what the store must know of the database before the first call.
type database struct {
	memory   lease.Store // for an in-memory SQLite database, else nil
	identity string      // an expression that says which server this is
	enter    string      // statements of namespaces, with the expression in them
	begin    string
}

// open finds out once what the database is. While it can't, each call tries
// again; a context that ends lets go of it.
func (s *store) open(ctx context.Context) (*database, error) {
	if s.settings.Err != nil {
		return nil, s.settings.Err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("sqllease: %w", err)
	}
	s.mu.Lock()
	known := s.database
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	found, err := s.inspect(ctx)
	if err != nil {
		return nil, err
	}
	found.enter = strings.Replace(s.texts.enter, "%IDENTITY%", found.identity, 1)
	found.begin = strings.Replace(s.texts.begin, "%IDENTITY%", found.identity, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.database == nil {
		s.database = found
	}
	return s.database, nil
}

func (s *store) inspect(ctx context.Context) (*database, error) {
	found := &database{identity: "''"}
	if s.dialect == SQLite {
		inMemory, err := s.inMemory(ctx)
		if err != nil {
			return nil, err
		}
		if inMemory {
			found.memory = memorylease.Of(s.db, s.own.table, "", func(to *lease.Settings) {
				to.Timing, to.Workers = s.settings.Timing, s.settings.Workers
			})
		}
		return found, nil
	}
	candidates := []string{"(SELECT CAST(system_identifier AS TEXT) FROM pg_control_system()) || '/' || SUBSTR(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"}
	if s.dialect == MySQL {
		mariaDB, err := s.inspectMySQL(ctx)
		if err != nil {
			return nil, err
		}
		// server_id is the last resort: replication wants it to differ.
		candidates = []string{"@@server_uuid", "CONCAT('server-id:', @@server_id)"}
		if mariaDB {
			candidates[0] = "@@server_uid"
		}
	}
	if s.own.guarded {
		return found, nil
	}
	for _, candidate := range candidates {
		var identity string
		err := s.retry(ctx, "read the server's identity", func() error {
			return s.db.QueryRowContext(ctx, "SELECT "+candidate).Scan(&identity)
		})
		if err == nil {
			found.identity = candidate
			return found, nil
		}
		if classify(err) != refused {
			return nil, err
		}
	}
	return found, nil
}

// inspectMySQL tells MariaDB from MySQL, and refuses connections that do not
// commit by themselves: their grants would vanish with them.
func (s *store) inspectMySQL(ctx context.Context) (mariaDB bool, err error) {
	var version string
	var autocommit int
	err = s.retry(ctx, "read the server's version", func() error {
		return s.db.QueryRowContext(ctx, "SELECT VERSION(), @@autocommit").Scan(&version, &autocommit)
	})
	if err == nil && autocommit == 0 {
		err = fmt.Errorf("sqllease: %w: want connections that commit each statement, got autocommit=0; leave it on in the data source name", lease.ErrInvalid)
	}
	return strings.Contains(version, "MariaDB"), err
}

// inMemory reports whether the main database of a SQLite connection has no
// file.
func (s *store) inMemory(ctx context.Context) (inMemory bool, err error) {
	err = s.retry(ctx, "look for the database's file", func() error {
		rows, err := s.db.QueryContext(ctx, "PRAGMA database_list")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var number int
			var name string
			var file sql.NullString
			if err := rows.Scan(&number, &name, &file); err != nil {
				return err
			}
			if name == "main" {
				inMemory = file.String == ""
			}
		}
		return rows.Err()
	})
	return inMemory, err
}
