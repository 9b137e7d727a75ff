package servers

import "os"

// Kind names a server.
type Kind string

// The kinds of servers. SQLite is embedded and always there; MySQL80 and
// MySQL84 are only used where the environment names them.
const (
	SQLite   Kind = "sqlite"
	MariaDB  Kind = "mariadb"
	MySQL56  Kind = "mysql56"
	MySQL57  Kind = "mysql57"
	MySQL80  Kind = "mysql80"
	MySQL84  Kind = "mysql84"
	Postgres Kind = "postgres"
	Redis    Kind = "redis"
)

// SQLKinds returns every SQL database to test on: the embedded SQLite,
// MariaDB, MySQL 5.7, MySQL 5.6 and Postgres, then MySQL 8.0 and 8.4 where the
// environment names one.
func SQLKinds() []Kind {
	kinds := []Kind{SQLite, MariaDB, MySQL57, MySQL56, Postgres}
	for _, k := range []Kind{MySQL80, MySQL84} {
		if k.environmentDSN() != "" {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// MySQLKinds returns the kinds of SQLKinds that speak MySQL's protocol.
func MySQLKinds() []Kind {
	var kinds []Kind
	for _, k := range SQLKinds() {
		if k.IsMySQL() {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// IsMySQL reports whether k is MySQL or MariaDB.
func (k Kind) IsMySQL() bool {
	switch k {
	case MariaDB, MySQL56, MySQL57, MySQL80, MySQL84:
		return true
	}
	return false
}

// IsSQL reports whether k is a SQL database.
func (k Kind) IsSQL() bool { return k == SQLite || k == Postgres || k.IsMySQL() }

// Environment returns the name of the environment variable that points to a
// running server of kind k, or "" for SQLite.
func (k Kind) Environment() string {
	switch k {
	case MariaDB:
		return "GORMFLAKE_MARIADB_DSN"
	case MySQL56:
		return "GORMFLAKE_MYSQL56_DSN"
	case MySQL57:
		return "GORMFLAKE_MYSQL57_DSN"
	case MySQL80:
		return "GORMFLAKE_MYSQL80_DSN"
	case MySQL84:
		return "GORMFLAKE_MYSQL84_DSN"
	case Postgres:
		return "GORMFLAKE_POSTGRES_DSN"
	case Redis:
		return "GORMFLAKE_REDIS_URL"
	}
	return ""
}

func (k Kind) environmentDSN() string {
	if name := k.Environment(); name != "" {
		return os.Getenv(name)
	}
	return ""
}

func switchedOn(variable string) bool {
	v := os.Getenv(variable)
	return v != "" && v != "0"
}
