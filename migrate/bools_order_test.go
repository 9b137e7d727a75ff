package migrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake/internal/servers"
)

func orderTable(f *fixture, rows int) {
	f.exec("CREATE TABLE t (id bigint unsigned NOT NULL PRIMARY KEY, v enum('N','Y') NOT NULL DEFAULT 'N', z int, KEY by_v (v))")
	var values []string
	for i := range rows {
		values = append(values, fmt.Sprintf("(%d, '%s')", uint64(i)*7+1<<63, [2]string{"N", "Y"}[i%2])) // beyond int64
	}
	if rows > 0 {
		f.exec("INSERT INTO t (id, v) VALUES " + strings.Join(values, ", "))
	}
}

// TestBoolsOrder: a step that comes too early or too late says so and changes
// nothing; one that was done already is a no-op.
func TestBoolsOrder(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		orderTable(f, 10)
		p := f.plan(BoolSpec{Table: "t"})
		early := func(name string, step func(context.Context) error) {
			t.Helper()
			before := f.create("t")
			if err := step(t.Context()); !errors.Is(err, ErrOutOfOrder) {
				t.Errorf("%s: expected ErrOutOfOrder, met %v", name, err)
			}
			if after := f.create("t"); after != before {
				t.Errorf("%s changed the table to %s", name, after)
			}
		}
		early("Backfill of the original", fill(p))
		early("Verify of the original", verified(p))
		early("Swap of the original", p.Swap)
		early("Cleanup of the original", p.Cleanup)
		f.must(p.Prepare, p.Prepare)
		early("Swap before the index", p.Swap)
		early("Cleanup before Swap", p.Cleanup)
		if err := verified(p)(t.Context()); !errors.Is(err, ErrDisagree) {
			t.Errorf("expected ErrDisagree before the backfill, met %v", err)
		}
		f.must(fill(p), fill(p), p.Prepare, p.Swap, p.Swap, p.Prepare, fill(p), verified(p))
		if f.phase(p, PhaseSwapped); join(f.column("SELECT v FROM t ORDER BY id LIMIT 3")) != "0 1 0" {
			t.Error("steps that were done already changed something")
		}
		f.must(p.Cleanup, p.Cleanup, p.Swap, p.Prepare, fill(p))
		early("Rollback after Cleanup", p.Rollback)
		f.phase(p, PhaseFinished)
		f.refused(f.anyPlan(BoolSpec{Table: "t", Columns: []string{"v"}}), "already-done", "v")
	})
}

// TestBoolsRollbackDuringCleanup: once a trigger is gone there is no way back.
func TestBoolsRollbackDuringCleanup(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		orderTable(f, 4)
		p := f.plan(BoolSpec{Table: "t"})
		f.must(p.Prepare, fill(p), p.Swap)
		f.exec("DROP TRIGGER t__gf_update")
		f.phase(p, PhaseClosing)
		if err := p.Rollback(t.Context()); !errors.Is(err, ErrOutOfOrder) {
			t.Errorf("expected ErrOutOfOrder, met %v", err)
		}
		f.must(p.Cleanup)
		f.nothingLeft()
	})
}

// TestBoolsForeignTrigger: a trigger of our name that isn't ours is not trusted.
func TestBoolsForeignTrigger(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		orderTable(f, 4)
		p := f.plan(BoolSpec{Table: "t"})
		f.must(p.Prepare)
		f.exec("DROP TRIGGER t__gf_update")
		f.exec("CREATE TRIGGER t__gf_update BEFORE UPDATE ON t FOR EACH ROW SET NEW.v__gf = 1")
		if err := fill(p)(t.Context()); !errors.Is(err, ErrOutOfOrder) {
			t.Errorf("expected ErrOutOfOrder, met %v", err)
		}
	})
}

// TestBoolsMissingTrigger: rows that changed while a trigger was missing are
// healed, wherever the checkpoint was.
func TestBoolsMissingTrigger(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		orderTable(f, 10)
		p := f.plan(BoolSpec{Table: "t"})
		f.must(p.Prepare, fill(p))
		f.exec("DROP TRIGGER t__gf_update")
		f.exec("UPDATE t SET v = 'Y'")
		f.phase(p, PhasePartial)
		f.must(p.Prepare)
		if err := p.Swap(t.Context()); !errors.Is(err, ErrDisagree) {
			t.Fatalf("expected Swap to find the disagreement, met %v", err)
		}
		f.must(fill(p), p.Swap, p.Rollback)
	})
}

