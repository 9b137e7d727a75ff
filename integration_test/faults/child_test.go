package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/servers"
)

// childVariable holds a childConfig for a child process of this test binary.
const childVariable = "GORMFLAKE_FAULTS_CHILD"

// childConfig says where a child leases and where it stops.
type childConfig struct {
	Kind   servers.Kind
	DSN    string
	File   string // instead of a database
	Stated bool   // a Redis is stated to be durable
	Fixed  int64  // fenced by the database, if not negative
	Lo, Hi int64  // worker ids
	Window time.Duration
	Stop   string // a step at which it stands still
}

// Steps at which a child may stand still until it is killed.
const (
	whileItIssues = "while it issues" // it stands nowhere
	beforeAcquire = "before its acquire"
	afterAcquire  = "after its acquire"
	beforeExtend  = "before its extension"
	afterExtend   = "after its extension"
	beforeRelease = "before its release"
	afterRelease  = "after its release"
)

// child is a process that leases and prints its ids.
type child struct {
	*member
	command *exec.Cmd
	stdin   io.WriteCloser
	at      atomic.Pointer[string] // the step it stands at
	worker  atomic.Int64           // that a starter has leased; -1 before
	begun   chan struct{}          // closed when a starter waits for its start
	leased  chan struct{}          // closed when it has a worker id
	drawn   chan struct{}          // closed when it has its ids
	sealed  atomic.Int64           // errors that were ErrSealed
	ended   chan struct{}
}

// spawn starts a child of the fleet, which ends with the fleet.
func (f *fleet) spawn(name string, config childConfig) *child {
	f.t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		f.t.Fatal(err)
	}
	command := exec.CommandContext(f.ctx, os.Args[0], "-test.run=^TestChild$", "-test.v")
	command.Env = append(os.Environ(), childVariable+"="+string(text))
	return f.run(name, command)
}

// run starts a process of the fleet, which ends with the fleet.
func (f *fleet) run(name string, command *exec.Cmd) *child {
	f.t.Helper()
	c := &child{
		member: f.outsider(name), command: command, ended: make(chan struct{}),
		begun: make(chan struct{}), leased: make(chan struct{}), drawn: make(chan struct{}),
	}
	c.worker.Store(-1)
	var err error
	if c.stdin, err = c.command.StdinPipe(); err != nil {
		f.t.Fatal(err)
	}
	stdout, err := c.command.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	c.command.Stderr = c.command.Stdout // the same pipe
	if err := c.command.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.running.Go(func() {
		defer close(c.ended)
		c.read(stdout)
		_ = c.command.Wait() // it is killed, mostly
	})
	return c
}

// read gathers what the child prints.
func (c *child) read(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "id":
			id, err := strconv.ParseInt(rest, 10, 64)
			if err != nil {
				c.fleet.note(err)
				continue
			}
			c.keep(generator.ID(id))
		case "at":
			c.at.Store(&rest)
		case "ready":
			close(c.begun)
		case "leased":
			worker, err := strconv.ParseInt(rest, 10, 64)
			if err != nil {
				c.fleet.note(err)
			}
			c.worker.Store(worker)
			close(c.leased)
		case "drawn":
			close(c.drawn)
		case "error":
			err := parse(rest)
			c.fleet.note(err)
			if errors.Is(err, generator.ErrSealed) {
				c.sealed.Add(1)
			}
		case "panic:", "fatal", "WARNING:":
			c.fleet.note(errors.New(c.name + ": " + lines.Text()))
		}
	}
}

// named are the errors that a child can tell its parent of.
var named = map[string]error{
	"sealed": generator.ErrSealed, "not-started": generator.ErrNotStarted, "no-worker": generator.ErrNoWorker,
	"in-use": generator.ErrWorkerInUse, "clock-behind": generator.ErrClockBehind,
}

// describe is the inverse of parse.
func describe(err error) string {
	var names []string
	for name, target := range named {
		if errors.Is(err, target) {
			names = append(names, name)
		}
	}
	return fmt.Sprintf("%s %q", strings.Join(names, ","), err)
}

