//go:build linux && amd64

package generator

import "syscall"

// wallMillis reads the wall clock in Unix milliseconds. On linux/amd64
// syscall.Gettimeofday goes through the vDSO and costs half of time.Now,
// which reads the monotonic clock as well. The monotonic clock is of no use
// here: it stops while the machine is suspended.
func wallMillis() int64 {
	var tv syscall.Timeval
	_ = syscall.Gettimeofday(&tv) // can't fail with a valid pointer
	return tv.Sec*1000 + tv.Usec/1000
}