// TestBoolsUnmapped: a value that nobody has mapped, written after the plan was
// made, stops the swap and names its key; the old program is not disturbed.
func TestBoolsUnmapped(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		orderTable(f, 10)
		p := f.plan(BoolSpec{Table: "t"})
		f.must(p.Prepare, fill(p))
		f.exec("INSERT IGNORE INTO t (id, v) VALUES (77, '')") // what a non-strict server stores
		err := p.Swap(t.Context())
		d, ok := errors.AsType[*DisagreeError](err)
		if !ok || d.Report.Columns[0].Unmapped != 1 || !slices.Equal(d.Report.Columns[0].UnmappedKeys, []string{"77"}) {
			t.Fatalf("expected a *DisagreeError that names key 77, met %v", err)
		}
		f.exec("UPDATE t SET v = 'N' WHERE id = 77")
		f.must(p.Swap, p.Rollback)
	})
}

// TestBoolsUnmappedDuringSwap slips such a value in between the verification and
// the exchange: the names are exchanged back.
func TestBoolsUnmappedDuringSwap(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		orderTable(f, 10)
		p := f.plan(BoolSpec{Table: "t"})
		f.must(p.Prepare, fill(p))
		reader, err := f.db.DB()
		if err != nil {
			t.Fatal(err)
		}
		tx, err := reader.Begin() // holds the metadata lock, so that the ALTER waits
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT IGNORE INTO t (id, v) VALUES (77, '')"); err != nil {
			t.Fatal(err)
		}
		result := make(chan error, 1)
		go func() { result <- p.Swap(t.Context()) }()
		f.waitFor("the ALTER to wait", "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND STATE LIKE 'Waiting for table metadata lock%'", "1")
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-result; !errors.Is(err, ErrDisagree) {
			t.Errorf("expected ErrDisagree, met %v", err)
		}
		f.phase(p, PhasePrepared)
		if got := f.one("SELECT CONCAT('[', v, ']') FROM t WHERE id = 77"); got != "[]" {
			t.Errorf("the unmapped value became %s", got)
		}
		f.must(p.Rollback)
	})
}

// waitFor polls until the query yields the value.
func (f *fixture) waitFor(what, query, want string) {
	f.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for f.one(query) != want {
		select {
		case <-tick.C:
		case <-deadline.C:
			f.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestBoolsLocked: two runners never work on one table; the lock dies with its
// connection.
func TestBoolsLocked(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		orderTable(f, 10)
		spec := BoolSpec{Table: "t", LockWait: -1}
		p := f.plan(spec)
		f.must(p.Prepare)
		inside, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			done <- p.Backfill(t.Context(), BackfillOptions{BatchSize: 3, Progress: func(s BackfillProgress) {
				if s.Batches == 1 {
					close(inside)
					<-goOn
				}
			}})
		}()
		<-inside
		other := f.plan(spec)
		for name, step := range map[string]func(context.Context) error{"Backfill": fill(other), "Swap": other.Swap, "Rollback": other.Rollback} {
			if err := step(t.Context()); !errors.Is(err, ErrLocked) {
				t.Errorf("%s beside another runner: expected ErrLocked, met %v", name, err)
			}
		}
		close(goOn)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		f.must(other.Swap, p.Rollback)
	})
}

// TestBoolsBusy: a transaction that keeps the metadata lock makes the swap give
// up, again and again, instead of letting the writers queue behind it.
func TestBoolsBusy(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		orderTable(f, 10)
		p := f.plan(BoolSpec{Table: "t", MaxBlock: 50 * time.Millisecond, Patience: time.Second})
		f.must(p.Prepare, fill(p))
		pool, err := f.db.DB()
		if err != nil {
			t.Fatal(err)
		}
		tx, err := pool.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.Exec("UPDATE t SET z = 1 WHERE id = 9223372036854775808"); err != nil {
			t.Fatal(err)
		}
		err = p.Swap(t.Context())
		partial, ok := errors.AsType[*PartialError](err)
		if !ok || !errors.Is(err, ErrBusy) || partial.Step != "Swap" || !strings.Contains(partial.Failed, "CHANGE COLUMN") {
			t.Errorf("expected a *PartialError of Swap with ErrBusy, met %v", err)
		}
		// The writer was never shut out: it writes on inside its transaction, and
		// another one outside of it.
		if _, err := tx.Exec("UPDATE t SET z = 2 WHERE id = 9223372036854775808"); err != nil {
			t.Error(err)
		}
		f.exec("INSERT INTO t (id, v) VALUES (5, 'Y')")
		f.phase(p, PhasePrepared)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		f.must(p.Swap, p.Rollback)
	})
}

