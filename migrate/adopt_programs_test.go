package migrate_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/migrate"
)

// shopTables are what an online widening meets: a key, one that refers to its own
// table, references with and without a foreign key, one that is a part of a key,
// and indexes over several columns.
var shopTables = []string{
	`CREATE TABLE orders (id serial PRIMARY KEY, owner int NOT NULL, name text NOT NULL, above integer NULL REFERENCES orders (id) ON DELETE SET NULL)`,
	`CREATE TABLE payments (id serial PRIMARY KEY, owner int NOT NULL, order_id integer NOT NULL REFERENCES orders (id) ON DELETE CASCADE, soft integer NULL, n int NOT NULL)`,
	`CREATE INDEX payments_order ON payments (order_id, n DESC) WHERE n >= 0`,
	`CREATE TABLE lines (order_id integer NOT NULL REFERENCES orders (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, line int NOT NULL, owner int NOT NULL, PRIMARY KEY (order_id, line))`,
}

var shopSpec = migrate.AdoptSpec{
	Table:         "orders",
	References:    []migrate.Reference{{Table: "payments", Column: "soft"}},
	Widening:      migrate.WidenOnline,
	KeepNumbering: true,
	Patience:      30 * time.Second,
	Backfill:      migrate.BackfillOptions{BatchSize: 100},
}

const (
	shopOwners = 4 // programs, each with rows of its own: the even ones are old, the odd ones new
	shopRows   = 240
)

// makeShop makes the tables anew, with rows for every owner.
func makeShop(t *testing.T, db *gorm.DB) {
	t.Helper()
	adoptExec(t, db, "DROP TABLE IF EXISTS lines, payments, orders, gormflake_adoptions")
	adoptExec(t, db, shopTables...)
	adoptExec(t, db,
		fmt.Sprintf("INSERT INTO orders (owner, name, above) SELECT i %% %d, 'o' || i, NULL FROM generate_series(1, %d) i", shopOwners, shopRows),
		fmt.Sprintf("UPDATE orders SET above = id - %d WHERE id > %d AND id %% 3 = 0", shopOwners, shopOwners),
		"INSERT INTO payments (owner, order_id, soft, n) SELECT owner, id, CASE WHEN id % 5 > 0 THEN id END, id FROM orders",
		"INSERT INTO lines (order_id, line, owner) SELECT id, 1, owner FROM orders")
}

type shopOrder struct {
	ID    gormflake.ID `gorm:"primaryKey"`
	Owner int
	Name  string
	Above *int64
}

func (shopOrder) TableName() string { return "orders" }

type shopPayment struct {
	ID      int64 `gorm:"primaryKey;autoIncrement"`
	Owner   int
	OrderID int64
	Soft    *int64
	N       int
}

func (shopPayment) TableName() string { return "payments" }

// shopProgram is a writer and what the server has acknowledged to it.
type shopProgram struct {
	owner    int
	fresh    bool // it brings keys of its own
	exec     bool // it prepares no statement
	db       *gorm.DB
	orders   map[int64]shopOrder
	payments map[int64]shopPayment
	lines    map[int64]int // by order: how many
	err      error
}

type shopPrograms struct {
	t       *testing.T
	db      *gorm.DB
	cancel  context.CancelFunc
	done    sync.WaitGroup
	each    []*shopProgram
	writes  atomic.Int64
	refused atomic.Int64 // of new programs, whose keys don't fit into an int
	large   atomic.Int64 // rows with snowflake keys
}

// startShop starts programs that write to the rows of theirs, and waits until each
// has written. Without fresh ones all are old.
func startShop(t *testing.T, srv *servers.Server, db *gorm.DB, dsn string, fresh bool) *shopPrograms {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &shopPrograms{t: t, db: unprepared(t, srv, dsn), cancel: cancel}
	started := make(chan struct{}, shopOwners)
	for owner := range shopOwners {
		w := &shopProgram{owner: owner, fresh: fresh && owner%2 == 1, db: db, orders: map[int64]shopOrder{}, payments: map[int64]shopPayment{}, lines: map[int64]int{}}
		if w.fresh {
			w.db = freshShop(t, srv, dsn, owner)
		}
		if w.exec = owner == 2; w.exec {
			w.db = srv.OpenDSN(t, unpreparedDSN(dsn), nil)
		}
		if err := w.load(p.db); err != nil {
			t.Fatal(err)
		}
		p.each = append(p.each, w)
		p.done.Go(func() { w.err = p.run(ctx, w, started) })
	}
	for range shopOwners {
		<-started
	}
	return p
}

