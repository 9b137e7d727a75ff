package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// crashWriters programs write at the same time, each to the rows that it owns:
// the even ones are old, the odd ones new.
const crashWriters = 4

// campaignRow is the table as a new program sees it.
type campaignRow struct {
	ID    int64
	Owner int
	V     bool
	W     *bool
	N     int64
}

func (campaignRow) TableName() string { return "t" }

// programs are the writers of a campaign with what the server has acknowledged.
type programs struct {
	f       *fixture
	cancel  context.CancelFunc
	done    sync.WaitGroup
	each    [crashWriters]*program
	refused atomic.Int64 // writes of old programs that the server refused after the swap
	writes  atomic.Int64
}

// program is one writer and its ledger.
type program struct {
	owner  int
	ledger map[int64]campaignRow
	err    error
}

// startPrograms waits until each has written, so that every phase sees writes.
func (f *fixture) startPrograms() *programs {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	p := &programs{f: f, cancel: cancel}
	var rows []campaignRow
	pool, err := f.db.DB()
	if err != nil {
		f.Fatal(err)
	}
	if rows, err = readRows(ctx, pool, "t"); err != nil {
		f.Fatal(err)
	}
	started := make(chan struct{}, crashWriters)
	for i := range p.each {
		w := &program{owner: i, ledger: map[int64]campaignRow{}}
		for _, r := range rows {
			if r.Owner == i {
				w.ledger[r.ID] = r
			}
		}
		p.each[i] = w
		write := w.writeOld(pool)
		if i%2 == 1 {
			write = w.writeNew(f)
		}
		p.done.Go(func() { w.err = p.run(ctx, w, write, started) })
	}
	for range crashWriters {
		<-started
	}
	return p
}

// run writes until it is stopped. A write that fails for another reason than a
// refused label is an error: nothing else may go wrong during a migration.
func (p *programs) run(ctx context.Context, w *program, write func(campaignRow, bool) (int64, error), started chan<- struct{}) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	random := rand.New(rand.NewPCG(uint64(w.owner), uint64(time.Now().UnixNano())))
	keys := slices.Sorted(maps.Keys(w.ledger))
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		insert := random.IntN(8) == 0
		row := campaignRow{Owner: w.owner}
		if !insert {
			row = w.ledger[keys[random.IntN(len(keys))]]
		}
		row.N++
		if random.IntN(4) > 0 { // else another column alone changes
			row.V = random.IntN(2) == 0
			if row.W = nil; random.IntN(3) > 0 {
				w := random.IntN(2) == 0
				row.W = &w
			}
		}
		id, err := write(row, insert)
		p.writes.Add(1)
		if n == 0 {
			started <- struct{}{}
		}
		switch mysqlError(err) {
		case 1205, 1213:
			continue
		case 1265, 1292, 1366, 1406:
			if w.owner%2 == 0 { // it speaks labels to a number
				p.refused.Add(1)
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("program %d: %w", w.owner, err)
		}
		if insert {
			row.ID = id
			keys = append(keys, id)
		}
		w.ledger[row.ID] = row
	}
}

func label(v bool) string {
	if v {
		return "Y"
	}
	return "N"
}

func labelOf(v *bool) any {
	if v == nil {
		return nil
	}
	return label(*v)
}

// writeOld is the old program: labels, in plain SQL.
func (w *program) writeOld(pool *sql.DB) func(campaignRow, bool) (int64, error) {
	return func(r campaignRow, insert bool) (int64, error) {
		if insert {
			res, err := pool.Exec("INSERT INTO t (owner, v, w, n) VALUES (?, ?, ?, ?)", r.Owner, label(r.V), labelOf(r.W), r.N)
			if err != nil {
				return 0, err
			}
			return res.LastInsertId()
		}
		_, err := pool.Exec("UPDATE t SET v = ?, w = ?, n = ? WHERE id = ?", label(r.V), labelOf(r.W), r.N, r.ID)
		return 0, err
	}
}

// stop ends the programs and compares the table with their ledgers.
func (p *programs) stop(swapped bool) {
	p.f.Helper()
	p.cancel()
	p.done.Wait()
	for _, w := range p.each {
		if w.err != nil {
			p.f.Error(w.err)
		}
	}
	pool, err := p.f.db.DB()
	if err != nil {
		p.f.Fatal(err)
	}
	rows, err := readRows(context.Background(), pool, "t")
	if err != nil {
		p.f.Fatal(err)
	}
	want := p.ledger()
	if len(rows) != len(want) {
		p.f.Errorf("expected %d rows, met %d", len(want), len(rows))
	}
	wrong := 0
	for _, r := range rows {
		if w, ok := want[r.ID]; !ok || r.text() != w.text() {
			if wrong++; wrong <= 5 {
				p.f.Errorf("row %d: expected %s, met %s", r.ID, w.text(), r.text())
			}
		}
	}
	p.f.Logf("%d writes acknowledged or refused, %d labels refused after the swap, %d rows compared, %d wrong", p.writes.Load(), p.refused.Load(), len(rows), wrong)
}

func (p *programs) ledger() map[int64]campaignRow {
	all := map[int64]campaignRow{}
	for _, w := range p.each {
		maps.Copy(all, w.ledger)
	}
	return all
}

// replay writes the ledgers into a table of the original's form.
func (p *programs) replay(table string) {
	p.f.Helper()
	var rows []string
	for _, r := range p.ledger() {
		w := "NULL"
		if r.W != nil {
			w = "'" + label(*r.W) + "'"
		}
		rows = append(rows, fmt.Sprintf("(%d, %d, '%s', %s, %d)", r.ID, r.Owner, label(r.V), w, r.N))
	}
	p.f.exec("INSERT INTO " + table + " (id, owner, v, w, n) VALUES " + strings.Join(rows, ", "))
}

func (r campaignRow) text() string {
	return fmt.Sprint(r.ID, " ", r.Owner, " ", r.V, " ", labelOf(r.W), " ", r.N)
}

// readRows reads the table whatever form its columns have, through nothing of ours.
func readRows(ctx context.Context, pool *sql.DB, table string) (all []campaignRow, err error) {
	rows, err := pool.QueryContext(ctx, "SELECT id, owner, CAST(v AS CHAR), CAST(w AS CHAR), n FROM "+table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r campaignRow
		var v string
		var w sql.NullString
		if err := rows.Scan(&r.ID, &r.Owner, &v, &w, &r.N); err != nil {
			return nil, err
		}
		if r.V, err = truth(v); err != nil {
			return nil, err
		}
		if w.Valid {
			b, err := truth(w.String)
			if err != nil {
				return nil, err
			}
			r.W = &b
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

func truth(text string) (bool, error) {
	switch text {
	case "Y", "1":
		return true, nil
	case "N", "0":
		return false, nil
	}
	return false, fmt.Errorf("expected a boolean, met %q", text)
}
