package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// childEnvironment carries a crashScript to a child process of this test binary.
const childEnvironment = "GORMFLAKE_TEST_BOOLS_CHILD"

// crashScript is what a migrator does until it kills itself.
type crashScript struct {
	DSN   string
	Steps []string
	After int // kill after this many statements; 0: never
}

var crashSpec = BoolSpec{Table: "t", Columns: []string{"v", "w"}, Patience: 30 * time.Second}

var (
	crashOverrides = []Override{KeepNull("w")}
	forwardSteps   = []string{"Prepare", "Backfill", "Verify", "Swap", "Verify", "Cleanup"}
	backSteps      = []string{"Prepare", "Backfill", "Swap", "Rollback"}
)

func runStep(ctx context.Context, p *BoolPlan, step string) error {
	switch step {
	case "Prepare":
		return p.Prepare(ctx)
	case "Backfill":
		return p.Backfill(ctx, BackfillOptions{BatchSize: 150})
	case "Verify":
		_, err := p.Verify(ctx)
		if errors.Is(err, ErrOutOfOrder) {
			return nil // a resumed run that is past it
		}
		return err
	case "Swap":
		return p.Swap(ctx)
	case "Rollback":
		return p.Rollback(ctx)
	case "Cleanup":
		return p.Cleanup(ctx)
	}
	return fmt.Errorf("no such step: %s", step)
}

// TestBoolsCrashChild is no test of its own: it is the migrator that the campaign
// kills. It dies by SIGKILL right after the server confirmed a statement.
func TestBoolsCrashChild(t *testing.T) {
	text := os.Getenv(childEnvironment)
	if text == "" {
		t.Skip("runs only as a child process of TestBoolsCrashCampaign")
	}
	var script crashScript
	if err := json.Unmarshal([]byte(text), &script); err != nil {
		t.Fatal(err)
	}
	db, err := gorm.Open(mysql.Open(script.DSN), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	p, err := PlanBools(t.Context(), db, crashSpec, crashOverrides...)
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	p.hook = func(string) {
		if done++; done == script.After {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			if err != nil {
				t.Errorf("killing myself: %v", err)
			}
			select {} // until the signal arrives
		}
	}
	for _, step := range script.Steps {
		if err := runStep(t.Context(), p, step); err != nil {
			t.Fatal(err)
		}
	}
}

// migrator runs a script in a child. killed tells whether it died by a signal.
func (f *fixture) migrator(script crashScript, killAfter time.Duration) (killed bool) {
	f.Helper()
	script.DSN = f.dsn
	text, err := json.Marshal(script)
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.Context(), 2*time.Minute)
	defer cancel()
	if killAfter > 0 {
		ctx, cancel = context.WithTimeout(ctx, killAfter) // CommandContext kills with SIGKILL
		defer cancel()
	}
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestBoolsCrashChild$", "-test.count=1")
	child.Env = append(os.Environ(), childEnvironment+"="+string(text))
	var out bytes.Buffer
	child.Stdout, child.Stderr = &out, &out
	err = child.Run()
	if err == nil {
		return false
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != -1 {
		f.Fatalf("the migrator failed: %v\n%s", err, out.String())
	}
	return true
}

// count runs the steps without a crash and counts their statements.
func (f *fixture) count(steps []string) (n int) {
	f.Helper()
	crashTable(f)
	p := f.plan(crashSpec, crashOverrides...)
	p.hook = func(string) { n++ }
	for _, step := range steps {
		if err := runStep(f.Context(), p, step); err != nil {
			f.Fatal(err)
		}
	}
	return n
}

const crashRows = 300

// crashTable makes the table anew. Two columns of different encodings migrate in
// one pass.
func crashTable(f *fixture) {
	f.Helper()
	f.exec("DROP TABLE IF EXISTS t")
	f.exec("CREATE TABLE t (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, owner int NOT NULL, v enum('Y','N') NOT NULL DEFAULT 'N' COMMENT 'first', w char(1), n int NOT NULL DEFAULT 0, KEY by_owner (owner, v))")
	var rows []string
	for i := range crashRows {
		rows = append(rows, fmt.Sprintf("(%d, %d, '%s', %s)", i+1, i%crashWriters, [2]string{"N", "Y"}[i/3%2], [3]string{"'N'", "'Y'", "NULL"}[i/5%3]))
	}
	f.exec("INSERT INTO t (id, owner, v, w) VALUES " + strings.Join(rows, ", "))
}

// TestBoolsCrashCampaign kills the migrator with SIGKILL after every single
// statement, while programs of both generations write. Then another process
// resumes, or rolls back. Every acknowledged write must be there, nothing else,
// and a rolled back table must be the original to the byte.
func TestBoolsCrashCampaign(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		create := func() string { crashTable(f); return f.create("t") }()
		every := 1
		if testing.Short() {
			every = 4
		}
		kills, tried := 0, 0
		forward := f.count(forwardSteps)
		for n := every; n <= forward; n += every {
			t.Run(fmt.Sprintf("forward/%02d", n), func(t *testing.T) {
				f := f.sub(t)
				crashTable(f)
				programs := f.startPrograms()
				tried++
				if f.migrator(crashScript{Steps: forwardSteps, After: n}, 0) {
					kills++
				} else {
					t.Logf("the migrator was through before statement %d of %d", n, forward)
				}
				f.resumeForward()
				programs.stop(true)
			})
		}
		back := f.count(backSteps)
		for n := every; n <= back; n += every {
			t.Run(fmt.Sprintf("back/%02d", n), func(t *testing.T) {
				f := f.sub(t)
				crashTable(f)
				programs := f.startPrograms()
				tried++
				if f.migrator(crashScript{Steps: backSteps, After: n}, 0) {
					kills++
				} else {
					t.Logf("the migrator was through before statement %d of %d", n, back)
				}
				f.must(f.plan(crashSpec, crashOverrides...).Rollback)
				programs.stop(false)
				f.sameAsOriginal(programs, create)
			})
		}
		// The backfill writes its checkpoint by the clock, so the last statements may
		// be one or two fewer than were counted.
		if kills < tried-4 {
			t.Errorf("expected the migrator to be killed %d times, met %d", tried, kills)
		}
		seed := uint64(time.Now().UnixNano())
		random := rand.New(rand.NewPCG(seed, 0))
		for n := range 8 / every {
			wait := 50*time.Millisecond + time.Duration(random.Int64N(int64(900*time.Millisecond)))
			t.Run(fmt.Sprintf("at any time/%d", n), func(t *testing.T) {
				t.Logf("killed after %v (seed %d)", wait, seed)
				f := f.sub(t)
				crashTable(f)
				programs := f.startPrograms()
				if f.migrator(crashScript{Steps: backSteps}, wait) {
					kills++
				}
				f.must(f.plan(crashSpec, crashOverrides...).Rollback)
				programs.stop(false)
				f.sameAsOriginal(programs, create)
			})
		}
		t.Logf("%d kills; %d statements forward, %d back", kills, forward, back)
	})
}

