package servers

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// mySQLFamily is what MariaDB and the two MySQLs share.
type mySQLFamily struct{}

func (mySQLFamily) settings(p *Process) []Option {
	settings := []Option{
		Setting("datadir", p.path("data")),
		Setting("tmpdir", p.dir),
		Setting("socket", p.path("sock")),
		Setting("pid-file", p.path("pid")),
		Setting("bind-address", "127.0.0.1"),
		Setting("skip-name-resolve", "1"),
		Setting("init-file", p.path("init.sql")),
		Setting("innodb-log-file-size", "8M"),
		Setting("innodb-buffer-pool-size", "64M"),
		Setting("max-connections", "300"),
		Setting("character-set-server", "utf8mb4"),
		Setting("performance-schema", "0"), // several hundred megabytes on MySQL 5.6
	}
	if !p.opts.durable {
		// Written to the system at every commit, not forced to the disk: that
		// survives a kill -9 of the server.
		settings = append(settings, Setting("innodb-flush-log-at-trx-commit", "2"))
	}
	return settings
}

// writeInitFile lets root in over TCP without a password.
func (mySQLFamily) writeInitFile(p *Process) error {
	const text = "SET SESSION sql_mode = '';\n" +
		"GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' IDENTIFIED BY '' WITH GRANT OPTION;\n"
	return os.WriteFile(p.path("init.sql"), []byte(text), 0o644)
}

func (mySQLFamily) arguments(p *Process) []string {
	return append([]string{"--no-defaults", fmt.Sprintf("--port=%d", p.port)}, runAs()...)
}

// runAs lets the server run as root where the tests do; it asks to be told.
func runAs() []string {
	if os.Geteuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

func (mySQLFamily) environment() []string { return nil }

func (mySQLFamily) ping(ctx context.Context, p *Process) error { return pingSQL(ctx, p) }

func (mySQLFamily) stopSignal() syscall.Signal { return syscall.SIGTERM }

func pingSQL(ctx context.Context, p *Process) error {
	db, err := sql.Open(driverName(p.kind), p.DSN(""))
	if err != nil {
		return err
	}
	defer db.Close()
	return db.PingContext(ctx)
}

type mariaDB struct {
	mySQLFamily
	server, install string
}

func (m *mariaDB) find(ctx context.Context) error {
	// Without the package mariadb-server, which would start a service.
	return locate(ctx, MariaDB, packages{"mariadb-server-core mariadb-client-core", "mariadb-server"}, map[string]*string{
		"mariadbd": &m.server, "mariadb-install-db": &m.install,
	}, "/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/opt/homebrew/bin")
}

func (m *mariaDB) defaults(p *Process) []Option {
	return append(m.settings(p), Setting("skip-log-bin", "1"))
}

func (m *mariaDB) initialise(ctx context.Context, p *Process) error {
	if err := m.writeInitFile(p); err != nil {
		return err
	}
	return p.run(ctx, m.install, append([]string{
		"--no-defaults", "--datadir=" + p.path("data"), "--auth-root-authentication-method=normal",
		"--skip-test-db", "--innodb-log-file-size=8M",
	}, runAs()...)...)
}

func (m *mariaDB) command(p *Process) (string, []string) { return m.server, m.arguments(p) }

type mySQL57 struct {
	mySQLFamily
	home string
}

func (m *mySQL57) find(ctx context.Context) (err error) {
	m.home, err = mySQL57Package.install(ctx)
	return err
}

func (m *mySQL57) defaults(p *Process) []Option {
	return append(m.settings(p),
		Setting("basedir", m.home),
		Setting("lc-messages-dir", filepath.Join(m.home, "share/mysql")),
		Setting("character-sets-dir", filepath.Join(m.home, "share/mysql/charsets")),
		Setting("explicit-defaults-for-timestamp", "1"),
		Setting("secure-file-priv", ""),
		Setting("log-syslog", "0"),
	)
}

// initialise copies the data folder that was made when the package was
// installed; making one takes three seconds.
func (m *mySQL57) initialise(_ context.Context, p *Process) error {
	if err := m.writeInitFile(p); err != nil {
		return err
	}
	return os.CopyFS(p.path("data"), os.DirFS(filepath.Join(filepath.Dir(m.home), "template")))
}

func (m *mySQL57) command(p *Process) (string, []string) {
	return filepath.Join(m.home, "mysqld"), m.arguments(p)
}

func (m *mySQL57) environment() []string { return []string{"LD_LIBRARY_PATH=" + libraryPath(m.home)} }

type mySQL56 struct {
	mySQLFamily
	home string
}

func (m *mySQL56) find(ctx context.Context) (err error) {
	m.home, err = mySQL56Package.install(ctx)
	return err
}

func (m *mySQL56) defaults(p *Process) []Option {
	return append(m.settings(p),
		Setting("basedir", m.home),
		Setting("lc-messages-dir", filepath.Join(m.home, "share")),
		Setting("explicit-defaults-for-timestamp", "1"),
		Setting("sql-mode", "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"),
	)
}

func (m *mySQL56) initialise(_ context.Context, p *Process) error {
	if err := m.writeInitFile(p); err != nil {
		return err
	}
	return os.CopyFS(p.path("data"), os.DirFS(filepath.Join(m.home, "data/mysql")))
}

func (m *mySQL56) command(p *Process) (string, []string) {
	return filepath.Join(m.home, "mysqld"), m.arguments(p)
}

func (m *mySQL56) environment() []string {
	return []string{"LD_LIBRARY_PATH=" + libraryPath(m.home)}
}
