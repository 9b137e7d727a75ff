package servers

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
)

// portLock keeps a port for one server from its first start to its close, so
// that no other server of the harness, in this program or another, takes it
// while its own is down.
type portLock struct {
	port int
	held io.Closer // nil where the system has no such lock
}

// Ports below those that systems hand out for outgoing connections: one of
// these would take a stopped server's port now and then.
const (
	firstPort = 14000
	ports     = 16000
)

func lockPort() (*portLock, error) {
	for range 1000 {
		port := firstPort + rand.IntN(ports)
		held, ok := holdPort(port)
		if !ok {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			err = listener.Close()
		}
		if err == nil {
			return &portLock{port: port, held: held}, nil
		}
		if held != nil {
			_ = held.Close()
		}
	}
	return nil, fmt.Errorf("servers: no free port on 127.0.0.1 from %d to %d", firstPort, firstPort+ports-1)
}

func (l *portLock) release() {
	if l != nil && l.held != nil {
		_ = l.held.Close()
		l.held = nil
	}
}
