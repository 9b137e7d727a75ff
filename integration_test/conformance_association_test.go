package integration_test

import (
	"fmt"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/internal/servers"
)

// A family of models with every kind of association, keyed by K.
type (
	company struct {
		ID   gormflake.ID `gorm:"primaryKey"`
		Code string       `gorm:"size:40;uniqueIndex"`
	}
	language struct {
		ID   int64  `gorm:"primaryKey"`
		Code string `gorm:"size:40;uniqueIndex"`
	}
	profile struct {
		ID     int64 `gorm:"primaryKey"`
		UserID gormflake.ID
	}
	toy struct {
		ID        gormflake.ID `gorm:"primaryKey"`
		Name      string       `gorm:"size:40"`
		OwnerID   gormflake.ID
		OwnerType string `gorm:"size:40"`
	}
	pet struct {
		ID     gormflake.ID `gorm:"primaryKey"`
		UserID gormflake.ID
		Toys   []toy `gorm:"polymorphic:Owner"`
	}
	user struct {
		ID        gormflake.ID `gorm:"primaryKey"`
		Name      string       `gorm:"size:40"`
		CompanyID *gormflake.ID
		Company   *company
		Profile   profile
		Pets      []*pet
		Toys      []toy      `gorm:"polymorphic:Owner"`
		Languages []language `gorm:"many2many:user_languages"`
		Groups    []group    `gorm:"many2many:memberships"`
		ManagerID *gormflake.ID
		Manager   *user
		Team      []user  `gorm:"foreignKey:ManagerID"`
		Friends   []*user `gorm:"many2many:user_friends"`
	}
	group struct {
		ID   gormflake.ID `gorm:"primaryKey"`
		Name string       `gorm:"size:40"`
	}
	// membership is a join table with a key of its own; the index on the pair
	// lets DO NOTHING see a pair that is there.
	membership struct {
		ID      gormflake.ID `gorm:"primaryKey"`
		UserID  gormflake.ID `gorm:"uniqueIndex:pair"`
		GroupID gormflake.ID `gorm:"uniqueIndex:pair"`
	}
	// owner has a key of its own making, and rows that have the plugin's.
	owner struct {
		Code  string `gorm:"primaryKey;size:40"`
		Parts []part
	}
	part struct {
		ID        gormflake.ID `gorm:"primaryKey"`
		OwnerCode string       `gorm:"size:40"`
	}
)

func newUser(name string) user {
	return user{
		Name:      name,
		Company:   &company{Code: "company of " + name},
		Pets:      []*pet{{Toys: []toy{{Name: "ball"}, {Name: "bone"}}}, {}},
		Toys:      []toy{{Name: "car"}},
		Languages: []language{{Code: "de " + name}, {Code: "en " + name}},
		Groups:    []group{{Name: "a"}, {Name: "b"}},
		Manager:   &user{Name: "manager of " + name, Company: &company{Code: "holding of " + name}},
		Team:      []user{{Name: "one of " + name}, {Name: "two of " + name}},
		Friends:   []*user{{Name: "friend of " + name}},
	}
}

