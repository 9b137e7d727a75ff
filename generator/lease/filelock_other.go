//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd && !windows

package lease

import (
	"fmt"
	"os"
	"runtime"
)

// tryLock refuses: without a lock two processes could use one worker id.
func tryLock(*os.File) error {
	return fmt.Errorf("%w: lease.File has no file lock on %s; use a store in a database", ErrInvalid, runtime.GOOS)
}

func syncFolder(string) error { return nil }
