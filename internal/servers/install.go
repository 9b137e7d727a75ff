package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// locate fills in the paths of programs, in the PATH or in the given folders
// (patterns are allowed; the newest version is taken). What is missing is
// installed from Debian packages if that is possible.
func locate(ctx context.Context, kind Kind, packages []string, programs map[string]*string, folders ...string) error {
	missing := lookUp(programs, folders)
	if len(missing) == 0 {
		return nil
	}
	if err := installPackages(ctx, packages, func() bool { return len(lookUp(programs, folders)) == 0 }); err != nil {
		return unavailable(kind, "%s not found, and %v", strings.Join(missing, ", "), err)
	}
	if missing = lookUp(programs, folders); len(missing) > 0 {
		return unavailable(kind, "%s not found, even after installing %s", strings.Join(missing, ", "), strings.Join(packages, ", "))
	}
	return nil
}

func lookUp(programs map[string]*string, folders []string) (missing []string) {
	for name, path := range programs {
		*path = ""
		for _, pattern := range folders {
			matches, _ := filepath.Glob(filepath.Join(pattern, name))
			newestVersion(matches)
			if len(matches) > 0 {
				*path = matches[0]
				break
			}
		}
		if *path == "" {
			*path, _ = exec.LookPath(name)
		}
		if *path == "" {
			missing = append(missing, name)
		}
	}
	return missing
}

// installPackages installs Debian packages, one program at a time on a
// machine; there may be nothing left to do when its turn comes.
//
// A package may start a service of its own. It is left alone: the harness
// starts its processes on other ports with their own data.
func installPackages(ctx context.Context, packages []string, there func() bool) error {
	if switchedOn("GORMFLAKE_NO_INSTALL") {
		return errors.New("GORMFLAKE_NO_INSTALL is set")
	}
	wanted := strings.Join(packages, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("there is no apt-get to install %s with; install it by hand", wanted)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("only root may install it; run: sudo apt-get install %s", wanted)
	}
	cache, err := cacheFolder()
	if err != nil {
		return err
	}
	unlock, err := lockFile(ctx, filepath.Join(cache, "apt.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if there() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	install := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	if _, err := aptGet(ctx, install...); err == nil {
		return nil
	}
	// The package lists may be missing, as in a container, or out of date.
	if out, err := aptGet(ctx, "update"); err != nil {
		return fmt.Errorf("apt-get update failed: %w: %s", err, lastLine(out))
	}
	if out, err := aptGet(ctx, install...); err != nil {
		return fmt.Errorf("apt-get install %s failed: %w: %s", wanted, err, lastLine(out))
	}
	return nil
}

func aptGet(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	// A service that a package starts may keep the output open.
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return out, err
}

func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1]
}

// cacheFolder returns the folder for what is downloaded, making it.
func cacheFolder() (string, error) {
	folder := os.Getenv("GORMFLAKE_CACHE")
	if folder == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache folder: %w; set GORMFLAKE_CACHE", err)
		}
		folder = filepath.Join(base, "gormflake")
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	return folder, os.MkdirAll(folder, 0o755)
}
