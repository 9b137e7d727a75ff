//go:build unix

package servers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gormflake/gormflake/internal/servers"
)

// The tests in this file run the test binary again in another environment.
// roleVariable tells it what to be.
const roleVariable = "GORMFLAKE_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "program" {
		os.Exit(m.Run())
	}
	if err := program(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// program starts servers, prints what they consist of, and ends when told to.
func program() error {
	ctx := context.Background()
	for _, kind := range []servers.Kind{servers.Postgres, servers.Redis} {
		p, err := servers.Start(ctx, kind)
		if err != nil {
			return err
		}
		children, _ := exec.Command("pgrep", "-P", strconv.Itoa(p.PID())).Output()
		if kind == servers.Postgres { // children in a session of their own, stopped
			if err := p.Pause(); err != nil {
				return err
			}
		}
		fmt.Println("pids", p.PID(), strings.Join(strings.Fields(string(children)), " "))
	}
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), "gormflake-servers-*"))
	for _, folder := range folders {
		fmt.Println("folder", folder)
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return nil
}

func TestNothingIsLeftBehind(t *testing.T) {
	ends := []struct {
		name string
		end  func(cmd *exec.Cmd, stdin interface{ Close() error }) error
	}{
		{"ends without closing its servers", func(_ *exec.Cmd, stdin interface{ Close() error }) error { return stdin.Close() }},
		{"killed with SIGKILL", func(cmd *exec.Cmd, _ interface{ Close() error }) error { return cmd.Process.Kill() }},
		{"its process group killed", func(cmd *exec.Cmd, _ interface{ Close() error }) error {
			return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}},
	}
	for _, tt := range ends {
		t.Run(tt.name, func(t *testing.T) {
			// Postgres must be able to enter, which t.TempDir doesn't allow.
			temporary, err := os.MkdirTemp("", "gormflake-watchdog-")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(temporary)
			if err := os.Chmod(temporary, 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), roleVariable+"=program", "TMPDIR="+temporary)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			var complaints strings.Builder
			cmd.Stderr = &complaints
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var pids []int
			var folders []string
			ready := false
			for lines := bufio.NewScanner(stdout); !ready && lines.Scan(); {
				fields := strings.Fields(lines.Text())
				switch fields[0] {
				case "pids":
					for _, field := range fields[1:] {
						pid, err := strconv.Atoi(field)
						if err != nil {
							t.Fatal(err)
						}
						pids = append(pids, pid)
					}
				case "folder":
					folders = append(folders, fields[1])
				case "ready":
					ready = true
				}
			}
			if !ready {
				_ = cmd.Wait()
				if strings.Contains(complaints.String(), servers.ErrUnavailable.Error()) {
					t.Skip(complaints.String())
				}
				t.Fatal(complaints.String())
			}
			if len(folders) != 1 || len(pids) < 2 {
				t.Fatalf("the program reports the folders %v and the processes %v", folders, pids)
			}
			if err := tt.end(cmd, stdin); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				left := stillThere(pids, folders)
				if left == "" {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("a minute after the program's end there is still %s", left)
				}
			}
		})
	}
}

func stillThere(pids []int, folders []string) string {
	for _, pid := range pids {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if syscall.Kill(pid, 0) == nil && !strings.Contains(string(stat), ") Z ") {
			return fmt.Sprintf("process %d", pid)
		}
	}
	for _, folder := range folders {
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			return folder
		}
	}
	return ""
}

