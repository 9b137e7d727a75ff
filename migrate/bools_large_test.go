package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gormflake/gormflake/internal/servers"
)

// largeEnvironment holds the numbers of rows to measure with, such as
// "500000,2000000". Timing decides no ordinary test, so without it nothing runs.
const largeEnvironment = "GORMFLAKE_MEASURE_BOOLS"

// largeServers are what is measured. The harness's own servers have a redo log of
// 16 MB and a buffer pool of 64 MB: there a rebuild waits for the disk at every
// step, which says nothing of a server that holds its tables in memory. The
// others have what the plan's warnings advise: the row log of an online rebuild in
// small blocks, as the last one is applied under an exclusive latch, and no hash
// index to look through; and then a second name for the table's file, so that the
// server, which removes the old file under the metadata lock, frees nothing.
var largeServers = []struct {
	name     string
	settings []servers.Option
	linked   bool
}{
	{"ordinary", nil, false},
	{"advised", advisedSettings, false},
	{"linked", advisedSettings, true},
}

var advisedSettings = []servers.Option{servers.Setting("innodb-sort-buffer-size", "64K"), servers.Setting("innodb-adaptive-hash-index", "0")}

// onLarge runs the test on servers of its own, with the settings of one that
// serves tables of such a size.
func onLarge(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	for _, kind := range servers.MySQLKinds() {
		for _, large := range largeServers {
			if kind == servers.MariaDB && large.settings != nil {
				continue // it adds and drops the column in an instant and keeps no row log
			}
			t.Run(string(kind)+"/"+large.name, func(t *testing.T) {
				srv := servers.Private(t, kind, append([]servers.Option{
					servers.Setting("innodb-buffer-pool-size", "1G"),
					servers.Setting("innodb-log-file-size", "512M"),
					servers.Setting("innodb-flush-method", "O_DIRECT"), // or the old table is dropped with all its pages in the system's cache
					servers.Setting("performance-schema", "1"),
				}, large.settings...)...)
				dsn := srv.Database(t)
				f := &fixture{TB: t, srv: srv, dsn: dsn, db: srv.OpenDSN(t, dsn, nil), kind: srv.Kind(), linked: large.linked}
				f.exec("UPDATE performance_schema.setup_instruments SET ENABLED = 'NO' WHERE ENABLED = 'YES'")
				f.exec("UPDATE performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'YES' WHERE NAME LIKE '" + treeLatch + "'")
				test(t, f)
			})
		}
	}
}

// TestBoolsLarge prints, for every size: how long a writer was kept waiting in
// all while the table's definition changed, and how the backfill compares with a
// plain UPDATE by the same ranges under the same triggers.
func TestBoolsLarge(t *testing.T) {
	sizes := os.Getenv(largeEnvironment)
	if sizes == "" {
		t.Skipf("measures only when %s names sizes, such as 500000,2000000", largeEnvironment)
	}
	onLarge(t, func(t *testing.T, f *fixture) {
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
		w.takeLatched(f)
		remove := f.keepFile()
		began := time.Now()
		f.must(step.do)
		took := time.Since(began)
		writes, blocked, worst := w.take()
		waited, waitedMost := w.takeWaited()
		latched, latchedMost := w.takeLatched(f)
		_, elsewhere, elsewhereMost := control.take()
		f.Logf("%s, %d rows, %s: %v, %d writes, blocked by the metadata lock %v in all, %v at most, by the table's latch %v, %v; slow writes: %v in all, %v at most, and on another table at the same time %v, %v",
			f.kind, n, step.name, took.Round(time.Millisecond), writes, tenth(waited), tenth(waitedMost), tenth(latched), tenth(latchedMost),
			tenth(blocked), tenth(worst), tenth(elsewhere), tenth(elsewhereMost))
		total, longest = total+waited+latched, max(longest, waitedMost, latchedMost)
		remove()
	}
	f.Logf("%s, %d rows: from the original to the cleaned up table, writes were blocked %v in all, %v at most", f.kind, n, tenth(total), tenth(longest))
	if err := errors.Join(stop(), stopControl()); err != nil {
		f.Error(err)
	}
	f.exec("DROP TABLE elsewhere")
}

// keepFile gives the table's file a second name, if this server's have one, until
// remove is called.
func (f *fixture) keepFile() (remove func()) {
	f.Helper()
	if !f.linked {
		return func() {}
	}
	data, schema := f.one("SELECT @@datadir"), f.one("SELECT DATABASE()")
	kept := filepath.Join(data, "..", "kept")
	if err := os.Link(filepath.Join(data, schema, "t.ibd"), kept); err != nil {
		f.Fatal(err)
	}
	return func() {
		if err := os.Remove(kept); err != nil {
			f.Fatal(err)
		}
	}
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

	id int64 // of the connection
}

// treeLatch matches the latch on a table's index, which an online rebuild holds
// exclusively while it applies the last block of its row log: no lock of SQL, so
// the process list doesn't show it.
const treeLatch = "wait/synch/%/innodb/index_tree_rw_lock"

func (w *metered) start(f *fixture) (stop func() error) {
	ctx, cancel := context.WithCancel(f.Context())
	done, watched := make(chan error, 1), make(chan error, 1)
	conn, err := w.pool.Conn(ctx)
	if err != nil {
		f.Fatal(err)
	}
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&w.id); err != nil {
		f.Fatal(err)
	}
	go func() { watched <- w.watch(ctx, w.id) }()
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

// takeLatched is what the writer has waited for the latch since the last call, as
// the server itself has timed it.
func (w *metered) takeLatched(f *fixture) (all, longest time.Duration) {
	f.Helper()
	err := w.pool.QueryRow(`SELECT IFNULL(SUM(SUM_TIMER_WAIT) DIV 1000, 0), IFNULL(MAX(MAX_TIMER_WAIT) DIV 1000, 0)
		FROM performance_schema.events_waits_summary_by_thread_by_event_name
		WHERE EVENT_NAME LIKE ? AND THREAD_ID = (SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = ?)`, treeLatch, w.id).Scan(&all, &longest)
	if err != nil {
		f.Fatal(err)
	}
	f.exec("TRUNCATE TABLE performance_schema.events_waits_summary_by_thread_by_event_name")
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
				_, err = b.batch(ctx, last.String, through.String)
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