// freshShop is a new program's database, with the plugin. It keeps no connection:
// one that has prepared an INSERT while the column was an int would go on to
// refuse large keys by itself.
func freshShop(t *testing.T, srv *servers.Server, dsn string, owner int) *gorm.DB {
	t.Helper()
	db := unprepared(t, srv, dsn)
	flake := gormflake.New(gormflake.Config{Match: gormflake.MarkedKeys, Store: lease.Memory(), Namespace: fmt.Sprintf("%s-%d", t.Name(), owner)})
	if err := db.Use(flake); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := flake.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return db
}

// load reads the owner's rows.
func (w *shopProgram) load(db *gorm.DB) error {
	var orders []shopOrder
	var payments []shopPayment
	if err := errors.Join(db.Where("owner = ?", w.owner).Find(&orders).Error, db.Where("owner = ?", w.owner).Find(&payments).Error); err != nil {
		return err
	}
	for _, o := range orders {
		w.orders[int64(o.ID)] = o
	}
	for _, o := range payments {
		w.payments[o.ID] = o
	}
	lines, err := shopLines(db, w.owner)
	w.lines = lines
	return err
}

func shopLines(db *gorm.DB, owner int) (map[int64]int, error) {
	var rows []struct {
		OrderID int64
		N       int
	}
	err := db.Raw("SELECT order_id, COUNT(*) AS n FROM lines WHERE owner = ? GROUP BY order_id", owner).Scan(&rows).Error
	all := map[int64]int{}
	for _, r := range rows {
		all[r.OrderID] = r.N
	}
	return all, err
}

// run writes until it is stopped. What may fail is a statement that was prepared
// before the column's type changed, unless the program prepares none, a deadlock, and, before the swap, a key that
// is too large for the column; nothing of it is done then. All else is an error.
func (p *shopPrograms) run(ctx context.Context, w *shopProgram, started chan<- struct{}) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	random := rand.New(rand.NewPCG(uint64(w.owner), uint64(time.Now().UnixNano())))
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := w.write(p, random)
		p.writes.Add(1)
		if n == 0 {
			started <- struct{}{}
		}
		if err == nil {
			continue
		}
		pg, _ := errors.AsType[*pgconn.PgError](err)
		switch {
		case pg != nil && (pg.Code == "40P01" || !w.exec && pg.Code == "0A000" && strings.Contains(pg.Message, "cached plan")):
		case w.fresh && (pg != nil && pg.Code == "22003" || strings.Contains(err.Error(), "maximum value for int4")):
			p.refused.Add(1)
		default:
			return fmt.Errorf("program %d: %w", w.owner, err)
		}
	}
}

// write does one thing, and enters it when the server has acknowledged it.
func (w *shopProgram) write(p *shopPrograms, random *rand.Rand) error {
	ids := slices.Sorted(maps.Keys(w.orders))
	some := ids[random.IntN(len(ids))]
	var maybe *int64
	if random.IntN(3) > 0 {
		other := ids[random.IntN(len(ids))]
		maybe = &other
	}
	switch what := random.IntN(20); {
	case what < 6:
		return w.insertOrder(p, maybe)
	case what < 10:
		payment := shopPayment{Owner: w.owner, OrderID: some, Soft: maybe, N: random.IntN(1000)}
		if err := w.db.Create(&payment).Error; err != nil {
			return err
		}
		w.payments[payment.ID] = payment
	case what < 12:
		if err := w.db.Exec("INSERT INTO lines (order_id, line, owner) VALUES (?, ?, ?)", some, w.lines[some]+1, w.owner).Error; err != nil {
			return err
		}
		w.lines[some]++
	case what < 15:
		order := w.orders[some]
		order.Name, order.Above = fmt.Sprint("n", random.IntN(1000)), maybe
		if err := w.db.Exec("UPDATE orders SET name = ?, above = ? WHERE id = ?", order.Name, order.Above, some).Error; err != nil {
			return err
		}
		w.orders[some] = order
	case what < 19:
		payments := slices.Sorted(maps.Keys(w.payments))
		if len(payments) == 0 {
			return nil
		}
		payment := w.payments[payments[random.IntN(len(payments))]]
		payment.OrderID, payment.Soft = some, maybe
		if err := w.db.Exec("UPDATE payments SET order_id = ?, soft = ? WHERE id = ?", some, maybe, payment.ID).Error; err != nil {
			return err
		}
		w.payments[payment.ID] = payment
	default:
		if len(ids) < 5 {
			return nil
		}
		if err := w.db.Exec("DELETE FROM orders WHERE id = ?", some).Error; err != nil {
			return err
		}
		w.forget(some)
	}
	return nil
}

