package servers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

type redisServer struct{ server string }

func (s *redisServer) find(ctx context.Context) error {
	return locate(ctx, Redis, packages{"redis-server"}, map[string]*string{"redis-server": &s.server},
		"/usr/local/bin", "/opt/homebrew/bin")
}

func (s *redisServer) defaults(p *Process) []Option {
	settings := []Option{
		Setting("bind", "127.0.0.1"),
		Setting("dir", p.dir),
		Setting("databases", strconv.Itoa(redisDatabases)),
		Setting("save", ""),
		Setting("appendonly", "no"),
		Setting("appendfsync", "everysec"),
	}
	if p.opts.durable {
		settings = append(settings, Setting("appendonly", "yes"), Setting("appendfsync", "always"))
	}
	return settings
}

func (s *redisServer) initialise(context.Context, *Process) error { return nil }

func (s *redisServer) command(p *Process) (string, []string) {
	return s.server, []string{"--port", strconv.Itoa(p.port), "--daemonize", "no"}
}

func (s *redisServer) environment() []string { return nil }

// ping speaks the protocol itself: a server that asks for a password or is out
// of memory is ready nonetheless, one that loads its data isn't.
func (s *redisServer) ping(ctx context.Context, p *Process) error {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", p.Addr())
	if err != nil {
		return err
	}
	defer connection.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := connection.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := connection.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	reply, err := bufio.NewReader(connection).ReadString('\n')
	if err != nil {
		return err
	}
	for _, ready := range []string{"+PONG", "-NOAUTH", "-NOPERM", "-MISCONF", "-MASTERDOWN"} {
		if strings.HasPrefix(reply, ready) {
			return nil
		}
	}
	return fmt.Errorf("servers: redis answered PING with %q", strings.TrimSpace(reply))
}

func (s *redisServer) stopSignal() syscall.Signal { return syscall.SIGTERM }
