//go:build unix

package main

import (
	"encoding/gob"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// member is one process of the fleet, seen from the parent.
type member struct {
	name    string
	process *exec.Cmd
	ended   chan struct{}

	mu     sync.Mutex
	last   report
	fate   string // what the parent did to it
	ids    []int64
	closed bool
}

// launch starts a child and reads its reports until its end.
func launch(name, dsn string) (*member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m := &member{name: name, process: exec.Command(self, "-dsn", dsn), ended: make(chan struct{})}
	m.last = report{State: "starting", Worker: -1}
	m.process.Env = append(os.Environ(), childVariable+"=1")
	m.process.Stderr = os.Stderr
	pipe, err := m.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(m.ended)
		in := gob.NewDecoder(pipe)
		for {
			var r report
			if in.Decode(&r) != nil {
				break // its end, a killed one's in the middle of a report perhaps
			}
			m.mu.Lock()
			m.ids = append(m.ids, r.IDs...)
			r.IDs = nil
			m.last = r
			m.mu.Unlock()
		}
		_ = m.process.Wait()
		m.mu.Lock()
		m.closed = true
		m.mu.Unlock()
	}()
	return m, nil
}

// signal sends a signal and notes for the picture what it does.
func (m *member) signal(s syscall.Signal, fate string) error {
	m.mu.Lock()
	m.fate = fate
	m.mu.Unlock()
	if err := m.process.Process.Signal(s); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	return nil
}

// snapshot returns what the picture shows.
func (m *member) snapshot() (last report, fate string, ids int, closed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, m.fate, len(m.ids), m.closed
}

// end kills the process if it still runs and waits for the last report.
func (m *member) end() {
	_ = m.process.Process.Kill()
	<-m.ended
}
