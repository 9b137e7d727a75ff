package gormflake

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gorm.io/gorm"

	"github.com/gormflake/gormflake/generator"
)

// measurement is a row to aggregate; a nil Value is NULL.
type measurement struct {
	ID    ID `gorm:"primaryKey"`
	Zone  int
	Value *int64
}

// measure makes n rows at random over a range, a third of them without a value.
func measure(t testing.TB, db *gorm.DB, n int, from, to time.Time) []measurement {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	used := map[ID]bool{}
	rows := make([]measurement, 0, n)
	for len(rows) < n {
		id := idAt(t, from.Add(time.Duration(r.Int64N(int64(to.Sub(from))))), r.Int64N(1024), r.Int64N(4096))
		if used[id] {
			continue
		}
		used[id] = true
		row := measurement{ID: id, Zone: len(rows) % 2}
		if v := r.Int64N(2000) - 1000; len(rows)%3 > 0 {
			row.Value = &v
		}
		rows = append(rows, row)
	}
	if err := db.CreateInBatches(&rows, 500).Error; err != nil {
		t.Fatal(err)
	}
	return rows
}

// inGo computes what AggregateBy should: the rows of each bucket, by their
// decoded time.
func inGo(rows []measurement, edges []time.Time) []Aggregate {
	out := make([]Aggregate, len(edges)-1)
	for i := range out {
		a := &out[i]
		a.From, a.To = edges[i], edges[i+1]
		for _, row := range rows {
			if at := generator.Standard().Decompose(row.ID).Time; at.Before(a.From) || !at.Before(a.To) {
				continue
			}
			a.Count++
			if row.Value == nil {
				continue
			}
			v := float64(*row.Value)
			a.Values++
			a.Sum += v
			if a.Min == nil {
				least, most := v, v
				a.Min, a.Max = &least, &most
			}
			*a.Min, *a.Max = math.Min(*a.Min, v), math.Max(*a.Max, v)
		}
		if a.Values > 0 {
			mean := a.Sum / float64(a.Values)
			a.Avg = &mean
		}
	}
	return out
}

func TestAggregateBy(t *testing.T) {
	ctx := context.Background()
	berlin := location(t, "Europe/Berlin")
	apia := location(t, "Pacific/Apia")
	start := time.Date(2018, 3, 20, 0, 0, 0, 0, berlin)
	skipped := time.Date(2011+4, 12, 1, 0, 0, 0, 0, apia)
	each(t, []any{&measurement{}}, func(t *testing.T, db *gorm.DB) {
		rows := measure(t, db, 3000, start.Add(-48*time.Hour), start.Add(20*24*time.Hour))
		for name, c := range map[string]struct {
			window Window
			width  Width
			edges  int
		}{
			"an hour":                      {Between(start, start.Add(10*24*time.Hour)), Every(time.Hour), 241},
			"not aligned, cut at the end":  {Between(start.Add(1234567), start.Add(1000*time.Second)), Every(7 * time.Second), 144},
			"as wide as the window":        {Between(start, start.Add(time.Hour)), Every(time.Hour), 2},
			"wider than the window":        {Between(start, start.Add(time.Hour)), Every(24 * time.Hour), 2},
			"as wide as can be":            {Between(start, start.Add(time.Hour)), Every(math.MaxInt64), 2},
			"no whole ticks":               {Between(start, start.Add(100*time.Hour)), Every(12345678901 * 100), 293},
			"days of 23 and 24 hours":      {Between(start.Add(-time.Hour), start.Add(12*24*time.Hour)), Days(berlin), 15},
			"days elsewhere":               {Between(start, start.Add(10*24*time.Hour)), Days(apia), 12},
			"clock hours":                  {Between(start.Add(30*time.Minute), start.Add(7*24*time.Hour)), Hours(berlin), 169},
			"weeks":                        {Between(start, start.Add(14*24*time.Hour)), Weeks(berlin), 4},
			"months":                       {Between(start, start.Add(14*24*time.Hour)), Months(berlin), 3},
			"years":                        {Between(start, start.Add(14*24*time.Hour)), Years(berlin), 2},
			"from before the epoch":        {Between(generator.Standard().Epoch.Add(-400*24*time.Hour), start.Add(24*time.Hour)), Every(100 * 24 * time.Hour), 17},
			"to past the end of the ids":   {Between(start, generator.Standard().End().Add(2*366*24*time.Hour)), Years(time.UTC), 70},
			"a range that holds no row":    {Between(skipped, skipped.Add(72*time.Hour)), Every(time.Hour), 73},
			"by the column's name":         {Between(start, start.Add(24*time.Hour)).Column("id"), Every(time.Hour), 25},
			"without the rows of old days": {Between(start, start.Add(24*time.Hour)).ExcludeLegacy(), Every(time.Hour), 25},
		} {
			t.Run(name, func(t *testing.T) {
				got, err := AggregateBy(ctx, db.Model(&measurement{}), c.window, c.width, "value")
				if err != nil {
					t.Fatal(err)
				}
				edges, err := c.width.edges(c.window.from, c.window.to, 1000)
				if err != nil || len(edges) != c.edges {
					t.Fatalf("%d edges, %v; want %d", len(edges), err, c.edges)
				}
				want := inGo(rows, edges)
				if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 0.001)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				counted, err := CountBy(ctx, db.Model(&measurement{}), c.window, c.width)
				if err != nil {
					t.Fatal(err)
				}
				for i := range want {
					if diff := cmp.Diff(want[i].Bucket, counted[i]); diff != "" {
						t.Errorf("CountBy (-want +got):\n%s", diff)
					}
				}
			})
		}
	})
}

