package gormflake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glebarez/sqlite"
	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

type customer struct {
	ID     ID `gorm:"primaryKey"`
	Name   string
	Orders []order
}

type order struct {
	ID         int64 `gorm:"primaryKey"`
	CustomerID *int64
	Customer   *customer
	Amount     float64
	DeletedAt  gorm.DeletedAt
}

// testClock is what Last takes for now in these tests.
var testClock = time.Date(2024, 5, 5, 12, 0, 0, 0, time.UTC)

// memory opens an SQLite database in memory; tables of the models are made.
func memory(t testing.TB, models ...any) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(sqlite.Open("file::memory:"), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxOpenConns(1) // each connection is a database of its own
	t.Cleanup(func() { _ = pool.Close() })
	if len(models) > 0 {
		if err := db.AutoMigrate(models...); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// memoryWithPlugin is memory with the plugin, in the Standard layout and at
// the time testClock.
func memoryWithPlugin(t testing.TB, models ...any) *gorm.DB {
	t.Helper()
	db := memory(t)
	install(t, db, models)
	return db
}

// install installs the plugin with a clock that stands, and makes the tables.
func install(t testing.TB, db *gorm.DB, models []any) {
	t.Helper()
	g, err := generator.Open(t.Context(), generator.Config{
		Store: lease.Memory(), MaxSkew: -1, Clock: func() time.Time { return testClock }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	if err := db.Use(New(Config{Generator: g, Logger: slog.New(slog.DiscardHandler)})); err != nil {
		t.Fatal(err)
	}
	if len(models) > 0 {
		if err := db.AutoMigrate(models...); err != nil {
			t.Fatal(err)
		}
	}
}

// idAt returns an id of the Standard layout.
func idAt(t testing.TB, at time.Time, worker, sequence int64) ID {
	t.Helper()
	id, err := generator.Standard().Compose(at, worker, sequence)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func day(d int) time.Time { return time.Date(2024, 5, d, 0, 0, 0, 0, time.UTC) }

func TestWindowSQL(t *testing.T) {
	db := memoryWithPlugin(t)
	id := func(at time.Time) ID { return idAt(t, at, 0, 0) }
	layout := generator.Standard()
	for _, c := range []struct {
		name   string
		window Window
		sql    string
		vars   []any
	}{
		{"between", Between(day(1), day(2)), "(`orders`.`id` >= ? AND `orders`.`id` < ?)", []any{id(day(1)), id(day(2))}},
		{"both bounds are rounded up", Between(day(1).Add(time.Nanosecond), day(2).Add(time.Millisecond-1)),
			"(`orders`.`id` >= ? AND `orders`.`id` < ?)", []any{id(day(1).Add(time.Millisecond)), id(day(2).Add(time.Millisecond))}},
		{"the same time twice", Between(day(1), day(1)), "(1 = 0)", nil},
		{"less than a tick", Between(day(1).Add(1), day(1).Add(2)), "(1 = 0)", nil},
		{"since", Since(day(1)), "(`orders`.`id` >= ?)", []any{id(day(1))}},
		{"until", Until(day(2)), "(`orders`.`id` < ?)", []any{id(day(2))}},
		{"last", Last(time.Hour), "(`orders`.`id` >= ?)", []any{id(testClock.Add(-time.Hour))}},
		{"from before the epoch", Between(layout.Epoch.Add(-time.Hour), day(1)), "(`orders`.`id` >= ? AND `orders`.`id` < ?)", []any{ID(0), id(day(1))}},
		{"since before the epoch", Since(layout.Epoch.Add(-time.Hour)), "(`orders`.`id` >= ?)", []any{ID(0)}},
		{"wholly before the epoch", Between(layout.Epoch.Add(-2*time.Hour), layout.Epoch.Add(-time.Hour)), "(1 = 0)", nil},
		{"until the epoch", Until(layout.Epoch), "(1 = 0)", nil},
		{"to past the end", Between(day(1), layout.End().Add(time.Hour)), "(`orders`.`id` >= ?)", []any{id(day(1))}},
		{"until past the end", Until(layout.End().Add(time.Hour)), "(`orders`.`id` IS NOT NULL)", nil},
		{"since past the end", Since(layout.End()), "(1 = 0)", nil},
		{"wholly past the end", Between(layout.End(), layout.End().Add(time.Hour)), "(1 = 0)", nil},
		{"the last tick", Since(layout.End().Add(-time.Millisecond)), "(`orders`.`id` >= ?)", []any{id(layout.End().Add(-time.Millisecond))}},
		{"within the last tick", Since(layout.End().Add(-1)), "(1 = 0)", nil},
		{"a narrower layout has an upper bound", Between(day(1), generator.JavaScriptSafe().End().Add(time.Hour)).In(generator.JavaScriptSafe()),
			"(`orders`.`id` >= ? AND `orders`.`id` < ?)", []any{id(day(1)) >> 10, ID(1) << 53}},
		{"without legacy ids", Between(layout.Epoch, day(1)).ExcludeLegacy(), "(`orders`.`id` >= ? AND `orders`.`id` < ?)", []any{ID(1) << 22, id(day(1))}},
		{"until, without legacy ids", Until(day(1)).ExcludeLegacy(), "(`orders`.`id` >= ? AND `orders`.`id` < ?)", []any{ID(1) << 22, id(day(1))}},
		{"nothing but legacy ids", Until(layout.Epoch.Add(time.Millisecond)).ExcludeLegacy(), "(1 = 0)", nil},
		{"another column", Between(day(1), day(2)).Column("customer_id"), "(`orders`.`customer_id` >= ? AND `orders`.`customer_id` < ?)", []any{id(day(1)), id(day(2))}},
		{"another column by its field", Since(day(1)).Column("CustomerID"), "(`orders`.`customer_id` >= ?)", []any{id(day(1))}},
		{"a column of another table", Since(day(1)).Column("c.id"), "(`c`.`id` >= ?)", []any{id(day(1))}},
		{"empty over a column that may be NULL", Until(layout.Epoch).Column("customer_id"), "(`orders`.`customer_id` >= ? AND `orders`.`customer_id` < ?)", []any{ID(0), ID(0)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			stmt := db.Session(&gorm.Session{DryRun: true}).Unscoped().Where(c.window).Find(&[]order{}).Statement
			if stmt.Error != nil {
				t.Fatal(stmt.Error)
			}
			if got, want := stmt.SQL.String(), "SELECT * FROM `orders` WHERE "+c.sql; got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
			var want []any
			for _, v := range c.vars {
				want = append(want, int64(v.(ID)))
			}
			if diff := cmp.Diff(want, stmt.Vars); diff != "" {
				t.Errorf("bound parameters (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWindowErrors(t *testing.T) {
	type text struct {
		ID string `gorm:"primaryKey"`
	}
	type narrow struct {
		ID int32 `gorm:"primaryKey"`
	}
	type pair struct {
		ID   int64 `gorm:"primaryKey"`
		Zone int64 `gorm:"primaryKey"`
	}
	type keyless struct{ Zone int64 }
	type numbered struct {
		ID int64 `gorm:"primaryKey;autoIncrement"`
	}
	var zero time.Time
	db := memoryWithPlugin(t)
	for _, c := range []struct {
		name   string
		window Window
		model  any
		want   error
		text   string
	}{
		{"from after to", Between(day(2), day(1)), &order{}, ErrWindow, "swap"},
		{"a zero from", Between(zero, day(1)), &order{}, ErrWindow, "zero time.Time as from"},
		{"a zero to", Between(day(1), zero), &order{}, ErrWindow, "zero time.Time as to"},
		{"since the zero time", Since(zero), &order{}, ErrWindow, "zero time.Time"},
		{"until the zero time", Until(zero), &order{}, ErrWindow, "zero time.Time"},
		{"the day of the zero time", On(zero), &order{}, ErrWindow, "zero time.Time"},
		{"the week of the zero time", InWeek(zero), &order{}, ErrWindow, "zero time.Time"},
		{"the hour of the zero time", InHour(zero), &order{}, ErrWindow, "zero time.Time"},
		{"a negative duration", Last(-time.Second), &order{}, ErrWindow, "-1s"},
		{"the zero window", Window{}, &order{}, ErrWindow, "zero value"},
		{"an invalid layout", Since(day(1)).In(generator.Layout{}), &order{}, generator.ErrInvalidLayout, "time bits"},
		{"a string key", Since(day(1)), &text{}, ErrNoKey, "text.ID is a string"},
		{"an int32 key", Since(day(1)), &narrow{}, ErrNoKey, "narrow.ID is a int32"},
		{"a gorm.Model", Since(day(1)), &struct{ gorm.Model }{}, ErrNoKey, "is a uint"},
		{"a composite key", Since(day(1)), &pair{}, ErrNoKey, "composite key of 2 fields"},
		{"no key", Since(day(1)), &keyless{}, ErrNoKey, "no primary key"},
		{"a key that the database numbers", Since(day(1)), &numbered{}, ErrNoKey, "the database numbers the key numbered.ID"},
		{"no such column", Since(day(1)).Column("zone"), &order{}, ErrNoKey, `no column "zone"`},
		{"a column of another type", Since(day(1)).Column("amount"), &order{}, ErrNoKey, "order.Amount is a float64"},
		{"half a column", Since(day(1)).Column("orders."), &order{}, ErrNoKey, `got "orders."`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := db.Model(c.model).Where(c.window).Find(&[]map[string]any{}).Error
			if !errors.Is(got, c.want) || !strings.Contains(fmt.Sprint(got), c.text) {
				t.Errorf("got %v\nwant %v with %q", got, c.want, c.text)
			}
		})
	}
	t.Run("no model", func(t *testing.T) {
		err := db.Table("orders").Where(Since(day(1))).Find(&[]map[string]any{}).Error
		if !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), "no model") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no plugin", func(t *testing.T) {
		bare := memory(t, &order{})
		if err := bare.Where(Since(day(1))).Find(&[]order{}).Error; !errors.Is(err, ErrNoLayout) {
			t.Errorf("got %v, want ErrNoLayout", err)
		}
		if err := bare.Where(Since(day(1)).In(generator.Standard())).Find(&[]order{}).Error; err != nil {
			t.Errorf("with In: %v", err)
		}
		if err := bare.Where(Last(time.Hour).In(generator.Standard())).Find(&[]order{}).Error; err != nil {
			t.Errorf("Last with In: %v", err)
		}
	})
	t.Run("the database numbers the key, but the layout is given", func(t *testing.T) {
		if err := db.AutoMigrate(&numbered{}); err != nil {
			t.Fatal(err)
		}
		if err := db.Where(Since(day(1)).In(generator.Twitter())).Find(&[]numbered{}).Error; err != nil {
			t.Error(err)
		}
	})
}

// TestRefusedWindowDeletesNothing: GORM drops the error of a subquery, so what
// stands in its place must not run.
func TestRefusedWindowDeletesNothing(t *testing.T) {
	db := memoryWithPlugin(t, &customer{}, &order{})
	rows := []order{{ID: 1}, {ID: 2}}
	if err := db.Create(&rows).Error; err != nil {
		t.Fatal(err)
	}
	bad := Between(day(2), day(1))
	for name, tx := range map[string]*gorm.DB{
		"where":    db.Where(bad).Delete(&order{}),
		"not":      db.Not(bad).Delete(&order{}),
		"subquery": db.Where("id NOT IN (?)", db.Model(&order{}).Select("id").Where(bad)).Delete(&order{}),
		"raw":      db.Exec("DELETE FROM orders WHERE NOT ?", bad.Column("id")),
	} {
		if tx.Error == nil {
			t.Errorf("%s: no error", name)
		}
	}
	var n int64
	if err := db.Model(&order{}).Count(&n).Error; err != nil || n != 2 {
		t.Errorf("%d rows left, %v; want 2", n, err)
	}
}

// TestLastReadsTheClock builds one window twice, an hour apart.
func TestLastReadsTheClock(t *testing.T) {
	db := memory(t)
	var later atomic.Int64 // the generator reads its clock in the background too
	g, err := generator.Open(t.Context(), generator.Config{
		Store: lease.Memory(), MaxSkew: -1, Clock: func() time.Time { return testClock.Add(time.Duration(later.Load())) }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.Background())
	if err := db.Use(New(Config{Generator: g})); err != nil {
		t.Fatal(err)
	}
	w := Last(time.Minute)
	query := db.Session(&gorm.Session{DryRun: true}).Where(w)
	first := query.Session(&gorm.Session{}).Find(&[]order{}).Statement.Vars[0]
	later.Store(int64(time.Hour))
	second := query.Session(&gorm.Session{}).Find(&[]order{}).Statement.Vars[0]
	want := [2]any{int64(idAt(t, testClock.Add(-time.Minute), 0, 0)), int64(idAt(t, testClock.Add(59*time.Minute), 0, 0))}
	if got := [2]any{first, second}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestWindowOfMarkedKeys: in an application whose plain keys the database
// numbers, a window over one is refused, and one over an ID is not.
func TestWindowOfMarkedKeys(t *testing.T) {
	db := memory(t, &customer{}, &order{})
	flake := New(Config{Match: MarkedKeys, Logger: slog.New(slog.DiscardHandler)})
	if err := db.Use(flake); err != nil {
		t.Fatal(err)
	}
	if err := db.Where(Since(day(1))).Find(&[]order{}).Error; !errors.Is(err, ErrNoKey) {
		t.Errorf("a plain key: got %v, want ErrNoKey", err)
	}
	if err := db.Where(Since(day(1)).In(generator.Standard())).Find(&[]order{}).Error; err != nil {
		t.Errorf("a plain key, with In: %v", err)
	}
	if err := db.Where(Since(day(1))).Find(&[]customer{}).Error; err != nil {
		t.Errorf("an ID: %v", err)
	}
}