// sub is the same database for a subtest.
func (f *fixture) sub(t *testing.T) *fixture {
	c := *f
	c.TB = t
	return &c
}

// resumeForward makes a plan anew, as another process would, and goes to the end.
func (f *fixture) resumeForward() {
	f.Helper()
	p := f.anyPlan(crashSpec, crashOverrides...)
	if !p.Resumed && len(p.Refusals) > 0 && p.Refusals[0].Code == "already-done" {
		return // killed after the very last statement
	}
	if err := p.Err(); err != nil {
		f.Fatal(err)
	}
	for _, step := range forwardSteps {
		if err := runStep(f.Context(), p, step); err != nil {
			f.Fatalf("resuming at %s: %v", step, err)
		}
	}
}

// sameAsOriginal compares the table with one that is built from nothing but the
// original's SHOW CREATE TABLE and the programs' ledgers.
func (f *fixture) sameAsOriginal(programs *programs, create string) {
	f.Helper()
	if got := f.create("t"); got != create {
		f.Errorf("expected the original table\n%s\nmet\n%s", create, got)
	}
	f.nothingLeft()
	f.exec("DROP TABLE IF EXISTS control")
	f.exec(strings.Replace(create, "`t`", "`control`", 1))
	programs.replay("control")
	if a, b := f.checksum("t"), f.checksum("control"); a != b {
		f.Errorf("expected the checksum %s of the ledgers, met %s", b, a)
	}
	f.exec("DROP TABLE control")
}