// TestInAnotherEnvironment is what TestEnvironment runs in other processes.
func TestInAnotherEnvironment(t *testing.T) {
	if os.Getenv(roleVariable) == "" {
		t.Skip("this is a part of TestEnvironment, which runs it")
	}
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		if srv.Process() != nil {
			t.Error("a shared server offers its process")
		}
		var one int
		if err := srv.OpenSQL(t, srv.Database(t)).QueryRow("SELECT 1").Scan(&one); err != nil {
			t.Error(err)
		}
	})
	t.Run("redis", func(t *testing.T) {
		client := servers.Shared(t, servers.Redis).OpenRedis(t)
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestEnvironment(t *testing.T) {
	run := func(t *testing.T, environment ...string) (string, error) {
		t.Helper()
		cmd := exec.Command(os.Args[0], "-test.run=^TestInAnotherEnvironment$", "-test.v")
		for _, entry := range os.Environ() {
			if !strings.HasPrefix(entry, "GORMFLAKE_") {
				cmd.Env = append(cmd.Env, entry)
			}
		}
		cmd.Env = append(cmd.Env, roleVariable+"=test", "GORMFLAKE_CACHE="+os.Getenv("GORMFLAKE_CACHE"))
		cmd.Env = append(cmd.Env, environment...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	contains := func(t *testing.T, out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("expected %q in:\n%s", w, out)
			}
		}
	}

	t.Run("no servers: all but SQLite skip and say why", func(t *testing.T) {
		out, err := run(t, "GORMFLAKE_NO_SERVERS=1")
		if err != nil {
			t.Errorf("%v in:\n%s", err, out)
		}
		contains(t, out, "--- PASS: TestInAnotherEnvironment/sqlite",
			"TestInAnotherEnvironment/mysql57 did not run: servers: not available here: mysql57: GORMFLAKE_NO_SERVERS is set")
		if n := strings.Count(out, "--- SKIP"); n != 5 {
			t.Errorf("%d tests skipped, expected 5:\n%s", n, out)
		}
	})
	t.Run("servers required: what is missing fails", func(t *testing.T) {
		out, err := run(t, "GORMFLAKE_NO_SERVERS=1", "GORMFLAKE_REQUIRE_SERVERS=1")
		if err == nil {
			t.Errorf("no failure in:\n%s", out)
		}
		contains(t, out, "--- FAIL: TestInAnotherEnvironment/postgres", "--- FAIL: TestInAnotherEnvironment/redis")
	})
	t.Run("nothing to be found and nothing to be installed", func(t *testing.T) {
		out, err := run(t, "GORMFLAKE_NO_INSTALL=1", "GORMFLAKE_CACHE="+t.TempDir())
		if err != nil {
			t.Errorf("%v in:\n%s", err, out)
		}
		contains(t, out, "TestInAnotherEnvironment/mysql56 did not run: servers: not available here: mysql56: "+
			"it isn't in the cache folder, and GORMFLAKE_NO_INSTALL is set; name a running one in GORMFLAKE_MYSQL56_DSN")
	})
	t.Run("running servers are used", func(t *testing.T) {
		mariadb := servers.Private(t, servers.MariaDB)
		postgres := servers.Private(t, servers.Postgres)
		redis := servers.Private(t, servers.Redis)
		environment := []string{
			"GORMFLAKE_MARIADB_DSN=root@tcp(" + mariadb.Process().Addr() + ")/",
			// Any server does where the name is all that counts.
			"GORMFLAKE_MYSQL56_DSN=" + mariadb.Process().DSN("mysql"),
			"GORMFLAKE_MYSQL57_DSN=" + mariadb.Process().DSN(""),
			"GORMFLAKE_MYSQL80_DSN=" + mariadb.Process().DSN(""),
			"GORMFLAKE_POSTGRES_DSN=" + keywords(postgres.Process().Addr()),
			"GORMFLAKE_REDIS_URL=" + redis.Process().DSN("3"),
		}
		out, err := run(t, environment...)
		if err != nil || strings.Contains(out, "SKIP") {
			t.Errorf("%v in:\n%s", err, out)
		}
		contains(t, out, "--- PASS: TestInAnotherEnvironment/mysql80", "--- PASS: TestInAnotherEnvironment/redis")

		for _, srv := range []*servers.Server{mariadb, postgres, redis} {
			srv.Kill(t)
		}
		if out, err = run(t, environment...); err == nil {
			t.Errorf("the servers that the environment names are down, and yet:\n%s", out)
		}
		contains(t, out, "--- FAIL: TestInAnotherEnvironment/mariadb", "--- FAIL: TestInAnotherEnvironment/mysql56",
			"--- FAIL: TestInAnotherEnvironment/postgres", "--- FAIL: TestInAnotherEnvironment/redis")
	})
}

func keywords(addr string) string {
	host, port, _ := strings.Cut(addr, ":")
	return "host=" + host + " port=" + port + " user=postgres dbname=postgres sslmode=disable"
}
