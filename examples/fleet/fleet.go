//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/glebarez/sqlite"

	"github.com/gormflake/gormflake/generator"
)

// runFleet tells the story and checks its end. Each scene waits for what the
// one before has brought about, however slow the machine is.
func runFleet(ctx context.Context, o options) error {
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	dsn, done, err := provide(ctx, o)
	if err != nil {
		return err
	}
	defer done()
	f := &fleet{dsn: dsn}
	defer f.endAll()
	for i := range workers {
		if err := f.launch(fmt.Sprintf("process %d", i+1)); err != nil {
			return err
		}
	}
	stopped, killed, paused := f.members[0], f.members[2], f.members[5]
	picture := newPicture(os.Stdout)
	for _, scene := range []struct {
		when func() bool
		what string
		do   func() error
	}{
		{f.allLeased, "all have a worker id; kill -9 process 3", func() error { return killed.signal(syscall.SIGKILL, "killed") }},
		{f.moreIDs(paused), "pause process 6 for longer than its lease", func() error { return f.pause(ctx, paused) }},
		{always, "start two newcomers, which wait for a lease to expire", func() error {
			return errors.Join(f.launch("newcomer 1"), f.launch("newcomer 2"))
		}},
		{f.newcomersLeased, "both have taken over; wake process 6: its worker id is another's now, so it seals", func() error {
			return paused.signal(syscall.SIGCONT, "woken")
		}},
		{f.lost(paused), "stop process 1, which frees its worker id for process 6", func() error { return stopped.signal(syscall.SIGTERM, "stopped") }},
		{f.regained(paused), "process 6 is back", func() error { return nil }},
		{f.moreIDs(paused), "end", func() error { return nil }},
	} {
		for began := time.Now(); !scene.when() || time.Since(began) < o.pause; {
			if !sleep(ctx, 100*time.Millisecond) {
				return fmt.Errorf("the scene %q did not come within %v: %w", scene.what, o.limit, ctx.Err())
			}
			picture.draw(f.members)
		}
		picture.say(scene.what)
		if err := scene.do(); err != nil {
			return err
		}
	}
	f.endAll()
	picture.last(f.members)
	return f.check()
}

func always() bool { return true }

type fleet struct {
	dsn     string
	members []*member
}

func (f *fleet) launch(name string) error {
	m, err := launch(name, f.dsn)
	if err != nil {
		return err
	}
	f.members = append(f.members, m)
	return nil
}

// pause stops a process, but not in the middle of a write to SQLite, which
// would lock the file for everybody. A server takes a dead client's lock away.
func (f *fleet) pause(ctx context.Context, m *member) error {
	for {
		if err := m.signal(syscall.SIGSTOP, "paused"); err != nil {
			return err
		}
		if !f.locked(ctx) {
			return nil
		}
		if err := m.signal(syscall.SIGCONT, ""); err != nil {
			return err
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// locked reports whether a SQLite file stays locked for a second.
func (f *fleet) locked(ctx context.Context) bool {
	if strings.Contains(f.dsn, "://") || strings.Contains(f.dsn, "@") {
		return false
	}
	pool, err := sql.Open(sqlite.DriverName, f.dsn+"?_pragma=busy_timeout(1000)&_txlock=immediate")
	if err != nil {
		return false
	}
	defer pool.Close()
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return true
	}
	_ = tx.Rollback()
	return false
}

func (f *fleet) endAll() {
	for _, m := range f.members {
		m.end()
	}
}

func leased(m *member) bool {
	last, _, n, closed := m.snapshot()
	return !closed && n > 0 && last.State == string(generator.StateLeased)
}

func (f *fleet) allLeased() bool {
	return !slices.ContainsFunc(f.members, func(m *member) bool { return !leased(m) })
}

func (f *fleet) newcomersLeased() bool {
	return !slices.ContainsFunc(f.members[workers:], func(m *member) bool { return !leased(m) })
}

// moreIDs waits for ids after those that are known now.
func (f *fleet) moreIDs(m *member) func() bool {
	known := -1
	return func() bool {
		_, _, n, _ := m.snapshot()
		if known < 0 {
			known = n
		}
		return n > known
	}
}

// lost waits until a woken process has noticed that its lease is another's.
func (f *fleet) lost(m *member) func() bool {
	return func() bool {
		last, fate, _, _ := m.snapshot()
		return fate == "woken" && last.State != string(generator.StateLeased)
	}
}

func (f *fleet) regained(m *member) func() bool { return func() bool { return leased(m) } }

// check looks at every id of every process.
func (f *fleet) check() error {
	var all []int64
	for _, m := range f.members {
		if len(m.ids) == 0 {
			return fmt.Errorf("%s made no ids", m.name)
		}
		all = append(all, m.ids...)
	}
	slices.Sort(all)
	layout := generator.Standard()
	holders := map[int64]bool{}
	for i, id := range all {
		holders[layout.Decompose(generator.ID(id)).Worker] = true
		if i > 0 && id == all[i-1] {
			return fmt.Errorf("%d was made twice", id)
		}
	}
	fmt.Printf("\n%d ids of %d processes on %d worker ids: no id twice.\n", len(all), len(f.members), len(holders))
	return nil
}
