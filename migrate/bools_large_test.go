package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// largeEnvironment holds the numbers of rows to measure with, such as
// "500000,2000000". Timing decides no ordinary test, so without it nothing runs.
const largeEnvironment = "GORMFLAKE_MEASURE_BOOLS"

// TestBoolsLarge prints, for every size: how long a writer was kept waiting in
// all while the table's definition changed, and how the backfill compares with a
// plain UPDATE by the same ranges under the same triggers.
func TestBoolsLarge(t *testing.T) {
	sizes := os.Getenv(largeEnvironment)
	if sizes == "" {
		t.Skipf("measures only when %s names sizes, such as 500000,2000000", largeEnvironment)
	}
	onMySQL(t, func(t *testing.T, f *fixture) {
		for size := range strings.SplitSeq(sizes, ",") {
			n, err := strconv.Atoi(size)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(size, func(t *testing.T) {
				f := f.sub(t)
				f.largeTable(n)
				f.measureBlocking(n)
				f.measureBackfill(n)
				f.exec("DROP TABLE t")
			})
		}
	})
}

func (f *fixture) largeTable(n int) {
	f.Helper()
	f.exec("DROP TABLE IF EXISTS t")
	f.exec("CREATE TABLE t (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, v enum('N','Y') NOT NULL DEFAULT 'N', amount int NOT NULL, note varchar(60) NOT NULL)")
	f.exec("INSERT INTO t (v, amount, note) VALUES ('N', 1, 'a note of some forty characters, or so it is')")
	for have := 1; have < n; have *= 2 {
		f.exec(fmt.Sprintf("INSERT INTO t (v, amount, note) SELECT IF(id %% 3 = 0, 'Y', 'N'), id, note FROM t LIMIT %d", min(have, n-have)))
	}
}

// measureBlocking lets one writer write all the time and adds up what its writes
// took beyond what they take in quiet times, by step.
func (f *fixture) measureBlocking(n int) {
	f.Helper()
	p := f.plan(BoolSpec{Table: "t"})
	pool, err := f.db.DB()
	if err != nil {
		f.Fatal(err)
	}
	w, control := &metered{pool: pool, table: "t", rows: n}, &metered{pool: pool, table: "elsewhere", rows: n}
	f.exec("CREATE TABLE elsewhere LIKE t")
	f.exec("INSERT INTO elsewhere SELECT * FROM t LIMIT 10000")
	control.rows = 10000
	stop, stopControl := w.start(f), control.start(f)
	w.quiet(f)
	control.quiet(f)
	var total, longest, noise time.Duration
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"Prepare", p.Prepare},
		{"Backfill", func(ctx context.Context) error { return p.Backfill(ctx, BackfillOptions{}) }},
		{"Verify", verified(p)},
		{"Swap", p.Swap},
		{"Cleanup", p.Cleanup},
	} {
		w.take()
		control.take()
		began := time.Now()
		f.must(step.do)
		took := time.Since(began)
		writes, blocked, worst := w.take()
		_, elsewhere, _ := control.take()
		f.Logf("%s, %d rows, %s: %v, %d writes, blocked %v in all, %v at most; on another table at the same time %v in all", f.kind, n, step.name,
			took.Round(time.Millisecond), writes, tenth(blocked), tenth(worst), tenth(elsewhere))
		if step.name != "Backfill" && step.name != "Verify" {
			total, longest, noise = total+blocked, max(longest, worst), noise+elsewhere
		}
	}
	f.Logf("%s, %d rows: all changes of the table's definition: blocked %v in all, %v at most; on another table at the same time %v in all", f.kind, n,
		tenth(total), tenth(longest), tenth(noise))
	if err := errors.Join(stop(), stopControl()); err != nil {
		f.Error(err)
	}
	f.exec("DROP TABLE elsewhere")
	f.largeTable(n)
}

func tenth(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// metered is a writer that keeps the time of every write. A second one, on a
// table that nobody migrates, tells what is the machine's doing.
type metered struct {
	pool  *sql.DB
	table string
	rows  int

	mu     sync.Mutex
	took   []time.Duration
	normal time.Duration // what nine out of ten writes take in quiet times
}

func (w *metered) start(f *fixture) (stop func() error) {
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan error, 1)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				done <- nil
				return
			case <-tick.C:
			}
			began := time.Now()
			_, err := w.pool.Exec("UPDATE "+w.table+" SET amount = amount + 1 WHERE id = ?", 1+rand.IntN(w.rows))
			if n%4 == 0 && err == nil {
				_, err = w.pool.Exec("INSERT INTO " + w.table + " (amount, note) VALUES (1, 'new')")
			}
			if err != nil && !isLockTimeout(err) {
				done <- err
				return
			}
			w.mu.Lock()
			w.took = append(w.took, time.Since(began))
			w.mu.Unlock()
		}
	}()
	return func() error { cancel(); return <-done }
}

// quiet waits for a thousand writes and takes their ninetieth percentile.
func (w *metered) quiet(f *fixture) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		w.mu.Lock()
		if len(w.took) >= 1000 {
			slices.Sort(w.took)
			w.normal = w.took[len(w.took)*9/10]
			f.Logf("%s: in quiet times a write takes %v, nine in ten at most %v, all at most %v", f.kind, w.took[len(w.took)/2], w.normal, w.took[len(w.took)-1])
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
	}
}

// take sums up the writes since the last call. Only those that took five times
// the normal time, and 10 ms, count as blocked.
func (w *metered) take() (writes int, blocked, worst time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.took {
		worst = max(worst, d)
		if d > max(5*w.normal, 10*time.Millisecond) {
			blocked += d - w.normal
		}
	}
	writes, w.took = len(w.took), nil
	return writes, blocked, worst
}

// measureBackfill takes turns between the backfill and a plain UPDATE by the same
// ranges, on the same table with the same triggers.
func (f *fixture) measureBackfill(n int) {
	f.Helper()
	p := f.plan(BoolSpec{Table: "t"})
	pool, err := f.db.DB()
	if err != nil {
		f.Fatal(err)
	}
	var ours, plain []time.Duration
	for round := range 2 {
		f.must(p.Prepare)
		var ends []string
		began := time.Now()
		if err := p.Backfill(f.Context(), BackfillOptions{Progress: func(s BackfillProgress) { ends = append(ends, s.LastKey) }}); err != nil {
			f.Fatal(err)
		}
		ours = append(ours, time.Since(began))
		f.must(p.Rollback, p.Prepare)
		began = time.Now()
		from := "0"
		for _, through := range ends {
			if _, err := pool.Exec("UPDATE t SET v__gf = CASE v WHEN 'Y' THEN 1 WHEN 'N' THEN 0 END WHERE id > " + from + " AND id <= " + through); err != nil {
				f.Fatal(err)
			}
			from = through
		}
		plain = append(plain, time.Since(began))
		f.must(verified(p), p.Rollback)
		f.Logf("%s, %d rows, round %d: backfill %v, plain UPDATE by the same ranges %v", f.kind, n, round+1, ours[round].Round(time.Millisecond), plain[round].Round(time.Millisecond))
	}
	f.Logf("%s, %d rows: the faster backfill takes %.3f times the faster plain UPDATE", f.kind, n, float64(slices.Min(ours))/float64(slices.Min(plain)))
}
