package integration_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
	"github.com/gormflake/gormflake/internal/servers"
)

// The main job in numbers: 4 processes, 8 goroutines each, a million ids.
const (
	processes  = 4
	goroutines = 8
	idsEach    = 1_000_000 / processes / goroutines // of one goroutine
	burst      = 250
	rowsEach   = 500 // of a goroutine's ids are rows
)

type measurement struct {
	ID        gormflake.ID `gorm:"primaryKey"`
	Process   int
	Goroutine int
}

// TestMainJob lets four processes draw a million ids from one database, and
// insert some of them.
func TestMainJob(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes and takes seconds; run without -short")
	}
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		dsn := server.Database(t)
		db := server.OpenDSN(t, dsn, nil)
		if err := db.AutoMigrate(&measurement{}); err != nil {
			t.Fatal(err)
		}
		folder := t.TempDir()
		var wait sync.WaitGroup
		for process := range processes {
			wait.Go(func() {
				worker := exec.Command(os.Args[0], "-test.run=^TestMainJobWorker$", "-test.count=1")
				worker.Env = append(os.Environ(),
					"GORMFLAKE_TEST_WORKER_KIND="+string(server.Kind()), "GORMFLAKE_TEST_WORKER_DSN="+dsn,
					fmt.Sprintf("GORMFLAKE_TEST_WORKER_FILE=%s", filepath.Join(folder, fmt.Sprint(process))),
					fmt.Sprintf("GORMFLAKE_TEST_WORKER=%d", process))
				if output, err := worker.CombinedOutput(); err != nil {
					t.Errorf("process %d: %v\n%s", process, err, output)
				}
			})
		}
		wait.Wait()
		if t.Failed() {
			return
		}
		var all []int64
		for process := range processes {
			all = append(all, readIDs(t, filepath.Join(folder, fmt.Sprint(process)))...)
		}
		slices.Sort(all)
		unique := len(slices.Compact(slices.Clone(all)))
		if want := processes * goroutines * (idsEach + rowsEach); len(all) != want || unique != want {
			t.Errorf("want %d different ids, got %d, of them %d different", want, len(all), unique)
		}
		var rows []int64
		if err := db.Model(&measurement{}).Order("id").Pluck("id", &rows).Error; err != nil {
			t.Fatal(err)
		}
		if want := processes * goroutines * rowsEach; len(rows) != want {
			t.Errorf("want %d rows, got %d", want, len(rows))
		}
		for _, id := range rows {
			if _, ok := slices.BinarySearch(all, id); !ok {
				t.Errorf("row %d has an id that no process has seen", id)
				break
			}
		}
	})
}

// TestMainJobWorker is one process of TestMainJob.
func TestMainJobWorker(t *testing.T) {
	process := os.Getenv("GORMFLAKE_TEST_WORKER")
	if process == "" {
		t.Skip("it is a process of TestMainJob")
	}
	server := servers.Foreign(servers.Kind(os.Getenv("GORMFLAKE_TEST_WORKER_KIND")))
	db := server.OpenDSN(t, os.Getenv("GORMFLAKE_TEST_WORKER_DSN"), nil)
	flake := gormflake.New(gormflake.Config{MaxWait: time.Minute})
	if err := db.Use(flake); err != nil {
		t.Fatal(err)
	}
	if err := flake.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	defer flake.Close(context.Background())
	var number int
	if _, err := fmt.Sscan(process, &number); err != nil {
		t.Fatal(err)
	}
	drawn := make([][]int64, goroutines)
	var bursts sync.Map // the first id of each burst, to its last
	var wait sync.WaitGroup
	for goroutine := range goroutines {
		wait.Go(func() {
			ids, err := draw(flake.Generator(), &bursts)
			if err == nil {
				var inserted []int64
				inserted, err = insert(db, number, goroutine, &bursts)
				ids = append(ids, inserted...)
			}
			if err != nil {
				t.Error(err)
			}
			drawn[goroutine] = ids
		})
	}
	wait.Wait()
	for goroutine, ids := range drawn {
		for i := 1; i < len(ids); i++ {
			if ids[i] <= ids[i-1] {
				t.Fatalf("goroutine %d: want ids that rise strictly, got %d after %d", goroutine, ids[i], ids[i-1])
			}
		}
	}
	all := slices.Sorted(slices.Values(slices.Concat(drawn...)))
	bursts.Range(func(first, last any) bool {
		from, _ := slices.BinarySearch(all, first.(int64))
		to, _ := slices.BinarySearch(all, last.(int64))
		if to-from != burst-1 {
			t.Errorf("want nothing between the %d ids of a burst from %d, got %d more", burst, first, to-from-burst+1)
			return false
		}
		return true
	})
	writeIDs(t, os.Getenv("GORMFLAKE_TEST_WORKER_FILE"), all)
}

