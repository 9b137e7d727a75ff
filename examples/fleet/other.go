//go:build !unix

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "fleet: this example pauses processes by SIGSTOP, which this system does not have")
	os.Exit(1)
}
