package integration_test

import (
	"fmt"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/internal/servers"
)

// account has three unique indexes: one of a column, one of two, and one of a
// column that may be NULL.
type account struct {
	ID      gormflake.ID `gorm:"primaryKey"`
	Email   string       `gorm:"size:100;uniqueIndex"`
	Region  string       `gorm:"size:20;uniqueIndex:number"`
	Number  int          `gorm:"uniqueIndex:number"`
	Phone   *string      `gorm:"size:40;unique"`
	Visits  int
	Trace   gormflake.ID `gormflake:"fill"`
	Comment string       `gorm:"size:100;default:none"`
}

// plainAccount is one whose key nobody has prepared.
type plainAccount struct {
	ID     int64  `gorm:"primaryKey"`
	Email  string `gorm:"size:100;uniqueIndex"`
	Visits int
}

// keyOnly has nothing to update.
type keyOnly struct {
	ID    gormflake.ID `gorm:"primaryKey"`
	Email string       `gorm:"size:100;uniqueIndex;<-:create"`
}

// slotted has a composite key.
type slotted struct {
	Number gormflake.ID `gorm:"primaryKey" gormflake:"fill"`
	Slot   int          `gorm:"primaryKey;autoIncrement:false"`
	Email  string       `gorm:"size:100;uniqueIndex"`
	Visits int
}

func visitsPlus(table string) clause.Set {
	return clause.Assignments(map[string]any{"visits": gorm.Expr(table + ".visits + 1")})
}

// conflicts are the forms of ON CONFLICT. MySQL takes no notice of columns and
// conditions.
func conflicts(kind servers.Kind, table string) map[string]clause.OnConflict {
	email := []clause.Column{{Name: "email"}}
	all := map[string]clause.OnConflict{
		"DoNothing":              {DoNothing: true},
		"DoNothing by email":     {DoNothing: true, Columns: email},
		"DoUpdates by email":     {Columns: email, DoUpdates: clause.AssignmentColumns([]string{"visits"})},
		"DoUpdates, expression":  {Columns: email, DoUpdates: visitsPlus(table)},
		"UpdateAll by email":     {Columns: email, UpdateAll: true},
		"DoUpdates with a Where": {Columns: email, DoUpdates: visitsPlus(table), Where: clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: table + ".visits > 1000"}}}},
	}
	if kind.IsMySQL() {
		delete(all, "DoUpdates with a Where")
	}
	return all
}

// TestUpserts checks that after any upsert each id is that of a row, and of
// the row that has the values.
func TestUpserts(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		for _, prepared := range []bool{true, false} {
			config := gormflake.Config{}
			if prepared {
				config.Models = []any{&plainAccount{}}
			}
			t.Run(fmt.Sprintf("prepared=%v", prepared), func(t *testing.T) {
				s := newSuite(t, server, config, nil, &account{}, &plainAccount{})
				for name, conflict := range conflicts(server.Kind(), "accounts") {
					t.Run(name, func(t *testing.T) { s.upsertAccounts(t, conflict) })
				}
				for name, conflict := range conflicts(server.Kind(), "plain_accounts") {
					t.Run("plain "+name, func(t *testing.T) { s.upsertPlainAccounts(t, conflict) })
				}
			})
		}
	})
}

func (s *suite) empty(t *testing.T, model any) {
	t.Helper()
	if err := s.db.Session(&gorm.Session{AllowGlobalUpdate: true}).Delete(model).Error; err != nil {
		t.Fatal(err)
	}
}

