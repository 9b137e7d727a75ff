package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrUnavailable is matched by every error that says a kind of server can't be
// had on this machine: it isn't installed and can't be, or the environment
// forbids it. A server that is there and doesn't start is another error.
var ErrUnavailable = errors.New("servers: not available here")

// Process is one running server. Its methods may be called from several
// goroutines, one at a time taking effect.
type Process struct {
	kind   Kind
	recipe recipe
	opts   options
	port   int
	dir    string
	owner  *credential // nil: the caller's own
	lock   *portLock

	mu     sync.Mutex
	state  state
	cmd    *exec.Cmd
	paused []int // what Pause stopped, the server first
}

type state int

const (
	stopped state = iota
	running
	paused
	closed
)

// recipe is what differs between kinds of servers.
type recipe interface {
	// find locates the programs, installing them where that is possible.
	find(ctx context.Context) error
	// defaults returns the harness's settings.
	defaults(p *Process) []Option
	// initialise fills the empty data folder.
	initialise(ctx context.Context, p *Process) error
	// command returns the program with its arguments.
	command(p *Process) (program string, args []string)
	// environment returns variables to add.
	environment() []string
	// ping returns nil once the server answers requests.
	ping(ctx context.Context, p *Process) error
	// stopSignal asks for an orderly end without waiting for clients.
	stopSignal() syscall.Signal
}

const (
	startWithin = 90 * time.Second // a loaded machine may be slow; a dead server is noticed at once
	stopWithin  = 60 * time.Second
	pollEvery   = 15 * time.Millisecond
)

// Start starts a private server of the given kind and returns when it answers
// requests. The caller closes it. An error that matches [ErrUnavailable] says
// what is missing.
func Start(ctx context.Context, kind Kind, opts ...Option) (*Process, error) {
	r, err := find(ctx, kind)
	if err != nil {
		return nil, err
	}
	p := &Process{kind: kind, recipe: r}
	if p.dir, p.owner, err = newFolder(kind); err != nil {
		return nil, err
	}
	p.opts = newOptions(opts) // the defaults depend on Durable
	if p.opts.primary != "" && kind != Postgres {
		return nil, errors.Join(fmt.Errorf("servers: StandbyOf wants a Postgres, got %s; give another kind its replication by statements", kind), p.Close())
	}
	p.opts = newOptions(r.defaults(p), opts)
	fail := func(err error) (*Process, error) {
		return nil, errors.Join(err, p.Close())
	}
	if err := r.initialise(ctx, p); err != nil {
		return fail(fmt.Errorf("servers: fill the data folder of %s: %w", kind, err))
	}
	for attempt := 1; ; attempt++ {
		if p.lock, err = lockPort(); err != nil {
			return fail(err)
		}
		p.port = p.lock.port
		err = p.Restart(ctx)
		if err == nil {
			return p, nil
		}
		p.lock.release()
		// Somebody outside the harness may have taken the port in between.
		if attempt == 5 || !strings.Contains(strings.ToLower(err.Error()), "address already in use") {
			return fail(err)
		}
	}
}

// Kind returns the kind of the server.
func (p *Process) Kind() Kind { return p.kind }

// Addr returns the host and port that the server listens on. It stays the
// same over restarts.
func (p *Process) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// PID returns the process id of the server, or 0 when it doesn't run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Kill ends the server at once, with SIGKILL to it and to its children, as a
// crash would. A paused server can be killed.
func (p *Process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kill()
}

// Stop ends the server in an orderly way, without waiting for its clients.
func (p *Process) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == paused {
		if err := p.resume(); err != nil {
			return err
		}
	}
	if p.state != running {
		return p.refuse("stop")
	}
	if err := p.cmd.Process.Signal(p.recipe.stopSignal()); err != nil {
		return fmt.Errorf("servers: stop %s: %w", p.kind, err)
	}
	for deadline := time.Now().Add(stopWithin); !p.exited(); time.Sleep(pollEvery) {
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("servers: %s did not end within %v of being asked to; it was killed", p.kind, stopWithin), p.kill())
		}
	}
	return nil
}

// Restart starts a stopped or killed server again, on the same port and with
// the same data, and returns when it answers requests.
func (p *Process) Restart(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == running && p.exited() {
		p.state = stopped
	}
	if p.state != stopped {
		return p.refuse("start")
	}
	if err := p.launch(); err != nil {
		return fmt.Errorf("servers: start %s: %w", p.kind, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		once, cancelOnce := context.WithTimeout(ctx, 5*time.Second)
		err := p.recipe.ping(once, p)
		cancelOnce()
		if err == nil {
			return nil
		}
		if p.exited() {
			return fmt.Errorf("servers: %s ended while starting; the end of its log:\n%s", p.kind, p.Log(20))
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("servers: %s does not answer: %w (%w); the end of its log:\n%s", p.kind, err, ctx.Err(), p.Log(20)), p.kill())
		case <-time.After(pollEvery):
		}
	}
}

