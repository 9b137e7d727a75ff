package gormflake

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"github.com/gormflake/gormflake/internal/servers"
)

// partitionedPostgres opens a database with an empty table of readings that is
// partitioned by the days to 8 May, as its columns' definitions say.
func partitionedPostgres(t *testing.T, columns string, test func(t *testing.T, db *gorm.DB)) {
	t.Helper()
	servers.Each(t, []servers.Kind{servers.Postgres}, func(t *testing.T, srv *servers.Server) {
		db := srv.Open(t, nil)
		install(t, db, nil)
		executed(t, db, "CREATE TABLE readings ("+columns+") PARTITION BY RANGE (id)")
		plan, err := PlanPartitions(t.Context(), db, &reading{}, PartitionOptions{Width: Days(time.UTC)})
		applied(t, plan, err)
		test(t, db)
	})
}

func executed(t *testing.T, db *gorm.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if err := db.Exec(statement).Error; err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func checkPartitionError(t *testing.T, err error, text string) {
	t.Helper()
	if !errors.Is(err, ErrPartition) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v\nwant %v with %q", err, ErrPartition, text)
	}
}

// TestMoveFiresNothing: to move rows out of the default partition deletes them
// there, which nothing that refers to them may notice.
func TestMoveFiresNothing(t *testing.T) {
	const function = "CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM children; RETURN OLD; END $$"
	const child = "CREATE TABLE children (reading_id bigint"
	days := PartitionOptions{Width: Days(time.UTC), Ahead: 5}
	for name, c := range map[string]struct {
		before, after []string
		want          string
	}{
		"cascade":   {[]string{child + ")"}, []string{"ALTER TABLE children ADD CONSTRAINT of_reading FOREIGN KEY (reading_id) REFERENCES readings ON DELETE CASCADE"}, "the foreign key of_reading of children"},
		"set null":  {[]string{child + ")"}, []string{"ALTER TABLE children ADD CONSTRAINT of_reading FOREIGN KEY (reading_id) REFERENCES readings ON DELETE SET NULL"}, "the foreign key of_reading of children"},
		"no action": {[]string{child + ")"}, []string{"ALTER TABLE children ADD CONSTRAINT of_reading FOREIGN KEY (reading_id) REFERENCES readings"}, "the foreign key of_reading of children"},
		"trigger": {
			[]string{child + ")", function},
			[]string{"CREATE TRIGGER loses AFTER DELETE ON readings FOR EACH ROW EXECUTE FUNCTION lose()"}, "the trigger loses",
		},
		"trigger of statements": {
			[]string{child + ")", function},
			[]string{"CREATE TRIGGER loses AFTER DELETE ON readings_default FOR EACH STATEMENT EXECUTE FUNCTION lose()"}, "the trigger loses",
		},
		"triggers that do not fire": {
			[]string{child + ")", function},
			[]string{
				"CREATE TRIGGER loses AFTER UPDATE ON readings FOR EACH ROW EXECUTE FUNCTION lose()",
				"CREATE TRIGGER rests AFTER DELETE ON readings_default FOR EACH ROW EXECUTE FUNCTION lose()",
				"ALTER TABLE readings_default DISABLE TRIGGER rests",
			}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			partitionedPostgres(t, "id bigint PRIMARY KEY, value bigint", func(t *testing.T, db *gorm.DB) {
				executed(t, db, c.before...)
				empty, err := PlanPartitions(t.Context(), db, &reading{}, days) // nothing to move yet
				if err != nil {
					t.Fatal(err)
				}
				rows := []reading{{ID: idAt(t, day(9), 1, 0), Value: 9}}
				if err := db.Create(&rows).Error; err != nil {
					t.Fatal(err)
				}
				moving, err := PlanPartitions(t.Context(), db, &reading{}, days)
				if err != nil {
					t.Fatal(err)
				}
				if err := db.Exec("INSERT INTO children VALUES (?)", rows[0].ID).Error; err != nil {
					t.Fatal(err)
				}
				executed(t, db, c.after...)
				if c.want == "" {
					applied(t, moving, nil)
				} else {
					if err := empty.Apply(t.Context()); err == nil {
						t.Error("applied a plan of an empty default partition to one with rows")
					}
					checkPartitionError(t, moving.Apply(t.Context()), c.want)
					_, err = PlanPartitions(t.Context(), db, &reading{}, days)
					checkPartitionError(t, err, c.want)
				}
				checkReadings(t, db, rows)
				var children []ID
				if err := db.Table("children").Pluck("reading_id", &children).Error; err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]ID{rows[0].ID}, children); diff != "" {
					t.Errorf("children (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestMoveNamesColumns moves rows of a partition whose columns have another
// order, and those of a table with a generated column.
func TestMoveNamesColumns(t *testing.T) {
	for name, c := range map[string]struct{ columns, caught string }{
		"another order": {"id bigint PRIMARY KEY, value bigint, \"Other \"\"one\" bigint DEFAULT 7", "\"Other \"\"one\" bigint DEFAULT 7, value bigint, id bigint NOT NULL"},
		"generated":     {"id bigint PRIMARY KEY, double bigint GENERATED ALWAYS AS (value * 2) STORED, value bigint", ""},
	} {
		t.Run(name, func(t *testing.T) {
			partitionedPostgres(t, c.columns, func(t *testing.T, db *gorm.DB) {
				if c.caught != "" {
					executed(t, db, "DROP TABLE readings_default", "CREATE TABLE caught ("+c.caught+")", "ALTER TABLE readings ATTACH PARTITION caught DEFAULT")
				}
				rows := []reading{{ID: idAt(t, day(9), 1, 0), Value: 9}, {ID: idAt(t, day(10), 1, 0), Value: 10}}
				if err := db.Create(&rows).Error; err != nil {
					t.Fatal(err)
				}
				plan, err := PlanPartitions(t.Context(), db, &reading{}, PartitionOptions{Width: Days(time.UTC), Ahead: 5})
				applied(t, plan, err)
				checkReadings(t, db, rows)
				var n int64
				if err := db.Table("readings_p20240509").Where("value = 9").Count(&n).Error; err != nil || n != 1 {
					t.Errorf("%d rows of 9 May in its partition, want 1 (%v)", n, err)
				}
			})
		})
	}
}

// TestDropLooksAgain: rows without an age that came after the plan stay.
func TestDropLooksAgain(t *testing.T) {
	partitioned(t, func(t *testing.T, db *gorm.DB) {
		executed(t, db, lowPartition(db)...)
		plan, err := PlanDropBefore(t.Context(), db, &reading{}, day(4))
		if err != nil || plan.Empty() {
			t.Fatalf("%v, %v; want a plan to drop", plan, err)
		}
		rows := []reading{{ID: 5, Value: 5}, {ID: idAt(t, day(0), 1, 0), Value: 6}}
		if err := db.Create(&rows).Error; err != nil {
			t.Fatal(err)
		}
		checkPartitionError(t, plan.Apply(t.Context()), "low holds rows numbered by AUTO_INCREMENT, inserted since the plan was made")
		checkReadings(t, db, rows)
		// The table is not left locked.
		if err := db.Delete(&reading{}, ID(5)).Error; err != nil {
			t.Fatal(err)
		}
		applied(t, plan, nil)
		checkReadings(t, db, []reading{})
	})
}

// TestDropSeesTheLatest: a transaction that sees the table as it was before the
// plan can't tell what a partition holds by now.
func TestDropSeesTheLatest(t *testing.T) {
	partitionedPostgres(t, "id bigint PRIMARY KEY, value bigint", func(t *testing.T, db *gorm.DB) {
		executed(t, db, "CREATE TABLE readings_old PARTITION OF readings FOR VALUES FROM (0) TO (100000000000000)")
		err := db.Transaction(func(tx *gorm.DB) error {
			plan, err := PlanDropBefore(t.Context(), tx, &reading{}, day(1))
			if err != nil {
				return err
			}
			executed(t, db, "INSERT INTO readings VALUES (5, 5)")
			return plan.Apply(t.Context())
		}, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		checkPartitionError(t, err, "READ COMMITTED")
		var rows int64
		if err := db.Table("readings").Count(&rows).Error; err != nil || rows != 1 {
			t.Errorf("%d rows are left, %v; want the one that was inserted", rows, err)
		}
	})
}

// TestDropWaits: the row of a transaction that is under way is met.
func TestDropWaits(t *testing.T) {
	partitioned(t, func(t *testing.T, db *gorm.DB) {
		executed(t, db, lowPartition(db)...)
		plan, err := PlanDropBefore(t.Context(), db, &reading{}, day(4))
		if err != nil || plan.Empty() {
			t.Fatalf("%v, %v; want a plan to drop", plan, err)
		}
		waits := "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
		if db.Name() == "mysql" {
			waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND STATE LIKE 'Waiting for table metadata lock%'"
		}
		rows := []reading{{ID: 5, Value: 5}}
		done := make(chan error, 1)
		err = db.Transaction(func(tx *gorm.DB) error {
			if err := tx.Create(&rows).Error; err != nil {
				return err
			}
			go func() { done <- plan.Apply(t.Context()) }()
			for n := 0; n == 0; {
				if err := db.Raw(waits).Scan(&n).Error; err != nil {
					return err
				}
				if len(done) > 0 {
					return errors.New("did not wait for the transaction")
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		checkPartitionError(t, <-done, "low holds rows numbered by AUTO_INCREMENT")
		checkReadings(t, db, rows)
	})
}

// lowPartition returns what partitions the table of readings, with one of low ids.
func lowPartition(db *gorm.DB) []string {
	if db.Name() == "mysql" {
		return []string{"ALTER TABLE readings PARTITION BY RANGE (id) (PARTITION low VALUES LESS THAN (1235017845964800000), PARTITION p_max VALUES LESS THAN MAXVALUE)"}
	}
	return []string{
		"CREATE TABLE readings_low PARTITION OF readings FOR VALUES FROM (0) TO (1235017845964800000)",
		"CREATE TABLE readings_default PARTITION OF readings DEFAULT",
	}
}

// TestDropOfOtherBounds: a partition of a plan's name that holds young rows by
// now stays.
func TestDropOfOtherBounds(t *testing.T) {
	partitioned(t, func(t *testing.T, db *gorm.DB) {
		plan, err := PlanPartitions(t.Context(), db, &reading{}, PartitionOptions{Width: Days(time.UTC), From: day(3), Ahead: 1})
		applied(t, plan, err)
		drop, err := PlanDropBefore(t.Context(), db, &reading{}, day(4))
		if err != nil {
			t.Fatal(err)
		}
		statements := []string{
			"DROP TABLE readings_p20240503", "DROP TABLE readings_p20240504",
			"CREATE TABLE readings_p20240503 PARTITION OF readings FOR VALUES FROM (" + idAt(t, day(3), 0, 0).String() + ") TO (" + idAt(t, day(5), 0, 0).String() + ")",
		}
		if db.Name() == "mysql" {
			statements = []string{
				"ALTER TABLE readings REORGANIZE PARTITION p20240503, p20240504 INTO (PARTITION p20240503 VALUES LESS THAN (" + idAt(t, day(5), 0, 0).String() + "))",
			}
		}
		executed(t, db, statements...)
		rows := []reading{{ID: idAt(t, day(4).Add(time.Hour), 1, 0), Value: 4}}
		if err := db.Create(&rows).Error; err != nil {
			t.Fatal(err)
		}
		checkPartitionError(t, drop.Apply(t.Context()), "p20240503 to hold ids of ")
		checkReadings(t, db, rows)
	})
}

// TestPartitionNamesOfZones: days of another zone and width begin at times that
// have the names of partitions that are there.
func TestPartitionNamesOfZones(t *testing.T) {
	partitionedPostgres(t, "id bigint PRIMARY KEY, value bigint", func(t *testing.T, db *gorm.DB) {
		bound := func(at time.Time) string { return idAt(t, at, 0, 0).String() }
		at := day(9)
		options := PartitionOptions{Width: Days(time.UTC), Ahead: 4}
		early, err := PlanPartitions(t.Context(), db, &reading{}, options)
		if err != nil {
			t.Fatal(err)
		}
		executed(t, db,
			"CREATE TABLE readings_p20240509 PARTITION OF readings FOR VALUES FROM ("+bound(at.AddDate(0, 1, 0))+") TO ("+bound(at.AddDate(0, 1, 1))+")",
			"CREATE TABLE readings_p20240509_000000 PARTITION OF readings FOR VALUES FROM ("+bound(at.AddDate(0, 2, 0))+") TO ("+bound(at.AddDate(0, 2, 1))+")")
		checkPartitionError(t, early.Apply(t.Context()), "the partition readings_p20240509 to hold ids of "+bound(at))
		plan, err := PlanPartitions(t.Context(), db, &reading{}, options)
		applied(t, plan, err)
		want := []string{"readings_p20240509_000000_2"}
		if len(plan.Steps) != 1 || !cmp.Equal(want, plan.Steps[0].Names) {
			t.Errorf("got %s\nwant a step that adds %v", plan.SQL(), want)
		}
		again, err := PlanPartitions(t.Context(), db, &reading{}, options)
		if err != nil || !again.Empty() {
			t.Errorf("planned again: %v, %v; want nothing to do", again, err)
		}
	})
}

// TestMoveOfDetached: a partition that is the default no longer keeps its rows.
func TestMoveOfDetached(t *testing.T) {
	partitionedPostgres(t, "id bigint PRIMARY KEY, value bigint", func(t *testing.T, db *gorm.DB) {
		if err := db.Create(&reading{ID: idAt(t, day(9), 1, 0)}).Error; err != nil {
			t.Fatal(err)
		}
		plan, err := PlanPartitions(t.Context(), db, &reading{}, PartitionOptions{Width: Days(time.UTC), Ahead: 4})
		if err != nil {
			t.Fatal(err)
		}
		executed(t, db, "ALTER TABLE readings DETACH PARTITION readings_default")
		checkPartitionError(t, plan.Apply(t.Context()), "is no longer the default partition")
		var n int64
		if err := db.Table("readings_default").Count(&n).Error; err != nil || n != 1 {
			t.Errorf("%d rows are in the detached partition, want 1 (%v)", n, err)
		}
	})
}
