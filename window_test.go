package gormflake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/glebarez/sqlite"
	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"pgregory.net/rapid"

	"github.com/gormflake/gormflake/generator"
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

// fixedSource stands in for the plugin: a layout and a clock.
type fixedSource struct{}

func (fixedSource) Name() string              { return "gormflake" }
func (fixedSource) Initialize(*gorm.DB) error { return nil }
func (fixedSource) Layout() generator.Layout  { return generator.Standard() }
func (fixedSource) Now() time.Time            { return testClock }

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

// memoryWithSource is memory with a layout and a clock.
func memoryWithSource(t testing.TB, models ...any) *gorm.DB {
	t.Helper()
	db := memory(t, models...)
	if err := db.Use(fixedSource{}); err != nil {
		t.Fatal(err)
	}
	return db
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
	db := memoryWithSource(t)
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
	db := memoryWithSource(t)
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
		{"a key that the database numbers", Since(day(1)), &numbered{}, ErrNoKey, "autoIncrement"},
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
	db := memoryWithSource(t, &customer{}, &order{})
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

// TestWindowSelectsByDecodedTime compares windows, their negation and their
// tiling with the decoded time of every row, at random.
func TestWindowSelectsByDecodedTime(t *testing.T) {
	db := memoryWithSource(t, &customer{}, &order{})
	layout := generator.Standard()
	base := time.Date(2024, 5, 5, 0, 0, 0, 0, time.UTC)
	near := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.IntRange(0, 9).Draw(t, "far") == 0 {
			return rapid.SampledFrom([]time.Time{
				layout.Epoch.Add(-time.Hour), layout.Epoch, layout.Epoch.Add(1), layout.End().Add(-1), layout.End(), layout.End().Add(time.Hour),
				time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
			}).Draw(t, "edge")
		}
		return base.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Millisecond)).Draw(t, "offset")))
	})
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) int64 {
			at := near.Draw(t, "at")
			at = base.Add(max(0, min(20*time.Millisecond, at.Sub(base))))
			id, err := layout.Compose(at, rapid.Int64Range(0, 1023).Draw(t, "worker"), rapid.Int64Range(0, 4095).Draw(t, "sequence"))
			if err != nil {
				t.Fatal(err)
			}
			return int64(id)
		}), 1, 40, rapid.ID[int64]).Draw(t, "ids")
		ids = append(ids, math.MaxInt64, 1)
		if err := db.Exec("DELETE FROM orders").Error; err != nil {
			t.Fatal(err)
		}
		rows := make([]order, len(ids))
		for i, id := range ids {
			rows[i].ID = id
		}
		if err := db.Create(&rows).Error; err != nil {
			t.Fatal(err)
		}
		a, b, c := near.Draw(t, "a"), near.Draw(t, "b"), near.Draw(t, "c")
		if b.Before(a) {
			a, b = b, a
		}
		if c.Before(b) {
			c = b
		}
		in := func(from, to time.Time) (want, others []int64) {
			for _, id := range ids {
				if at := layout.Decompose(ID(id)).Time; !at.Before(from) && at.Before(to) {
					want = append(want, id)
				} else {
					others = append(others, id)
				}
			}
			return want, others
		}
		found := func(tx *gorm.DB) map[int64]bool {
			var got []int64
			if err := tx.Model(&order{}).Pluck("id", &got).Error; err != nil {
				t.Fatal(err)
			}
			return set(got)
		}
		want, others := in(a, b)
		if diff := cmp.Diff(set(want), found(db.Where(Between(a, b)))); diff != "" {
			t.Fatalf("[%v, %v) (-want +got):\n%s", a, b, diff)
		}
		if diff := cmp.Diff(set(others), found(db.Not(Between(a, b)))); diff != "" {
			t.Fatalf("not [%v, %v) (-want +got):\n%s", a, b, diff)
		}
		next, _ := in(b, c)
		if diff := cmp.Diff(set(append(want, next...)), found(db.Where(Between(a, b)).Or(Between(b, c)))); diff != "" {
			t.Fatalf("[%v, %v) and [%v, %v) (-want +got):\n%s", a, b, b, c, diff)
		}
		for name, pair := range map[string][2]map[int64]bool{
			"tile":  {found(db.Where(Between(a, c))), found(db.Where(db.Where(Between(a, b)).Or(Between(b, c))))},
			"since": {found(db.Where(Since(a))), found(db.Not(Until(a)))},
			"both":  {found(db.Where(Since(a)).Where(Until(c))), found(db.Where(Between(a, c)))},
		} {
			if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
				t.Fatalf("%s: %v %v %v:\n%s", name, a, b, c, diff)
			}
		}
	})
}

