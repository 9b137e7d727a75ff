package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/migrate"
)

// measureEnvironment holds the numbers of rows to measure with, such as
// "500000,2000000". Timing decides no ordinary test, so without it nothing runs.
const measureEnvironment = "GORMFLAKE_MEASURE_ADOPT"

// TestAdoptLarge prints, for every size and server, how long each step of an
// adoption took, and the longest write that a concurrent program met in it, beside
// that on a table which nobody touches, which is the machine's doing.
func TestAdoptLarge(t *testing.T) {
	sizes := os.Getenv(measureEnvironment)
	if sizes == "" {
		t.Skipf("measures only when %s names sizes, such as 500000,2000000", measureEnvironment)
	}
	servers.Each(t, adoptKinds("postgres", "mysql"), func(t *testing.T, srv *servers.Server) {
		ways := []migrate.Widening{migrate.WidenBySize}
		if srv.Kind() == servers.Postgres {
			ways = []migrate.Widening{migrate.WidenOnline, migrate.WidenRewrite}
		}
		for size := range strings.SplitSeq(sizes, ",") {
			n, err := strconv.Atoi(size)
			if err != nil {
				t.Fatal(err)
			}
			for _, way := range ways {
				t.Run(strings.TrimSuffix(size+"/"+string(way), "/"), func(t *testing.T) { measureAdopt(t, srv, n, way) })
			}
		}
	})
}

// largeTables are a table of n rows and one of a quarter as many that refers to it.
func largeTables(t *testing.T, db *gorm.DB, n int) {
	t.Helper()
	number := "int NOT NULL AUTO_INCREMENT"
	if db.Name() == "postgres" {
		number = "serial"
	}
	adoptExec(t, db,
		"CREATE TABLE parents (id "+number+" PRIMARY KEY, amount int NOT NULL, note varchar(60) NOT NULL)",
		"CREATE TABLE children (id "+number+" PRIMARY KEY, parent_id int NOT NULL, amount int NOT NULL, CONSTRAINT children_parent FOREIGN KEY (parent_id) REFERENCES parents (id))",
		"CREATE INDEX children_by_parent ON children (parent_id)",
		"CREATE TABLE elsewhere (id "+number+" PRIMARY KEY, amount int NOT NULL, note varchar(60) NOT NULL)",
		"INSERT INTO parents (id, amount, note) VALUES (1, 1, 'a note of some forty characters, or so it is')")
	for have := 1; have < n; have *= 2 {
		adoptExec(t, db, fmt.Sprintf("INSERT INTO parents (id, amount, note) SELECT id + %d, 1, note FROM parents WHERE id <= %d", have, min(have, n-have)))
	}
	adoptExec(t, db,
		fmt.Sprintf("INSERT INTO children (parent_id, amount) SELECT id, 1 FROM parents WHERE id <= %d", n/4),
		"INSERT INTO elsewhere (amount, note) SELECT amount, note FROM parents WHERE id <= 10000")
	analyze := "ANALYZE TABLE parents, children, elsewhere"
	if db.Name() == "postgres" {
		analyze = "VACUUM ANALYZE"
	}
	adoptExec(t, db, analyze)
}

func measureAdopt(t *testing.T, srv *servers.Server, n int, way migrate.Widening) {
	db := srv.Open(t, nil)
	largeTables(t, db, n)
	p := adoptPlan(t, db, migrate.AdoptSpec{Table: "parents", Widening: way})
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var parents, children, elsewhere stopwatch
	for _, w := range []struct {
		watch     *stopwatch
		statement string
		keys      int
	}{
		{&parents, "UPDATE parents SET amount = amount + 1 WHERE id = ?", n},
		{&children, "INSERT INTO children (parent_id, amount) VALUES (?, 1)", n / 4},
		{&elsewhere, "UPDATE elsewhere SET amount = amount + 1 WHERE id = ?", 10000},
	} {
		running.Go(func() {
			if err := w.watch.write(ctx, db, w.statement, w.keys); err != nil {
				t.Errorf("%v (in: %s)", err, w.statement)
			}
		})
	}
	for _, w := range []*stopwatch{&parents, &children, &elsewhere} {
		w.quiet()
	}
	a, b, c := parents.take(), children.take(), elsewhere.take()
	name := strings.TrimSpace(string(srv.Kind()) + " " + string(way))
	t.Logf("%s, %d rows: in quiet times the longest write took %v on the key's table, %v on the one that refers to it, %v elsewhere", name, n, a, b, c)
	var step string
	var began time.Time
	var worst, total time.Duration
	done := func() {
		if step == "" {
			return
		}
		took := time.Since(began)
		// A write that began in this step may still wait.
		a, b, c := parents.take(), children.take(), elsewhere.take()
		worst, total = max(worst, a, b), total+took
		t.Logf("%s, %d rows: %s: %v; longest write %v, %v, elsewhere %v", name, n, step, took.Round(time.Millisecond), a, b, c)
	}
	migrate.SetAdoptHook(p, func(s migrate.AdoptStatement) error {
		done()
		step, began = s.Step+" "+s.Table, time.Now()
		return nil
	})
	err := p.Apply(t.Context())
	done()
	for _, w := range []*stopwatch{&parents, &children} { // a write that waited to the end is finished now
		w.quiet()
	}
	worst = max(worst, parents.take(), children.take())
	cancel()
	running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, %d rows: %v in all, longest write %v", name, n, total.Round(10*time.Millisecond), worst)
	if _, err := p.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// stopwatch is a writer that keeps its longest write, also one that goes on still.
type stopwatch struct {
	mu      sync.Mutex
	since   time.Time // of the write that goes on
	longest time.Duration
	writes  int
	failed  bool
}

func (w *stopwatch) write(ctx context.Context, db *gorm.DB, statement string, keys int) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		w.mu.Lock()
		w.since = time.Now()
		w.mu.Unlock()
		err := db.Exec(statement, 1+rand.IntN(keys)).Error
		w.mu.Lock()
		w.longest, w.since, w.writes = max(w.longest, time.Since(w.since)), time.Time{}, w.writes+1
		w.mu.Unlock()
		if err != nil && !strings.Contains(err.Error(), "cached plan") && !strings.Contains(strings.ToLower(err.Error()), "deadlock") && !errors.Is(err, context.Canceled) {
			w.mu.Lock()
			w.failed = true
			w.mu.Unlock()
			return err
		}
	}
}

// take is the longest write since the last call.
func (w *stopwatch) take() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := w.longest
	if !w.since.IsZero() {
		longest = max(longest, time.Since(w.since))
	}
	w.longest = 0
	return longest.Round(100 * time.Microsecond)
}

// quiet waits for five hundred writes more, unless one has failed.
func (w *stopwatch) quiet() {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	w.mu.Lock()
	want := w.writes + 500
	w.mu.Unlock()
	for range tick.C {
		w.mu.Lock()
		enough := w.writes >= want || w.failed
		w.mu.Unlock()
		if enough {
			return
		}
	}
}
