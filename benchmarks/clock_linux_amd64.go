package main

import "syscall"

// wallMillis is the fastest wall clock of this system, as the generator reads it.
func wallMillis() int64 {
	var tv syscall.Timeval
	_ = syscall.Gettimeofday(&tv)
	return tv.Sec*1000 + tv.Usec/1000
}
