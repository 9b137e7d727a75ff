package gormflake

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"
	"pgregory.net/rapid"
)

func TestPage(t *testing.T) { each(t, []any{&customer{}, &order{}}, testPage) }

func testPage(t *testing.T, db *gorm.DB) {
	ctx := context.Background()
	numbered(t, db, 5)
	at := EncodeCursor
	for name, c := range map[string]struct {
		args           PageArgs
		want           []int64
		next, previous bool
	}{
		"the first":                  {PageArgs{First: 2}, []int64{10, 20}, true, false},
		"the second":                 {PageArgs{First: 2, After: at(20)}, []int64{30, 40}, true, true},
		"the third":                  {PageArgs{First: 2, After: at(40)}, []int64{50}, false, true},
		"full to the end":            {PageArgs{First: 5}, []int64{10, 20, 30, 40, 50}, false, false},
		"past the end":               {PageArgs{First: 2, After: at(50)}, []int64{}, false, true},
		"after nothing":              {PageArgs{First: 2, After: at(5)}, []int64{10, 20}, true, false},
		"the last":                   {PageArgs{Last: 2}, []int64{40, 50}, false, true},
		"the last but one":           {PageArgs{Last: 2, Before: at(40)}, []int64{20, 30}, true, true},
		"up to the start":            {PageArgs{Last: 2, Before: at(20)}, []int64{10}, true, false},
		"between, forward":           {PageArgs{First: 2, After: at(10), Before: at(50)}, []int64{20, 30}, true, true},
		"between, all of it":         {PageArgs{First: 3, After: at(10), Before: at(50)}, []int64{20, 30, 40}, true, true},
		"between, backward":          {PageArgs{Last: 2, After: at(10), Before: at(50)}, []int64{30, 40}, true, true},
		"newest first":               {PageArgs{First: 2, Descending: true}, []int64{50, 40}, true, false},
		"newest first, second":       {PageArgs{First: 2, After: at(40), Descending: true}, []int64{30, 20}, true, true},
		"newest first, third":        {PageArgs{First: 2, After: at(20), Descending: true}, []int64{10}, false, true},
		"newest first, the last":     {PageArgs{Last: 2, Descending: true}, []int64{20, 10}, false, true},
		"newest first, back from it": {PageArgs{Last: 2, Before: at(20), Descending: true}, []int64{40, 30}, true, true},
		"newest first, to the start": {PageArgs{Last: 2, Before: at(40), Descending: true}, []int64{50}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			page, err := Page[order](ctx, db, c.args)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, keys(page.Nodes())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			want := PageInfo{HasNextPage: c.next, HasPreviousPage: c.previous}
			if n := len(c.want); n > 0 {
				want.StartCursor, want.EndCursor = at(ID(c.want[0])), at(ID(c.want[n-1]))
			}
			if diff := cmp.Diff(want, page.PageInfo); diff != "" {
				t.Errorf("page info (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPageOfAQuery(t *testing.T) {
	ctx := context.Background()
	db := memoryWithPlugin(t, &customer{}, &order{})
	shop(t, db)
	if err := db.Delete(&order{}, On(day(3))).Error; err != nil {
		t.Fatal(err)
	}
	query := db.Where(Between(day(2), day(5))).Preload("Customer").Joins("Customer")
	var got []int64
	args := PageArgs{First: 2}
	for {
		page, err := Page[order](ctx, query, args)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Nodes() {
			if o.Customer == nil {
				t.Errorf("order %d has no customer", o.ID)
			}
		}
		got = append(got, keys(page.Nodes())...)
		if !page.PageInfo.HasNextPage {
			break
		}
		args.After = page.PageInfo.EndCursor
	}
	var want []int64
	if err := db.Model(&order{}).Where(Between(day(2), day(5))).Order("id").Pluck("id", &want).Error; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 6 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	pointers, err := Page[*order](ctx, db.Where(On(day(2))), PageArgs{First: 5, Lag: time.Hour})
	if err != nil || len(pointers.Edges) != 2 {
		t.Errorf("pages of pointers: %v, %v; want 2 edges", pointers, err)
	}
	text, err := json.Marshal(&Connection[customer]{Edges: []Edge[customer]{}})
	if err != nil || string(text) != `{"edges":[],"pageInfo":{"hasNextPage":false,"hasPreviousPage":false}}` {
		t.Errorf("JSON %s, %v", text, err)
	}
}

// TestPageOfAlternatives pages through rows of which one condition or another
// holds: a cursor must hold beside either.
func TestPageOfAlternatives(t *testing.T) {
	db := memoryWithPlugin(t, &customer{}, &order{})
	shop(t, db)
	either := func(db *gorm.DB) *gorm.DB { return db.Where("amount = ?", 0).Or("amount = ?", 2) }
	var want []int64
	if err := db.Model(&order{}).Where(either(db)).Where(Until(testClock)).Order("id").Pluck("id", &want).Error; err != nil {
		t.Fatal(err)
	}
	for name, query := range map[string]*gorm.DB{
		"in the statement": either(db),
		"in a scope":       db.Scopes(either),
		"the Or first":     db.Or("amount = ?", 0).Where("amount = ?", 2),
		"in one text":      db.Where("amount = 0\n\tOR amount = 2"),
		"in scopes":        db.Scopes(func(db *gorm.DB) *gorm.DB { return db.Scopes(either) }),
	} {
		var got []int64
		args := PageArgs{First: 3, Lag: time.Nanosecond}
		for more := true; more && len(got) <= len(want); {
			page, err := Page[order](t.Context(), query, args)
			if err != nil {
				t.Fatal(err)
			}
			if previous := page.PageInfo.HasPreviousPage; previous != (args.After != "") {
				t.Errorf("%s: a page before it %t, after cursor %q", name, previous, args.After)
			}
			got = append(got, keys(page.Nodes())...)
			args.After, more = page.PageInfo.EndCursor, page.PageInfo.HasNextPage
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) != 8 {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPageErrors(t *testing.T) {
	ctx := context.Background()
	db := memoryWithPlugin(t, &customer{}, &order{})
	numbered(t, db, 3)
	type text struct {
		ID string `gorm:"primaryKey"`
	}
	ofText := func(db *gorm.DB) error { _, err := Page[text](ctx, db, PageArgs{First: 1}); return err }
	of := func(db *gorm.DB, args PageArgs) error { _, err := Page[order](ctx, db, args); return err }
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for name, c := range map[string]struct{ got, want error }{
		"neither":          {of(db, PageArgs{}), ErrCursor},
		"both":             {of(db, PageArgs{First: 1, Last: 1}), ErrCursor},
		"negative":         {of(db, PageArgs{First: -1}), ErrCursor},
		"a foreign cursor": {of(db, PageArgs{First: 1, After: "30"}), ErrCursor},
		"a mangled cursor": {of(db, PageArgs{Last: 1, Before: "B" + EncodeCursor(30)[1:]}), ErrCursor},
		"ordered":          {of(db.Order("amount"), PageArgs{First: 1}), ErrCursorOrder},
		"limited":          {of(db.Limit(3), PageArgs{First: 1}), ErrCursorOrder},
		"limited by scope": {of(db.Scopes(func(db *gorm.DB) *gorm.DB { return db.Limit(3) }), PageArgs{First: 1}), ErrCursorOrder},
		"no key selected":  {of(db.Select("amount"), PageArgs{First: 1}), ErrCursor},
		"a string key":     {ofText(db), ErrNoKey},
		"a negative lag":   {of(db, PageArgs{First: 1, Lag: -1}), ErrCursor},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
	if _, err := Page[order](cancelled, db, PageArgs{First: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context: %v", err)
	}
}

// TestPagesAreStable walks pages while rows are inserted and deleted at
// random: every row that was there throughout comes exactly once, in order.
func TestPagesAreStable(t *testing.T) {
	ctx := context.Background()
	db := memoryWithPlugin(t, &customer{}, &order{})
	rapid.Check(t, func(t *rapid.T) {
		if err := db.Exec("DELETE FROM orders").Error; err != nil {
			t.Fatal(err)
		}
		stay := rapid.SliceOfNDistinct(rapid.Int64Range(1, 500), 1, 30, rapid.ID[int64]).Draw(t, "rows that stay")
		for _, id := range stay {
			if err := db.Create(&order{ID: id * 2}).Error; err != nil {
				t.Fatal(err)
			}
		}
		args := PageArgs{First: rapid.IntRange(1, 7).Draw(t, "size"), Descending: rapid.Bool().Draw(t, "descending")}
		seen := map[int64]int{}
		last := int64(0)
		for {
			page, err := Page[order](ctx, db, args)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range page.Nodes() {
				seen[o.ID]++
				if last != 0 && (o.ID > last) == args.Descending {
					t.Fatalf("%d comes after %d", o.ID, last)
				}
				last = o.ID
			}
			if !page.PageInfo.HasNextPage {
				break
			}
			args.After = page.PageInfo.EndCursor
			passing := rapid.Int64Range(0, 501).Draw(t, "passing")*2 + 1
			var row order
			if db.Limit(1).Find(&row, passing).RowsAffected == 0 {
				err = db.Create(&order{ID: passing}).Error
			} else {
				err = db.Unscoped().Delete(&row).Error
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range stay {
			if seen[id*2] != 1 {
				t.Fatalf("row %d was seen %d times", id*2, seen[id*2])
			}
		}
	})
}

func TestCursorText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := ID(rapid.Int64Min(0).Draw(t, "id"))
		text := EncodeCursor(id)
		if got, err := DecodeCursor(text); got != id || err != nil || len(text) != 16 {
			t.Fatalf("%d became %q and then %d, %v", id, text, got, err)
		}
		mangled := []byte(text)
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		mangled[at] = rapid.SampledFrom([]byte("AZaz09-_!")).Draw(t, "byte")
		if string(mangled) != text {
			if got, err := DecodeCursor(string(mangled)); err == nil {
				t.Fatalf("%q, mangled from %q, gave %d", mangled, text, got)
			}
		}
	})
}
