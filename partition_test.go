package gormflake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/internal/servers"
)

// reading is a row of a partitioned table.
type reading struct {
	ID    ID `gorm:"primaryKey"`
	Value int
}

// partitioned opens a database with an empty table of readings that can be
// partitioned, on each server that has partitions.
func partitioned(t *testing.T, test func(t *testing.T, db *gorm.DB)) {
	t.Helper()
	servers.Each(t, append(servers.MySQLKinds(), servers.Postgres), func(t *testing.T, srv *servers.Server) {
		db := srv.Open(t, nil)
		install(t, db, nil)
		migrate := db
		if db.Name() == "postgres" {
			migrate = db.Set("gorm:table_options", "PARTITION BY RANGE (id)")
		}
		if err := migrate.AutoMigrate(&reading{}); err != nil {
			t.Fatal(err)
		}
		test(t, db)
	})
}

// plan makes a plan and applies it twice: the second time it changes nothing.
func applied(t *testing.T, plan *PartitionPlan, err error) *PartitionPlan {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := plan.Apply(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, plan.SQL())
		}
	}
	return plan
}

// partitionNames returns the table's partitions in their order, without the
// table's name.
func partitionNames(t *testing.T, db *gorm.DB) (names []string) {
	t.Helper()
	p, err := newPartitioner(t.Context(), db, &reading{}, generator.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	parts, err := p.engine.list(db)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		names = append(names, strings.TrimPrefix(part.name, "readings_"))
	}
	return names
}

// ends are the partitions that catch the rest: before and after the others.
func ends(db *gorm.DB, names ...string) []string {
	if db.Name() == "postgres" {
		return append([]string{"default"}, names...)
	}
	return append(append([]string{"p_before"}, names...), "p_max")
}

func TestPlanPartitions(t *testing.T) {
	ctx := context.Background()
	partitioned(t, func(t *testing.T, db *gorm.DB) {
		opts := PartitionOptions{Width: Months(time.UTC), From: day(1).AddDate(0, -1, 0), Ahead: 2}
		plan, err := PlanPartitions(ctx, db, &reading{}, opts)
		applied(t, plan, err)
		if diff := cmp.Diff(ends(db, "p20240401", "p20240501", "p20240601", "p20240701"), partitionNames(t, db)); diff != "" {
			t.Fatalf("months (-want +got):\n%s", diff)
		}
		if again, err := PlanPartitions(ctx, db, &reading{}, opts); err != nil || !again.Empty() || again.SQL() != "-- readings: nothing to do\n" {
			t.Errorf("planned again: %v, %v; want nothing to do", again, err)
		}
		// Rows of every partition, of the gaps at both ends, and legacy ones.
		rows := []reading{{ID: 1}, {ID: 2}}
		for month := -6; month < 6; month++ {
			rows = append(rows, reading{ID: idAt(t, day(15).AddDate(0, month, 0), 1, 0), Value: month})
		}
		if err := db.Create(&rows).Error; err != nil {
			t.Fatal(err)
		}
		// Now days: what is covered stays, the rest is cut, and rows that the
		// last partition has caught move.
		plan, err = PlanPartitions(ctx, db, &reading{}, PartitionOptions{Width: Days(time.UTC), Ahead: 89})
		applied(t, plan, err)
		want := ends(db, "p20240401", "p20240501", "p20240601", "p20240701", "p20240801", "p20240802")
		if diff := cmp.Diff(want, partitionNames(t, db)); diff != "" {
			t.Errorf("days (-want +got):\n%s\n%s", diff, plan.SQL())
		}
		plan, err = PlanPartitions(ctx, db, &reading{}, PartitionOptions{Width: Weeks(location(t, "America/New_York")), Ahead: 20})
		applied(t, plan, err)
		checkReadings(t, db, rows)
		names := partitionNames(t, db)
		if got := names[len(names)-1]; db.Name() == "postgres" && got != "p20240916" || db.Name() == "mysql" && names[len(names)-2] != "p20240916" {
			t.Errorf("weeks: %v; want the last to begin on 2024-09-16", names)
		}

		// Before 4 May, April is dropped; the legacy rows keep the partition that
		// they are in.
		plan, err = PlanDropBefore(ctx, db, &reading{}, day(4))
		applied(t, plan, err)
		var kept []reading
		for _, r := range rows {
			at := generator.Standard().Decompose(r.ID).Time
			if at.Before(day(1).AddDate(0, -1, 0)) || !at.Before(day(1)) {
				kept = append(kept, r)
			}
		}
		checkReadings(t, db, kept)
		if len(kept) != len(rows)-1 {
			t.Errorf("%d rows are kept, want all but 1", len(kept))
		}
		if again, err := PlanDropBefore(ctx, db, &reading{}, day(4)); err != nil || !again.Empty() {
			t.Errorf("planned again: %v, %v; want nothing to do", again, err)
		}
		if err := db.Delete(&reading{}, []ID{1, 2}).Error; err != nil {
			t.Fatal(err)
		}
		plan, err = PlanDropBefore(ctx, db, &reading{}, day(4))
		applied(t, plan, err)
		if db.Name() == "mysql" && plan.Empty() {
			t.Error("without its legacy rows the first partition should go")
		}
	})
}

