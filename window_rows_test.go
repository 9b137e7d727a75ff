package gormflake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"pgregory.net/rapid"

	"github.com/gormflake/gormflake/generator"
)

// TestWindowSelectsByDecodedTime compares windows, their negation and their
// tiling with the decoded time of every row, at random.
func TestWindowSelectsByDecodedTime(t *testing.T) {
	each(t, []any{&customer{}, &order{}}, testSelectsByDecodedTime)
}

func testSelectsByDecodedTime(t *testing.T, db *gorm.DB) {
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
func shop(t testing.TB, db *gorm.DB) {
	t.Helper()
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
}

// TestWindowInBothAPIs uses a window everywhere that GORM takes an expression.
func TestWindowInBothAPIs(t *testing.T) {
	each(t, []any{&customer{}, &order{}}, func(t *testing.T, db *gorm.DB) {
		shop(t, db)
		testReads(t, db)
		testWrites(t, db)
	})
}

func testReads(t *testing.T, db *gorm.DB) {
	ctx := context.Background()
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

}

func testWrites(t *testing.T, db *gorm.DB) {
	ctx := context.Background()
	w := Between(day(3), day(5))
	orders := func() *gorm.DB { return db.Model(&order{}) }
	if tx := orders().Where(w).Update("amount", 50); tx.Error != nil || tx.RowsAffected != 7 {
		t.Errorf("update: %d rows, %v", tx.RowsAffected, tx.Error)
	}
	if n, err := gorm.G[order](db).Where(On(day(3))).Update(ctx, "amount", 60); err != nil || n != 3 {
		t.Errorf("generic update: %d rows, %v", n, err)
	}
	if tx := db.Where(On(day(3))).Delete(&order{}); tx.Error != nil || tx.RowsAffected != 3 {
		t.Errorf("soft delete: %d rows, %v", tx.RowsAffected, tx.Error)
	}
	var n int64
	if err := orders().Where(w).Count(&n).Error; err != nil || n != 4 {
		t.Errorf("after the soft delete: %d rows, %v; want 4", n, err)
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
	db := memoryWithPlugin(t, &customer{}, &order{})
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
