package servers

import (
	"context"
	"net"
	"path/filepath"
	"sort"
	"strconv"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver for ping and Database
)

type postgresServer struct{ server, initdb string }

func (s *postgresServer) find(ctx context.Context) error {
	return locate(ctx, Postgres, packages{"postgresql"}, map[string]*string{
		"postgres": &s.server, "initdb": &s.initdb,
	}, postgresFolders)
}

// postgresFolders is a pattern for Debian's folders, one per version.
const postgresFolders = "/usr/lib/postgresql/*/bin"

// newestVersion orders folders by the number in them, newest first.
func newestVersion(folders []string) {
	version := func(folder string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
		return n
	}
	sort.SliceStable(folders, func(i, j int) bool { return version(folders[i]) > version(folders[j]) })
}

func (s *postgresServer) defaults(p *Process) []Option {
	settings := []Option{
		Setting("listen_addresses", "127.0.0.1"),
		Setting("unix_socket_directories", ""),
		Setting("max_connections", "300"),
		Setting("shared_buffers", "64MB"),
		Setting("log_timezone", "UTC"),
		Setting("timezone", "UTC"),
	}
	if !p.opts.durable {
		// The system keeps what the server has written when it is killed.
		settings = append(settings, Setting("fsync", "off"))
	}
	return settings
}

func (s *postgresServer) initialise(ctx context.Context, p *Process) error {
	if p.opts.primary != "" {
		host, port, err := net.SplitHostPort(p.opts.primary)
		if err != nil {
			return err
		}
		return p.run(ctx, filepath.Join(filepath.Dir(s.initdb), "pg_basebackup"), "-D", p.path("data"),
			"-h", host, "-p", port, "-U", "postgres", "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	}
	return p.run(ctx, s.initdb, "-D", p.path("data"), "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C")
}

func (s *postgresServer) command(p *Process) (string, []string) {
	return s.server, []string{"-D", p.path("data"), "-p", strconv.Itoa(p.port)}
}

func (s *postgresServer) environment() []string { return nil }

func (s *postgresServer) ping(ctx context.Context, p *Process) error { return pingSQL(ctx, p) }

func (s *postgresServer) stopSignal() syscall.Signal { return syscall.SIGINT }
