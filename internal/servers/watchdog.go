package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// watchdog ends this program's servers and removes its folder when the program
// is gone, even by kill -9. It is a shell that reads from a pipe whose other
// end only this program holds; the end of the file is the sign.
//
// The kernel's parent-death signal would need the very thread that started a
// server to live as long as the program, and removes no folder.
var watchdog watchdogProcess

type watchdogProcess struct {
	mu   sync.Mutex
	pipe *os.File
	base string
}

const watchdogScript = `
trap '' HUP INT QUIT TERM
pids=' '
while read -r op pid; do
	case $op in
	+) pids="$pids$pid " ;;
	-) case $pids in *" $pid "*) pids="${pids%%" $pid "*} ${pids#*" $pid "}" ;; esac ;;
	esac
done
for pid in $pids; do kill -9 "$pid"; done
for try in 1 2 3 4 5 6 7 8 9 10; do
	rm -rf -- "$1" && [ ! -e "$1" ] && exit 0
	sleep 0.2
done
`

// folder returns the folder that holds every server's, starting the watchdog
// for it on the first call.
func (w *watchdogProcess) folder() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.base != "" {
		return w.base, nil
	}
	base, err := os.MkdirTemp(temporaryFolder(), "gormflake-servers-")
	if err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	// Postgres runs as another user and must get to its folder in here.
	if err := os.Chmod(base, 0o711); err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	defer read.Close()
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "gormflake-watchdog", base)
	cmd.Dir = "/"
	cmd.Stdin = read
	setAttributes(cmd, nil)
	if err := cmd.Start(); err != nil {
		write.Close()
		return "", fmt.Errorf("servers: start the watchdog: %w", err)
	}
	_ = cmd.Process.Release()
	w.pipe, w.base = write, base
	return base, nil
}

// start starts a command and puts it under watch.
func (w *watchdogProcess) start(cmd *exec.Cmd) error {
	if _, err := w.folder(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.remember(cmd.Process.Pid)
	return nil
}

func (w *watchdogProcess) remember(pids ...int) { w.tell("+", pids) }

func (w *watchdogProcess) forget(pids ...int) { w.tell("-", pids) }

func (w *watchdogProcess) tell(op string, pids []int) {
	var lines strings.Builder
	for _, pid := range pids {
		fmt.Fprintln(&lines, op, pid)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// Without a watchdog (somebody killed it) the servers still work.
	_, _ = w.pipe.WriteString(lines.String())
}

// temporaryFolder returns the system's, or as root one that other users can
// get to.
func temporaryFolder() string {
	usual := os.TempDir()
	if os.Geteuid() != 0 {
		return usual
	}
	for _, candidate := range []string{usual, "/tmp", "/var/tmp"} {
		if openToAll(candidate) {
			return candidate
		}
	}
	return usual
}

func openToAll(folder string) bool {
	for {
		info, err := os.Stat(folder)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return true
		}
		folder = parent
	}
}
