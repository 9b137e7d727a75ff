//go:build !(linux && amd64)

package generator

import "time"

// wallMillis reads the wall clock in Unix milliseconds. Elsewhere than on
// linux/amd64 gettimeofday is a raw system call, so time.Now is faster.
func wallMillis() int64 { return time.Now().UnixMilli() }
