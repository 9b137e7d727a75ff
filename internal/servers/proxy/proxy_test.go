package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gormflake/gormflake/internal/servers/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers every line with itself and remembers it.
type echo struct {
	listener net.Listener
	mu       sync.Mutex
	lines    []string
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{listener: listener}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				for reader := bufio.NewReader(conn); ; {
					line, err := reader.ReadString('\n')
					if err != nil {
						return
					}
					e.mu.Lock()
					e.lines = append(e.lines, line)
					e.mu.Unlock()
					if _, err := io.WriteString(conn, line); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { listener.Close(); running.Wait() })
	return e
}

func (e *echo) received(line string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.lines {
		if l == line {
			return true
		}
	}
	return false
}

type client struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

func dial(t *testing.T, p *proxy.Proxy) *client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{t, conn, bufio.NewReader(conn)}
}

// expectRefusal connects and fails unless that or the connection breaks.
func expectRefusal(t *testing.T, p *proxy.Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return
	}
	defer conn.Close()
	(&client{t, conn, bufio.NewReader(conn)}).expectEnd()
}

func (c *client) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, line); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) expect(line string) {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	got, err := c.reader.ReadString('\n')
	if err != nil || got != line {
		c.t.Fatalf("got %q, %v; expected %q", got, err, line)
	}
}

// expectEnd fails unless the connection is broken, not just silent.
func (c *client) expectEnd() {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	got, err := c.reader.ReadString('\n')
	if timeout, ok := err.(net.Error); err == nil || ok && timeout.Timeout() {
		c.t.Fatalf("got %q, %v; expected a broken connection", got, err)
	}
}

