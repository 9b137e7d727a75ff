//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package lease

import (
	"errors"
	"os"
	"syscall"
)

func tryLock(lock *os.File) error {
	for {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errLocked
		}
		return err
	}
}

// syncFolder makes a rename in the folder last.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
