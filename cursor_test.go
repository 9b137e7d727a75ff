package gormflake

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// numbered fills a table of orders with the ids 10, 20, 30 and so on, every
// second of them of an amount of 1, the others of 0.
func numbered(t testing.TB, db *gorm.DB, n int) {
	t.Helper()
	rows := make([]order, n)
	for i := range rows {
		rows[i] = order{ID: int64(i+1) * 10, Amount: float64(i % 2)}
	}
	if err := db.Create(&rows).Error; err != nil {
		t.Fatal(err)
	}
}

func keys(rows []order) []int64 {
	out := []int64{}
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return out
}

func TestCursor(t *testing.T) { each(t, []any{&customer{}, &order{}}, testCursor) }

func testCursor(t *testing.T, db *gorm.DB) {
	ctx := context.Background()
	numbered(t, db, 6)
	find := func(tx *gorm.DB) ([]order, error) {
		var rows []order
		err := tx.Find(&rows).Error
		return rows, err
	}
	for name, c := range map[string]struct {
		read func() ([]order, error)
		want []int64
	}{
		"after":                 {func() ([]order, error) { return find(db.Clauses(After(20)).Limit(2)) }, []int64{30, 40}},
		"before":                {func() ([]order, error) { return find(db.Clauses(Before(50)).Limit(2)) }, []int64{40, 30}},
		"after nothing":         {func() ([]order, error) { return find(db.Clauses(After(0)).Limit(2)) }, []int64{10, 20}},
		"before nothing":        {func() ([]order, error) { return find(db.Clauses(Before(0)).Limit(2)) }, []int64{60, 50}},
		"after an absent id":    {func() ([]order, error) { return find(db.Clauses(After(25)).Limit(2)) }, []int64{30, 40}},
		"after the last":        {func() ([]order, error) { return find(db.Clauses(After(60)).Limit(2)) }, []int64{}},
		"scope":                 {func() ([]order, error) { return find(db.Scopes(Before(50).Scope).Limit(2)) }, []int64{40, 30}},
		"with a condition":      {func() ([]order, error) { return find(db.Where("amount = 1").Clauses(After(20)).Limit(2)) }, []int64{40, 60}},
		"both ends":             {func() ([]order, error) { return find(db.Clauses(After(10), Before(60)).Limit(3)) }, []int64{20, 30, 40}},
		"both ends, downward":   {func() ([]order, error) { return find(db.Clauses(Before(60), After(10)).Limit(3)) }, []int64{50, 40, 30}},
		"generic":               {func() ([]order, error) { return gorm.G[order](db, Before(50)).Limit(2).Find(ctx) }, []int64{40, 30}},
		"generic scope":         {func() ([]order, error) { return gorm.G[order](db).Scopes(After(20).Statement).Limit(2).Find(ctx) }, []int64{30, 40}},
		"bare, without a limit": {func() ([]order, error) { return find(db.Where(After(40))) }, []int64{50, 60}},
		"bare, with an order":   {func() ([]order, error) { return find(db.Where(After(20)).Order("id DESC").Limit(2)) }, []int64{60, 50}},
		"bare, negated":         {func() ([]order, error) { return find(db.Not(After(20))) }, []int64{10, 20}},
		"an order within it":    {func() ([]order, error) { return find(db.Clauses(After(20)).Order("amount").Limit(2)) }, []int64{30, 40}},
		"another column": {func() ([]order, error) {
			return find(db.Table("orders AS o").Clauses(Before(50).Column("o.id")).Limit(2))
		}, []int64{40, 30}},
		"a plain column": {func() ([]order, error) { return find(db.Clauses(Before(50).Column("id")).Limit(2)) }, []int64{40, 30}},
		"first": {func() ([]order, error) {
			var row order
			err := db.Clauses(Before(50)).First(&row).Error
			return []order{row}, err
		}, []int64{40}},
		"take": {func() ([]order, error) {
			var row order
			err := db.Clauses(After(50)).Take(&row).Error
			return []order{row}, err
		}, []int64{60}},
		"batches": {func() ([]order, error) {
			var rows, all []order
			err := db.Clauses(After(10)).FindInBatches(&rows, 2, func(*gorm.DB, int) error { all = append(all, rows...); return nil }).Error
			return all, err
		}, []int64{20, 30, 40, 50, 60}},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := c.read()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, keys(rows)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}

	var n int64
	if err := db.Model(&order{}).Clauses(After(20)).Limit(2).Count(&n).Error; err != nil || n != 4 {
		t.Errorf("count: %d, %v; want 4", n, err)
	}
	if tx := db.Unscoped().Clauses(After(50)).Delete(&order{}); tx.Error != nil || tx.RowsAffected != 1 {
		t.Errorf("delete: %d rows, %v; want 1", tx.RowsAffected, tx.Error)
	}
}