func (c *client) expectSilence() {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	got, err := c.reader.ReadString('\n')
	if timeout, ok := err.(net.Error); got != "" || !ok || !timeout.Timeout() {
		c.t.Fatalf("got %q, %v; expected silence", got, err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name string
		run  func(t *testing.T, p *proxy.Proxy, e *echo, c *client)
	}{
		{"reset closes what is open and takes new connections", func(t *testing.T, p *proxy.Proxy, e *echo, c *client) {
			p.Reset()
			c.expectEnd()
			again := dial(t, p)
			again.send("again\n")
			again.expect("again\n")
		}},
		{"cut refuses until it is restored", func(t *testing.T, p *proxy.Proxy, e *echo, c *client) {
			p.Cut()
			c.expectEnd()
			expectRefusal(t, p)
			p.Restore()
			again := dial(t, p)
			again.send("again\n")
			again.expect("again\n")
		}},
		{"hold keeps new connections waiting and serves them later", func(t *testing.T, p *proxy.Proxy, e *echo, c *client) {
			p.Hold()
			held := dial(t, p)
			held.send("held\n")
			held.expectSilence()
			c.send("open\n")
			c.expect("open\n")
			if e.received("held\n") {
				t.Error("the server got what was held back")
			}
			p.Restore()
			held.expect("held\n")
		}},
		{"stall delivers everything later", func(t *testing.T, p *proxy.Proxy, e *echo, c *client) {
			p.Stall()
			c.send("stalled\n")
			c.expectSilence()
			if e.received("stalled\n") {
				t.Error("the server got what was stalled")
			}
			p.Restore()
			c.expect("stalled\n")
		}},
		{"dropped replies: the server hears, the client doesn't", func(t *testing.T, p *proxy.Proxy, e *echo, c *client) {
			p.Drop(proxy.Replies)
			c.send("unanswered\n")
			eventually(t, "the request arrives", func() bool { return e.received("unanswered\n") })
			c.expectSilence()
			p.Restore()
			c.expectEnd() // its stream has a hole
		}},
		{"dropped requests: the server hears nothing", func(t *testing.T, p *proxy.Proxy, e *echo, c *client) {
			p.Drop(proxy.Requests)
			c.send("unheard\n")
			c.expectSilence()
			if e.received("unheard\n") {
				t.Error("the server got what was dropped")
			}
		}},
		{"restore leaves connections that lost nothing", func(t *testing.T, p *proxy.Proxy, e *echo, c *client) {
			p.Drop()
			p.Restore()
			c.send("whole\n")
			c.expect("whole\n")
		}},
		{"delay keeps order and takes its time", func(t *testing.T, p *proxy.Proxy, e *echo, c *client) {
			const by = 30 * time.Millisecond
			p.Delay(by)
			begin := time.Now()
			c.send("late\n")
			c.expect("late\n")
			if took := time.Since(begin); took < 2*by {
				t.Errorf("took %v, expected %v there and %v back", took, by, by)
			}
		}},
		{"restore ends a delay that runs", func(t *testing.T, p *proxy.Proxy, e *echo, c *client) {
			p.Delay(time.Hour)
			c.send("late\n")
			c.expectSilence()
			p.Restore()
			c.expect("late\n")
		}},
		{"replies are held once the server has done it", func(t *testing.T, p *proxy.Proxy, e *echo, c *client) {
			held := p.HoldReplies(func() bool { return e.received("committed\n") })
			c.send("before\n")
			c.expect("before\n")
			c.send("committed\n")
			<-held
			c.send("after\n")
			c.expectSilence()
			p.Restore()
			c.expect("committed\n")
			c.expect("after\n")
		}},
		{"replies that are held are dropped by a reset", func(t *testing.T, p *proxy.Proxy, e *echo, c *client) {
			held := p.HoldReplies(func() bool { return true })
			c.send("committed\n")
			<-held
			p.Reset()
			p.Restore()
			c.expectEnd()
			again := dial(t, p)
			again.send("again\n")
			again.expect("again\n")
		}},
		{"one reply is lost after the request was heard", func(t *testing.T, p *proxy.Proxy, e *echo, c *client) {
			p.LoseNextReply()
			c.send("committed\n")
			c.expectEnd()
			if !e.received("committed\n") {
				t.Error("the server never got the request")
			}
			again := dial(t, p)
			again.send("again\n")
			again.expect("again\n")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newEcho(t)
			p := proxy.New(t, e.listener.Addr().String())
			c := dial(t, p)
			c.send("hello\n")
			c.expect("hello\n")
			tt.run(t, p, e, c)
		})
	}
}

func TestFlapEndsRestored(t *testing.T) {
	e := newEcho(t)
	p := proxy.New(t, e.listener.Addr().String())
	ctx, cancel := context.WithCancel(t.Context())
	var flapping sync.WaitGroup
	flapping.Go(func() { p.Flap(ctx, time.Millisecond, time.Millisecond) })
	broken := 0
	eventually(t, "three broken connections", func() bool {
		conn, err := net.Dial("tcp", p.Addr())
		if err == nil {
			defer conn.Close()
			conn.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
			_, err = conn.Read(make([]byte, 1))
		}
		if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
			broken++
		}
		return broken >= 3
	})
	cancel()
	flapping.Wait()
	c := dial(t, p)
	c.send("up\n")
	c.expect("up\n")
}

func TestLeadTakesNewConnectionsElsewhere(t *testing.T) {
	first, second := newEcho(t), newEcho(t)
	p := proxy.New(t, first.listener.Addr().String())
	open := dial(t, p)
	open.send("before\n")
	open.expect("before\n")
	p.Lead(second.listener.Addr().String())
	open.send("still there\n")
	open.expect("still there\n")
	again := dial(t, p)
	again.send("elsewhere\n")
	again.expect("elsewhere\n")
	if !first.received("still there\n") || first.received("elsewhere\n") || !second.received("elsewhere\n") {
		t.Errorf("the first target got %q, the second %q", first.lines, second.lines)
	}
}

func TestATargetThatIsDownEndsTheConnection(t *testing.T) {
	e := newEcho(t)
	target := e.listener.Addr().String()
	e.listener.Close()
	p := proxy.New(t, target)
	expectRefusal(t, p)
	if p.Accepted() != 1 || p.Open() != 0 {
		t.Errorf("accepted %d, open %d; expected 1 and 0", p.Accepted(), p.Open())
	}
}

func TestCloseEndsEverythingAndTwiceIsFine(t *testing.T) {
	e := newEcho(t)
	p := proxy.New(t, e.listener.Addr().String())
	p.Hold()
	held := dial(t, p)
	eventually(t, "the connection is held", func() bool { return p.Accepted() == 1 })
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	held.expectEnd()
}
