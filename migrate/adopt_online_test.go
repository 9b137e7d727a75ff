package migrate_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/migrate"
)

func shopDB(t *testing.T) *gorm.DB {
	t.Helper()
	srv := servers.Shared(t, servers.Postgres)
	db := unprepared(t, srv, srv.Database(t))
	makeShop(t, db)
	return db
}

// strongLocks are those that keep a writer waiting, for rows or to queue behind.
const strongLocks = `SELECT string_agg(DISTINCT c.relname || ' ' || l.mode, ', ') FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
	WHERE l.pid = pg_backend_pid() AND c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
	AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`

// rowsTouched counts every row that the transaction has read, written or moved,
// by the server's own statistics, and the files that it wrote anew.
const rowsTouched = `SELECT SUM(pg_stat_get_xact_tuples_returned(oid) + pg_stat_get_xact_tuples_fetched(oid) + pg_stat_get_xact_tuples_inserted(oid)
		+ pg_stat_get_xact_tuples_updated(oid) + pg_stat_get_xact_tuples_deleted(oid))
	FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace`

const files = `SELECT string_agg(relname || ' ' || pg_relation_filenode(oid), ', ' ORDER BY oid) FROM pg_class
	WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND relname IN ('orders', 'payments', 'lines')`

// adoptTouches applies a plan and tells, for each step, what its transactions
// touched while they held a lock that keeps writers waiting.
func adoptTouches(t *testing.T, db *gorm.DB, apply func(*migrate.AdoptPlan) error, p *migrate.AdoptPlan) (locked map[string]string, touched int64, rewritten bool) {
	t.Helper()
	locked = map[string]string{}
	var before string
	if err := db.Raw(files).Row().Scan(&before); err != nil {
		t.Fatal(err)
	}
	var filled int64
	var began int64 // the server counts what it hasn't reported yet, from before, too
	migrate.SetAdoptInside(p, func(s migrate.AdoptStatement, tx *sql.Tx, done bool) error {
		if !done {
			return tx.QueryRow(rowsTouched).Scan(&began)
		}
		var locks sql.NullString
		var rows int64
		if err := errors.Join(tx.QueryRow(strongLocks).Scan(&locks), tx.QueryRow(rowsTouched).Scan(&rows)); err != nil {
			return err
		}
		rows -= began
		if locks.Valid {
			locked[s.Step] = locks.String
			touched += rows
		} else if s.Step == "backfill" {
			filled += rows
		}
		return nil
	})
	migrate.SetAdoptHook(p, func(s migrate.AdoptStatement) error {
		if migrate.RunsAlone(s) && !strings.Contains(s.SQL[0], " CONCURRENTLY ") {
			t.Errorf("expected nothing outside a transaction that blocks writers, met %v", s.SQL)
		}
		return nil
	})
	if err := apply(p); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(p.Statements, func(s migrate.AdoptStatement) bool { return s.Step == "backfill" }) && filled == 0 {
		t.Error("the server counted no row of the backfill, so its statistics prove nothing")
	}
	var after string
	if err := db.Raw(files).Row().Scan(&after); err != nil {
		t.Fatal(err)
	}
	return locked, touched, before != after
}

// TestAdoptOnlineHoldsNoLongLock asks the server, before each transaction of an
// online widening is committed, which locks it holds and how many rows it has
// read: one that makes others wait has read none, however large the table. The
// same questions find the rewrite out.
func TestAdoptOnlineHoldsNoLongLock(t *testing.T) {
	for _, c := range []struct {
		way   migrate.Widening
		steps []string
	}{
		{migrate.WidenOnline, []string{"bind", "prepare", "swap"}},
		{migrate.WidenRewrite, []string{"widen"}},
	} {
		t.Run(string(c.way), func(t *testing.T) {
			db := shopDB(t)
			spec := shopSpec
			spec.Widening = c.way
			p := adoptPlan(t, db, spec)
			locked, touched, rewritten := adoptTouches(t, db, func(p *migrate.AdoptPlan) error { return p.Apply(t.Context()) }, p)
			steps := []string{}
			for step := range locked {
				steps = append(steps, step)
			}
			if slices.Sort(steps); !slices.Equal(steps, c.steps) {
				t.Errorf("expected locks in the steps %v, met %v", c.steps, locked)
			}
			if online := c.way == migrate.WidenOnline; (touched == 0) != online || rewritten == online {
				t.Errorf("expected a lock over rows or a new file in the rewrite only, met %d rows, %v", touched, rewritten)
			}
			if c.way == migrate.WidenOnline { // and the way back
				locked, touched, rewritten = adoptTouches(t, db, func(p *migrate.AdoptPlan) error { return p.Rollback(t.Context()) }, adoptPlan(t, db, spec))
				if touched != 0 || rewritten || locked["swap"] == "" {
					t.Errorf("expected to roll back without a row under a lock, met %d, %v, %v", touched, rewritten, locked)
				}
			}
		})
	}
}

