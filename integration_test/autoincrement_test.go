package integration_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/internal/servers"
)

// TestAutoIncrementTables shows what docs/gorm.md says of ids in tables that
// the database numbers, and that MarkedKeys leaves them alone.
func TestAutoIncrementTables(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		numberedNext := func(t *testing.T, db *gorm.DB) (id int64) {
			t.Helper()
			if err := db.Exec("INSERT INTO plains (name) VALUES ('by the database')").Error; err != nil {
				t.Fatal(err)
			}
			if err := db.Raw("SELECT id FROM plains WHERE name = 'by the database'").Row().Scan(&id); err != nil {
				t.Fatal(err)
			}
			return id
		}
		t.Run("BIGINT", func(t *testing.T) {
			s := newSuite(t, server, gormflake.Config{}, nil, &plain{})
			row := plain{Name: "by the plugin"}
			if err := s.db.Create(&row).Error; err != nil {
				t.Fatal(err)
			}
			want := row.ID + 1 // the counter has jumped
			if server.Kind() == servers.Postgres {
				want = 1
			}
			if id := numberedNext(t, s.db); id != want {
				t.Errorf("want the database to number its next row %d, got %d", want, id)
			}
			if server.Kind().IsMySQL() {
				if err := s.db.Exec("DELETE FROM plains WHERE name = 'by the database'").Error; err != nil {
					t.Fatal(err)
				}
				if err := s.db.Exec("ALTER TABLE plains AUTO_INCREMENT = 1").Error; err != nil {
					t.Fatal(err)
				}
				if id := numberedNext(t, s.db); id != want {
					t.Errorf("want the counter to stay above the largest key, at %d, got %d", want, id)
				}
			}
		})
		t.Run("MarkedKeys", func(t *testing.T) {
			s := newSuite(t, server, gormflake.Config{Match: gormflake.MarkedKeys}, nil, &plain{})
			row := plain{Name: "left alone"}
			if err := s.db.Create(&row).Error; err != nil || row.ID != 1 {
				t.Errorf("want id 1, got %d, error %v", row.ID, err)
			}
			if id := numberedNext(t, s.db); id != 2 {
				t.Errorf("want the database to go on with 2, got %d", id)
			}
		})
		if !server.Kind().IsMySQL() {
			return
		}
		t.Run("INT", func(t *testing.T) {
			s := newSuite(t, server, gormflake.Config{}, nil)
			if err := s.db.Exec("CREATE TABLE plains (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(100))").Error; err != nil {
				t.Fatal(err)
			}
			var mode string
			if err := s.db.Raw("SELECT @@SESSION.sql_mode").Row().Scan(&mode); err != nil {
				t.Fatal(err)
			}
			err := s.db.Create(&plain{Name: "too large"}).Error
			if strings.Contains(mode, "STRICT") {
				var refused *mysql.MySQLError
				if !errors.As(err, &refused) || refused.Number != 1264 {
					t.Errorf("want error 1264, got %v", err)
				}
				return
			}
			var id int64
			if err := s.db.Raw("SELECT id FROM plains").Row().Scan(&id); err != nil || id != math.MaxInt32 {
				t.Errorf("want id %d without strict mode, got %d, error %v", math.MaxInt32, id, err)
			}
		})
	})
}
