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
// installed if that is possible.
func locate(ctx context.Context, kind Kind, from packages, programs map[string]*string, folders ...string) error {
	missing := lookUp(programs, folders)
	if len(missing) == 0 {
		return nil
	}
	if err := from.install(ctx, func() bool { return len(lookUp(programs, folders)) == 0 }); err != nil {
		return unavailable(kind, "%s not found, and %v", strings.Join(missing, ", "), err)
	}
	if missing = lookUp(programs, folders); len(missing) > 0 {
		return unavailable(kind, "%s not found, even after installing %s", strings.Join(missing, ", "), from)
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

// packages are Debian packages to install together; each further entry is what
// to try where the one before doesn't exist, since names differ between
// releases.
type packages []string

func (p packages) String() string { return p[0] }

// install installs the packages, one program at a time on a machine; there may
// be nothing left to do when its turn comes.
//
// A package may start a service of its own. It is left alone: the harness
// starts its processes on other ports with their own data.
func (p packages) install(ctx context.Context, there func() bool) error {
	if switchedOn("GORMFLAKE_NO_INSTALL") {
		return errors.New("GORMFLAKE_NO_INSTALL is set")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("there is no apt-get to install %s with; install it by hand", p)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("only root may install it; run: sudo apt-get install %s", p)
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
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	if p.installFirst(ctx) == nil {
		return nil
	}
	// The package lists may be missing, as in a container, or out of date.
	if out, err := aptGet(ctx, "update"); err != nil {
		return fmt.Errorf("apt-get update failed: %w: %s", err, lastLine(out))
	}
	return p.installFirst(ctx)
}

// installFirst installs the first entry that can be had.
func (p packages) installFirst(ctx context.Context) error {
	var failures []error
	for _, entry := range p {
		out, err := aptGet(ctx, append([]string{"install", "-y", "--no-install-recommends"}, strings.Fields(entry)...)...)
		if err == nil {
			return nil
		}
		failures = append(failures, fmt.Errorf("apt-get install %s failed: %w: %s", entry, err, lastLine(out)))
	}
	return errors.Join(failures...)
}

func aptGet(ctx context.Context, args ...string) ([]byte, error) {
	// The machine's packages needn't survive a power failure in this minute;
	// forcing each file to the disk takes most of the time.
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{
		"-q", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-unsafe-io",
	}, args...)...)
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
