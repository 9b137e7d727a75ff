package gormflake

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// event is a row to retain for a while.
type event struct {
	ID        ID `gorm:"primaryKey"`
	Kind      string
	DeletedAt gorm.DeletedAt
}

// BeforeDelete must not run: a batch is no row.
func (*event) BeforeDelete(*gorm.DB) error { return errors.New("the hook of a row ran for a batch") }

// events makes ten events a day from 1 to 5 May 2024, half of each kind, a
// softly deleted one on the first day, and three of AUTO_INCREMENT days.
func events(t testing.TB, db *gorm.DB) {
	t.Helper()
	rows := []event{{ID: 1, Kind: "legacy"}, {ID: 2, Kind: "legacy"}, {ID: 3, Kind: "legacy"}}
	for d := 1; d <= 5; d++ {
		for n := range 10 {
			row := event{ID: idAt(t, day(d).Add(time.Duration(n)*time.Hour), 1, 0), Kind: []string{"a", "b"}[n%2]}
			if d == 1 && n == 0 {
				row.DeletedAt = gorm.DeletedAt{Time: day(2), Valid: true}
			}
			rows = append(rows, row)
		}
	}
	if err := db.Create(&rows).Error; err != nil {
		t.Fatal(err)
	}
}

func countEvents(t testing.TB, db *gorm.DB) (n int64) {
	t.Helper()
	if err := db.Unscoped().Model(&event{}).Count(&n).Error; err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDeleteBefore(t *testing.T) {
	ctx := context.Background()
	last := func(d, hour int) ID { return idAt(t, day(d).Add(time.Duration(hour)*time.Hour), 1, 0) }
	noneOrB := func(db *gorm.DB) *gorm.DB { return db.Where("kind = ?", "none").Or("kind = ?", "b") }
	each(t, []any{&event{}}, func(t *testing.T, db *gorm.DB) {
		for _, c := range []struct {
			name string
			db   *gorm.DB
			opts RetentionOptions
			want RetentionResult
			left int64
		}{
			{"at once", db, RetentionOptions{}, RetentionResult{Rows: 20, Batches: 1, Last: last(2, 9), Done: true}, 33},
			{"in batches", db, RetentionOptions{BatchSize: 6, Pause: time.Millisecond}, RetentionResult{Rows: 20, Batches: 4, Last: last(2, 9), Done: true}, 33},
			{"in full batches", db, RetentionOptions{BatchSize: 10}, RetentionResult{Rows: 20, Batches: 2, Last: last(2, 9), Done: true}, 33},
			{"some of the rows", db.Where("kind = ?", "b"), RetentionOptions{BatchSize: 4}, RetentionResult{Rows: 10, Batches: 3, Last: last(2, 9), Done: true}, 43},
			{"rows of either kind", db.Where("kind = ?", "b").Or("kind = ?", "none"), RetentionOptions{BatchSize: 4}, RetentionResult{Rows: 10, Batches: 3, Last: last(2, 9), Done: true}, 43},
			{"rows of either kind, or first", db.Or("kind = ?", "none").Where("kind = ?", "b"), RetentionOptions{BatchSize: 4}, RetentionResult{Rows: 10, Batches: 3, Last: last(2, 9), Done: true}, 43},
			{"rows of a scope", db.Scopes(noneOrB), RetentionOptions{BatchSize: 4}, RetentionResult{Rows: 10, Batches: 3, Last: last(2, 9), Done: true}, 43},
			{"rows of either kind, in lines of one text", db.Where("kind = 'b'\n\tOR\tkind = 'none'"), RetentionOptions{BatchSize: 4}, RetentionResult{Rows: 10, Batches: 3, Last: last(2, 9), Done: true}, 43},
			{"rows of either kind, grouped by the caller", db.Where(clause.And(clause.Expr{SQL: "kind = 'b'/**/OR/**/kind = 'none'"})), RetentionOptions{BatchSize: 4}, RetentionResult{Rows: 10, Batches: 3, Last: last(2, 9), Done: true}, 43},
			{"rows that are not of one kind", db.Not("kind = 'b'\nOR\nkind = 'none'"), RetentionOptions{BatchSize: 4}, RetentionResult{Rows: 10, Batches: 3, Last: last(2, 8), Done: true}, 43},
			{"rows of a scope within a scope", db.Scopes(func(db *gorm.DB) *gorm.DB { return db.Scopes(noneOrB) }), RetentionOptions{BatchSize: 4}, RetentionResult{Rows: 10, Batches: 3, Last: last(2, 9), Done: true}, 43},
			{"rows of a scope, dry", db.Scopes(noneOrB), RetentionOptions{DryRun: true}, RetentionResult{Rows: 10}, 53},
			{"rows of a scope, softly", db.Scopes(noneOrB), RetentionOptions{SoftDelete: true}, RetentionResult{Rows: 10, Batches: 1, Last: last(2, 9), Done: true}, 53},
			{"a number of rows", db, RetentionOptions{BatchSize: 6, MaxRows: 8}, RetentionResult{Rows: 8, Batches: 2, Last: last(1, 7)}, 45},
			{"with the legacy rows", db, RetentionOptions{IncludeLegacy: true}, RetentionResult{Rows: 23, Batches: 1, Last: last(2, 9), Done: true}, 30},
			{"a dry run", db, RetentionOptions{DryRun: true, BatchSize: 6}, RetentionResult{Rows: 20}, 53},
			{"a dry run of some rows", db, RetentionOptions{DryRun: true, MaxRows: 7}, RetentionResult{Rows: 7}, 53},
			{"after an id", db, RetentionOptions{After: last(1, 4)}, RetentionResult{Rows: 15, Batches: 1, Last: last(2, 9), Done: true}, 38},
			{"after the last", db, RetentionOptions{After: last(2, 9)}, RetentionResult{Last: last(2, 9), Done: true}, 53},
			{"softly, whatever db says", db.Unscoped(), RetentionOptions{SoftDelete: true, BatchSize: 5}, RetentionResult{Rows: 19, Batches: 4, Last: last(2, 9), Done: true}, 53},
			{"softly, whatever a scope says", db.Scopes(func(db *gorm.DB) *gorm.DB { return db.Unscoped() }), RetentionOptions{SoftDelete: true, BatchSize: 5}, RetentionResult{Rows: 19, Batches: 4, Last: last(2, 9), Done: true}, 53},
			{"with the model named twice", db.Model(&event{}).Table("events"), RetentionOptions{}, RetentionResult{Rows: 20, Batches: 1, Last: last(2, 9), Done: true}, 33},
			{"softly", db, RetentionOptions{SoftDelete: true, BatchSize: 5}, RetentionResult{Rows: 19, Batches: 4, Last: last(2, 9), Done: true}, 53},
		} {
			t.Run(c.name, func(t *testing.T) {
				if err := db.Exec("DELETE FROM events").Error; err != nil {
					t.Fatal(err)
				}
				events(t, db)
				var calls []RetentionResult
				c.opts.Progress = func(r RetentionResult) { calls = append(calls, r) }
				got, err := DeleteBefore(ctx, c.db, &event{}, day(3), c.opts)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if left := countEvents(t, db); left != c.left {
					t.Errorf("%d rows are left, want %d", left, c.left)
				}
				if len(calls) != c.want.Batches {
					t.Errorf("progress was called %d times, want once for each of %d batches", len(calls), c.want.Batches)
				}
				if len(calls) > 0 {
					calls[len(calls)-1].Done = c.want.Done // known only after the last batch
					if diff := cmp.Diff(c.want, calls[len(calls)-1]); diff != "" {
						t.Errorf("the last progress (-want +got):\n%s", diff)
					}
				}
			})
		}
	})
}

// TestDeleteBeforeStopsAndResumes ends the context within a progress call.
func TestDeleteBeforeStopsAndResumes(t *testing.T) {
	db := memoryWithPlugin(t, &event{})
	events(t, db)
	ctx, cancel := context.WithCancel(context.Background())
	opts := RetentionOptions{BatchSize: 3, SoftDelete: true, Progress: func(r RetentionResult) {
		if r.Batches == 2 {
			cancel()
		}
	}}
	stopped, err := DeleteBefore(ctx, db, &event{}, day(3), opts)
	if !errors.Is(err, context.Canceled) || stopped.Rows != 6 || stopped.Done {
		t.Fatalf("%+v, %v; want 6 rows and the context's error", stopped, err)
	}
	resumed, err := DeleteBefore(context.Background(), db, &event{}, day(3), RetentionOptions{SoftDelete: true, After: stopped.Last})
	if err != nil || resumed.Rows != 13 || !resumed.Done {
		t.Errorf("%+v, %v; want the other 13 rows", resumed, err)
	}
}

func TestArchiveBefore(t *testing.T) {
	ctx := context.Background()
	each(t, []any{&event{}}, func(t *testing.T, db *gorm.DB) {
		// A column that the model does not know moves too.
		for _, table := range []string{"events", "events_archive"} {
			if table == "events_archive" {
				if err := db.Table(table).AutoMigrate(&event{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Exec("ALTER TABLE " + table + " ADD COLUMN note varchar(20)").Error; err != nil {
				t.Fatal(err)
			}
		}
		events(t, db)
		if err := db.Exec("UPDATE events SET note = 'kept'").Error; err != nil {
			t.Fatal(err)
		}
		got, err := ArchiveBefore(ctx, db.Where("kind = ?", "a").Or("kind = ?", "none"), &event{}, "events_archive", day(3), RetentionOptions{BatchSize: 3})
		if err != nil {
			t.Fatal(err)
		}
		want := RetentionResult{Rows: 10, Batches: 4, Last: idAt(t, day(2).Add(8*time.Hour), 1, 0), Done: true}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		var moved, noted int64
		if err := errors.Join(
			db.Unscoped().Table("events_archive").Model(&event{}).Where(Until(day(3))).Where("kind = ?", "a").Count(&moved).Error,
			db.Table("events_archive").Where("note = ?", "kept").Count(&noted).Error,
		); err != nil {
			t.Fatal(err)
		}
		if left := countEvents(t, db); moved != 10 || noted != 10 || left != 43 {
			t.Errorf("%d rows moved, %d with their note, %d left; want 10, 10, 43", moved, noted, left)
		}
		// A batch that fails leaves both tables as they were.
		clash := event{ID: idAt(t, day(1).Add(3*time.Hour), 1, 0)}
		if err := db.Table("events_archive").Create(&clash).Error; err != nil {
			t.Fatal(err)
		}
		got, err = ArchiveBefore(ctx, db, &event{}, "events_archive", day(3), RetentionOptions{BatchSize: 1})
		if err == nil || got.Rows != 1 || got.Done {
			t.Errorf("%+v, %v; want one row, then a duplicate key", got, err)
		}
		if left := countEvents(t, db); left != 42 {
			t.Errorf("%d rows are left, want 42", left)
		}
	})
}

// TestPause: the wait between batches ends with the context.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := pause(ctx, time.Millisecond); err != nil || time.Since(began) != time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := pause(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestArchiveBeforeLeavesLateRows inserts a row of the past between the copy
// and the deletion: it must not be deleted without a copy.
func TestArchiveBeforeLeavesLateRows(t *testing.T) {
	db := memoryWithPlugin(t, &event{})
	if err := db.Table("events_archive").AutoMigrate(&event{}); err != nil {
		t.Fatal(err)
	}
	events(t, db)
	late := idAt(t, day(1).Add(30*time.Minute), 9, 9)
	inserted := 0
	err := db.Callback().Delete().Before("gorm:delete").Register("test:insert", func(tx *gorm.DB) {
		if inserted++; inserted == 1 {
			_ = tx.AddError(tx.Session(&gorm.Session{NewDB: true}).Exec("INSERT INTO events (id, kind) VALUES (?, 'late')", late).Error)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{20, 1} {
		got, err := ArchiveBefore(context.Background(), db, &event{}, "events_archive", day(3), RetentionOptions{})
		if err != nil || got.Rows != want {
			t.Errorf("%+v, %v; want %d rows", got, err, want)
		}
	}
	var archived int64
	if err := db.Unscoped().Table("events_archive").Count(&archived).Error; err != nil || archived != 21 {
		t.Errorf("%d rows archived, %v; want 21", archived, err)
	}
}

// TestArchiveBeforeSubquery changes what a subquery says of the rows between
// the copy and the deletion: another row would be deleted for one copied.
func TestArchiveBeforeSubquery(t *testing.T) {
	type choice struct {
		ID ID `gorm:"primaryKey"`
	}
	each(t, []any{&event{}, &choice{}}, func(t *testing.T, db *gorm.DB) {
		if err := db.Table("events_archive").AutoMigrate(&event{}); err != nil {
			t.Fatal(err)
		}
		events(t, db)
		first, second := idAt(t, day(1).Add(time.Hour), 1, 0), idAt(t, day(1).Add(2*time.Hour), 1, 0)
		if err := db.Create([]choice{{ID: first}, {ID: idAt(t, day(1).Add(3*time.Hour), 1, 0)}}).Error; err != nil {
			t.Fatal(err)
		}
		err := db.Callback().Delete().Before("gorm:delete").Register("test:choose", func(tx *gorm.DB) {
			_ = tx.AddError(tx.Session(&gorm.Session{NewDB: true}).Exec("UPDATE choices SET id = ? WHERE id = ?", second, first).Error)
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := ArchiveBefore(t.Context(), db.Where("id IN (?)", db.Model(&choice{}).Select("id")), &event{}, "events_archive", day(3), RetentionOptions{})
		if err != nil || got.Rows != 2 {
			t.Fatalf("%+v, %v; want 2 rows", got, err)
		}
		var archived, left int64
		if err := errors.Join(
			db.Table("events_archive").Where("id = ?", first).Count(&archived).Error,
			db.Table("events").Where("id = ?", second).Count(&left).Error,
		); err != nil || archived != 1 || left != 1 {
			t.Errorf("%d of the row chosen archived, %d of the other left, %v; want 1 and 1", archived, left, err)
		}
	})
}

// TestArchiveBeforeChunks moves a batch of more rows than a statement takes,
// from a table that a scope names.
func TestArchiveBeforeChunks(t *testing.T) {
	each(t, []any{&event{}}, func(t *testing.T, db *gorm.DB) {
		for _, table := range []string{"events_7", "events_archive"} {
			if err := db.Table(table).AutoMigrate(&event{}); err != nil {
				t.Fatal(err)
			}
		}
		var rows []event
		for n := range int64(2*archiveChunk + 1) {
			rows = append(rows, event{ID: idAt(t, day(1), 1, n)})
		}
		if err := db.Table("events_7").CreateInBatches(rows, 100).Error; err != nil {
			t.Fatal(err)
		}
		seventh := func(db *gorm.DB) *gorm.DB { return db.Table("events_7") }
		got, err := ArchiveBefore(t.Context(), db.Scopes(seventh), &event{}, "events_archive", day(3), RetentionOptions{BatchSize: 2 * len(rows)})
		if err != nil || got.Rows != int64(len(rows)) || got.Batches != 1 {
			t.Errorf("%+v, %v; want %d rows in one batch", got, err, len(rows))
		}
		var archived, left int64
		if err := errors.Join(
			db.Table("events_archive").Count(&archived).Error, db.Table("events_7").Count(&left).Error,
		); err != nil || archived != got.Rows || left != 0 {
			t.Errorf("%d rows archived, %d left, %v", archived, left, err)
		}
	})
}

// TestArchiveBeforeTrigger has an archive that leaves out a row: no row of the
// batch may be deleted.
func TestArchiveBeforeTrigger(t *testing.T) {
	db := memoryWithPlugin(t, &event{})
	if err := db.Table("events_archive").AutoMigrate(&event{}); err != nil {
		t.Fatal(err)
	}
	events(t, db)
	if err := db.Exec("CREATE TRIGGER choosy BEFORE INSERT ON events_archive WHEN NEW.kind = 'a' BEGIN SELECT RAISE(IGNORE); END").Error; err != nil {
		t.Fatal(err)
	}
	_, err := ArchiveBefore(t.Context(), db, &event{}, "events_archive", day(3), RetentionOptions{})
	if want := "want 20 rows copied into events_archive and deleted from events, got 10 and 20"; !errors.Is(err, ErrRetention) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want ErrRetention with %q", err, want)
	}
	if left := countEvents(t, db); left != 53 {
		t.Errorf("%d rows are left, want 53", left)
	}
}

// TestArchiveBeforeGeneratedColumns: no database takes a value for them.
func TestArchiveBeforeGeneratedColumns(t *testing.T) {
	each(t, []any{&event{}}, func(t *testing.T, db *gorm.DB) {
		if err := db.Table("events_archive").AutoMigrate(&event{}); err != nil {
			t.Fatal(err)
		}
		if version := ""; db.Name() == dialectMySQL {
			if err := db.Raw("SELECT VERSION()").Scan(&version).Error; err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(version, "5.6.") {
				t.Skip("MySQL 5.6 has no generated columns")
			}
		}
		kind := "STORED"
		if db.Name() == dialectSQLite { // which adds no stored one to a table
			kind = "VIRTUAL"
		}
		for _, table := range []string{"events", "events_archive"} {
			if err := db.Exec("ALTER TABLE " + table + " ADD COLUMN doubled bigint GENERATED ALWAYS AS (id * 2) " + kind).Error; err != nil {
				t.Fatal(err)
			}
		}
		events(t, db)
		got, err := ArchiveBefore(t.Context(), db, &event{}, "events_archive", day(3), RetentionOptions{})
		if err != nil || got.Rows != 20 {
			t.Fatalf("%+v, %v; want 20 rows", got, err)
		}
		var computed int64
		if err := db.Table("events_archive").Where("doubled = id * 2").Count(&computed).Error; err != nil || computed != 20 {
			t.Errorf("%d rows with their computed column, %v; want 20", computed, err)
		}
	})
}

// TestArchiveBeforeEndedContext: the archive isn't missing, nobody asked.
func TestArchiveBeforeEndedContext(t *testing.T) {
	each(t, []any{&event{}}, func(t *testing.T, db *gorm.DB) {
		if err := db.Table("events_archive").AutoMigrate(&event{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := ArchiveBefore(ctx, db, &event{}, "events_archive", day(3), RetentionOptions{}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrRetention) {
			t.Errorf("got %v, want the context's error", err)
		}
	})
}

func TestRetentionErrors(t *testing.T) {
	ctx := context.Background()
	type text struct {
		ID string `gorm:"primaryKey"`
	}
	db := memoryWithPlugin(t, &event{}, &measurement{})
	if err := db.Exec("CREATE TABLE narrow (id bigint)").Error; err != nil {
		t.Fatal(err)
	}
	type numbered struct {
		ID int64 `gorm:"primaryKey;autoIncrement"`
	}
	del := func(db *gorm.DB, model any, at time.Time, opts RetentionOptions) error {
		_, err := DeleteBefore(ctx, db, model, at, opts)
		return err
	}
	archive := func(table string, opts RetentionOptions) error {
		_, err := ArchiveBefore(ctx, db, &event{}, table, day(1), opts)
		return err
	}
	for name, c := range map[string]struct {
		got, want error
		text      string
	}{
		"a zero time":     {del(db, &event{}, time.Time{}, RetentionOptions{}), ErrWindow, "zero time.Time"},
		"a string key":    {del(db, &text{}, day(1), RetentionOptions{}), ErrNoKey, "string"},
		"a numbered key":  {del(db, &numbered{}, day(1), RetentionOptions{}), ErrNoKey, "make it a gormflake.ID, or, if its ids are snowflakes all the same, give the Layout"},
		"no layout":       {del(memory(t), &event{}, day(1), RetentionOptions{}), ErrNoLayout, ""},
		"a negative size": {del(db, &event{}, day(1), RetentionOptions{BatchSize: -1}), ErrRetention, "-1"},
		"a limit":         {del(db.Limit(5), &event{}, day(1), RetentionOptions{}), ErrRetention, "LIMIT"},
		"a scope's limit": {del(db.Scopes(func(db *gorm.DB) *gorm.DB { return db.Limit(5) }), &event{}, day(1), RetentionOptions{}), ErrRetention, "LIMIT"},
		"a join":          {del(db.Joins("JOIN measurements m ON m.id = events.id"), &event{}, day(1), RetentionOptions{}), ErrRetention, "join"},
		"a scope's join":  {del(db.Scopes(func(db *gorm.DB) *gorm.DB { return db.Joins("JOIN measurements m ON m.id = events.id") }), &event{}, day(1), RetentionOptions{}), ErrRetention, "join"},
		"a join in scopes": {del(db.Scopes(func(db *gorm.DB) *gorm.DB {
			return db.Scopes(func(db *gorm.DB) *gorm.DB { return db.Joins("JOIN measurements m ON m.id = events.id") })
		}), &event{}, day(1), RetentionOptions{}), ErrRetention, "join"},
		"a grouping":         {del(db.Group("kind"), &event{}, day(1), RetentionOptions{}), ErrRetention, "grouping"},
		"a vicinity":         {del(db.Where(Around(50, 2)), &event{}, day(1), RetentionOptions{}), ErrRetention, "Around"},
		"a grouped vicinity": {del(db.Where(db.Where(Around(50, 2)).Or("kind = 'a'")), &event{}, day(1), RetentionOptions{}), ErrRetention, "Around"},
		"an order":           {del(db.Order("kind"), &event{}, day(1), RetentionOptions{}), ErrRetention, "ORDER BY"},
		"another model":      {del(db.Model(&measurement{}), &event{}, day(1), RetentionOptions{}), ErrRetention, "leave out Model"},
		"a scope's model":    {del(db.Scopes(func(db *gorm.DB) *gorm.DB { return db.Model(&measurement{}) }), &event{}, day(1), RetentionOptions{}), ErrRetention, "leave out Model"},
		"a row's model":      {del(db.Model(&event{ID: 7}), &event{}, day(1), RetentionOptions{}), ErrRetention, "the key of a row"},
		"an alias":           {del(db.Table("events AS e"), &event{}, day(1), RetentionOptions{}), ErrRetention, "alias"},
		"a scope's alias":    {del(db.Scopes(func(db *gorm.DB) *gorm.DB { return db.Table("events e") }), &event{}, day(1), RetentionOptions{}), ErrRetention, "alias"},
		"a subquery":         {del(db.Table("(?) AS e", db.Model(&event{})), &event{}, day(1), RetentionOptions{}), ErrRetention, "alias"},
		"a RETURNING":        {del(db.Clauses(clause.Returning{}), &event{}, day(1), RetentionOptions{}), ErrRetention, "RETURNING"},
		"no DeletedAt":       {del(db, &measurement{}, day(1), RetentionOptions{SoftDelete: true}), ErrRetention, "DeletedAt"},
		"no archive":         {archive("", RetentionOptions{}), ErrRetention, "want a table other"},
		"into itself":        {archive("events", RetentionOptions{}), ErrRetention, "want a table other"},
		"an absent archive":  {archive("absent", RetentionOptions{}), ErrRetention, "not there"},
		"a narrower archive": {archive("narrow", RetentionOptions{}), ErrRetention, "lacks the columns kind, deleted_at"},
		"a soft archive":     {archive("narrow", RetentionOptions{SoftDelete: true}), ErrRetention, "SoftDelete"},
	} {
		if !errors.Is(c.got, c.want) || !strings.Contains(c.got.Error(), c.text) {
			t.Errorf("%s: got %v, want %v with %q", name, c.got, c.want, c.text)
		}
	}
}