func (s *suite) upsertAccounts(t *testing.T, conflict clause.OnConflict) {
	s.empty(t, &account{})
	first := account{Email: "a@example.org", Region: "eu", Number: 1}
	if err := s.db.Create(&first).Error; err != nil {
		t.Fatal(err)
	}
	// Single, met and new.
	met := account{Email: "a@example.org", Region: "eu", Number: 1, Visits: 5}
	fresh := account{Email: "b@example.org", Region: "eu", Number: 2}
	for _, row := range []*account{&met, &fresh} {
		if err := s.db.Clauses(conflict).Create(row).Error; err != nil {
			t.Fatal(err)
		}
	}
	if met.ID != first.ID || met.Trace != first.Trace && !conflict.UpdateAll {
		t.Errorf("want the id %d and trace %d of the row that it met, got %d and %d", first.ID, first.Trace, met.ID, met.Trace)
	}
	// A slice of both kinds, one of them with an id that is in no row.
	rows := []account{
		{Email: "c@example.org", Region: "eu", Number: 3},
		{Email: "b@example.org", Region: "eu", Number: 2},
		{Email: "d@example.org", Region: "eu", Number: 4},
		{ID: 77, Email: "a@example.org", Region: "eu", Number: 1},
		{Email: "e@example.org", Region: "eu", Number: 5},
	}
	if err := s.db.Clauses(conflict).Create(&rows).Error; err != nil {
		t.Fatal(err)
	}
	if rows[1].ID != fresh.ID || rows[3].ID != first.ID {
		t.Errorf("want ids %d and %d of the rows that they met, got %d and %d", fresh.ID, first.ID, rows[1].ID, rows[3].ID)
	}
	batches := []*account{
		{Email: "e@example.org", Region: "eu", Number: 5},
		{Email: "f@example.org", Region: "eu", Number: 6},
		{Email: "c@example.org", Region: "eu", Number: 3},
	}
	if err := s.db.Clauses(conflict).CreateInBatches(&batches, 2).Error; err != nil {
		t.Fatal(err)
	}
	all := append(rows, met, fresh)
	for _, row := range batches {
		all = append(all, *row)
	}
	for _, row := range all {
		var found account
		err := s.db.Where("email = ?", row.Email).First(&found).Error
		if err != nil || found.ID != row.ID || found.Trace != row.Trace && !conflict.UpdateAll {
			t.Errorf("%s: want the id and trace of its row, %d and %d, got %d and %d, error %v",
				row.Email, found.ID, found.Trace, row.ID, row.Trace, err)
		}
	}
	if n := count(t, s.db, &account{}); n != 6 {
		t.Errorf("want 6 rows, got %d", n)
	}
}

func (s *suite) upsertPlainAccounts(t *testing.T, conflict clause.OnConflict) {
	s.empty(t, &plainAccount{})
	first := plainAccount{Email: "a@example.org"}
	if err := s.db.Create(&first).Error; err != nil {
		t.Fatal(err)
	}
	rows := []plainAccount{{Email: "b@example.org"}, {Email: "a@example.org"}, {Email: "c@example.org"}}
	tx := s.db.Clauses(conflict).Create(&rows)
	if tx.Error != nil {
		t.Fatal(tx.Error)
	}
	if n := tx.RowsAffected; conflict.DoNothing && n != 2 {
		t.Errorf("want 2 rows affected, got %d", n)
	}
	maps := []map[string]any{{"email": "d@example.org", "visits": 1}, {"email": "b@example.org", "visits": 2}}
	if err := s.db.Model(&plainAccount{}).Clauses(conflict).Create(maps).Error; err != nil {
		t.Fatal(err)
	}
	single := map[string]any{"Email": "c@example.org", "Visits": 3}
	if err := s.db.Model(&plainAccount{}).Clauses(conflict).Create(single).Error; err != nil {
		t.Fatal(err)
	}
	ids := map[string]int64{first.Email: first.ID}
	check := func(email string, id int64) {
		t.Helper()
		var found plainAccount
		if err := s.db.Where("email = ?", email).First(&found).Error; err != nil || found.ID != id {
			t.Errorf("%s: want the id of its row, %d, got %d, error %v", email, found.ID, id, err)
		}
		if before, ok := ids[email]; ok && before != id {
			t.Errorf("%s: want id %d as before, got %d", email, before, id)
		}
		ids[email] = id
	}
	for _, row := range rows {
		check(row.Email, row.ID)
	}
	for _, m := range append(maps, map[string]any{"email": single["Email"], "id": single["id"]}) {
		id, _ := m["id"].(int64)
		check(m["email"].(string), id)
	}
}