func set(ids []int64) map[int64]bool {
	out := map[int64]bool{}
	for _, id := range ids {
		out[id] = true
	}
	return out
}

// shop fills a database with a customer and an order a day, 1 to 9 May 2024.
func shop(t testing.TB) *gorm.DB {
	t.Helper()
	db := memoryWithSource(t, &customer{}, &order{})
	for d := 1; d <= 9; d++ {
		c := customer{ID: idAt(t, day(d), 1, 0), Name: fmt.Sprint("customer ", d)}
		if err := db.Create(&c).Error; err != nil {
			t.Fatal(err)
		}
		owner := int64(c.ID)
		for n := range int64(d) {
			o := order{ID: int64(idAt(t, day(d).Add(time.Duration(n)*time.Hour), 2, n)), CustomerID: &owner, Amount: float64(n)}
			if err := db.Create(&o).Error; err != nil {
				t.Fatal(err)
			}
		}
	}
	return db
}

// TestWindowInBothAPIs uses a window everywhere that GORM takes an expression.
func TestWindowInBothAPIs(t *testing.T) {
	ctx := context.Background()
	db := shop(t)
	w := Between(day(3), day(5)) // 3 + 4 orders, customers 3 and 4
	count := func(tx *gorm.DB) int64 {
		t.Helper()
		var n int64
		if err := tx.Count(&n).Error; err != nil {
			t.Fatal(err)
		}
		return n
	}
	find := func(tx *gorm.DB) int64 {
		t.Helper()
		var rows []order
		if err := tx.Find(&rows).Error; err != nil {
			t.Fatal(err)
		}
		return int64(len(rows))
	}
	generic := func(rows []order, err error) int64 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return int64(len(rows))
	}
	orders := func() *gorm.DB { return db.Model(&order{}) }
	batches := func() (n int64) {
		var rows []order
		if err := db.Where(w).FindInBatches(&rows, 2, func(*gorm.DB, int) error { n += int64(len(rows)); return nil }).Error; err != nil {
			t.Fatal(err)
		}
		return n
	}
	preloaded := func() (n int64) {
		var all []customer
		if err := db.Preload("Orders", w).Find(&all).Error; err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			n += int64(len(c.Orders))
		}
		return n
	}
	association := func() int64 {
		var rows []order
		if err := db.Model(&customer{ID: idAt(t, day(4), 1, 0)}).Association("Orders").Find(&rows, Since(day(4).Add(time.Hour))); err != nil {
			t.Fatal(err)
		}
		return int64(len(rows))
	}
	maps := func() int64 {
		var rows []map[string]any
		if err := db.Table("orders").Where(w.Column("id")).Find(&rows).Error; err != nil {
			t.Fatal(err)
		}
		return int64(len(rows))
	}
	raw := func() (n int64) {
		if err := db.Raw("SELECT COUNT(*) FROM orders o WHERE ?", w.Column("o.id")).Scan(&n).Error; err != nil {
			t.Fatal(err)
		}
		return n
	}
	for name, got := range map[string][2]int64{
		"where":            {7, find(db.Where(w))},
		"find's condition": {7, find(db.Session(&gorm.Session{}).Where("1 = 1").Clauses(w))},
		"count":            {7, count(orders().Where(w))},
		"scope":            {7, count(orders().Scopes(w.Scope))},
		"not":              {38, count(orders().Not(w))},
		"not of a group":   {38, count(orders().Not(db.Where(w)))},
		"not of two":       {41, count(orders().Not(db.Where(w).Where(Since(day(4)))))},
		"or":               {8, count(orders().Where(w).Or(On(day(1))))},
		"or in a group":    {8, count(orders().Where(db.Where(w).Or(On(day(1)))))},
		"two windows":      {4, count(orders().Where(w).Where(Since(day(4))))},
		"alias":            {7, count(db.Table("orders AS o").Model(&order{}).Where(w))},
		"derived table":    {7, count(db.Table("(?) AS t", orders().Where(w)))},
		"derived, outside": {7, count(db.Table("(?) AS t", orders()).Model(&order{}).Where(w))},
		"subquery":         {7, count(orders().Where("customer_id IN (?)", db.Model(&customer{}).Select("id").Where(w)))},
		"association join": {7, find(db.Joins("Customer").Where(w))},
		"joined column":    {7, find(db.Joins("Customer").Where(w.Column("Customer.id")))},
		"written join":     {7, count(orders().Joins("JOIN customers c ON c.id = orders.customer_id AND ?", w.Column("c.id")))},
		"join's condition": {7, count(orders().InnerJoins("Customer", db.Where(w.Column("id"))))},
		"foreign key":      {7, count(orders().Where(w.Column("customer_id")))},
		"batches":          {7, batches()},
		"preload":          {7, preloaded()},
		"association":      {3, association()},
		"maps":             {7, maps()},
		"raw":              {7, raw()},
		"generic where":    {7, generic(gorm.G[order](db).Where(w).Find(ctx))},
		"generic scope":    {7, generic(gorm.G[order](db).Scopes(w.Statement).Find(ctx))},
		"generic not":      {38, generic(gorm.G[order](db).Not(w).Find(ctx))},
		"generic clauses":  {7, generic(gorm.G[order](db, w).Find(ctx))},
		"generic or":       {8, generic(gorm.G[order](db).Where(w).Or(On(day(1))).Find(ctx))},
		"other layout":     {0, count(orders().Where(w.In(generator.Twitter())))},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: got %d rows, want %d", name, got[1], got[0])
		}
	}

	if tx := orders().Where(w).Update("amount", 50); tx.Error != nil || tx.RowsAffected != 7 {
		t.Errorf("update: %d rows, %v", tx.RowsAffected, tx.Error)
	}
	if n, err := gorm.G[order](db).Where(On(day(3))).Update(ctx, "amount", 60); err != nil || n != 3 {
		t.Errorf("generic update: %d rows, %v", n, err)
	}
	if tx := db.Where(On(day(3))).Delete(&order{}); tx.Error != nil || tx.RowsAffected != 3 {
		t.Errorf("soft delete: %d rows, %v", tx.RowsAffected, tx.Error)
	}
	if n := count(orders().Where(w)); n != 4 {
		t.Errorf("after the soft delete: %d rows, want 4", n)
	}
	if tx := db.Unscoped().Scopes(w.Scope).Delete(&order{}); tx.Error != nil || tx.RowsAffected != 7 {
		t.Errorf("hard delete: %d rows, %v", tx.RowsAffected, tx.Error)
	}
	if n, err := gorm.G[order](db).Where(On(day(1))).Delete(ctx); err != nil || n != 1 {
		t.Errorf("generic delete: %d rows, %v", n, err)
	}
}

// TestWindowOfNullColumn: rows without a value are in no window and in no
// window's negation.
func TestWindowOfNullColumn(t *testing.T) {
	db := memoryWithSource(t, &customer{}, &order{})
	owner := int64(idAt(t, day(3), 0, 0))
	rows := []order{{ID: 1}, {ID: 2, CustomerID: &owner}}
	if err := db.Omit(clause.Associations).Create(&rows).Error; err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]Window{
		"on": On(day(3)), "none": Until(generator.Standard().Epoch), "all": Until(generator.Standard().End()),
	} {
		var in, out int64
		w = w.Column("customer_id")
		if err := errors.Join(db.Model(&order{}).Where(w).Count(&in).Error, db.Model(&order{}).Not(w).Count(&out).Error); err != nil {
			t.Fatal(err)
		}
		if in+out != 1 {
			t.Errorf("%s: %d in and %d out, want the one row that has a value", name, in, out)
		}
	}
}