func parse(text string) error {
	names, said, _ := strings.Cut(text, " ")
	all := []error{errors.New(said)}
	for name := range strings.SplitSeq(names, ",") {
		if err := named[name]; err != nil {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

func (c *child) awaitStep(step string) {
	c.fleet.t.Helper()
	eventually(c.fleet.t, c.name+" stands "+step, func() bool { at := c.at.Load(); return at != nil && *at == step })
}

// kill ends the child with SIGKILL, and returns once all that it had printed
// is gathered.
func (c *child) kill() {
	c.fleet.t.Helper()
	if err := c.command.Process.Kill(); err != nil {
		c.fleet.t.Fatal(err)
	}
	<-c.ended
}

// close asks the child to close its generator and to end.
func (c *child) close() { _ = c.stdin.Close() }

// TestChild is the child process. It opens a generator, as often as it takes,
// and prints ids until its standard input ends.
func TestChild(t *testing.T) {
	text := os.Getenv(childVariable)
	if text == "" {
		t.Skipf("%s is not set: this is what the other tests run as a process of its own", childVariable)
	}
	var c childConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	issued := new(atomic.Int64)
	config := generator.Config{Store: stopping{c.store(t), c.Stop, issued}, Namespace: "faults", MaxWait: maxWait, Logger: silent}
	var g *generator.Generator
	for g == nil {
		opened, err := generator.Open(ctx, config)
		if ctx.Err() != nil && err != nil {
			return
		}
		if err != nil {
			fmt.Println("error", describe(err))
			pause(ctx, 20*time.Millisecond)
			continue
		}
		g = opened
	}
	for pause(ctx, 300*time.Microsecond) {
		id, err := g.Next(ctx)
		switch {
		case err == nil:
			fmt.Println("id", id)
			issued.Add(1)
		case ctx.Err() == nil:
			fmt.Println("error", describe(err))
		}
	}
	if err := g.Close(context.Background()); err != nil {
		fmt.Println("error", describe(err))
	}
}

func (c childConfig) store(t *testing.T) lease.Store {
	if c.File != "" {
		return lease.File(c.File, c.Lo)
	}
	options := []lease.Option{lease.Window(c.Window), lease.Workers(c.Lo, c.Hi)}
	if c.Kind == servers.Redis {
		if c.Stated {
			options = append(options, durable...)
		}
		return newRedisFleet(t, c.DSN).store(options...)
	}
	f := sqlFleetOn(t, servers.Foreign(c.Kind), c.DSN)
	store := f.store(options...)
	if c.Fixed >= 0 {
		return lease.Fenced(lease.Fixed(c.Fixed), store)
	}
	return store
}

// stopping stands still at one step and says so; at an extension when ids
// were issued before, which a guard may put off.
type stopping struct {
	lease.Store
	step   string
	issued *atomic.Int64
}

func (s stopping) reach(step string) {
	if s.step == step && (s.issued.Load() >= awaited || step != beforeExtend && step != afterExtend) {
		fmt.Println("at", step)
		select {}
	}
}

func (s stopping) Acquire(ctx context.Context, req lease.Request) (lease.Grant, error) {
	s.reach(beforeAcquire)
	grant, err := s.Store.Acquire(ctx, req)
	if err == nil {
		s.reach(afterAcquire)
	}
	return grant, err
}

func (s stopping) Extend(ctx context.Context, held lease.Grant, through int64) (lease.Grant, error) {
	s.reach(beforeExtend)
	grant, err := s.Store.Extend(ctx, held, through)
	if err == nil {
		s.reach(afterExtend)
	}
	return grant, err
}

func (s stopping) Release(ctx context.Context, held lease.Grant, used int64) error {
	s.reach(beforeRelease)
	err := s.Store.Release(ctx, held, used)
	if err == nil {
		s.reach(afterRelease)
	}
	return err
}