// Pause stops the server and its children with SIGSTOP: connections stay open
// and nothing answers.
func (p *Process) Pause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != running {
		return p.refuse("pause")
	}
	// The server first, so that it starts no more children.
	return p.freeze()
}

// Resume lets a paused server run on.
func (p *Process) Resume() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != paused {
		return p.refuse("resume")
	}
	return p.resume()
}

// Close kills the server if it runs and removes its folder. Closing twice is
// allowed.
func (p *Process) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == closed {
		return nil
	}
	var err error
	if p.state != stopped {
		err = p.kill()
	}
	p.state = closed
	p.lock.release()
	return errors.Join(err, os.RemoveAll(p.dir))
}

// Log returns the last lines of what the server has logged since its first
// start.
func (p *Process) Log(lines int) string { return lastLines(p.path("log"), lines) }

func lastLines(file string, lines int) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (p *Process) path(name string) string { return filepath.Join(p.dir, name) }

func (p *Process) refuse(verb string) error {
	name := [...]string{"stopped", "running", "paused", "closed"}[p.state]
	return fmt.Errorf("servers: can't %s %s: it is %s", verb, p.kind, name)
}

// launch starts the program. It uses files for its output, so that no
// goroutine copies it and nothing waits for a server that outlives a test.
func (p *Process) launch() error {
	program, args := p.recipe.command(p)
	cmd, err := p.prepare("log", program, append(args, p.opts.commandLine(p.kind)...))
	if err != nil {
		return err
	}
	defer cmd.Stdout.(*os.File).Close()
	if err := watchdog.start(cmd); err != nil {
		return err
	}
	p.cmd, p.state = cmd, running
	return nil
}

func (p *Process) prepare(logName, program string, args []string) (*exec.Cmd, error) {
	log, err := os.OpenFile(p.path(logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+p.dir, "TMPDIR="+p.dir)
	cmd.Env = append(cmd.Env, p.recipe.environment()...)
	cmd.Stdout, cmd.Stderr = log, log
	setAttributes(cmd, p.owner)
	return cmd, nil
}

// run runs a program that prepares the data folder, to its end.
func (p *Process) run(ctx context.Context, program string, args ...string) error {
	cmd, err := p.prepare("preparation.log", program, args)
	if err != nil {
		return err
	}
	defer cmd.Stdout.(*os.File).Close()
	if err := watchdog.start(cmd); err != nil {
		return err
	}
	defer watchdog.forget(cmd.Process.Pid)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err = <-done:
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		err = errors.Join(ctx.Err(), <-done)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; the end of its output:\n%s", filepath.Base(program), err, lastLines(p.path("preparation.log"), 20))
	}
	return nil
}

// exited reports whether the server has ended, and lets go of it then.
func (p *Process) exited() bool {
	if p.cmd == nil {
		return true
	}
	if !reap(p.cmd.Process.Pid) {
		return false
	}
	p.letGo()
	return true
}

func (p *Process) letGo() {
	watchdog.forget(append([]int{p.cmd.Process.Pid}, p.paused...)...)
	_ = p.cmd.Process.Release()
	p.cmd, p.paused, p.state = nil, nil, stopped
}

func (p *Process) kill() error {
	if p.state != running && p.state != paused {
		return p.refuse("kill")
	}
	if p.exited() {
		return nil
	}
	// Frozen first, a server can't start a child between the listing and the
	// signal.
	if p.state == running {
		if err := p.freeze(); err != nil {
			return err
		}
	}
	for _, pid := range p.paused {
		if err := signal(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("servers: kill %s: %w", p.kind, err)
		}
	}
	children := p.paused[1:]
	for deadline := time.Now().Add(stopWithin); ; time.Sleep(pollEvery) {
		if reap(p.cmd.Process.Pid) && !anyAlive(children) {
			p.letGo()
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("servers: %s is still there %v after SIGKILL", p.kind, stopWithin)
		}
	}
}

func (p *Process) freeze() error {
	stop := func(pid int) error {
		if err := signal(pid, freezeSignal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("servers: pause %s: %w", p.kind, err)
		}
		p.paused = append(p.paused, pid)
		return nil
	}
	p.paused, p.state = nil, paused
	pid := p.cmd.Process.Pid
	if err := stop(pid); err != nil {
		return err
	}
	children, err := childrenOf(pid)
	if err != nil {
		return fmt.Errorf("servers: list the children of %s: %w", p.kind, err)
	}
	for _, child := range children {
		if err := stop(child); err != nil {
			return err
		}
	}
	// A stopped child outlives its parent's death, so the watchdog must know.
	watchdog.remember(children...)
	return nil
}

func (p *Process) resume() error {
	watchdog.forget(p.paused[1:]...)
	for i := len(p.paused) - 1; i >= 0; i-- {
		if err := signal(p.paused[i], resumeSignal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("servers: resume %s: %w", p.kind, err)
		}
	}
	p.paused, p.state = nil, running
	return nil
}
