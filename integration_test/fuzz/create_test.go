// Package fuzz has the fuzz targets that need no database and no driver: with
// fewer packages to instrument they start in seconds.
package fuzz

import (
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/utils/tests"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator/lease"
)

// keyTypes are the kinds of key that FuzzCreate builds models of, and whether
// the plugin fills them without a tag.
var keyTypes = []struct {
	of     reflect.Type
	filled bool
}{
	{reflect.TypeFor[gormflake.ID](), true},
	{reflect.TypeFor[int64](), true},
	{reflect.TypeFor[uint64](), true},
	{reflect.TypeFor[*int64](), true},
	{reflect.TypeFor[int32](), false},
	{reflect.TypeFor[int](), false},
	{reflect.TypeFor[uint](), false},
	{reflect.TypeFor[string](), false},
}

var keyTags = []string{``, `gormflake:"fill"`, `gormflake:"-"`, `gormflake:"time:At;business:N"`, `gormflake:"nonsense"`, `gormflake:"time:;business:"`}

// FuzzCreate generates models and values, and creates them without running the
// INSERT: nothing panics, and where the plugin fills a key, every one that was
// zero is set, and all rise strictly; explicit ones stay.
func FuzzCreate(f *testing.F) {
	for i := range 24 {
		f.Add(uint8(i), uint8(i/8), uint8(i), uint8(i*37))
	}
	db, err := gorm.Open(tests.DummyDialector{}, &gorm.Config{DryRun: true, Logger: logger.Discard})
	if err != nil {
		f.Fatal(err)
	}
	flake := gormflake.New(gormflake.Config{Store: lease.Memory(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err := db.Use(flake); err != nil {
		f.Fatal(err)
	}
	if err := flake.Start(f.Context()); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = flake.Close(f.Context()) })
	f.Fuzz(func(t *testing.T, key, tag, shape, explicit uint8) {
		kind, keyTag := keyTypes[int(key)%len(keyTypes)], keyTags[int(tag)%len(keyTags)]
		model := reflect.StructOf([]reflect.StructField{
			{Name: "ID", Type: kind.of, Tag: reflect.StructTag(`gorm:"primaryKey" ` + keyTag)},
			{Name: "Name", Type: reflect.TypeFor[string]()},
			{Name: "N", Type: reflect.TypeFor[int64]()},
		})
		pointers, n := shape&1 == 1, int(shape>>1)%9
		element := model
		if pointers {
			element = reflect.PointerTo(model)
		}
		rows := reflect.New(reflect.SliceOf(element))
		for i := range n {
			row := reflect.New(model)
			if set := row.Elem().Field(0); explicit>>(i%8)&1 == 1 && set.CanInt() {
				set.SetInt(int64(i) + 7)
			}
			if !pointers {
				row = row.Elem()
			}
			rows.Elem().Set(reflect.Append(rows.Elem(), row))
		}
		err := db.Table("rows").Create(rows.Interface()).Error
		if err != nil || !kind.filled || keyTag != `` {
			return // refused, or none of the plugin's business
		}
		last := int64(0)
		for i := range n {
			id := reflect.Indirect(reflect.Indirect(rows.Elem().Index(i)).Field(0))
			if !id.IsValid() {
				t.Fatalf("%v: row %d has no id", model, i)
			}
			value := reflect.ValueOf(fmt.Sprint(id.Interface()))
			number := int64(0)
			if _, err := fmt.Sscan(value.String(), &number); err != nil {
				t.Fatal(err)
			}
			if explicit>>(i%8)&1 == 1 && reflect.Indirect(rows.Elem().Index(i)).Field(0).CanInt() {
				if number != int64(i)+7 {
					t.Fatalf("%v: the explicit id of row %d became %d", model, i, number)
				}
				continue
			}
			if number <= last {
				t.Fatalf("%v: row %d has the id %d after %d", model, i, number, last)
			}
			last = number
		}
	})
}
