// Package proxy is a TCP proxy on 127.0.0.1 that breaks the connections
// through it on request: between a client and a database it plays a network
// that fails.
//
//	p := proxy.New(t, srv.Process().Addr())
//	p.LoseNextReply() // the server commits, the client never hears of it
//
// A fault lasts until Restore. All methods may be called at any time from any
// goroutine, and take effect at once, on bytes under way too.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// Direction says which way bytes flow.
type Direction int

// Requests flow from the client to the server, Replies back.
const (
	Requests Direction = iota
	Replies
)

// Proxy passes connections on to one target.
type Proxy struct {
	listener net.Listener
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu          sync.Mutex
	target      string
	faults      faults
	changed     chan struct{} // closed and replaced when faults change
	connections map[*connection]struct{}
	accepted    int
}

type faults struct {
	refuse, hold  bool
	stall, drop   [2]bool
	delay         [2]time.Duration
	loseNextReply bool
	watch         *watch
}

// watch is what HoldReplies waits for.
type watch struct {
	when func() bool
	held chan struct{}
}

// New starts a proxy to target, a host and port, for one test, and closes it
// at the test's end.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := Listen(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close the proxy: %v", err)
		}
	})
	return p
}

// Listen starts a proxy to target, a host and port. The caller closes it.
func Listen(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{
		target: target, listener: listener,
		changed: make(chan struct{}), connections: map[*connection]struct{}{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the host and port that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Accepted returns how many connections clients have made, those that were
// refused or are held back included.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Open returns how many connections are open to the target.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.connections)
}

// Lead leads new connections to another target, a host and port, as a name
// does that a promoted replica takes over. Open ones stay; Reset ends them.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Reset closes every connection with a TCP reset; new ones work.
func (p *Proxy) Reset() { p.closeConnections(func(*connection) bool { return true }) }

// Cut closes every connection with a TCP reset, and every new one too.
func (p *Proxy) Cut() {
	p.change(func(f *faults) { f.refuse = true })
	p.Reset()
}

// Hold lets clients connect and then does nothing for new connections. Open
// ones work on. Restore serves those that are held back.
func (p *Proxy) Hold() { p.change(func(f *faults) { f.hold = true }) }

// Stall keeps back what is sent in the given directions, in both if none is
// given, as a network does that loses packets and repeats them: Restore
// delivers it.
func (p *Proxy) Stall(directions ...Direction) {
	p.change(func(f *faults) {
		for _, d := range orBoth(directions) {
			f.stall[d] = true
		}
	})
}

// Drop swallows what is sent in the given directions, in both if none is
// given. Restore closes the connections that lost something by it.
func (p *Proxy) Drop(directions ...Direction) {
	p.change(func(f *faults) {
		for _, d := range orBoth(directions) {
			f.drop[d] = true
		}
	})
}

// Delay keeps every piece of what is sent in the given directions, in both if
// none is given, for a time before it is passed on.
func (p *Proxy) Delay(by time.Duration, directions ...Direction) {
	p.change(func(f *faults) {
		for _, d := range orBoth(directions) {
			f.delay[d] = by
		}
	})
}

// LoseNextReply passes the requests on and closes the first connection that a
// reply arrives on, without passing it: the server has done what it was asked
// to and the client doesn't know.
func (p *Proxy) LoseNextReply() { p.change(func(f *faults) { f.loseNextReply = true }) }

// HoldReplies calls when for each piece of a reply before it is passed, from
// several goroutines perhaps. Once when returns true, that piece and every
// later reply are kept back, and the channel is closed: the server has
// answered, and no client knows. Reset drops what is kept back, Restore
// delivers it.
//
//	held := p.HoldReplies(func() bool { return committed(ctx, directly) })
//	<-held
//	srv.Kill(t) // certainly between the commit and its reply
func (p *Proxy) HoldReplies(when func() bool) <-chan struct{} {
	w := &watch{when, make(chan struct{})}
	p.change(func(f *faults) { f.watch = w })
	return w.held
}

// Restore ends all faults.
func (p *Proxy) Restore() {
	p.change(func(f *faults) { *f = faults{} })
	p.closeConnections(func(c *connection) bool { return c.lost })
}

// Flap cuts the proxy for down and restores it for up, in turns, until the
// context ends, and leaves it restored.
func (p *Proxy) Flap(ctx context.Context, up, down time.Duration) {
	defer p.Restore()
	for {
		p.Cut()
		if !wait(ctx, down) {
			return
		}
		p.Restore()
		if !wait(ctx, up) {
			return
		}
	}
}

// Close ends every connection and the proxy.
func (p *Proxy) Close() error {
	p.cancel()
	err := p.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	p.Reset()
	p.running.Wait()
	return err
}

func orBoth(directions []Direction) []Direction {
	if len(directions) == 0 {
		return []Direction{Requests, Replies}
	}
	return directions
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
