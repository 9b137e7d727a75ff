package gormflake

import (
	"database/sql"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm/schema"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// GORM asks a field's type for its clauses while it parses a model: only by that
// does an ID come to set its fields.
func TestAnIDSetsItsFields(t *testing.T) {
	parsed, err := schema.Parse(&readPost{}, &sync.Map{}, schema.NamingStrategy{})
	if err != nil {
		t.Fatal(err)
	}
	for name, own := range map[string]bool{
		"ID": true, "Plain": true, "Seen": true, "AuthorID": false, "Shared": false, "Left": false,
	} {
		set := runtime.FuncForPC(reflect.ValueOf(parsed.FieldsByName[name].Set).Pointer()).Name()
		if met := strings.Contains(set, "QueryClauses"); met != own {
			t.Errorf("%s is set by %s, want that to be of ID.QueryClauses: %v", name, set, own)
		}
	}
	if n := len(parsed.QueryClauses); n != 0 {
		t.Errorf("queries have %d clauses of the model, want none", n)
	}
}

type (
	readTimes struct {
		Seen ID
		Left *ID
	}
	readAuthor struct {
		ID   ID `gorm:"primaryKey"`
		Name string
	}
	readPost struct {
		ID       ID  `gorm:"primaryKey"`
		AuthorID *ID // NULL for none
		Author   *readAuthor
		Shared   sql.Null[ID]
		Times    readTimes  `gorm:"embedded;embeddedPrefix:times_"`
		More     *readTimes `gorm:"embedded;embeddedPrefix:more_"`
		Plain    ID         // holds a NULL too
	}
)

func TestIDsAreReadInEveryPlaceOfAModel(t *testing.T) {
	_, db := inMemory(t, generator.Config{Store: lease.Memory()})
	if err := db.AutoMigrate(&readAuthor{}, &readPost{}); err != nil {
		t.Fatal(err)
	}
	two, three, five := ID(2), ID(3), ID(5)
	written := readPost{
		ID: 1, Author: &readAuthor{ID: 2, Name: "a"}, AuthorID: &two, Shared: sql.Null[ID]{V: 4, Valid: true},
		Times: readTimes{Seen: 6, Left: &three}, More: &readTimes{Seen: 7, Left: &five}, Plain: 8,
	}
	if err := db.Create(&written).Error; err != nil {
		t.Fatal(err)
	}
	if err := db.Create(&readPost{ID: 9}).Error; err != nil {
		t.Fatal(err)
	}
	if err := db.Exec("UPDATE read_posts SET plain = NULL, times_seen = NULL WHERE id = 9").Error; err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(into any) error{
		"Find":    func(into any) error { return db.Order("read_posts.id").Find(into).Error },
		"Joins":   func(into any) error { return db.Joins("Author").Order("read_posts.id").Find(into).Error },
		"Preload": func(into any) error { return db.Preload("Author").Order("read_posts.id").Find(into).Error },
		"Raw":     func(into any) error { return db.Raw("SELECT * FROM read_posts ORDER BY id").Scan(into).Error },
		"as text": func(into any) error {
			return db.Table("read_posts").Select("CAST(id AS TEXT) AS id, CAST(author_id AS TEXT) AS author_id, CAST(shared AS TEXT) AS shared, CAST(plain AS TEXT) AS plain, CAST(times_seen AS TEXT) AS times_seen, times_left, more_seen, more_left").
				Order("read_posts.id").Find(into).Error
		},
	} {
		t.Run(name, func(t *testing.T) {
			posts := []readPost{{Plain: 100}, {Plain: 100}, {Plain: 100}} // read into again
			if err := read(&posts); err != nil {
				t.Fatal(err)
			}
			if len(posts) != 2 {
				t.Fatalf("%d rows, want 2", len(posts))
			}
			full, empty := posts[0], posts[1]
			if full.ID != 1 || full.AuthorID == nil || *full.AuthorID != 2 || full.Shared != written.Shared || full.Plain != 8 {
				t.Errorf("read %+v, want %+v", full, written)
			}
			if full.Times.Seen != 6 || full.Times.Left == nil || *full.Times.Left != 3 || full.More == nil || full.More.Seen != 7 || *full.More.Left != 5 {
				t.Errorf("read %+v and %+v, want %+v and %+v", full.Times, full.More, written.Times, written.More)
			}
			if empty.ID != 9 || empty.AuthorID != nil || empty.Author != nil || empty.Shared.Valid || empty.Plain != 0 || empty.Times.Seen != 0 || empty.Times.Left != nil {
				t.Errorf("read %+v, want only an id", empty)
			}
			if joins := name == "Joins" || name == "Preload"; joins != (full.Author != nil) || joins && full.Author.ID != 2 {
				t.Errorf("read the author %+v, want %v", full.Author, joins)
			}
		})
	}
	var ids []ID
	if err := db.Model(&readPost{}).Order("id").Pluck("id", &ids).Error; err != nil || len(ids) != 2 || ids[0] != 1 || ids[1] != 9 {
		t.Errorf("plucked %v, %v", ids, err)
	}
	var one readPost
	if err := db.Raw("SELECT 'x' AS id").Scan(&one).Error; err == nil {
		t.Error("text that is no number was read into an ID")
	}
	if tx := db.Where("id = ?", 1).First(&one); tx.Error != nil || one.ID != 1 {
		t.Errorf("first %v, %v", one.ID, tx.Error)
	}
	rows, err := db.Model(&readPost{}).Order("id").Rows()
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for _, want := range []ID{1, 9} {
		var post readPost
		if !rows.Next() {
			t.Fatal(rows.Err())
		}
		if err := db.ScanRows(rows, &post); err != nil || post.ID != want {
			t.Errorf("scanned %v, %v, want %v", post.ID, err, want)
		}
	}
}

// NULL is zero, also in a struct that is read into again; an embedded pointer whose
// columns are all NULL stays nil.
func TestNullIDs(t *testing.T) {
	_, db := inMemory(t, generator.Config{Store: lease.Memory()})
	if err := db.AutoMigrate(&readAuthor{}, &readPost{}); err != nil {
		t.Fatal(err)
	}
	if err := db.Exec("INSERT INTO read_posts (id) VALUES (9)").Error; err != nil {
		t.Fatal(err)
	}
	var none **ID
	post := readPost{Plain: 100}
	if err := db.First(&post).Error; err != nil || post.More != nil || post.Plain != 0 {
		t.Errorf("read %+v, %v; want no embedded struct, and zero", post, err)
	}
	if err := db.Where("id = 0").Attrs(map[string]any{"plain": none}).FirstOrInit(&readPost{}).Error; err != nil {
		t.Error(err)
	}
}