func TestCountByOpenWindows(t *testing.T) {
	ctx := context.Background()
	db := memoryWithPlugin(t, &measurement{})
	count := func(w Window, width Width) []Bucket {
		t.Helper()
		got, err := CountBy(ctx, db.Model(&measurement{}), w, width)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := count(Until(day(9)), Days(time.UTC)); len(got) != 0 {
		t.Errorf("until, without rows: %v", got)
	}
	if got := count(Last(24*time.Hour), Every(time.Hour)); len(got) != 24 || !got[23].To.Equal(testClock) {
		t.Errorf("the last day, without rows: %v; want 24 empty hours up to now", got)
	}
	measure(t, db, 100, day(3).Add(5*time.Hour), day(5))
	sum := func(buckets []Bucket) (n int64) {
		for i, b := range buckets {
			n += b.Count
			if i > 0 && !b.From.Equal(buckets[i-1].To) {
				t.Errorf("bucket %d begins at %v, the one before ended at %v", i, b.From, buckets[i-1].To)
			}
		}
		return n
	}
	until := count(Until(day(6)), Days(time.UTC))
	if sum(until) != 100 || len(until) != 3 || !until[0].From.Equal(day(3)) {
		t.Errorf("until: %v; want 3 days from the first row's on", until)
	}
	since := count(Since(day(4)), Days(time.UTC))
	if len(since) != 2 || !since[1].To.Equal(testClock) {
		t.Errorf("since: %v; want 2 days up to now", since)
	}
	// A row whose id runs ahead of the clock.
	ahead := measurement{ID: idAt(t, testClock.Add(3*time.Millisecond), 0, 0)}
	if err := db.Create(&ahead).Error; err != nil {
		t.Fatal(err)
	}
	since = count(Since(day(3)), Days(time.UTC))
	if sum(since) != 101 || !since[2].To.Equal(testClock.Add(4*time.Millisecond)) {
		t.Errorf("since, with a row ahead of the clock: %v", since)
	}
	if got := count(Until(day(2)), Every(time.Hour)); len(got) != 0 {
		t.Errorf("until before the first row: %v", got)
	}
	if got := count(Between(day(3), day(3)), Every(time.Hour)); len(got) != 0 {
		t.Errorf("the empty window: %v", got)
	}
	if got := count(Since(testClock.Add(time.Hour)), Every(time.Hour)); len(got) != 0 {
		t.Errorf("since a time to come: %v", got)
	}
}

func TestCountByOfAQuery(t *testing.T) {
	ctx := context.Background()
	db := memoryWithPlugin(t, &customer{}, &order{})
	shop(t, db)
	got, err := AggregateBy(ctx, db.Model(&order{}).Joins("JOIN customers c ON c.id = orders.customer_id").Where("c.name <> ?", "customer 3"),
		Between(day(2), day(5)).Column("c.id"), Days(time.UTC), "orders.amount")
	if err != nil {
		t.Fatal(err)
	}
	var counts []int64
	for _, b := range got {
		counts = append(counts, b.Count)
	}
	if diff := cmp.Diff([]int64{2, 0, 4}, counts); diff != "" || got[2].Sum != 6 {
		t.Errorf("(-want +got):\n%s\n%v", diff, got)
	}
}

// TestCountByOfAlternatives counts rows of which one condition or another holds:
// the window must hold beside either.
func TestCountByOfAlternatives(t *testing.T) {
	db := memoryWithPlugin(t, &customer{}, &order{})
	shop(t, db)
	either := func(db *gorm.DB) *gorm.DB { return db.Where("amount = ?", 0).Or("amount = ?", 2) }
	for name, query := range map[string]*gorm.DB{
		"in the statement": either(db),
		"in a scope":       db.Scopes(either),
		"in one text":      db.Where("amount = 0\n\tOR amount = 2"),
		"in scopes":        db.Scopes(func(db *gorm.DB) *gorm.DB { return db.Scopes(either) }),
	} {
		for window, want := range map[Window][]int64{
			Between(day(2), day(5)):       {1, 2, 2},
			Until(day(4)):                 {1, 1, 2},
			Since(day(8)).ExcludeLegacy(): {2, 2},
		} {
			got, err := CountBy(t.Context(), query.Model(&order{}), window, Days(time.UTC))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var counts []int64
			for _, b := range got[:min(len(got), len(want))] {
				counts = append(counts, b.Count)
			}
			if diff := cmp.Diff(want, counts); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

func TestBucketErrors(t *testing.T) {
	ctx := context.Background()
	db := memoryWithPlugin(t, &measurement{})
	w := Between(day(1), day(2))
	count := func(db *gorm.DB, w Window, width Width) error { _, err := CountBy(ctx, db, w, width); return err }
	rows := db.Model(&measurement{}).Session(&gorm.Session{})
	aggregated := func(column string) error {
		_, err := AggregateBy(ctx, db.Model(&measurement{}), w, Every(time.Hour), column)
		return err
	}
	for name, c := range map[string]struct{ got, want error }{
		"the zero width":      {count(rows, w, Width{}), ErrWidth},
		"negative":            {count(rows, w, Every(-time.Hour)), ErrWidth},
		"less than a tick":    {count(rows, w, Every(time.Microsecond)), ErrWidth},
		"no location":         {count(rows, w, Days(nil)), ErrWidth},
		"too many":            {count(rows, Between(day(1), day(30)), Every(time.Millisecond)), ErrWidth},
		"too many hours":      {count(rows, Between(day(1).AddDate(-2, 0, 0), day(30)), Hours(time.UTC)), ErrWidth},
		"a zero time":         {count(rows, Since(time.Time{}), Every(time.Hour)), ErrWindow},
		"no model":            {count(db.Table("measurements"), w, Every(time.Hour)), ErrNoKey},
		"no layout":           {count(memory(t, &measurement{}).Model(&measurement{}), w, Every(time.Hour)), ErrNoLayout},
		"no column":           {aggregated(""), ErrNoKey},
		"an order":            {count(rows.Order("id"), w, Every(time.Hour)), ErrBuckets},
		"a cursor":            {count(rows.Clauses(After(1)), w, Every(time.Hour)), ErrBuckets},
		"a limit":             {count(rows.Limit(3), w, Every(time.Hour)), ErrBuckets},
		"an offset":           {count(rows.Offset(3), w, Every(time.Hour)), ErrBuckets},
		"a grouping":          {count(rows.Group("zone"), w, Every(time.Hour)), ErrBuckets},
		"distinct values":     {count(rows.Distinct("zone"), w, Every(time.Hour)), ErrBuckets},
		"a scope's limit":     {count(rows.Scopes(func(db *gorm.DB) *gorm.DB { return db.Limit(3) }), w, Every(time.Hour)), ErrBuckets},
		"a column it has not": {aggregated("other"), ErrNoKey},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
	_, err := CountBy(ctx, db.Table("measurements"), w, Every(time.Hour))
	if text := "the statement has no model"; err == nil || strings.Count(err.Error(), text) != 1 {
		t.Errorf("got %v, want to read %q once", err, text)
	}
	for _, expression := range []string{"value * 1.5", "measurements.value+1", "COALESCE(value, 0)", "value - id", `"value"`, "value%2"} {
		for name, err := range map[string]error{
			"with a model": aggregated(expression),
			"without one": func() error {
				_, err := AggregateBy(ctx, db.Table("measurements"), w.Column("measurements.id"), Every(time.Hour), expression)
				return err
			}(),
		} {
			if !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), "met the expression") {
				t.Errorf("%s %s: got %v, want an error that says it is an expression", expression, name, err)
			}
		}
	}
}