// TestAdoptOnlineLetsOthersWork stops every statement that takes a time which
// grows with the table in its middle, by a lock of another transaction, and then
// reads and writes the table. Each must be done before the statement may go on.
func TestAdoptOnlineLetsOthersWork(t *testing.T) {
	db := shopDB(t)
	spec := shopSpec
	spec.MaxBlock = time.Minute // so that a batch waits for its row
	p := adoptPlan(t, db, spec)
	var others sync.WaitGroup
	var mu sync.Mutex
	met := map[string]int{}
	block := func(s migrate.AdoptStatement) error {
		tx := db.Begin()
		lock := "LOCK TABLE " + s.Table + " IN SHARE UPDATE EXCLUSIVE MODE"
		if s.Step == "backfill" {
			lock = "SELECT 1 FROM " + s.Table + " WHERE ctid = (SELECT min(ctid) FROM " + s.Table + ") FOR UPDATE"
		}
		if err := errors.Join(tx.Error, tx.Exec(lock).Error); err != nil {
			return err
		}
		others.Go(func() {
			defer tx.Rollback()
			if err := workBehind(t.Context(), db, s.Table); err != nil {
				t.Errorf("%s of %s: %v", s.Step, s.Table, err)
				return
			}
			mu.Lock()
			met[s.Step]++
			mu.Unlock()
		})
		return nil
	}
	migrate.SetAdoptHook(p, func(s migrate.AdoptStatement) error {
		others.Wait() // the one before
		if slices.Contains([]string{"backfill", "validate", "index"}, s.Step) {
			return block(s)
		}
		return nil
	})
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	others.Wait()
	if want := map[string]int{"backfill": 3, "validate": 8, "index": 3}; fmt.Sprint(met) != fmt.Sprint(want) {
		t.Errorf("expected to have worked beside %v, met %v", want, met)
	}
	if _, err := p.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// workBehind waits until a statement waits for a lock, and then reads and writes
// the table; it must still wait afterwards.
func workBehind(ctx context.Context, db *gorm.DB, table string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	waits := func() (n int, err error) {
		err = db.WithContext(ctx).Raw("SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n).Error
		return n, err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if n, err := waits(); err != nil || n > 0 {
			if err != nil {
				return err
			}
			break
		}
		<-tick.C
	}
	write := map[string]string{
		"orders":   "INSERT INTO orders (owner, name) VALUES (0, 'beside')",
		"payments": "INSERT INTO payments (owner, order_id, n) SELECT 0, id, 0 FROM orders LIMIT 1",
		"lines":    "INSERT INTO lines (owner, order_id, line) SELECT 0, id, (SELECT MAX(line) + 1 FROM lines) FROM orders LIMIT 1",
	}[table]
	for _, statement := range []string{
		"SELECT COUNT(*) FROM " + table,
		write,
		"UPDATE " + table + " SET owner = owner WHERE ctid = (SELECT max(ctid) FROM " + table + " WHERE owner = 1)",
	} {
		if err := db.WithContext(ctx).Exec(statement).Error; err != nil && !strings.Contains(err.Error(), "cached plan") {
			return fmt.Errorf("expected to go on, met %w (in: %s)", err, statement)
		}
	}
	if n, err := waits(); err != nil || n == 0 {
		return fmt.Errorf("expected the statement to wait still, met %d, %w", n, err)
	}
	return nil
}

// TestAdoptOnlineCarriesAlong has one of everything that a column may have or be
// part of, and compares the schema before, after, and after the way back.
func TestAdoptOnlineCarriesAlong(t *testing.T) {
	srv := servers.Shared(t, servers.Postgres)
	db := unprepared(t, srv, srv.Database(t))
	adoptExec(t, db,
		`CREATE TABLE "Parents" ("Id" integer GENERATED ALWAYS AS IDENTITY (START WITH 100 INCREMENT BY 5) PRIMARY KEY, "Up" integer DEFAULT NULL REFERENCES "Parents" ("Id") NOT DEFERRABLE, code int)`,
		`CREATE TABLE elsewhere (id int PRIMARY KEY)`,
		`CREATE TABLE children ("Parent" integer NOT NULL DEFAULT 100 REFERENCES "Parents" ("Id") ON UPDATE CASCADE ON DELETE SET DEFAULT DEFERRABLE INITIALLY DEFERRED,
			other text COLLATE "C", "Id" int, CONSTRAINT "both ways" UNIQUE ("Parent", other) INCLUDE ("Id"))`,
		`CREATE INDEX "by ""parent""" ON children USING btree ("Parent" DESC NULLS LAST, lower(other)) WHERE other <> '"Parent"'`,
		`CREATE INDEX children_hash ON children USING hash ("Parent") WITH (fillfactor = 80)`,
		`ALTER TABLE "Parents" CLUSTER ON "Parents_pkey"`,
		`ALTER TABLE children ALTER COLUMN "Parent" SET STATISTICS 500`,
		`COMMENT ON COLUMN "Parents"."Id" IS 'the key''s comment'`,
		`INSERT INTO "Parents" (code) SELECT i FROM generate_series(1, 7) i`,
		`INSERT INTO children ("Parent", other, "Id") SELECT "Id", 'x', 1 FROM "Parents"`,
		`ALTER TABLE children ADD CONSTRAINT "old sins" FOREIGN KEY ("Parent") REFERENCES elsewhere (id) NOT VALID`)
	before := pgSchema(t, db)
	spec := migrate.AdoptSpec{Table: "Parents", Widening: migrate.WidenOnline, KeepNumbering: true, Backfill: migrate.BackfillOptions{BatchSize: 3}}
	p, err := migrate.Adopt(t.Context(), db, spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("Parents.Id integer", "Parents.Id bigint", "Parents.Up integer", "Parents.Up bigint", "children.Parent integer", "children.Parent bigint").Replace(before)
	if after := pgSchema(t, db); after != want {
		t.Errorf("expected all to be there but for the types:\nwithout %q\nwith %q", without(strings.Split(want, "\n"), strings.Split(after, "\n")), without(strings.Split(after, "\n"), strings.Split(want, "\n")))
	}
	var id int64
	if err := db.Raw(`INSERT INTO "Parents" (code) VALUES (8) RETURNING "Id"`).Row().Scan(&id); err != nil || id != 135 {
		t.Errorf("expected the identity to go on with 135, met %d, %v", id, err)
	}
	if err := p.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := pgSchema(t, db); after != before {
		t.Errorf("expected the original schema:\nwithout %q\nwith %q", without(strings.Split(before, "\n"), strings.Split(after, "\n")), without(strings.Split(after, "\n"), strings.Split(before, "\n")))
	}
	if err := db.Raw(`INSERT INTO "Parents" (code) VALUES (9) RETURNING "Id"`).Row().Scan(&id); err != nil || id != 140 {
		t.Errorf("expected the identity to go on with 140, met %d, %v", id, err)
	}
}

// TestAdoptOnlinePassesTriggersBy has a trigger that notes when a row was changed,
// which a backfill is no reason for.
func TestAdoptOnlinePassesTriggersBy(t *testing.T) {
	srv := servers.Shared(t, servers.Postgres)
	db := unprepared(t, srv, srv.Database(t))
	adoptExec(t, db,
		"CREATE TABLE t (id serial PRIMARY KEY, v int, changes int NOT NULL DEFAULT 0)",
		"CREATE FUNCTION changed() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.changes := OLD.changes + 1; RETURN NEW; END'",
		"CREATE TRIGGER changed BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION changed()",
		"INSERT INTO t (v) SELECT 1 FROM generate_series(1, 10)")
	p := adoptPlan(t, db, migrate.AdoptSpec{Table: "t", Widening: migrate.WidenOnline})
	if !strings.Contains(p.SQL(), "session_replication_role") {
		t.Errorf("expected the plan to say that the trigger is passed by, met\n%s", p.SQL())
	}
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	adoptExec(t, db, "UPDATE t SET v = 2 WHERE id = 1")
	var changes int
	if err := db.Raw("SELECT SUM(changes) FROM t").Row().Scan(&changes); err != nil || changes != 1 {
		t.Errorf("expected one change, met %d, %v", changes, err)
	}
}

// TestAdoptWidensBySize goes over to the online way once any table is large.
func TestAdoptWidensBySize(t *testing.T) {
	srv := servers.Shared(t, servers.Postgres)
	db := unprepared(t, srv, srv.Database(t))
	adoptExec(t, db, "CREATE TABLE t (id serial PRIMARY KEY)", "CREATE TABLE c (t_id bigint REFERENCES t (id), v text)", "ALTER TABLE c ALTER COLUMN v SET STORAGE EXTERNAL")
	spec := migrate.AdoptSpec{Table: "t"}
	if p := adoptPlan(t, db, spec); p.Report.Widening != migrate.WidenRewrite || adoptSteps(p) != "widen t, unnumber t" || !strings.Contains(p.SQL(), "no table has more than 16 MiB") {
		t.Errorf("expected a rewrite of a small table, met\n%s", p.SQL())
	}
	adoptExec(t, db, "INSERT INTO c (v) SELECT repeat('x', 1 << 20) FROM generate_series(1, 17)")
	if p := adoptPlan(t, db, spec); p.Report.Widening != migrate.WidenOnline || !strings.HasPrefix(adoptSteps(p), "prepare t, backfill t, validate t, index t, bind c, validate c, release c, swap t") {
		t.Errorf("expected the online way, met\n%s", p.SQL())
	}
	spec.Widening = migrate.WidenRewrite
	if p := adoptPlan(t, db, spec); p.Report.Widening != migrate.WidenRewrite {
		t.Errorf("expected the way that was asked for, met\n%s", p.SQL())
	}
	spec.Widening = "slowly"
	if _, err := migrate.PlanAdopt(t.Context(), db, spec); err == nil || !strings.Contains(err.Error(), `"slowly"`) {
		t.Errorf("expected an unknown way to be an error, met %v", err)
	}
}

func TestAdoptOnlineRefuses(t *testing.T) {
	const function = "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
	for _, c := range []struct {
		name, code string
		tables     []string
	}{
		{"view", "view", []string{"CREATE TABLE t (id serial PRIMARY KEY)", "CREATE VIEW v AS SELECT id FROM t"}},
		{"generated column", "dependent", []string{"CREATE TABLE t (id serial PRIMARY KEY, g int GENERATED ALWAYS AS (id + 1) STORED)"}},
		{"check", "dependent", []string{"CREATE TABLE t (id serial PRIMARY KEY CHECK (id > 0))"}},
		{"policy", "dependent", []string{"CREATE TABLE t (id serial PRIMARY KEY)", "CREATE POLICY p ON t USING (id > 1)"}},
		{"statistics", "dependent", []string{"CREATE TABLE t (id serial PRIMARY KEY, v int)", "CREATE STATISTICS s ON id, v FROM t"}},
		{"a trigger of the column", "dependent", []string{"CREATE TABLE t (id serial PRIMARY KEY)", function, "CREATE TRIGGER g AFTER UPDATE OF id ON t FOR EACH ROW EXECUTE FUNCTION f()"}},
		{"a later trigger", "trigger-order", []string{"CREATE TABLE t (id serial PRIMARY KEY)", function, "CREATE TRIGGER zzz BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()"}},
		{"a trigger that always fires", "triggers", []string{"CREATE TABLE t (id serial PRIMARY KEY)", function, "CREATE TRIGGER g AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f()", "ALTER TABLE t ENABLE ALWAYS TRIGGER g"}},
		{"rule", "rule", []string{"CREATE TABLE t (id serial PRIMARY KEY)", "CREATE RULE r AS ON DELETE TO t DO INSTEAD NOTHING"}},
		{"row security", "row-security", []string{"CREATE TABLE t (id serial PRIMARY KEY)", "ALTER TABLE t ENABLE ROW LEVEL SECURITY", "ALTER TABLE t FORCE ROW LEVEL SECURITY"}},
		{"publication", "publication", []string{"CREATE TABLE t (id serial PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t"}},
		{"expression", "index", []string{"CREATE TABLE t (id serial PRIMARY KEY)", "CREATE INDEX x ON t ((id + 1))"}},
		{"predicate", "index", []string{"CREATE TABLE t (id serial PRIMARY KEY, v int)", "CREATE INDEX x ON t (v) WHERE id > 5"}},
		{"deferrable", "index", []string{"CREATE TABLE t (id serial PRIMARY KEY DEFERRABLE)"}},
		{"exclusion", "index", []string{"CREATE TABLE t (id serial PRIMARY KEY, EXCLUDE (id WITH =))"}},
		{"operator class", "index", []string{"CREATE TABLE t (id serial PRIMARY KEY)", "CREATE INDEX x ON t USING brin (id int4_bloom_ops)"}},
		{"replica identity", "index", []string{"CREATE TABLE t (id serial PRIMARY KEY)", "ALTER TABLE t REPLICA IDENTITY USING INDEX t_pkey"}},
		{"column privileges", "privileges", []string{"CREATE TABLE t (id serial PRIMARY KEY)", "GRANT SELECT (id) ON t TO PUBLIC"}},
		{"distinct values", "privileges", []string{"CREATE TABLE t (id serial PRIMARY KEY)", "ALTER TABLE t ALTER COLUMN id SET (n_distinct = 5)"}},
		{"long name", "name", []string{"CREATE TABLE t (" + strings.Repeat("i", 60) + " serial PRIMARY KEY)"}},
		{"a column of the second one's name", "name", []string{"CREATE TABLE t (id serial PRIMARY KEY, id__gf bigint)"}},
		{"an index of the twin's name", "name", []string{"CREATE TABLE t (id serial PRIMARY KEY, v int)", "CREATE INDEX t_pkey__gf ON t (v)"}},
		{"a foreign key of two columns", "foreign-key", []string{"CREATE TABLE p (a int, b int, PRIMARY KEY (a, b))", "CREATE TABLE t (id serial PRIMARY KEY, b int, FOREIGN KEY (id, b) REFERENCES p (a, b))"}},
		{"partitions", "partition", []string{"CREATE TABLE t (id serial PRIMARY KEY)", "CREATE TABLE c (t_id int) PARTITION BY RANGE (t_id)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := servers.Shared(t, servers.Postgres)
			db := unprepared(t, srv, srv.Database(t))
			adoptExec(t, db, c.tables...)
			before := pgSchema(t, db)
			spec := migrate.AdoptSpec{Table: "t", Widening: migrate.WidenOnline}
			if c.code == "partition" {
				spec.References = []migrate.Reference{{Table: "c", Column: "t_id"}}
			}
			p, err := migrate.Adopt(t.Context(), db, spec)
			refused, ok := errors.AsType[*migrate.RefusedError](err)
			if !ok || len(refused.Refusals) != 1 || refused.Refusals[0].Code != c.code || !strings.Contains(p.SQL(), "refused: "+c.code) {
				t.Errorf("expected the refusal %s, met %v", c.code, err)
			}
			if after := pgSchema(t, db); after != before {
				t.Errorf("a refused plan changed\n%s\nto\n%s", before, after)
			}
		})
	}
}

// TestAdoptOnlineNeedsNoSuperuser widens as the tables' owner, who may do all but
// pass triggers by.
func TestAdoptOnlineNeedsNoSuperuser(t *testing.T) {
	srv := servers.Shared(t, servers.Postgres)
	dsn := srv.Database(t)
	db := unprepared(t, srv, dsn)
	var role string
	if err := db.Raw("SELECT 'clerk_of_' || current_database()").Row().Scan(&role); err != nil {
		t.Fatal(err)
	}
	makeShop(t, db)
	adoptExec(t, db, "CREATE ROLE "+role, "GRANT CREATE ON SCHEMA public TO "+role,
		"ALTER TABLE orders OWNER TO "+role, "ALTER TABLE payments OWNER TO "+role, "ALTER TABLE lines OWNER TO "+role)
	t.Cleanup(func() { adoptExec(t, db, "DROP OWNED BY "+role, "DROP ROLE "+role) })
	clerk := srv.OpenDSN(t, dsn, nil)
	pool, err := clerk.DB()
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxOpenConns(1)
	adoptExec(t, clerk, "SET ROLE "+role)
	adoptExec(t, db,
		"CREATE FUNCTION changed() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
		"CREATE TRIGGER changed BEFORE UPDATE ON payments FOR EACH ROW EXECUTE FUNCTION changed()")
	p := adoptPlan(t, clerk, shopSpec)
	if len(p.Refusals) != 1 || p.Refusals[0].Code != "triggers" || p.Refusals[0].Name != "changed" {
		t.Errorf("expected the trigger to be refused, met %v", p.Refusals)
	}
	adoptExec(t, db, "DROP TRIGGER changed ON payments")
	before := pgSchema(t, db)
	if p, err = migrate.Adopt(t.Context(), clerk, shopSpec); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := pgSchema(t, db); after != before {
		t.Errorf("expected the original tables, met\n%s", after)
	}
}

// TestAdoptOnlineKeepsForeignKeyActions lets foreign keys write, before each
// statement of a widening and of the way back: what they write to the one column
// has to reach the other.
func TestAdoptOnlineKeepsForeignKeyActions(t *testing.T) {
	srv := servers.Shared(t, servers.Postgres)
	db := unprepared(t, srv, srv.Database(t))
	adoptExec(t, db,
		"CREATE TABLE p (id serial PRIMARY KEY)",
		`CREATE TABLE c (id serial PRIMARY KEY, a int REFERENCES p ON DELETE SET NULL ON UPDATE CASCADE, b int DEFAULT NULL REFERENCES p ON DELETE SET DEFAULT ON UPDATE CASCADE,
			d int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE)`)
	spec := migrate.AdoptSpec{Table: "p", Widening: migrate.WidenOnline, KeepNumbering: true}
	p := adoptPlan(t, db, spec)
	steps := 0
	migrate.SetAdoptHook(p, func(s migrate.AdoptStatement) error {
		steps++
		var gone, moved, kept, followed, dropped int64
		for _, id := range []*int64{&gone, &moved} {
			if err := db.Raw("INSERT INTO p DEFAULT VALUES RETURNING id").Row().Scan(id); err != nil {
				return err
			}
		}
		for _, row := range []struct {
			id      *int64
			a, b, d any
		}{{&kept, gone, gone, nil}, {&followed, moved, moved, moved}, {&dropped, nil, nil, gone}} {
			if err := db.Raw("INSERT INTO c (a, b, d) VALUES (?, ?, ?) RETURNING id", row.a, row.b, row.d).Row().Scan(row.id); err != nil {
				return err
			}
		}
		if err := errors.Join(db.Exec("DELETE FROM p WHERE id = ?", gone).Error, db.Exec("UPDATE p SET id = ? WHERE id = ?", moved+1000000, moved).Error); err != nil {
			return err
		}
		var met string
		if err := db.Raw("SELECT string_agg(id || ' ' || COALESCE(a, 0) || ' ' || COALESCE(b, 0) || ' ' || COALESCE(d, 0), ', ' ORDER BY id) FROM c WHERE id IN (?, ?, ?)", kept, followed, dropped).Row().Scan(&met); err != nil {
			return err
		}
		if want := fmt.Sprintf("%d 0 0 0, %d %d %d %d", kept, followed, moved+1000000, moved+1000000, moved+1000000); met != want {
			t.Errorf("before %s %s: expected %s, met %s", s.Step, s.Table, want, met)
		}
		return nil
	})
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if steps < 2*14 {
		t.Errorf("expected at least 28 statements, met %d", steps)
	}
}