func (w *shopProgram) insertOrder(p *shopPrograms, above *int64) error {
	order := shopOrder{Owner: w.owner, Name: "new", Above: above}
	if w.fresh {
		if err := w.db.Create(&order).Error; err != nil {
			return err
		}
		p.large.Add(1)
	} else if err := w.db.Raw("INSERT INTO orders (owner, name, above) VALUES (?, ?, ?) RETURNING id", order.Owner, order.Name, order.Above).Row().Scan(&order.ID); err != nil {
		return err
	}
	w.orders[int64(order.ID)] = order
	return nil
}

// forget does what the foreign keys do when an order is deleted.
func (w *shopProgram) forget(id int64) {
	delete(w.orders, id)
	delete(w.lines, id)
	for k, o := range w.orders {
		if o.Above != nil && *o.Above == id {
			o.Above = nil
			w.orders[k] = o
		}
	}
	maps.DeleteFunc(w.payments, func(_ int64, o shopPayment) bool { return o.OrderID == id })
}

// stop ends the programs and compares every row with their ledgers.
func (p *shopPrograms) stop() {
	p.t.Helper()
	p.cancel()
	p.done.Wait()
	rows := 0
	for _, w := range p.each {
		if w.err != nil {
			p.t.Error(w.err)
		}
		now := &shopProgram{owner: w.owner, orders: map[int64]shopOrder{}, payments: map[int64]shopPayment{}}
		if err := now.load(p.db); err != nil {
			p.t.Fatal(err)
		}
		rows += len(now.orders) + len(now.payments) + len(now.lines)
		if a, b := w.text(), now.text(); a != b {
			want, met := strings.Split(a, "\n"), strings.Split(b, "\n")
			p.t.Errorf("program %d: expected %q, met %q instead", w.owner, without(want, met), without(met, want))
		}
	}
	p.t.Logf("%d writes, %d refused as too large before the swap, %d rows with snowflake keys, %d rows compared", p.writes.Load(), p.refused.Load(), p.large.Load(), rows)
}

func (w *shopProgram) text() string {
	value := func(v *int64) any {
		if v == nil {
			return "NULL"
		}
		return *v
	}
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(w.orders)) {
		fmt.Fprintf(&b, "order %d %s %v, %d lines\n", id, w.orders[id].Name, value(w.orders[id].Above), w.lines[id])
	}
	for _, id := range slices.Sorted(maps.Keys(w.payments)) {
		o := w.payments[id]
		fmt.Fprintf(&b, "payment %d of %d, %v, %d\n", id, o.OrderID, value(o.Soft), o.N)
	}
	return b.String()
}

func without(lines, others []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(others, line) })
}

// unprepared is a database handle that prepares nothing which a changed type could
// make useless, for a test's own questions.
func unprepared(t *testing.T, srv *servers.Server, dsn string) *gorm.DB {
	t.Helper()
	db := srv.OpenDSN(t, dsn, nil)
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxIdleConns(-1)
	return db
}

// pgSchema describes whatever a widening might change or lose, but the order of
// columns.
func pgSchema(t *testing.T, db *gorm.DB) string {
	t.Helper()
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, query := range []string{
		`SELECT 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull || ' ' || a.attidentity::text || ' ' || COALESCE(pg_get_expr(d.adbin, d.adrelid), '')
			|| ' ' || COALESCE(col_description(a.attrelid, a.attnum), '') || ' ' || COALESCE(a.attstattarget, -1) || ' ' || COALESCE(pg_get_serial_sequence(quote_ident(c.relname), a.attname), '')
			FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
			WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND c.relname NOT LIKE 'gormflake%'`,
		`SELECT 'index ' || pg_get_indexdef(i.indexrelid) || ' ' || i.indisclustered || ' ' || i.indisvalid || ' ' || i.indisprimary FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
			WHERE c.relnamespace = current_schema()::regnamespace AND c.relname NOT LIKE 'gormflake%'`,
		`SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) || ' ' || convalidated FROM pg_constraint
			WHERE connamespace = current_schema()::regnamespace AND contype <> 'n' AND conrelid::regclass::text NOT LIKE 'gormflake%'`,
		`SELECT 'trigger ' || tgrelid::regclass || ' ' || tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT tgisinternal AND c.relnamespace = current_schema()::regnamespace`,
		`SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace`,
		`SELECT 'sequence ' || relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'S'`,
	} {
		rows, err := pool.Query(query)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var v sql.NullString
			if err := rows.Scan(&v); err != nil {
				t.Fatal(err)
			}
			all = append(all, v.String)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}
