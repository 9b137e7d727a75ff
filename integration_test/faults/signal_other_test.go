//go:build !unix

package faults

func (c *child) freeze() { c.fleet.t.Skip("this system can't stop a process; the test did not run") }

func (c *child) thaw() {}
