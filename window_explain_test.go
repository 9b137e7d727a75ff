package gormflake

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// TestWindowsUseThePrimaryKey asks each database how it runs windows, cursors,
// buckets and deletions: by a range of the primary key.
func TestWindowsUseThePrimaryKey(t *testing.T) {
	each(t, []any{&measurement{}}, func(t *testing.T, db *gorm.DB) {
		measure(t, db, 5000, day(1), day(5))
		analyze := map[string]string{"postgres": "ANALYZE measurements", "mysql": "ANALYZE TABLE measurements", "sqlite": "ANALYZE"}[db.Name()]
		if err := db.Exec(analyze).Error; err != nil {
			t.Fatal(err)
		}
		w := Between(day(2), day(2).Add(time.Hour))
		middle := idAt(t, day(2), 0, 0)
		for name, build := range map[string]func(tx *gorm.DB) *gorm.DB{
			"find": func(tx *gorm.DB) *gorm.DB { return tx.Where(w).Find(&[]measurement{}) },
			"two": func(tx *gorm.DB) *gorm.DB {
				return tx.Where(Since(day(2))).Where(Until(day(2).Add(time.Hour))).Find(&[]measurement{})
			},
			"aggregate": func(tx *gorm.DB) *gorm.DB {
				return tx.Model(&measurement{}).Where(w).Select("SUM(value)").Find(&[]measurement{})
			},
			"delete": func(tx *gorm.DB) *gorm.DB { return tx.Where(w).Delete(&measurement{}) },
			"update": func(tx *gorm.DB) *gorm.DB { return tx.Model(&measurement{}).Where(w).Update("value", 1) },
			"after":  func(tx *gorm.DB) *gorm.DB { return tx.Clauses(After(middle)).Limit(10).Find(&[]measurement{}) },
			"before": func(tx *gorm.DB) *gorm.DB { return tx.Clauses(Before(middle)).Limit(10).Find(&[]measurement{}) },
			"last": func(tx *gorm.DB) *gorm.DB {
				return tx.Where(Last(testClock.Sub(day(5)) + time.Hour)).Find(&[]measurement{})
			},
			"in columns": func(tx *gorm.DB) *gorm.DB { return tx.Where(w.Column("measurements.id")).Find(&[]measurement{}) },
		} {
			t.Run(name, func(t *testing.T) {
				stmt := build(db.Session(&gorm.Session{DryRun: true})).Statement
				if stmt.Error != nil {
					t.Fatal(stmt.Error)
				}
				checkRange(t, db, stmt.SQL.String(), stmt.Vars)
			})
		}
		t.Run("buckets and retention", func(t *testing.T) {
			recorded := &recorder{Interface: logger.Discard}
			tx := db.Session(&gorm.Session{Logger: recorded})
			if _, err := CountBy(t.Context(), tx.Model(&measurement{}), w, Every(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := DeleteBefore(t.Context(), tx, &measurement{}, day(1).Add(time.Hour), RetentionOptions{BatchSize: 20}); err != nil {
				t.Fatal(err)
			}
			explained := 0
			for _, sql := range recorded.statements {
				if strings.Contains(sql, "OFFSET") {
					continue // to the end of a batch: on the key, from the batch's start
				}
				if strings.HasPrefix(sql, "SELECT") || strings.HasPrefix(sql, "DELETE") {
					explained++
					checkRange(t, db, sql, nil)
				}
			}
			if explained < 3 {
				t.Errorf("explained %d of the statements %q", explained, recorded.statements)
			}
		})
	})
}

// recorder keeps the statements that run.
type recorder struct {
	logger.Interface
	statements []string
}

func (r *recorder) LogMode(logger.LogLevel) logger.Interface { return r }

func (r *recorder) Trace(_ context.Context, _ time.Time, statement func() (string, int64), _ error) {
	sql, _ := statement()
	r.statements = append(r.statements, sql)
}

// checkRange explains a statement and checks that it reads a range of the
// primary key, and computes nothing of the key in its condition.
func checkRange(t *testing.T, db *gorm.DB, sql string, vars []any) {
	t.Helper()
	if _, where, found := strings.Cut(sql, "WHERE"); !found || strings.Contains(where, ">>") {
		t.Errorf("%s: want a condition on the key itself", sql)
	}
	switch db.Name() {
	case "postgres":
		var lines []string
		if err := db.Raw("EXPLAIN " + db.Explain(sql, vars...)).Scan(&lines).Error; err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		if !strings.Contains(plan, "measurements_pkey") || !strings.Contains(plan, "Index Cond: ((id ") && !strings.Contains(plan, "Index Cond: (id ") {
			t.Errorf("%s\n%s", sql, plan)
		}
	case "mysql":
		var rows []map[string]any
		if err := db.Raw("EXPLAIN "+sql, vars...).Scan(&rows).Error; err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(rows[0]["key"]) != "PRIMARY" || fmt.Sprint(rows[0]["type"]) != "range" {
			t.Errorf("%s\n%v", sql, rows)
		}
	case "sqlite":
		var rows []struct{ Detail string }
		if err := db.Raw("EXPLAIN QUERY PLAN "+sql, vars...).Scan(&rows).Error; err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(rows[0].Detail, "SEARCH measurements USING INTEGER PRIMARY KEY (rowid") {
			t.Errorf("%s\n%v", sql, rows)
		}
	}
}
