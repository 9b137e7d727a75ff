package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/migrate"
)

// onlineSpec widens online and leaves the numbering alone.
func onlineSpec(table string) migrate.AdoptSpec {
	return migrate.AdoptSpec{Table: table, Widening: migrate.WidenOnline, KeepNumbering: true}
}

func postgresDB(t *testing.T) (db *gorm.DB, srv *servers.Server, dsn string) {
	t.Helper()
	srv = servers.Shared(t, servers.Postgres)
	dsn = srv.Database(t)
	return unprepared(t, srv, dsn), srv, dsn
}

// TestAdoptOnlineSeesLateChanges has somebody alter a column that moves after the
// plan was made, hours ago perhaps. Postgres would drop that with the column.
func TestAdoptOnlineSeesLateChanges(t *testing.T) {
	for _, c := range []struct {
		name, ddl string
		err       error
	}{
		{"an index", "CREATE INDEX late ON c (p_id, v)", migrate.ErrOutOfOrder},
		{"a unique constraint", "ALTER TABLE c ADD CONSTRAINT late UNIQUE (p_id, v)", migrate.ErrOutOfOrder},
		{"a foreign key", "ALTER TABLE c ADD CONSTRAINT late FOREIGN KEY (p_id) REFERENCES q (id)", migrate.ErrOutOfOrder},
		{"a default", "ALTER TABLE c ALTER COLUMN p_id SET DEFAULT 1", migrate.ErrOutOfOrder},
		{"not null", "ALTER TABLE c ALTER COLUMN p_id SET NOT NULL", migrate.ErrOutOfOrder},
		{"a check", "ALTER TABLE c ADD CONSTRAINT late CHECK (p_id > 0)", migrate.ErrRefused},
		{"privileges", "GRANT SELECT (p_id) ON c TO PUBLIC", migrate.ErrRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			db, _, _ := postgresDB(t)
			adoptExec(t, db, "CREATE TABLE q (id int PRIMARY KEY)", "INSERT INTO q VALUES (1)", "CREATE TABLE p (id serial PRIMARY KEY)", "INSERT INTO p DEFAULT VALUES",
				"CREATE TABLE c (id serial PRIMARY KEY, p_id int REFERENCES p (id), v int)", "INSERT INTO c (p_id, v) VALUES (1, 1)")
			p := adoptPlan(t, db, onlineSpec("p"))
			want := ""
			migrate.SetAdoptHook(p, func(s migrate.AdoptStatement) error {
				if s.Step == "swap" && want == "" {
					adoptExec(t, db, c.ddl)
					want = pgSchema(t, db)
				}
				return nil
			})
			if err := p.Apply(t.Context()); !errors.Is(err, c.err) {
				t.Fatalf("expected %v, met %v", c.err, err)
			}
			if met := pgSchema(t, db); met != want {
				t.Errorf("expected the table to stay as it was, met\n%s", met)
			}
			if c.err != migrate.ErrOutOfOrder {
				return
			}
			p, err := migrate.Adopt(t.Context(), db, onlineSpec("p"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Verify(t.Context()); err != nil {
				t.Error(err)
			}
			// What was added has come along, and nothing else has stayed behind.
			met := pgSchema(t, db)
			if err := p.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, word := range []string{"late", "DEFAULT 1"} {
				if strings.Count(pgSchema(t, db), word) != strings.Count(met, word) || strings.Contains(c.ddl, word) && word == "late" && !strings.Contains(met, word) {
					t.Errorf("expected %q to come along, met\n%s", word, met)
				}
			}
		})
	}
}

// TestAdoptOnlineNamesFunctionsApart has two columns whose tables' and own names
// read alike when they are put together.
func TestAdoptOnlineNamesFunctionsApart(t *testing.T) {
	db, _, _ := postgresDB(t)
	adoptExec(t, db, "CREATE TABLE member_group (id serial PRIMARY KEY, n int)", "INSERT INTO member_group (n) VALUES (1), (2)",
		"CREATE TABLE member (id serial PRIMARY KEY, group_id int REFERENCES member_group (id))", "INSERT INTO member (group_id) VALUES (1), (2)")
	before := pgSchema(t, db)
	p := adoptPlan(t, db, onlineSpec("member_group"))
	migrate.SetAdoptHook(p, func(s migrate.AdoptStatement) error {
		return errors.Join(db.Exec("INSERT INTO member (group_id) VALUES (1)").Error, db.Exec("INSERT INTO member_group (n) VALUES (3)").Error)
	})
	if err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := pgSchema(t, db); after != before {
		t.Errorf("expected the original schema, met\n%s", after)
	}
}

// TestAdoptOnlineReadsIndexes has indexes with names that look like SQL, with an
// operator class of the old type, and with comments.
func TestAdoptOnlineReadsIndexes(t *testing.T) {
	db, _, _ := postgresDB(t)
	adoptExec(t, db, "CREATE TABLE p (id serial PRIMARY KEY)", `CREATE TABLE "c ON d" (btree int REFERENCES p (id), v text)`,
		`CREATE INDEX "x USING y" ON "c ON d" (btree)`, `CREATE UNIQUE INDEX "a INDEX b" ON "c ON d" (btree, v text_pattern_ops)`,
		`COMMENT ON INDEX "x USING y" IS 'the index''s'`, `COMMENT ON CONSTRAINT p_pkey ON p IS 'the key''s'`, `COMMENT ON CONSTRAINT "c ON d_btree_fkey" ON "c ON d" IS 'the foreign key''s'`)
	comments := func() (all string) {
		err := db.Raw("SELECT string_agg(description, ', ' ORDER BY description) FROM pg_description WHERE description LIKE 'the %''s'").Row().Scan(&all)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	schema, said := pgSchema(t, db), comments()
	p, err := migrate.Adopt(t.Context(), db, onlineSpec("p"))
	if err != nil {
		t.Fatal(err)
	}
	if met := comments(); met != said {
		t.Errorf("expected the comments %s, met %s", said, met)
	}
	if err := p.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if met := pgSchema(t, db); met != schema {
		t.Errorf("expected\n%s\nmet\n%s", schema, met)
	}
}

// TestAdoptLocksEveryTable has a second runner beside one that is at work: on the
// same table by another search path, and on another one whose keys the same table
// holds. It must wait, and come to its end afterwards.
func TestAdoptLocksEveryTable(t *testing.T) {
	for _, c := range []struct{ name, path, table string }{{"by another search path", "app, public", "a"}, {"for another key", "public", "b"}} {
		t.Run(c.name, func(t *testing.T) {
			db, srv, dsn := postgresDB(t)
			adoptExec(t, db, "CREATE SCHEMA app", "CREATE TABLE a (id serial PRIMARY KEY)", "CREATE TABLE b (id serial PRIMARY KEY)",
				"INSERT INTO a SELECT generate_series(1, 9)", "INSERT INTO b SELECT generate_series(1, 9)",
				"CREATE TABLE ab (a_id int REFERENCES a (id) ON DELETE CASCADE, b_id int REFERENCES b (id), PRIMARY KEY (a_id, b_id))",
				"INSERT INTO ab SELECT a.id, b.id FROM a, b")
			other := srv.OpenDSN(t, dsn, nil)
			pool, err := other.DB()
			if err != nil {
				t.Fatal(err)
			}
			pool.SetMaxOpenConns(1)
			pool.SetMaxIdleConns(1)
			second := func(ctx context.Context) error {
				adoptExec(t, other, "SET search_path = "+c.path)
				_, err := migrate.Adopt(ctx, other, onlineSpec(c.table))
				return err
			}
			p, asked := adoptPlan(t, db, onlineSpec("a")), 0
			migrate.SetAdoptHook(p, func(s migrate.AdoptStatement) error {
				if s.Step != "prepare" || asked > 0 {
					return nil
				}
				asked++
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				if err := second(ctx); !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("expected the second runner to wait, met %v", err)
				}
				return nil
			})
			if err := p.Apply(t.Context()); err != nil || asked != 1 {
				t.Fatalf("asked %d times, %v", asked, err)
			}
			if err := second(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Verify(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAdoptKeepsOthersNotes has an adoption planned while another one has noted, in
// the comment of a table that both change, that a foreign key is away.
func TestAdoptKeepsOthersNotes(t *testing.T) {
	servers.Each(t, servers.MySQLKinds(), func(t *testing.T, srv *servers.Server) {
		db := unprepared(t, srv, srv.Database(t))
		adoptExec(t, db, "CREATE TABLE a (id int PRIMARY KEY AUTO_INCREMENT)", "CREATE TABLE b (id int PRIMARY KEY AUTO_INCREMENT)", "INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)",
			`CREATE TABLE ab (a_id int, b_id int, PRIMARY KEY (a_id, b_id), CONSTRAINT fa FOREIGN KEY (a_id) REFERENCES a (id), CONSTRAINT fb FOREIGN KEY (b_id) REFERENCES b (id)) COMMENT 'mine'`,
			"INSERT INTO ab VALUES (1, 1)")
		comment := func() (text string) {
			if err := db.Raw("SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'ab'").Row().Scan(&text); err != nil {
				t.Fatal(err)
			}
			return text
		}
		a, b := adoptPlan(t, db, migrate.AdoptSpec{Table: "a"}), adoptPlan(t, db, migrate.AdoptSpec{Table: "b"})
		planned, ended, second := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		begin := func() { close(planned); <-ended }
		var once sync.Once
		migrate.SetAdoptHook(b, func(migrate.AdoptStatement) error { once.Do(begin); return nil })
		migrate.SetAdoptHook(a, func(s migrate.AdoptStatement) error {
			if s.Step != "widen" || s.Table != "ab" {
				return nil
			}
			go func() { second <- b.Apply(context.WithoutCancel(t.Context())) }()
			<-planned
			adoptExec(t, db, "ALTER TABLE ab COMMENT = '"+strings.Replace(comment(), "mine", "ours", 1)+"'")
			return nil
		})
		err := a.Apply(t.Context())
		close(ended)
		if err := errors.Join(err, <-second); err != nil {
			t.Fatal(err)
		}
		if met := comment(); met != "ours" {
			t.Errorf("expected the comment that somebody has given the table, met %s", met)
		}
	})
}
