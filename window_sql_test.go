package gormflake

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"github.com/gormflake/gormflake/generator"
)

func TestSQL(t *testing.T) {
	standard := generator.Standard()
	lo, hi := int64(idAt(t, day(1), 0, 0)), int64(idAt(t, day(2), 0, 0))
	for _, c := range []struct {
		name    string
		window  Window
		dialect string
		sql     string
		args    []any
		err     error
	}{
		{"postgres", Between(day(1), day(2)).In(standard), "postgres", `("id" >= $1 AND "id" < $2)`, []any{lo, hi}, nil},
		{"mysql", Between(day(1), day(2)).In(standard), "mysql", "(`id` >= ? AND `id` < ?)", []any{lo, hi}, nil},
		{"sqlite", Until(day(2)).In(standard).Column("o.id"), "sqlite", "(`o`.`id` < ?)", []any{hi}, nil},
		{"a quote in a name", Since(day(1)).In(standard).Column(`a"b`), "postgres", `("a""b" >= $1)`, []any{lo}, nil},
		{"empty", On(day(1).AddDate(-50, 0, 0)).In(standard), "mysql", "(1 = 0)", nil, nil},
		{"everything", Until(standard.End()).In(standard), "mysql", "(`id` IS NOT NULL)", nil, nil},
		{"no layout", Since(day(1)), "mysql", "", nil, ErrNoLayout},
		{"an invalid layout", Since(day(1)).In(generator.Layout{}), "mysql", "", nil, generator.ErrInvalidLayout},
		{"a zero time", Since(time.Time{}).In(standard), "mysql", "", nil, ErrWindow},
		{"half a column", Since(day(1)).In(standard).Column("o."), "mysql", "", nil, ErrNoKey},
		{"another dialect", Since(day(1)).In(standard), "oracle", "", nil, ErrDialect},
	} {
		t.Run(c.name, func(t *testing.T) {
			sql, args, err := SQL(c.window, c.dialect)
			if !errors.Is(err, c.err) || sql != c.sql {
				t.Errorf("got %s, %v\nwant %s, %v", sql, err, c.sql, c.err)
			}
			if diff := cmp.Diff(c.args, args); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSQLOnServers asks each database through database/sql alone.
func TestSQLOnServers(t *testing.T) {
	each(t, []any{&foreign{}}, func(t *testing.T, db *gorm.DB) {
		rows := []foreign{{ID: idAt(t, day(1), 0, 0)}, {ID: idAt(t, day(2), 0, 0)}, {ID: idAt(t, day(3), 0, 0)}}
		for i := range rows {
			rows[i].Made = day(1)
		}
		if err := db.Create(&rows).Error; err != nil {
			t.Fatal(err)
		}
		pool, err := db.DB()
		if err != nil {
			t.Fatal(err)
		}
		where, args, err := SQL(On(day(2)).In(generator.Standard()).Column("foreigns.id"), db.Name())
		if err != nil {
			t.Fatal(err)
		}
		var id ID
		if err := pool.QueryRowContext(t.Context(), "SELECT id FROM foreigns WHERE "+where, args...).Scan(&id); err != nil || id != rows[1].ID {
			t.Errorf("%s: %d, %v; want %d", where, id, err, rows[1].ID)
		}
	})
}

func TestPartmanInterval(t *testing.T) {
	standard := generator.Standard()
	seconds := generator.Layout{Epoch: standard.Epoch, Tick: time.Second, TimeBits: 32, WorkerBits: 10, SequenceBits: 12}
	for _, c := range []struct {
		name   string
		layout generator.Layout
		d      time.Duration
		want   int64
		err    error
	}{
		{"a day", standard, 24 * time.Hour, 86_400_000 << 22, nil},
		{"an hour of a narrower layout", generator.JavaScriptSafe(), time.Hour, 3_600_000 << 12, nil},
		{"a minute of seconds", seconds, time.Minute, 60 << 22, nil},
		{"no whole ticks", seconds, 1500 * time.Millisecond, 0, ErrWidth},
		{"nothing", standard, 0, 0, ErrWidth},
		{"backwards", standard, -time.Hour, 0, ErrWidth},
		{"longer than the layout", standard, 70 * 366 * 24 * time.Hour, 0, ErrWidth},
		{"no layout", generator.Layout{}, time.Hour, 0, generator.ErrInvalidLayout},
	} {
		if got, err := PartmanInterval(c.layout, c.d); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, got, err, c.want, c.err)
		}
	}
}