// TestBoolsCancel: a cancelled backfill keeps its checkpoint, and the next one
// goes on there, in another plan.
func TestBoolsCancel(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		orderTable(f, 100)
		p := f.plan(BoolSpec{Table: "t"})
		f.must(p.Prepare)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := p.Backfill(ctx, BackfillOptions{BatchSize: 10, Progress: func(s BackfillProgress) {
			if s.Batches == 3 {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("expected the backfill to be cancelled, met %v", err)
		}
		var lags int
		var rows, changed int64
		again := f.plan(BoolSpec{Table: "t"})
		if !again.Resumed {
			t.Error("expected the plan to be resumed")
		}
		err = again.Backfill(t.Context(), BackfillOptions{BatchSize: 10, Pause: time.Microsecond,
			ReplicaLag: func(context.Context) (time.Duration, error) {
				if lags++; lags%2 == 1 {
					return 2 * time.Second, nil // over MaxLag: asked again
				}
				return 0, nil
			},
			Progress: func(s BackfillProgress) { rows, changed = s.Rows, s.Changed }})
		if err != nil {
			t.Fatal(err)
		}
		if rows != 70 || changed != 70 {
			t.Errorf("expected to look at the 70 rows after the checkpoint, met %d, changed %d", rows, changed)
		}
		if lags < 14 {
			t.Errorf("expected the replicas to be asked twice before each of 7 batches, met %d", lags)
		}
		stuck := errors.New("no replica answers")
		f.exec("UPDATE gormflake_bool_migrations SET last_key = NULL")
		if err := again.Backfill(t.Context(), BackfillOptions{ReplicaLag: func(context.Context) (time.Duration, error) { return 0, stuck }}); !errors.Is(err, stuck) {
			t.Errorf("expected the hook's error, met %v", err)
		}
		f.must(again.Swap, again.Rollback)
	})
}

// TestBoolsPlanChanged: what was begun is finished by its own plan only.
func TestBoolsPlanChanged(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		f.exec("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v enum('N','Y'), w enum('N','Y') NOT NULL)")
		spec := BoolSpec{Table: "t", Columns: []string{"v"}}
		p := f.plan(spec, MapNull("v", false))
		late := f.plan(BoolSpec{Table: "t", Columns: []string{"v", "w"}})
		f.must(p.Prepare)
		if err := late.Prepare(t.Context()); !errors.Is(err, ErrPlanChanged) {
			t.Errorf("expected ErrPlanChanged from a plan made before, met %v", err)
		}
		if _, err := PlanBools(t.Context(), f.db, spec); !errors.Is(err, ErrPlanChanged) {
			t.Errorf("expected ErrPlanChanged without the override, met %v", err)
		}
		f.must(p.Rollback)
		f.exec("ALTER TABLE t ADD y int")
		if err := p.Prepare(t.Context()); !errors.Is(err, ErrOutOfOrder) {
			t.Errorf("expected ErrOutOfOrder after somebody altered the table, met %v", err)
		}
	})
}

// TestBoolsOneConnection: a pool of one connection has none left for the watcher,
// and the steps work all the same.
func TestBoolsOneConnection(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		pool, err := f.db.DB()
		if err != nil {
			t.Fatal(err)
		}
		pool.SetMaxOpenConns(1)
		orderTable(f, 10)
		p := f.plan(BoolSpec{Table: "t"})
		f.must(p.Prepare, fill(p), p.Swap, p.Cleanup)
	})
}

// TestBoolsPlugins: the steps go past the codec and past prepared statements.
func TestBoolsPlugins(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		orderTable(f, 10)
		f.db = f.srv.OpenDSN(t, f.dsn, &gorm.Config{PrepareStmt: true, Logger: logger.Discard})
		if err := f.db.Use(LegacyBools().Logger(slog.New(slog.DiscardHandler))); err != nil {
			t.Fatal(err)
		}
		p := f.plan(BoolSpec{Table: "t"})
		f.must(p.Prepare, fill(p), p.Swap, verified(p), p.Cleanup)
	})
}