func familySuite(t *testing.T, server *servers.Server, config gormflake.Config) *suite {
	t.Helper()
	s := newSuite(t, server, config, &gorm.Config{DisableForeignKeyConstraintWhenMigrating: true})
	if err := s.db.SetupJoinTable(&user{}, "Groups", &membership{}); err != nil {
		t.Fatal(err)
	}
	if err := s.db.AutoMigrate(&company{}, &language{}, &profile{}, &toy{}, &pet{}, &group{}, &user{}, &membership{}, &owner{}, &part{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAssociations creates users with all that belongs to them, and reads them
// back through the database.
func TestAssociations(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		for name, config := range map[string]gormflake.Config{
			"prepared":   {Models: []any{&user{}}},
			"unprepared": {},
		} {
			t.Run(name, func(t *testing.T) {
				s := familySuite(t, server, config)
				single := newUser("single")
				if err := s.db.Create(&single).Error; err != nil {
					t.Fatal(err)
				}
				several := []user{newUser("first"), newUser("second")}
				if err := s.db.Create(&several).Error; err != nil {
					t.Fatal(err)
				}
				for _, u := range append(several, single) {
					s.checkUser(t, &u)
				}
			})
		}
	})
}

func (s *suite) checkUser(t *testing.T, u *user) {
	t.Helper()
	var found user
	err := s.db.Preload(clause.Associations).Preload("Pets.Toys").First(&found, u.ID).Error
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(u.ID, *u.CompanyID, u.Company.ID, *u.ManagerID, u.Manager.ID, u.Profile.ID, u.Pets[0].ID, u.Pets[0].Toys[1].ID,
		u.Toys[0].ID, u.Languages[0].ID, u.Languages[1].ID, u.Groups[0].ID, u.Groups[1].ID, u.Team[0].ID, u.Team[1].ID, u.Friends[0].ID)
	got := fmt.Sprint(found.ID, *found.CompanyID, found.Company.ID, *found.ManagerID, found.Manager.ID, found.Profile.ID, found.Pets[0].ID, found.Pets[0].Toys[1].ID,
		found.Toys[0].ID, found.Languages[0].ID, found.Languages[1].ID, found.Groups[0].ID, found.Groups[1].ID, found.Team[0].ID, found.Team[1].ID, found.Friends[0].ID)
	if got != want {
		t.Errorf("%s: want the ids\n%s of the structs, got\n%s from the database", u.Name, want, got)
	}
	if u.Company.ID <= u.ID { // GORM saves it once the user's id is set
		t.Errorf("want a larger id for the company than for its user, got %d and %d", u.Company.ID, u.ID)
	}
	var holding company
	if err := s.db.First(&holding, *u.Manager.CompanyID).Error; err != nil {
		t.Errorf("the manager's company: %v", err)
	}
	var pairs []membership
	if err := s.db.Where("user_id = ?", u.ID).Find(&pairs).Error; err != nil || len(pairs) != 2 || pairs[0].ID == 0 || pairs[0].ID == pairs[1].ID {
		t.Errorf("want two memberships with ids of their own, got %+v, error %v", pairs, err)
	}
}

// TestAssociationsThatExist creates users whose company, languages and groups
// are there already: what is saved must point to those.
func TestAssociationsThatExist(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		s := familySuite(t, server, gormflake.Config{})
		first := company{Code: "acme"}
		german := language{Code: "de"}
		for _, row := range []any{&first, &german} {
			if err := s.db.Create(row).Error; err != nil {
				t.Fatal(err)
			}
		}
		for name, full := range map[string]bool{"usual": false, "FullSaveAssociations": true} {
			if full && !server.Kind().IsMySQL() {
				continue // there it names the key alone: the code's conflict is an error of the database's
			}
			u := user{Name: name, Company: &company{Code: "acme"}, Languages: []language{{Code: "de"}, {Code: "en " + name}}}
			if err := s.db.Session(&gorm.Session{FullSaveAssociations: full}).Create(&u).Error; err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if *u.CompanyID != first.ID || u.Company.ID != first.ID || u.Languages[0].ID != german.ID {
				t.Errorf("%s: want company %d and language %d, got %d, %d and %d", name, first.ID, german.ID, *u.CompanyID, u.Company.ID, u.Languages[0].ID)
			}
			var found user
			if err := s.db.Preload("Company").Preload("Languages").First(&found, u.ID).Error; err != nil {
				t.Fatal(err)
			}
			if found.Company == nil || found.Company.Code != "acme" || len(found.Languages) != 2 {
				t.Errorf("%s: want the company and two languages, got %+v", name, found)
			}
		}
	})
}

// TestAssociationMode appends to associations of a row that is there.
func TestAssociationMode(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		s := familySuite(t, server, gormflake.Config{})
		u := user{Name: "u"}
		if err := s.db.Create(&u).Error; err != nil {
			t.Fatal(err)
		}
		groups := []group{{Name: "a"}, {Name: "b"}}
		for range 2 { // the second time nothing is new
			if err := s.db.Model(&u).Association("Groups").Append(&groups); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.db.Model(&u).Association("Groups").Count(); n != 2 || count(t, s.db, &membership{}) != 2 {
			t.Errorf("want 2 groups and memberships, got %d and %d", n, count(t, s.db, &membership{}))
		}
		if err := s.db.Model(&u).Association("Pets").Replace([]*pet{{}, {}}); err != nil {
			t.Fatal(err)
		}
		if n := s.db.Model(&u).Association("Pets").Count(); n != 2 {
			t.Errorf("want 2 pets, got %d", n)
		}
	})
}

// TestForeignOwner has an owner whose key is not the plugin's, with rows whose
// keys are.
func TestForeignOwner(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		s := familySuite(t, server, gormflake.Config{})
		o := owner{Code: "o", Parts: []part{{}, {}}}
		if err := s.db.Create(&o).Error; err != nil {
			t.Fatal(err)
		}
		s.wantRows(t, &part{}, "id", int64(o.Parts[0].ID), int64(o.Parts[1].ID))
	})
}

// TestSoftDelete creates, deletes and finds a row of gormflake.Model.
func TestSoftDelete(t *testing.T) {
	servers.EachSQL(t, func(t *testing.T, server *servers.Server) {
		s := newSuite(t, server, gormflake.Config{}, nil, &modelled{})
		row := modelled{Name: "a"}
		if err := s.db.Create(&row).Error; err != nil {
			t.Fatal(err)
		}
		if err := s.db.Delete(&row).Error; err != nil {
			t.Fatal(err)
		}
		var gone modelled
		if s.db.First(&gone, row.ID).Error == nil {
			t.Error("want the row deleted, found it")
		}
		s.wantRows(t, &modelled{}, "id", int64(row.ID))
	})
}