// draw takes ids in turn one by one and in bursts.
func draw(g *generator.Generator, bursts *sync.Map) (ids []int64, err error) {
	ctx := context.Background()
	several := make([]generator.ID, burst)
	for len(ids) < idsEach {
		if len(ids)%(2*burst) == 0 {
			if err := g.Fill(ctx, several); err != nil {
				return nil, err
			}
			for _, id := range several {
				ids = append(ids, int64(id))
			}
			bursts.Store(int64(several[0]), int64(several[burst-1]))
			continue
		}
		id, err := g.Next(ctx)
		if err != nil {
			return nil, err
		}
		ids = append(ids, int64(id))
	}
	return ids, nil
}

// insert creates rows in batches of a burst.
func insert(db *gorm.DB, process, goroutine int, bursts *sync.Map) (ids []int64, err error) {
	for range rowsEach / burst {
		rows := make([]measurement, burst)
		for i := range rows {
			rows[i].Process, rows[i].Goroutine = process, goroutine
		}
		if err := db.Create(&rows).Error; err != nil {
			return nil, err
		}
		for _, row := range rows {
			ids = append(ids, int64(row.ID))
		}
		bursts.Store(ids[len(ids)-burst], ids[len(ids)-1])
	}
	return ids, nil
}

func writeIDs(t *testing.T, path string, ids []int64) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	buffered := bufio.NewWriter(file)
	err = binary.Write(buffered, binary.LittleEndian, ids)
	if err := errors.Join(err, buffered.Flush(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

func readIDs(t *testing.T, path string) []int64 {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, len(data)/8)
	for i := range ids {
		ids[i] = int64(binary.LittleEndian.Uint64(data[8*i:]))
	}
	return ids
}

// TestOutage takes the database with the leases away from under the inserts,
// for longer than the window.
func TestOutage(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts and kills servers; run without -short")
	}
	for _, kind := range []servers.Kind{servers.MariaDB, servers.MySQL57, servers.MySQL56, servers.Postgres} {
		t.Run(string(kind), func(t *testing.T) {
			leases := servers.Private(t, kind)
			pool := leases.OpenSQL(t, leases.Database(t))
			dialect := sqllease.MySQL
			if kind == servers.Postgres {
				dialect = sqllease.Postgres
			}
			store := sqllease.New(pool, dialect, lease.Window(2*time.Second))
			db := servers.Shared(t, servers.SQLite).Open(t, &gorm.Config{Logger: logger.Discard})
			flake := gormflake.New(gormflake.Config{Store: store, MaxWait: 100 * time.Millisecond})
			if err := errors.Join(db.Use(flake), flake.Start(context.Background()), db.AutoMigrate(&typed{})); err != nil {
				t.Fatal(err)
			}
			defer flake.Close(context.Background())
			inserted := int64(0)
			create := func() error {
				rows := []typed{{Name: "a"}, {Name: "b"}}
				err := db.Create(&rows).Error
				if err == nil {
					inserted += int64(len(rows))
				}
				return err
			}
			if err := create(); err != nil {
				t.Fatal(err)
			}
			leases.Kill(t)
			if err := until(t, create, func(err error) bool { return err != nil }); !errors.Is(err, gormflake.ErrSealed) {
				t.Errorf("want ErrSealed, got %v", err)
			}
			if n := count(t, db, &typed{}); n != inserted {
				t.Errorf("want %d rows, got %d", inserted, n)
			}
			leases.Restart(t)
			if err := until(t, create, func(err error) bool { return err == nil }); err != nil {
				t.Errorf("want creates to work again by themselves, got %v", err)
			}
			if n := count(t, db, &typed{}); n != inserted {
				t.Errorf("want %d rows, got %d", inserted, n)
			}
		})
	}
}

// until repeats an attempt until its error is as wanted, and returns it.
func until(t *testing.T, attempt func() error, wanted func(error) bool) error {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for {
		err := attempt()
		if wanted(err) {
			return err
		}
		select {
		case <-deadline:
			t.Fatalf("waited two minutes; the last attempt gave %v", err)
		case <-pace.C:
		}
	}
}
