package migrate_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/migrate"
)

// TestAdoptWhileOthersWrite lets programs insert without a key until the
// database numbers no more, and counts what they were told is in the table.
func TestAdoptWhileOthersWrite(t *testing.T) {
	servers.Each(t, adoptKinds("mysql", "postgres"), func(t *testing.T, srv *servers.Server) { // SQLite goes on to number
		db := adoptFixture(t, srv)
		var inserted atomic.Int64
		var writers sync.WaitGroup
		started := make(chan struct{})
		var once sync.Once
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 3 {
			writers.Go(func() {
				for ctx.Err() == nil {
					err := db.WithContext(ctx).Exec("INSERT INTO parents (name) VALUES ('w')").Error
					if err == nil {
						inserted.Add(1)
						once.Do(func() { close(started) })
						continue
					}
					if text := err.Error(); strings.Contains(text, "default value") || strings.Contains(text, "not-null") {
						return // the key is no longer given
					}
				}
			})
		}
		select {
		case <-started:
		case <-ctx.Done():
			t.Fatal("no writer could write")
		}
		p, err := migrate.Adopt(ctx, db, adoptSpec)
		if err != nil {
			cancel()
			writers.Wait()
			t.Fatal(err)
		}
		writers.Wait()
		v, err := p.Verify(t.Context())
		if err != nil || v.Legacy != 2+inserted.Load() || v.New != 0 {
			t.Errorf("expected %d old rows, met %+v, %v", 2+inserted.Load(), v, err)
		}
	})
}

// TestAdoptGivesWay meets a transaction that keeps the table, is told so in
// time, and goes on once it has ended.
func TestAdoptGivesWay(t *testing.T) {
	servers.Each(t, adoptKinds("mysql", "postgres"), func(t *testing.T, srv *servers.Server) { // on SQLite its busy_timeout decides
		db := adoptFixture(t, srv)
		tx := db.Begin()
		if err := tx.Exec("INSERT INTO children (parent_id) SELECT MAX(id) FROM parents").Error; err != nil {
			t.Fatal(err)
		}
		spec := adoptSpec
		spec.MaxBlock, spec.Patience = 50*time.Millisecond, 100*time.Millisecond
		_, err := migrate.Adopt(t.Context(), db, spec)
		if _, partial := errors.AsType[*migrate.PartialError](err); !partial || !errors.Is(err, migrate.ErrBusy) {
			t.Errorf("expected the table to be busy, met %v", err)
		}
		if err := tx.Commit().Error; err != nil {
			t.Fatal(err)
		}
		p, err := migrate.Adopt(t.Context(), db, adoptSpec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Verify(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestAdoptFollowsKeysOfKeys has a table whose key is a reference, and one that
// refers to it in turn.
func TestAdoptFollowsKeysOfKeys(t *testing.T) {
	servers.Each(t, adoptKinds("mysql", "postgres"), func(t *testing.T, srv *servers.Server) { // SQLite's columns all have 64 bits
		db := srv.Open(t, nil)
		adoptExec(t, db,
			"CREATE TABLE users (id int NOT NULL PRIMARY KEY)",
			"CREATE TABLE profiles (user_id int NOT NULL PRIMARY KEY, FOREIGN KEY (user_id) REFERENCES users (id))",
			"CREATE TABLE pictures (id int NOT NULL PRIMARY KEY, profile_id int NULL, FOREIGN KEY (profile_id) REFERENCES profiles (user_id))",
			"INSERT INTO users VALUES (7)", "INSERT INTO profiles VALUES (7)", "INSERT INTO pictures VALUES (1, 7)")
		p, err := migrate.Adopt(t.Context(), db, migrate.AdoptSpec{Table: "users"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		var columns []string
		for _, c := range p.Report.References {
			columns = append(columns, c.Table+"."+c.Column)
		}
		if want := []string{"profiles.user_id", "pictures.profile_id"}; !slices.Equal(columns, want) {
			t.Errorf("expected the references %v, met %v", want, columns)
		}
		const id = int64(1) << 60
		for _, insert := range []string{"INSERT INTO users VALUES (?)", "INSERT INTO profiles VALUES (?)", "INSERT INTO pictures VALUES (2, ?)"} {
			if err := db.Exec(insert, id).Error; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestAdoptFindsOrphans deletes a parent while MySQL's foreign keys are away.
func TestAdoptFindsOrphans(t *testing.T) {
	servers.Each(t, servers.MySQLKinds(), func(t *testing.T, srv *servers.Server) {
		db := adoptFixture(t, srv)
		p := adoptPlan(t, db, adoptSpec)
		migrate.SetAdoptHook(p, func(s migrate.AdoptStatement) error {
			if s.Step == "widen" && s.Table == "parents" {
				return db.Exec("DELETE FROM parents WHERE id = 2").Error
			}
			return nil
		})
		if err := p.Apply(t.Context()); !errors.Is(err, migrate.ErrNotAdopted) || !strings.Contains(err.Error(), "1 rows of children.parent_id have no row in parents") {
			t.Fatalf("expected to hear of the orphan, met %v", err)
		}
		again := adoptOrphansGone(t, db)
		if v, err := again.Verify(t.Context()); err != nil || v.Legacy != 1 {
			t.Errorf("expected a table in order, met %+v, %v", v, err)
		}
	})
}

func adoptOrphansGone(t *testing.T, db *gorm.DB) *migrate.AdoptPlan {
	t.Helper()
	p := adoptPlan(t, db, adoptSpec)
	if _, err := p.Verify(t.Context()); !errors.Is(err, migrate.ErrNotAdopted) {
		t.Errorf("expected the orphan to be a problem, met %v", err)
	}
	adoptExec(t, db, "DELETE FROM children WHERE parent_id = 2")
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}
