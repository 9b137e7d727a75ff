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
			t.Run(size+"/blocking", func(t *testing.T) { f := f.sub(t); f.largeTable(n); f.measureBlocking(n) })
			t.Run(size+"/backfill", func(t *testing.T) { f := f.sub(t); f.largeTable(n); f.measureBackfill(n) })
			f.exec("DROP TABLE IF EXISTS t")
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
	var total, longest time.Duration
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
		w.takeWaited()
		control.take()
		began := time.Now()
		f.must(step.do)
		took := time.Since(began)
		writes, blocked, worst := w.take()
		waited, waitedMost := w.takeWaited()
		_, elsewhere, _ := control.take()
		f.Logf("%s, %d rows, %s: %v, %d writes, blocked by the metadata lock %v in all, %v at most; slow writes: %v in all, %v at most, and on another table at the same time %v in all",
			f.kind, n, step.name, took.Round(time.Millisecond), writes, tenth(waited), tenth(waitedMost), tenth(blocked), tenth(worst), tenth(elsewhere))
		total, longest = total+waited, max(longest, waitedMost)
	}
	f.Logf("%s, %d rows: from the original to the cleaned up table, writes were blocked %v in all, %v at most", f.kind, n, tenth(total), tenth(longest))
	if err := errors.Join(stop(), stopControl()); err != nil {
		f.Error(err)
	}
	f.exec("DROP TABLE elsewhere")
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

	waited, longest time.Duration // for the metadata lock, as the server's process list shows it
}

func (w *metered) start(f *fixture) (stop func() error) {
	ctx, cancel := context.WithCancel(f.Context())
	done, watched := make(chan error, 1), make(chan error, 1)
	conn, err := w.pool.Conn(ctx)
	if err != nil {
		f.Fatal(err)
	}
	var id int64
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		f.Fatal(err)
	}
	go func() { watched <- w.watch(ctx, id) }()
	go func() {
		defer conn.Close()
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
			_, err := conn.ExecContext(context.Background(), "UPDATE "+w.table+" SET amount = amount + 1 WHERE id = ?", 1+rand.IntN(w.rows))
			if n%4 == 0 && err == nil {
				_, err = conn.ExecContext(context.Background(), "INSERT INTO "+w.table+" (amount, note) VALUES (1, 'new')")
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
	return func() error { cancel(); return errors.Join(<-done, <-watched) }
}

// watch samples what the writer is doing and adds up the time in which it waits
// for the metadata lock: that, and no busy machine, is what a DDL statement does
// to it.
func (w *metered) watch(ctx context.Context, id int64) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	last, since := time.Now(), time.Time{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var state sql.NullString
		err := w.pool.QueryRowContext(ctx, "SELECT STATE FROM information_schema.PROCESSLIST WHERE ID = ?", id).Scan(&state)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		now := time.Now()
		w.mu.Lock()
		if !strings.HasPrefix(state.String, "Waiting for table metadata lock") {
			since = time.Time{}
		} else {
			if since.IsZero() {
				since = last // it may have begun right after the sample before
			}
			w.waited += now.Sub(last)
			w.longest = max(w.longest, now.Sub(since))
		}
		last = now
		w.mu.Unlock()
	}
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

func (w *metered) takeWaited() (all, longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, longest = w.waited, w.longest
	w.waited, w.longest = 0, 0
	return all, longest
}

// measureBackfill takes turns, batch by batch in one run, between the backfill
// and a plain UPDATE under the same triggers, so that both meet the same machine
// and the same table. The backfill's time is everything that it does for a batch:
// finding the range, the UPDATE, the checkpoint.
func (f *fixture) measureBackfill(n int) {
	f.Helper()
	p := f.plan(BoolSpec{Table: "t"})
	f.must(p.Prepare)
	ctx := f.Context()
	s, err := p.open(ctx)
	if err != nil {
		f.Fatal(err)
	}
	defer s.close()
	b := &backfill{s: s, r: p.record, o: BackfillOptions{BatchSize: defaultBatch}}
	if err := b.isolate(ctx); err != nil {
		f.Fatal(err)
	}
	end := f.one("SELECT MAX(id) FROM t")
	first := sql.NullString{String: "0", Valid: true}
	var ends []sql.NullString // for the plain UPDATE, which is given its ranges
	for last := first; ; last = ends[len(ends)-1] {
		through, _, err := b.next(ctx, last, end)
		if err != nil {
			f.Fatal(err)
		}
		if !through.Valid {
			break
		}
		ends = append(ends, through)
	}
	var took [2]time.Duration
	var batches [2]int
	for turn, last := 0, first; turn < len(ends); turn++ {
		began, through, err := time.Now(), ends[turn], error(nil)
		if turn%2 == 0 {
			if through, _, err = b.next(ctx, last, end); err == nil {
				_, err = b.batch(ctx, p.record.batch(), last.String, through.String)
			}
			if b.p.LastKey = through.String; err == nil && time.Since(b.notedAt) >= checkpointEvery {
				err = b.note(ctx)
			}
		} else {
			_, err = s.conn.ExecContext(ctx, fmt.Sprintf("UPDATE t SET v__gf = CASE v WHEN 'Y' THEN 1 WHEN 'N' THEN 0 END WHERE id > %s AND id <= %s", last.String, through.String))
		}
		if err != nil {
			f.Fatal(err)
		}
		took[turn%2] += time.Since(began)
		batches[turn%2]++
		last = through
	}
	f.must(verified(p), p.Rollback)
	each := func(i int) time.Duration { return took[i] / time.Duration(max(batches[i], 1)) }
	f.Logf("%s, %d rows in batches of %d, in turns: backfill %v per batch, plain UPDATE %v: %.3f times", f.kind, n, defaultBatch,
		each(0).Round(time.Microsecond), each(1).Round(time.Microsecond), float64(each(0))/float64(each(1)))
}
