package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glebarez/sqlite"
	"github.com/redis/go-redis/v9"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// Server is a server as tests see it: a private process, the process that the
// whole test binary shares, one that the environment names, or the embedded
// SQLite.
//
// Its methods end the test on an error, so they belong into the test's own
// goroutine; elsewhere use those of Process.
type Server struct {
	kind    Kind
	dsn     string   // to the server, without a database of its own
	process *Process // nil when it isn't ours to break
	private bool
}

// Shared returns the server of the given kind that all tests of the binary
// share: the one that the environment names, or a process started on the first
// call. It can't be broken. The test is skipped, saying why, when there is none.
func Shared(t testing.TB, kind Kind) *Server {
	t.Helper()
	if kind == SQLite {
		return &Server{kind: kind}
	}
	srv, err := shared(kind)
	if err != nil {
		giveUp(t, err)
	}
	return srv
}

// Private starts a process of the given kind for this test alone and closes it
// at the test's end. The environment can't name one. The test is skipped,
// saying why, when there is none.
func Private(t testing.TB, kind Kind, opts ...Option) *Server {
	t.Helper()
	process, err := Start(context.Background(), kind, opts...)
	if err != nil {
		giveUp(t, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", kind, process.Log(30))
		}
		if err := process.Close(); err != nil {
			t.Errorf("close %s: %v", kind, err)
		}
	})
	return &Server{kind: kind, dsn: process.DSN(""), process: process, private: true}
}

// EachSQL runs a subtest on every one of SQLKinds, named after it, with a
// shared server.
func EachSQL(t *testing.T, test func(t *testing.T, srv *Server)) {
	t.Helper()
	Each(t, SQLKinds(), test)
}

// Each runs a subtest on every given kind, named after it, with a shared
// server. The servers start at the same time.
func Each(t *testing.T, kinds []Kind, test func(t *testing.T, srv *Server)) {
	t.Helper()
	var starting sync.WaitGroup
	for _, kind := range kinds {
		if kind != SQLite {
			starting.Go(func() { _, _ = shared(kind) }) // the subtest reports an error
		}
	}
	starting.Wait()
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) { test(t, Shared(t, kind)) })
	}
}

var sharedServers sync.Map // Kind to func() (*Server, error)

func shared(kind Kind) (*Server, error) {
	start, _ := sharedServers.LoadOrStore(kind, sync.OnceValues(func() (*Server, error) { return startShared(kind) }))
	return start.(func() (*Server, error))()
}

func startShared(kind Kind) (*Server, error) {
	if switchedOn("GORMFLAKE_NO_SERVERS") {
		return nil, unavailable(kind, "GORMFLAKE_NO_SERVERS is set")
	}
	if dsn := kind.environmentDSN(); dsn != "" {
		return &Server{kind: kind, dsn: dsn}, nil
	}
	process, err := Start(context.Background(), kind)
	if err != nil {
		return nil, err
	}
	return &Server{kind: kind, dsn: process.DSN(""), process: process}, nil
}

// giveUp skips the test where a server can't be had, unless that is an error.
func giveUp(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrUnavailable) && !switchedOn("GORMFLAKE_REQUIRE_SERVERS") {
		t.Skipf("%s did not run: %v", t.Name(), err)
	}
	t.Fatal(err)
}

// Kind returns the kind of the server.
func (s *Server) Kind() Kind { return s.kind }

// Process returns the process behind a private server, whose methods return
// errors, or nil.
func (s *Server) Process() *Process {
	if !s.private {
		return nil
	}
	return s.process
}

// Database makes an empty database for the test, drops it at the test's end,
// and returns its data source name. On SQLite it is a file in a temporary
// folder, in WAL mode. On a Redis of the harness it is a logical database of
// the test's own; on one that the environment names it is the named one, with
// whatever is in it.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	switch s.kind {
	case SQLite:
		return "file:" + (&url.URL{Path: filepath.Join(t.TempDir(), "test.db")}).EscapedPath() +
			"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"
	case Redis:
		if s.process == nil {
			return s.dsn
		}
		return s.process.DSN(strconv.FormatInt(nextRedisDatabase.Add(1)%redisDatabases, 10))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	own, name, err := createDatabase(ctx, s.kind, s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	if s.private { // it vanishes with its server, which may be down by then
		return own
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := dropDatabase(ctx, s.kind, s.dsn, name); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return own
}

var nextRedisDatabase atomic.Int64

// Dialector returns GORM's dialector for a data source name of this kind of
// server.
func (s *Server) Dialector(dsn string) gorm.Dialector {
	switch {
	case s.kind == SQLite:
		return sqlite.Open(dsn)
	case s.kind == Postgres:
		return postgres.Open(dsn)
	case s.kind.IsMySQL():
		return mysql.Open(dsn)
	}
	panic(fmt.Sprintf("servers: %s is no SQL database", s.kind))
}

// Open opens a fresh database of the test's own with GORM and closes it at the
// test's end. A nil config means one that logs nothing.
func (s *Server) Open(t testing.TB, config *gorm.Config) *gorm.DB {
	t.Helper()
	return s.OpenDSN(t, s.Database(t), config)
}

// OpenDSN opens a database that Database returned, for a test that needs
// several pools on one.
func (s *Server) OpenDSN(t testing.TB, dsn string, config *gorm.Config) *gorm.DB {
	t.Helper()
	if config == nil {
		config = &gorm.Config{Logger: logger.Discard}
	}
	db, err := gorm.Open(s.Dialector(dsn), config)
	if err != nil {
		t.Fatalf("open %s: %v", s.kind, err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatalf("open %s: %v", s.kind, err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return db
}

// OpenSQL opens a database that Database returned with database/sql and closes
// it at the test's end.
func (s *Server) OpenSQL(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	pool, err := sql.Open(driverName(s.kind), dsn)
	if err != nil {
		t.Fatalf("open %s: %v", s.kind, err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// OpenRedis connects to what Database returns, and closes the client at the
// test's end.
func (s *Server) OpenRedis(t testing.TB) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(s.Database(t))
	if err != nil {
		t.Fatalf("open %s: %v", s.kind, err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Version returns what the server says it is.
func (s *Server) Version(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	version, err := version(ctx, s.kind, s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// Kill ends a private server with SIGKILL, as a crash would.
func (s *Server) Kill(t testing.TB) { t.Helper(); s.fault(t, (*Process).Kill) }

// Stop ends a private server in an orderly way.
func (s *Server) Stop(t testing.TB) { t.Helper(); s.fault(t, (*Process).Stop) }

// Pause freezes a private server with SIGSTOP.
func (s *Server) Pause(t testing.TB) { t.Helper(); s.fault(t, (*Process).Pause) }

// Resume lets a paused private server run on.
func (s *Server) Resume(t testing.TB) { t.Helper(); s.fault(t, (*Process).Resume) }

// Restart starts a stopped or killed private server again, on the same port
// and with the same data, and returns when it answers.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.fault(t, func(p *Process) error { return p.Restart(context.Background()) })
}

func (s *Server) fault(t testing.TB, do func(*Process) error) {
	t.Helper()
	if !s.private {
		t.Fatalf("servers: other tests use this %s too; break one from servers.Private", s.kind)
	}
	if err := do(s.process); err != nil {
		t.Fatal(err)
	}
}

// Foreign returns a server that another process has started, for a test's own
// child process, which opens the DSN that it was given.
func Foreign(kind Kind) *Server { return &Server{kind: kind} }
