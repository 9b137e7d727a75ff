package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/internal/servers"
)

type (
	// shelf has books, and both are saved in one call.
	shelf struct {
		ID    gormflake.ID `gorm:"primaryKey"`
		Name  string       `gorm:"size:100;uniqueIndex"`
		Books []book       `gorm:"foreignKey:ShelfID"`
	}
	book struct {
		ID      gormflake.ID `gorm:"primaryKey"`
		ShelfID gormflake.ID
		Title   string `gorm:"size:100"`
	}
)

// activity is what one goroutine does with the shared *gorm.DB. It returns the ids
// that it created.
type activity func(ctx context.Context, db *gorm.DB, name string) ([]gormflake.ID, error)

func activities() map[string]activity {
	window := gormflake.Last(time.Hour) // one value, used by all
	return map[string]activity{
		"rows": func(ctx context.Context, db *gorm.DB, name string) ([]gormflake.ID, error) {
			rows := []typed{{Name: name}, {Name: name}, {Name: name}}
			err := db.Create(&rows).Error
			return []gormflake.ID{rows[0].ID, rows[1].ID, rows[2].ID}, err
		},
		"plain rows": func(ctx context.Context, db *gorm.DB, name string) ([]gormflake.ID, error) {
			row := plain{Name: name}
			err := gorm.G[plain](db).Create(ctx, &row)
			return []gormflake.ID{gormflake.ID(row.ID)}, err
		},
		"maps": func(ctx context.Context, db *gorm.DB, name string) (ids []gormflake.ID, err error) {
			rows := []map[string]any{{"name": name}, {"name": name}}
			err = db.Model(&typed{}).Create(&rows).Error
			for _, row := range rows {
				id, ok := row["id"].(int64)
				if !ok {
					err = errors.Join(err, fmt.Errorf("want an id in %v", row))
				}
				ids = append(ids, gormflake.ID(id))
			}
			return ids, err
		},
		"several fields": func(ctx context.Context, db *gorm.DB, name string) ([]gormflake.ID, error) {
			row := several{Name: name}
			err := db.Create(&row).Error
			if err != nil {
				return nil, err
			}
			return []gormflake.ID{row.ID, row.Trace, *row.Batch}, nil
		},
		"associations": func(ctx context.Context, db *gorm.DB, name string) ([]gormflake.ID, error) {
			row := shelf{Name: name, Books: []book{{Title: "a"}, {Title: "b"}}}
			err := db.Create(&row).Error
			if row.Books[0].ShelfID != row.ID {
				err = errors.Join(err, fmt.Errorf("want shelf %d, got %d", row.ID, row.Books[0].ShelfID))
			}
			return []gormflake.ID{row.ID, row.Books[0].ID, row.Books[1].ID}, err
		},
		"upserts": func(ctx context.Context, db *gorm.DB, name string) ([]gormflake.ID, error) {
			row := shelf{Name: "everybody's"}
			if err := db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"name"})}).Create(&row).Error; err != nil {
				return nil, err
			}
			var found shelf
			if err := db.First(&found, row.ID).Error; err != nil || found.Name != row.Name {
				return nil, errors.Join(err, fmt.Errorf("want the row of id %d, got %+v", row.ID, found))
			}
			return nil, nil
		},
		"windows": func(ctx context.Context, db *gorm.DB, name string) ([]gormflake.ID, error) {
			row := typed{Name: name}
			if err := db.Create(&row).Error; err != nil {
				return nil, err
			}
			var mine int64
			if err := db.Model(&typed{}).Scopes(window.Scope).Where("name = ?", name).Count(&mine).Error; err != nil || mine == 0 {
				return nil, errors.Join(err, fmt.Errorf("want the own row in the window, got %d", mine))
			}
			return []gormflake.ID{row.ID}, nil
		},
		"pages": func(ctx context.Context, db *gorm.DB, name string) ([]gormflake.ID, error) {
			page, err := gormflake.Page[typed](ctx, db, gormflake.PageArgs{First: 5})
			if err != nil {
				return nil, err
			}
			nodes := page.Nodes()
			if !slices.IsSortedFunc(nodes, func(a, b typed) int { return int(a.ID - b.ID) }) {
				return nil, fmt.Errorf("want a page by id, got %v", nodes)
			}
			_, err = gormflake.CountBy(ctx, db.Model(&typed{}), window, gormflake.Every(time.Minute))
			return nil, err
		},
	}
}

// TestConcurrent has every kind of work begin at once, on one *gorm.DB whose plugin
// has not started and whose models nobody has parsed. With the race detector it
// shows that nothing shared is written after it can be seen.
func TestConcurrent(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		for name, config := range map[string]gorm.Config{
			"default":                         {},
			"without a transaction, prepared": {SkipDefaultTransaction: true, PrepareStmt: true},
		} {
			t.Run(name, func(t *testing.T) {
				concurrently(t, server, config)
			})
		}
	})
}

func concurrently(t *testing.T, server *servers.Server, config gorm.Config) {
	const each, rounds = 2, 10
	dsn := server.Database(t)
	models := []any{&typed{}, &plain{}, &several{}, &shelf{}, &book{}}
	if err := server.OpenDSN(t, dsn, &gorm.Config{Logger: logger.Discard}).AutoMigrate(models...); err != nil {
		t.Fatal(err)
	}
	config.Logger = logger.Discard
	db := server.OpenDSN(t, dsn, &config)
	flake := gormflake.New(gormflake.Config{})
	if err := db.Use(flake); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := flake.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	var (
		group sync.WaitGroup
		begin = make(chan struct{})
		mu    sync.Mutex
		all   []gormflake.ID
	)
	for name, act := range activities() {
		for i := range each {
			group.Go(func() {
				<-begin
				for round := range rounds {
					ids, err := act(t.Context(), db, fmt.Sprintf("%s %d %d", name, i, round))
					if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					if !slices.IsSorted(ids) {
						t.Errorf("%s: want ids in order, got %v", name, ids)
					}
					mu.Lock()
					all = append(all, ids...)
					mu.Unlock()
				}
			})
		}
	}
	close(begin)
	group.Wait()
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != len(all) || n < each*rounds*10 {
		t.Errorf("want %d different ids, got %d", len(all), n)
	}
	if all[0] < aSnowflake {
		t.Errorf("want ids of the plugin alone, got %d", all[0])
	}
}