func checkReadings(t *testing.T, db *gorm.DB, want []reading) {
	t.Helper()
	var got []reading
	if err := db.Order("id").Find(&got).Error; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// TestWindowsPrune asks each database which partitions a window reads.
func TestWindowsPrune(t *testing.T) {
	partitioned(t, func(t *testing.T, db *gorm.DB) {
		plan, err := PlanPartitions(t.Context(), db, &reading{}, PartitionOptions{Width: Months(time.UTC), From: day(1).AddDate(0, -4, 0), Ahead: 4})
		applied(t, plan, err)
		var rows []reading
		for n := range 250 {
			rows = append(rows, reading{ID: idAt(t, day(1).AddDate(0, -4, n), 1, 0)})
		}
		if err := db.Create(&rows).Error; err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			window Window
			want   []string
		}{
			"a day":              {On(day(3)), []string{"p20240501"}},
			"over an edge":       {Between(day(20), day(40)), []string{"p20240501", "p20240601"}},
			"a month":            {InMonth(day(3)), []string{"p20240501"}},
			"before all of them": {On(day(1).AddDate(-1, 0, 0)), ends(db)[:1]},
		} {
			got := partitionsRead(t, db, c.window)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: partitions read (-want +got):\n%s", name, diff)
			}
		}
	})
}

// partitionsRead returns the partitions that EXPLAIN names.
func partitionsRead(t *testing.T, db *gorm.DB, w Window) (read []string) {
	t.Helper()
	query := db.Session(&gorm.Session{DryRun: true}).Where(w).Find(&[]reading{}).Statement
	switch db.Name() {
	case "postgres":
		var lines []string
		if err := db.Raw("EXPLAIN " + db.Explain(query.SQL.String(), query.Vars...)).Scan(&lines).Error; err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		for _, name := range partitionNames(t, db) {
			if strings.Contains(plan, " readings_"+name+" ") {
				read = append(read, name)
			}
		}
	case "mysql":
		explain := "EXPLAIN "
		if version := mysqlVersion(t, db); strings.HasPrefix(version, "5.") || strings.Contains(version, "MariaDB") {
			explain = "EXPLAIN PARTITIONS "
		}
		var rows []map[string]any
		if err := db.Raw(explain+query.SQL.String(), query.Vars...).Scan(&rows).Error; err != nil {
			t.Fatal(err)
		}
		read = strings.Split(fmt.Sprint(rows[0]["partitions"]), ",")
		if key := fmt.Sprint(rows[0]["key"]); key != "PRIMARY" && !strings.Contains(fmt.Sprint(rows[0]), "Using where") {
			t.Errorf("%v: does not use the primary key", rows[0])
		}
	}
	return read
}

func mysqlVersion(t *testing.T, db *gorm.DB) (version string) {
	t.Helper()
	if err := db.Raw("SELECT VERSION()").Scan(&version).Error; err != nil {
		t.Fatal(err)
	}
	return version
}