// TestUpsertMeetsAnotherIndex has rows that meet others by indexes that
// ON CONFLICT does not name.
func TestUpsertMeetsAnotherIndex(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		s := newSuite(t, server, gormflake.Config{}, nil, &account{})
		phone := "+49 1"
		first := account{Email: "a@example.org", Region: "eu", Number: 1, Phone: &phone}
		if err := s.db.Create(&first).Error; err != nil {
			t.Fatal(err)
		}
		for name, row := range map[string]account{
			"two columns":  {Email: "x@example.org", Region: "eu", Number: 1},
			"unique field": {Email: "x@example.org", Region: "us", Number: 1, Phone: &phone},
			"the key":      {ID: first.ID, Email: "x@example.org", Region: "us", Number: 1},
		} {
			rows := []account{row, {Email: name, Region: name, Number: 1}}
			if err := s.db.Clauses(clause.OnConflict{DoNothing: true}).Create(&rows).Error; err != nil {
				t.Fatal(err)
			}
			if rows[0].ID != first.ID {
				t.Errorf("%s: want the id %d of the row that it met, got %d", name, first.ID, rows[0].ID)
			}
			s.wantRows(t, &account{}, "id", int64(rows[1].ID))
		}
		if server.Kind().IsMySQL() {
			row := account{Email: "A@EXAMPLE.ORG ", Region: "uk", Number: 9}
			update := clause.OnConflict{DoUpdates: clause.AssignmentColumns([]string{"visits"})}
			if err := s.db.Clauses(update).Create(&row).Error; err != nil || row.ID != first.ID {
				t.Errorf("want the id %d of the row that equals it in the column's collation, got %d, error %v", first.ID, row.ID, err)
			}
		}
	})
}

// TestUpsertFindsNothing has a row that meets one by an index which the model
// does not declare: its id is zero, and what would point to it is refused.
func TestUpsertFindsNothing(t *testing.T) {
	type item struct {
		ID       gormflake.ID `gorm:"primaryKey"`
		BasketID gormflake.ID
	}
	type basket struct {
		ID    gormflake.ID `gorm:"primaryKey"`
		Code  string       `gorm:"size:40"`
		Items []item
	}
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		s := newSuite(t, server, gormflake.Config{}, nil, &basket{}, &item{})
		if err := s.db.Exec("CREATE UNIQUE INDEX undeclared ON baskets (code)").Error; err != nil {
			t.Fatal(err)
		}
		first := basket{Code: "a"}
		if err := s.db.Create(&first).Error; err != nil {
			t.Fatal(err)
		}
		nothing := clause.OnConflict{DoNothing: true}
		again := basket{Code: "a"}
		if err := s.db.Clauses(nothing).Create(&again).Error; err != nil || again.ID != 0 {
			t.Errorf("want a zero id, got %d, error %v", again.ID, err)
		}
		full := basket{Code: "a", Items: []item{{}}}
		err := s.db.Clauses(nothing).Create(&full).Error
		if err == nil || count(t, s.db, &item{}) != 0 {
			t.Errorf("want an error and no items, got %v and %d", err, count(t, s.db, &item{}))
		}
	})
}

// TestUpsertKeys has models of a composite key, and one with nothing to update.
func TestUpsertKeys(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		s := newSuite(t, server, gormflake.Config{}, nil, &slotted{}, &keyOnly{})
		first := slotted{Slot: 1, Email: "a@example.org"}
		if err := s.db.Create(&first).Error; err != nil {
			t.Fatal(err)
		}
		for name, conflict := range conflicts(server.Kind(), "slotteds") {
			rows := []slotted{{Slot: 1, Email: name}, {Slot: 1, Email: "a@example.org"}}
			if err := s.db.Clauses(conflict).Create(&rows).Error; err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if rows[1].Number != first.Number {
				t.Errorf("%s: want the id %d of the row that it met, got %d", name, first.Number, rows[1].Number)
			}
			s.wantRows(t, &slotted{}, "number", int64(rows[0].Number), int64(rows[1].Number))
		}
		only := keyOnly{Email: "a@example.org"}
		if err := s.db.Create(&only).Error; err != nil {
			t.Fatal(err)
		}
		email := []clause.Column{{Name: "email"}}
		rows := []keyOnly{{Email: "b@example.org"}, {Email: "a@example.org"}}
		if err := s.db.Clauses(clause.OnConflict{Columns: email, UpdateAll: true}).Create(&rows).Error; err != nil {
			t.Fatal(err)
		}
		if rows[1].ID != only.ID {
			t.Errorf("want the id %d of the row that it met, got %d", only.ID, rows[1].ID)
		}
		s.wantRows(t, &keyOnly{}, "id", int64(rows[0].ID), int64(rows[1].ID))
	})
}
