package migrate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/migrate"
)

// adoptChildEnvironment carries an adoptScript to a child process of this test binary.
const adoptChildEnvironment = "GORMFLAKE_TEST_ADOPT_CHILD"

// adoptScript is what a runner does until it kills itself.
type adoptScript struct {
	DSN   string
	Back  bool // Rollback after Apply
	After int  // kill after the server has confirmed so many statements; 0: never
}

// play applies, and rolls back if the script says so.
func (s adoptScript) play(ctx context.Context, db *gorm.DB, after func(string)) error {
	p, err := migrate.PlanAdopt(ctx, db, shopSpec)
	if err != nil {
		return err
	}
	migrate.SetAdoptAfter(p, after)
	if err := p.Apply(ctx); err != nil || !s.Back {
		return err
	}
	return p.Rollback(ctx)
}

// TestAdoptCrashChild is no test of its own: it is the runner that the campaign
// kills. It dies by SIGKILL right after the server confirmed a statement.
func TestAdoptCrashChild(t *testing.T) {
	text := os.Getenv(adoptChildEnvironment)
	if text == "" {
		t.Skip("runs only as a child process of TestAdoptCrashCampaign")
	}
	var script adoptScript
	if err := json.Unmarshal([]byte(text), &script); err != nil {
		t.Fatal(err)
	}
	db, err := gorm.Open(postgres.Open(script.DSN), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	err = script.play(t.Context(), db, func(string) {
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
	})
	if err != nil {
		t.Fatal(err)
	}
}

// run plays the script in a child. killed tells whether it died by a signal.
func (s adoptScript) run(t *testing.T) (killed bool) {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestAdoptCrashChild$", "-test.count=1")
	child.Env = append(os.Environ(), adoptChildEnvironment+"="+string(text))
	var out bytes.Buffer
	child.Stdout, child.Stderr = &out, &out
	err = child.Run()
	if err == nil {
		return false
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != -1 || ctx.Err() != nil {
		t.Fatalf("the runner failed: %v\n%s", err, out.String())
	}
	return true
}

// TestAdoptCrashCampaign kills the runner of an online widening with SIGKILL after
// every single statement that the server confirmed, while old programs write
// without keys and new ones with snowflake keys. Then another process goes on, or
// rolls back. Every acknowledged write must be there and nothing else, and a
// table that is rolled back must be the original but for the order of columns.
func TestAdoptCrashCampaign(t *testing.T) {
	srv := servers.Shared(t, servers.Postgres)
	dsn := srv.Database(t)
	db, own := srv.OpenDSN(t, dsn, nil), unprepared(t, srv, dsn)
	makeShop(t, own)
	original := pgSchema(t, own)
	every := 1
	if testing.Short() {
		every = 5
	}
	kills, tried := 0, 0
	for _, back := range []bool{false, true} {
		script := adoptScript{DSN: dsn, Back: back}
		makeShop(t, own)
		statements := 0
		if err := script.play(t.Context(), own, func(string) { statements++ }); err != nil {
			t.Fatal(err)
		}
		direction := "forward"
		if back {
			direction = "back"
			if got := pgSchema(t, own); got != original {
				t.Fatalf("expected the original tables\n%s\nmet\n%s", original, got)
			}
		}
		t.Logf("%s: %d statements", direction, statements)
		for n := every; n <= statements; n += every {
			t.Run(fmt.Sprintf("%s/%02d", direction, n), func(t *testing.T) {
				makeShop(t, own)
				programs := startShop(t, srv, db, dsn, !back)
				script.After = n
				tried++
				if script.run(t) {
					kills++
				}
				p := adoptPlan(t, own, shopSpec)
				if back {
					if err := p.Rollback(t.Context()); err != nil && (n < statements || !errors.Is(err, migrate.ErrOutOfOrder)) {
						t.Fatal(err)
					}
					programs.stop()
					if got := pgSchema(t, own); got != original {
						t.Errorf("expected the original tables\n%s\nmet\n%s", original, got)
					}
					return
				}
				if err := p.Apply(t.Context()); err != nil {
					t.Fatal(err)
				}
				programs.await(t)
				if _, err := p.Verify(t.Context()); err != nil {
					t.Error(err)
				}
				programs.stop()
				spec := shopSpec
				spec.KeepNumbering = false
				last, err := migrate.Adopt(t.Context(), own, spec)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := last.Verify(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	// Programs insert meanwhile, so that there may be a batch more than was counted,
	// but no statement less.
	if kills < tried {
		t.Errorf("expected the runner to be killed %d times, met %d", tried, kills)
	}
}

// await waits until the new programs have inserted, now that they can.
func (p *shopPrograms) await(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for p.large.Load() == 0 {
		select {
		case <-ctx.Done():
			t.Fatal("expected rows with snowflake keys, met none")
		case <-tick.C:
		}
	}
}