func TestCursorErrors(t *testing.T) {
	db := memoryWithPlugin(t, &customer{}, &order{})
	numbered(t, db, 6)
	var rows []order
	var row order
	for name, c := range map[string]struct {
		err  func() error
		want error
	}{
		"bare, with a limit": {func() error { return db.Where(After(20)).Limit(2).Find(&rows).Error }, ErrCursorOrder},
		"bare, take":         {func() error { return db.Where(After(20)).Take(&row).Error }, ErrCursorOrder},
		"an order before it": {func() error { return db.Order("amount").Clauses(After(20)).Limit(2).Find(&rows).Error }, ErrCursorOrder},
		"an order expression": {func() error {
			return db.Order(clause.OrderBy{Expression: clause.Expr{SQL: "1"}}).Clauses(After(20)).Find(&rows).Error
		}, ErrCursorOrder},
		"batches backward": {func() error {
			return db.Clauses(Before(50)).FindInBatches(&rows, 2, func(*gorm.DB, int) error { return nil }).Error
		}, ErrCursorOrder},
		"a negative lag":   {func() error { return db.Clauses(After(20).Lag(-1)).Find(&rows).Error }, ErrCursor},
		"no model":         {func() error { return db.Table("orders").Where(After(20)).Find(&[]map[string]any{}).Error }, ErrNoKey},
		"around: negative": {func() error { return db.Clauses(Around(20, -1)).Find(&rows).Error }, ErrCursor},
		"around: in Not":   {func() error { return db.Not(Around(20, 1)).Find(&rows).Error }, ErrCursor},
		"around: in Or":    {func() error { return db.Where("amount = 1").Or(Around(20, 1)).Find(&rows).Error }, ErrCursor},
		"around: beside Or": {func() error {
			return db.Where("amount = 1").Or("amount = 2").Clauses(Around(20, 1)).Find(&rows).Error
		}, ErrCursor},
		"around: no model": {func() error { return db.Table("orders").Where(Around(20, 1)).Find(&[]map[string]any{}).Error }, ErrNoKey},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.err(); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// TestCursorLag: a row that is committed late, with an id of its own time, is
// seen by a reader that keeps its distance and lost by one that does not.
func TestCursorLag(t *testing.T) {
	db := memoryWithPlugin(t, &customer{}, &order{})
	at := func(before time.Duration) ID { return idAt(t, testClock.Add(-before), 1, 0) }
	insert := func(ids ...ID) {
		t.Helper()
		for _, id := range ids {
			if err := db.Create(&order{ID: int64(id)}).Error; err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(c Cursor) (got []ID) {
		t.Helper()
		var rows []order
		if err := db.Clauses(c).Limit(10).Find(&rows).Error; err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			got = append(got, ID(r.ID))
		}
		return got
	}
	insert(at(5*time.Second), at(time.Second))
	eager, patient := read(After(0)), read(After(0).Lag(2*time.Second))
	insert(at(1500 * time.Millisecond)) // made before the row of 1 s ago, committed after it
	eager = append(eager, read(After(eager[len(eager)-1]))...)
	patient = append(patient, read(After(patient[len(patient)-1]).Lag(time.Millisecond))...)
	if want := []ID{at(5 * time.Second), at(time.Second)}; !slices.Equal(eager, want) {
		t.Errorf("without a lag: %v, want %v", eager, want)
	}
	if want := []ID{at(5 * time.Second), at(1500 * time.Millisecond), at(time.Second)}; !slices.Equal(patient, want) {
		t.Errorf("with a lag: %v, want %v", patient, want)
	}
	if got := read(After(0).Lag(100 * 365 * 24 * time.Hour)); got != nil {
		t.Errorf("with a lag past the epoch: %v, want nothing", got)
	}
}

func TestAround(t *testing.T) { each(t, []any{&customer{}, &order{}}, testAround) }

func testAround(t *testing.T, db *gorm.DB) {
	numbered(t, db, 9)
	ctx := context.Background()
	if err := db.Delete(&order{}, 60).Error; err != nil { // softly
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		tx   *gorm.DB
		want []int64
	}{
		"in the middle":           {db.Clauses(Around(30, 2)), []int64{10, 20, 30, 40, 50}},
		"an absent id":            {db.Clauses(Around(35, 2)), []int64{20, 30, 40, 50}},
		"at the start":            {db.Clauses(Around(10, 2)), []int64{10, 20, 30}},
		"at the end":              {db.Clauses(Around(90, 2)), []int64{70, 80, 90}},
		"beyond the end":          {db.Clauses(Around(1000, 2)), []int64{80, 90}},
		"more than there are":     {db.Clauses(Around(50, 100)), []int64{10, 20, 30, 40, 50, 70, 80, 90}},
		"none beside it":          {db.Clauses(Around(50, 0)), []int64{50}},
		"past a deleted row":      {db.Clauses(Around(50, 1)), []int64{40, 50, 70}},
		"with deleted rows":       {db.Unscoped().Clauses(Around(50, 1)), []int64{40, 50, 60}},
		"among some, before it":   {db.Where("amount = ?", 1).Clauses(Around(40, 1)), []int64{20, 40, 80}},
		"among some, after it":    {db.Clauses(Around(40, 1)).Where("amount = ?", 1), []int64{20, 40, 80}},
		"among either":            {db.Where(db.Where("id < 30").Or("id > 70")).Clauses(Around(20, 1)), []int64{10, 20, 80}},
		"scope":                   {db.Scopes(Around(30, 1).Scope), []int64{20, 30, 40}},
		"bare":                    {db.Where(Around(30, 1)), []int64{20, 30, 40}},
		"with an association":     {db.Joins("Customer").Clauses(Around(30, 1)), []int64{20, 30, 40}},
		"by column of an alias":   {db.Table("orders AS o").Clauses(Around(30, 1).Column("o.id")), []int64{20, 30, 40}},
		"an order of the user's":  {db.Where(Around(30, 1)).Order("id DESC"), []int64{40, 30, 20}},
		"with a window beside it": {db.Where(Between(day(1), day(2))).Clauses(Around(30, 1)), []int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			var rows []order
			if err := c.tx.Find(&rows).Error; err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, keys(rows)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	rows, err := gorm.G[order](db, Around(30, 1)).Find(ctx)
	if diff := cmp.Diff([]int64{20, 30, 40}, keys(rows)); err != nil || diff != "" {
		t.Errorf("generic: %v (-want +got):\n%s", err, diff)
	}
	if tx := db.Where(Around(30, 1)).Delete(&order{}); tx.Error != nil || tx.RowsAffected != 3 {
		t.Errorf("delete: %d rows, %v; want 3", tx.RowsAffected, tx.Error)
	}
	if tx := db.Model(&order{}).Where(Around(80, 1)).Update("amount", 5); tx.Error != nil || tx.RowsAffected != 3 {
		t.Errorf("update: %d rows, %v; want 3", tx.RowsAffected, tx.Error)
	}
}
