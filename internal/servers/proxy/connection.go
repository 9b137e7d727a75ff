package proxy

import (
	"context"
	"net"
	"time"
)

// connection is one client's, with its counterpart to the target.
type connection struct {
	client, server net.Conn
	ctx            context.Context
	cancel         context.CancelFunc
	lost           bool // under Proxy.mu: bytes were dropped
}

func (p *Proxy) change(apply func(*faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	apply(&p.faults)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) current() (faults, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults, p.changed
}

func (p *Proxy) closeConnections(which func(*connection) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.connections {
		if which(c) {
			c.close()
			delete(p.connections, c)
		}
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.accepted++
		p.mu.Unlock()
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	for {
		now, changed := p.current()
		if now.refuse || p.ctx.Err() != nil {
			reset(client)
			return
		}
		if !now.hold {
			break
		}
		select {
		case <-changed:
		case <-p.ctx.Done():
		}
	}
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := new(net.Dialer).DialContext(p.ctx, "tcp", target)
	if err != nil {
		reset(client)
		return
	}
	c := &connection{client: client, server: server}
	c.ctx, c.cancel = context.WithCancel(p.ctx)
	if !p.add(c) {
		c.close()
		return
	}
	p.running.Go(func() { p.pump(c, Requests, client, server) })
	p.pump(c, Replies, server, client)
}

// add takes a connection in, unless the proxy was cut or closed while it was
// made.
func (p *Proxy) add(c *connection) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults.refuse || p.ctx.Err() != nil {
		return false
	}
	p.connections[c] = struct{}{}
	return true
}

// pump passes bytes on in one direction until either side closes.
func (p *Proxy) pump(c *connection, d Direction, from, to net.Conn) {
	defer p.closeConnections(func(other *connection) bool { return other == c })
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && p.pass(c, d) {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil || c.ctx.Err() != nil {
			return
		}
	}
}

// pass waits as long as a piece that was read has to, and reports whether it
// goes on.
func (p *Proxy) pass(c *connection, d Direction) bool {
	read := time.Now()
	if d == Replies {
		p.watchReply()
	}
	for {
		now, changed := p.current()
		if c.ctx.Err() != nil {
			return false
		}
		if d == Replies && p.loseReply(c) {
			return false
		}
		if now.drop[d] {
			p.mu.Lock()
			c.lost = true
			p.mu.Unlock()
			return false
		}
		left := now.delay[d] - time.Since(read)
		if !now.stall[d] && left <= 0 {
			return true
		}
		var elapsed <-chan time.Time
		if !now.stall[d] {
			elapsed = time.After(left)
		}
		select {
		case <-changed:
		case <-elapsed:
		case <-c.ctx.Done():
		}
	}
}

// watchReply keeps replies back from this one on if it is the one that
// HoldReplies waits for.
func (p *Proxy) watchReply() {
	now, _ := p.current()
	if now.watch == nil || !now.watch.when() {
		return
	}
	p.change(func(f *faults) {
		if f.watch != now.watch {
			return // another reply was, or Restore came
		}
		f.watch, f.stall[Replies] = nil, true
		close(now.watch.held)
	})
}

// loseReply closes c if it is the one that LoseNextReply waits for.
func (p *Proxy) loseReply(c *connection) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.faults.loseNextReply {
		return false
	}
	p.faults.loseNextReply = false
	c.close()
	delete(p.connections, c)
	return true
}

func (c *connection) close() {
	c.cancel()
	reset(c.client)
	reset(c.server)
}

// reset closes a connection so that the other side gets an error, not an end.
func reset(connection net.Conn) {
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}
