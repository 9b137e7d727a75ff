//go:build unix

package faults

import "syscall"

// freeze stops the child with SIGSTOP.
func (c *child) freeze() { c.signal(syscall.SIGSTOP) }

// thaw lets it go on.
func (c *child) thaw() { c.signal(syscall.SIGCONT) }

func (c *child) signal(s syscall.Signal) {
	c.fleet.t.Helper()
	if err := c.command.Process.Signal(s); err != nil {
		c.fleet.t.Fatal(err)
	}
}
