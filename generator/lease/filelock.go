package lease

import (
	"errors"
	"os"
)

// errLocked says that another open file has the lock.
var errLocked = errors.New("lease: file is locked")

// lockFile opens the file, making it if need be, and takes its lock without
// waiting. Closing the file drops the lock; so does the end of the process.
func lockFile(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := tryLock(lock); err != nil {
		_ = lock.Close()
		return nil, err
	}
	if err := writeHolder(lock); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return lock, nil
}
