package gormflake

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/internal/servers"
)

// each runs a test on every SQL server, in a database with the
// plugin and tables of the models.
func each(t *testing.T, models []any, test func(t *testing.T, db *gorm.DB)) {
	t.Helper()
	servers.EachSQL(t, func(t *testing.T, srv *servers.Server) {
		db := srv.Open(t, nil)
		install(t, db, models)
		test(t, db)
	})
}

// foreign is a table of ids that this process did not make.
type foreign struct {
	ID   ID `gorm:"primaryKey"`
	Zone int
	Made time.Time
}

// TestTimeOf compares the databases' decoding with Go's, for several layouts,
// in a session of another time zone, before 1970 and past 2038.
func TestTimeOf(t *testing.T) {
	layouts := map[string]generator.Layout{
		"standard": generator.Standard(), "twitter": generator.Twitter(), "newlife": generator.NewLife(), "javascript": generator.JavaScriptSafe(),
		"seconds since 1960": {Epoch: time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC), Tick: time.Second, TimeBits: 32, WorkerBits: 10, SequenceBits: 12},
	}
	each(t, []any{&foreign{}}, func(t *testing.T, db *gorm.DB) {
		err := db.Connection(func(db *gorm.DB) error {
			switch db.Name() {
			case "postgres":
				if err := db.Exec("SET TIME ZONE 'America/Sao_Paulo'").Error; err != nil {
					return err
				}
			case "mysql":
				if err := db.Exec("SET time_zone = '-03:00'").Error; err != nil {
					return err
				}
			}
			for name, layout := range layouts {
				if err := testTimeOf(db.Session(&gorm.Session{NewDB: true}), layout); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func testTimeOf(db *gorm.DB, layout generator.Layout) error {
	if err := db.Exec("DELETE FROM foreigns").Error; err != nil {
		return err
	}
	var rows []foreign
	for i := range int64(200) {
		at := layout.Epoch.Add(time.Second).Add(time.Duration(i*i*i) * 2 * time.Hour).Add(time.Duration(i*i) * 7 * time.Millisecond)
		if i%3 == 0 {
			at = at.Truncate(time.Second)
		}
		if !at.Before(layout.End()) {
			break
		}
		id, err := layout.Compose(at, i%8, i%100)
		if err != nil {
			return err
		}
		rows = append(rows, foreign{ID: id, Zone: int(i % 2), Made: layout.Decompose(id).Time})
	}
	if err := db.Create(&rows).Error; err != nil {
		return err
	}
	at := TimeOf("id").In(layout)
	var read []struct {
		ID   ID
		Made time.Time
		At   string
	}
	text := "?"
	switch db.Name() {
	case "postgres":
		text = "to_char(? AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS')"
	case "mysql":
		text = "DATE_FORMAT(?, '%Y-%m-%d %H:%i:%s.%f')"
	}
	if err := db.Model(&foreign{}).Select("id, made, "+text+" AS at", at).Order(at.Desc()).Scan(&read).Error; err != nil {
		return err
	}
	if len(read) != len(rows) {
		return fmt.Errorf("read %d of %d rows", len(read), len(rows))
	}
	for i, r := range read {
		want := layout.Decompose(r.ID).Time
		got, err := time.Parse("2006-01-02 15:04:05.999999999", r.At)
		if err != nil {
			got, err = time.Parse("2006-01-02 15:04:05.999999999-07:00", r.At)
		}
		if err != nil || !got.Equal(want) {
			return fmt.Errorf("%d: the database says %s, want %v", r.ID, r.At, want)
		}
		if r.ID != rows[len(rows)-1-i].ID {
			return fmt.Errorf("row %d is %d, want the ids descending", i, r.ID)
		}
	}
	// As a condition, beside a column of that time and beside a bound one.
	var equal, later int64
	middle := rows[len(rows)/2].Made
	if err := errors.Join(
		db.Model(&foreign{}).Where("? = ?", at, middle).Count(&equal).Error,
		db.Model(&foreign{}).Where("? > ?", at, middle).Count(&later).Error,
	); err != nil {
		return err
	}
	if want := int64(len(rows) - len(rows)/2 - 1); equal != 1 || later != want {
		return fmt.Errorf("%d rows at %v and %d later; want 1 and %d", equal, middle, later, want)
	}
	// As a group, together with the same expression selected.
	var groups []struct {
		At string
		N  int64
	}
	if err := db.Model(&foreign{}).Select("? AS at, COUNT(*) AS n", at).Clauses(at.Group()).Order(at.Asc()).Scan(&groups).Error; err != nil {
		return err
	}
	if len(groups) != len(rows) {
		return fmt.Errorf("%d groups, want %d", len(groups), len(rows))
	}
	return nil
}

// TestTimeOfIntoTime reads the expression into a time.Time.
func TestTimeOfIntoTime(t *testing.T) {
	each(t, []any{&foreign{}}, func(t *testing.T, db *gorm.DB) {
		want := day(3).Add(time.Hour + 250*time.Millisecond)
		if err := db.Create(&foreign{ID: idAt(t, want, 1, 2), Made: want}).Error; err != nil {
			t.Fatal(err)
		}
		var got time.Time
		var err error
		tx := db.Model(&foreign{}).Select("?", TimeOf(""))
		if db.Name() == "sqlite" { // whose driver knows no expression's type
			var text string
			if err = tx.Scan(&text).Error; err == nil {
				got, err = time.Parse("2006-01-02 15:04:05.999-07:00", text)
			}
		} else {
			err = tx.Scan(&got).Error
		}
		if err != nil || !got.Equal(want) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	})
}

func TestTimeOfNegative(t *testing.T) {
	each(t, []any{&foreign{}}, func(t *testing.T, db *gorm.DB) {
		if err := db.Create(&foreign{ID: -1, Made: day(1)}).Error; err != nil {
			t.Fatal(err)
		}
		var n int64
		if err := db.Model(&foreign{}).Where("? IS NULL", TimeOf("id")).Count(&n).Error; err != nil || n != 1 {
			t.Errorf("%d rows, %v; want 1", n, err)
		}
	})
}

func TestTimeOfErrors(t *testing.T) {
	db := memoryWithPlugin(t, &customer{}, &order{})
	for name, c := range map[string]struct{ got, want error }{
		"no model":          {db.Table("orders").Select("?", TimeOf("")).Find(&[]map[string]any{}).Error, ErrNoKey},
		"a float":           {db.Model(&order{}).Select("?", TimeOf("amount")).Find(&[]map[string]any{}).Error, ErrNoKey},
		"a group, no model": {db.Table("orders").Select("COUNT(*)").Clauses(TimeOf("").Group()).Find(&[]map[string]any{}).Error, ErrNoKey},
		"no layout":         {memory(t, &order{}).Model(&order{}).Select("?", TimeOf("")).Find(&[]map[string]any{}).Error, ErrNoLayout},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
	if _, err := timeSQL("oracle", "id", generator.Standard()); !errors.Is(err, ErrDialect) {
		t.Errorf("an unknown dialect: %v", err)
	}
	if diff := cmp.Diff("((id >> 22) * 1 + 1420070400000)", millisSQL(dialectPostgres, "id", generator.Standard())); diff != "" {
		t.Error(diff)
	}
}
