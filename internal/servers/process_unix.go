//go:build unix

package servers

import (
	"bytes"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// credential is a user that a server runs as.
type credential = syscall.Credential

const (
	freezeSignal = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
)

// setAttributes puts the process into a group of its own, so that a Ctrl-C
// for the test doesn't reach it, and lets it run as owner.
func setAttributes(cmd *exec.Cmd, owner *credential) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: owner}
}

func signal(pid int, s syscall.Signal) error { return syscall.Kill(pid, s) }

// reap reports whether our child pid has ended, collecting it then.
func reap(pid int) bool {
	for {
		got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		switch err {
		case syscall.EINTR:
			continue
		case nil:
			return got == pid
		default: // ECHILD: collected before
			return true
		}
	}
}

// anyAlive reports whether one of the processes runs. They are not our own
// children; a zombie counts as ended.
func anyAlive(pids []int) bool {
	for _, pid := range pids {
		if syscall.Kill(pid, 0) != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err == nil && statFields(stat)[0] == "Z" {
			continue
		}
		return true
	}
	return false
}

// childrenOf lists a process's children. Postgres puts each of its into a
// session of its own, so that signals to the process group don't reach them.
func childrenOf(parent int) ([]int, error) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	if len(stats) == 0 {
		return childrenFromPS(parent)
	}
	var children []int
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		if fields := statFields(stat); fields[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				return nil, err
			}
			children = append(children, pid)
		}
	}
	return children, nil
}

// statFields returns the state and the parent from a line of /proc/PID/stat,
// where the name before them may hold spaces and parentheses.
func statFields(stat []byte) [2]string {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return [2]string{}
	}
	return [2]string{fields[0], fields[1]}
}

func childrenFromPS(parent int) ([]int, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, err
	}
	var children []int
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		pid, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, err
		}
		children = append(children, pid)
	}
	return children, nil
}

func unprivileged() (*credential, error) {
	account, err := user.Lookup("postgres")
	if err != nil {
		if account, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func giveTo(owner *credential, folder string) error {
	return os.Chown(folder, int(owner.Uid), int(owner.Gid))
}
