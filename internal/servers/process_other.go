//go:build !unix

package servers

import (
	"errors"
	"os/exec"
	"syscall"
)

var errNotUnix = errors.New("servers: needs a Unix system")

type credential struct{}

const (
	freezeSignal = syscall.SIGINT
	resumeSignal = syscall.SIGINT
)

func unprivileged() (*credential, error) { return nil, errNotUnix }

func giveTo(*credential, string) error { return errNotUnix }

func setAttributes(*exec.Cmd, *credential) {}

func signal(int, syscall.Signal) error { return errNotUnix }

func reap(int) bool { return true }

func anyAlive([]int) bool { return false }

func childrenOf(int) ([]int, error) { return nil, errNotUnix }
