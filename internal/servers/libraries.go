package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// libraryPath returns where the server in home looks for libraries first. The
// 5.6 package brings its own libaio.
func libraryPath(home string) string {
	return filepath.Join(filepath.Dir(home), "lib") + ":" + home
}

// needLibraries makes sure that the server in home finds libaio and libnuma,
// installing them where that is possible.
func needLibraries(ctx context.Context, home string) error {
	if err := tryServer(ctx, home); err == nil || !errors.Is(err, errLibraryMissing) {
		return err
	}
	there := func() bool { return tryServer(ctx, home) == nil }
	if err := (packages{"libaio1 libnuma1", "libaio1t64 libnuma1"}).install(ctx, there); err != nil {
		return err
	}
	if there() {
		return nil
	}
	// Since Debian 13 and Ubuntu 24.04 the library has another name; on 64-bit
	// machines it is the same.
	renamed, _ := filepath.Glob("/usr/lib/x86_64-linux-gnu/libaio.so.1t64")
	if len(renamed) > 0 {
		lib := filepath.Join(filepath.Dir(home), "lib")
		if err := os.MkdirAll(lib, 0o755); err != nil {
			return err
		}
		if err := os.Symlink(renamed[0], filepath.Join(lib, "libaio.so.1")); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return tryServer(ctx, home)
}

var errLibraryMissing = errors.New("a shared library is missing (it needs libaio.so.1 and libnuma.so.1)")

func tryServer(ctx context.Context, home string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(home, "mysqld"), "--no-defaults", "--version")
	cmd.Env = append(os.Environ(), "LC_ALL=C", "LD_LIBRARY_PATH="+libraryPath(home))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if strings.Contains(string(out), "shared libraries") {
		return fmt.Errorf("%w: %s", errLibraryMissing, lastLine(out))
	}
	return fmt.Errorf("mysqld --version: %w: %s", err, lastLine(out))
}