func TestParseCreate(t *testing.T) {
	c := parseCreate("CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `a``b` enum('x,y','`v`') DEFAULT NULL COMMENT 'see `v`',\n  `v` char(1) NOT NULL,\n  PRIMARY KEY (`id`),\n" +
		"  KEY `e` ((`v` = 'Y')),\n  CONSTRAINT `away` FOREIGN KEY (`id`) REFERENCES `o` (`v`),\n  CONSTRAINT `own` FOREIGN KEY (`v`) REFERENCES `o` (`w`)\n" +
		") ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8\n/*!50100 PARTITION BY KEY (v) */")
	if got := c.columns["a`b"]; got != "enum('x,y','`v`') DEFAULT NULL COMMENT 'see `v`'" {
		t.Errorf("a`b: %s", got)
	}
	var got []string
	for _, o := range c.mentionsOf("v") {
		got = append(got, o.Code+" "+o.Name)
	}
	if want := "generated e foreign-key own partition v"; join(got) != want {
		t.Errorf("expected %q, met %q", want, join(got))
	}
	if strings.Contains(c.comparable(), "AUTO_INCREMENT") || !strings.Contains(c.comparable(), "CHARSET=utf8") {
		t.Errorf("comparable: %s", c.comparable())
	}
}

// TestBoolsScript: what is to be reviewed names every statement, and never a
// direct MODIFY.
func TestBoolsScript(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		orderTable(f, 10)
		p := f.plan(BoolSpec{Table: "t"})
		script := p.SQL()
		want := "algorithm INPLACE"
		if f.kind == servers.MariaDB {
			want = "algorithm INSTANT"
		}
		for _, part := range []string{want, "LOCK=NONE", "CHANGE COLUMN `v` `v__gf`", "CREATE TRIGGER `t__gf_update`", "-- Rollback", "-- Cleanup", "ADD INDEX `by_v__gf`", "locks: ", "SELECT ... = 'Y'"} {
			if !strings.Contains(script, part) {
				t.Errorf("expected the script to contain %q, met\n%s", part, script)
			}
		}
		if strings.Contains(strings.ToUpper(script), "MODIFY") {
			t.Errorf("the script contains a MODIFY:\n%s", script)
		}
		var done []string
		p.hook = func(statement string) { done = append(done, statement) }
		f.must(p.Prepare, fill(p), p.Swap, p.Cleanup)
		for _, s := range p.Statements() {
			if s.Step != "Rollback" && s.Step != "Verify" && s.Step != "Backfill" && !slices.Contains(done, s.SQL) {
				t.Errorf("the plan lists %q, which no step ran:\n%s", s.SQL, strings.Join(done, "\n"))
			}
		}
		for _, statement := range done {
			if strings.Contains(strings.ToUpper(statement), "MODIFY") {
				t.Errorf("a MODIFY was run: %s", statement)
			}
		}
	})
}

func TestInspectBools(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		f.exec("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v enum('N','Y'), b bit(1), c char(1), n tinyint, KEY (v))")
		f.exec("INSERT IGNORE INTO t VALUES (1, 'N', 1, 'y', 2), (2, 'Y', 0, 'Y', 1), (3, '', NULL, '?', -1), (4, NULL, 0, '', 0)")
		r, err := InspectBools(t.Context(), f.db, "t", "v", "b", "c", "n")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range r.Columns {
			for _, v := range c.Values {
				got = append(got, fmt.Sprintf("%s:%s:%s:%d", c.Name, v.Text, v.Meaning, v.Rows))
			}
		}
		want := strings.Fields("b:0:false:2 b:1:true:1 b::null:1 c:?:unknown:1 c:Y:true:1 c::empty:1 c:y:variant:1 n:-1:unknown:1 n:0:false:1 n:1:true:1 n:2:unknown:1 v:N:false:1 v:Y:true:1 v::empty:1 v::null:1")
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("expected %s\nmet      %s", want, got)
		}
		if len(r.Objects) != 1 || r.Objects[0].Code != "index" || !r.Strict || r.Key.Name != "id" {
			t.Errorf("expected one index, strict mode and the key id, met %+v, %t, %q", r.Objects, r.Strict, r.Key.Name)
		}
		if all, err := InspectBools(t.Context(), f.db, "t"); err != nil || len(all.Columns) != 2 {
			t.Errorf("expected v and b to speak for themselves, met %v, %v", all, err)
		}
	})
}