// TestApplyAtOnce applies one plan from several goroutines.
func TestApplyAtOnce(t *testing.T) {
	partitioned(t, func(t *testing.T, db *gorm.DB) {
		var group sync.WaitGroup
		for range 4 {
			plan, err := PlanPartitions(t.Context(), db, &reading{}, PartitionOptions{Width: Days(time.UTC)})
			if err != nil {
				t.Fatal(err)
			}
			group.Go(func() {
				if err := plan.Apply(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if diff := cmp.Diff(ends(db, "p20240505", "p20240506", "p20240507", "p20240508"), partitionNames(t, db)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestPlanGoesStale: a plan of which a part is done is refused.
func TestPlanGoesStale(t *testing.T) {
	partitioned(t, func(t *testing.T, db *gorm.DB) {
		plan, err := PlanPartitions(t.Context(), db, &reading{}, PartitionOptions{Width: Days(time.UTC), From: day(1)})
		applied(t, plan, err)
		drop, err := PlanDropBefore(t.Context(), db, &reading{}, day(4))
		if err != nil {
			t.Fatal(err)
		}
		statement := "ALTER TABLE readings DROP PARTITION p20240502"
		if db.Name() == "postgres" {
			statement = "DROP TABLE readings_p20240502"
		}
		if err := db.Exec(statement).Error; err != nil {
			t.Fatal(err)
		}
		err = drop.Apply(t.Context())
		// Postgres drops one by one, so what is gone is done.
		if stale := errors.Is(err, ErrPartition); stale != (db.Name() == "mysql") || !stale && err != nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestPartitionSQL(t *testing.T) {
	servers.Each(t, []servers.Kind{servers.Postgres, servers.MariaDB}, func(t *testing.T, srv *servers.Server) {
		db := srv.Open(t, nil)
		install(t, db, nil)
		want := "-- 2024-05-01T00:00:00Z to 2024-07-01T00:00:00Z, and all other rows; this rewrites the table\n" +
			"ALTER TABLE `readings` PARTITION BY RANGE (`id`) (PARTITION p_before VALUES LESS THAN (1235017845964800000),\n" +
			"  PARTITION p20240501 VALUES LESS THAN (1246251869798400000),\n" +
			"  PARTITION p20240601 VALUES LESS THAN (1257123505766400000),\n" +
			"  PARTITION p_max VALUES LESS THAN MAXVALUE);\n"
		migrate := db
		if db.Name() == "postgres" {
			migrate = db.Set("gorm:table_options", "PARTITION BY RANGE (id)")
			want = "BEGIN;\n\n" +
				"-- 2024-05-01T00:00:00Z to 2024-06-01T00:00:00Z\n" +
				"CREATE TABLE \"public\".\"readings_p20240501\" PARTITION OF \"readings\" FOR VALUES FROM (1235017845964800000) TO (1246251869798400000);\n\n" +
				"-- 2024-06-01T00:00:00Z to 2024-07-01T00:00:00Z\n" +
				"CREATE TABLE \"public\".\"readings_p20240601\" PARTITION OF \"readings\" FOR VALUES FROM (1246251869798400000) TO (1257123505766400000);\n\n" +
				"-- the partition of all other rows\n" +
				"CREATE TABLE \"public\".\"readings_default\" PARTITION OF \"readings\" DEFAULT;\n\n" +
				"COMMIT;\n"
		}
		if err := migrate.AutoMigrate(&reading{}); err != nil {
			t.Fatal(err)
		}
		plan, err := PlanPartitions(t.Context(), db, &reading{}, PartitionOptions{Width: Months(time.UTC), Ahead: 1})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, plan.SQL()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestPartitionRefusals(t *testing.T) {
	ctx := context.Background()
	opts := PartitionOptions{Width: Days(time.UTC)}
	type child struct {
		ID        ID `gorm:"primaryKey"`
		ReadingID ID
		Reading   reading
	}
	type unique struct {
		ID   ID     `gorm:"primaryKey"`
		Name string `gorm:"size:50;uniqueIndex"`
	}
	type text struct {
		ID string `gorm:"primaryKey;size:50"`
	}
	refused := func(t *testing.T, err, want error, text string) {
		t.Helper()
		if !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("got %v\nwant %v with %q", err, want, text)
		}
	}
	type numbered struct {
		ID int64 `gorm:"primaryKey;autoIncrement"`
	}
	planned := func(db *gorm.DB, model any, opts PartitionOptions) error {
		_, err := PlanPartitions(ctx, db, model, opts)
		return err
	}
	dropped := func(db *gorm.DB, model any, at time.Time) error {
		_, err := PlanDropBefore(ctx, db, model, at)
		return err
	}
	each(t, nil, func(t *testing.T, db *gorm.DB) {
		if db.Name() == "sqlite" {
			refused(t, planned(db, &reading{}, opts), ErrDialect, "SQLite has no partitions")
			return
		}
		refused(t, planned(db, &reading{}, opts), ErrPartition, "there is no table readings")
		if err := db.AutoMigrate(&reading{}, &child{}, &unique{}); err != nil {
			t.Fatal(err)
		}
		refused(t, planned(db, &text{}, opts), ErrNoKey, "string")
		for _, err := range []error{planned(db, &numbered{}, opts), dropped(db, &numbered{}, day(1))} {
			refused(t, err, ErrNoKey, "give the Layout that they have")
			if strings.Contains(err.Error(), "Column(") || strings.Contains(err.Error(), "In(") {
				t.Errorf("a partition's error names what a window has: %v", err)
			}
		}
		narrow := map[string]string{"integer": "integer", "smallint": "smallint"}
		if db.Name() == "mysql" {
			narrow = map[string]string{"int unsigned NOT NULL AUTO_INCREMENT": "int", "mediumint": "mediumint"}
		}
		for definition, kind := range narrow {
			if err := db.Exec("CREATE TABLE narrow (id " + definition + " PRIMARY KEY)").Error; err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{planned(db.Table("narrow"), &reading{}, opts), dropped(db.Table("narrow"), &reading{}, day(1))} {
				refused(t, err, ErrPartition, "narrow.id is "+kind)
				refused(t, err, ErrPartition, "can't hold snowflake ids; adopt the table first (gormflake adopt plan --table narrow)")
			}
			if err := db.Exec("DROP TABLE narrow").Error; err != nil {
				t.Fatal(err)
			}
		}
		if db.Name() == "postgres" {
			refused(t, planned(db, &reading{}, opts), ErrPartition, "in place")
			if err := db.Exec("CREATE TABLE listed (id bigint) PARTITION BY LIST (id)").Error; err != nil {
				t.Fatal(err)
			}
			refused(t, planned(db.Table("listed"), &reading{}, opts), ErrPartition, "partitioned otherwise")
			return
		}
		refused(t, planned(db, &reading{}, opts), ErrPartition, "foreign key children.fk_children_reading")
		refused(t, planned(db, &child{}, opts), ErrPartition, "foreign key children.fk_children_reading")
		refused(t, planned(db, &unique{}, opts), ErrPartition, "index idx_uniques_name")
		refused(t, dropped(db, &reading{}, day(1)), ErrPartition, "not partitioned")
		if err := db.Exec("CREATE TABLE hashed (id bigint PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 4").Error; err != nil {
			t.Fatal(err)
		}
		refused(t, planned(db.Table("hashed"), &reading{}, opts), ErrPartition, "partitioned otherwise")
		if err := db.Exec("CREATE TABLE bounded (id bigint PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (10))").Error; err != nil {
			t.Fatal(err)
		}
		refused(t, dropped(db.Table("bounded"), &reading{}, day(1)), ErrPartition, "can't drop every partition")
	})
	partitioned(t, func(t *testing.T, db *gorm.DB) {
		refused(t, planned(db, &reading{}, PartitionOptions{}), ErrWidth, "Days, Weeks")
		refused(t, planned(db, &reading{}, PartitionOptions{Width: Hours(time.UTC)}), ErrWidth, "Days, Weeks")
		refused(t, planned(db, &reading{}, PartitionOptions{Width: Days(nil)}), ErrWidth, "location")
		refused(t, planned(db, &reading{}, PartitionOptions{Width: Days(time.UTC), Ahead: -1}), ErrPartition, "Ahead")
		refused(t, planned(db, &reading{}, PartitionOptions{Width: Days(time.UTC), Ahead: 2000}), ErrWidth, "at most 1000")
		refused(t, dropped(db, &reading{}, testClock.Add(time.Second)), ErrPartition, "want a time that has passed, got 2024-05-05T12:00:01Z")
		refused(t, dropped(db, &reading{}, time.Time{}), ErrWindow, "zero time.Time")
	})
}
