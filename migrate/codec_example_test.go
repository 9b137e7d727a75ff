package migrate_test

import (
	"gorm.io/gorm"

	"github.com/gormflake/gormflake/migrate"
)

type Order struct {
	ID     int64
	Active bool
	State  bool
}

type Door struct {
	ID   int64
	Open bool `gorm:"legacybool:open,closed"`
}

func install(db *gorm.DB) error {
	type Order struct {
		ID     int64
		Active bool // enum('N','Y') in the database, today
	}

	if err := db.Use(migrate.LegacyBools(&Order{})); err != nil {
		return err
	}
	return nil
}

func ExampleLegacyBools() {
	var db *gorm.DB // opened with gorm.io/driver/mysql
	_ = install(db)

	db.Create(&Order{Active: true})             // 'Y', b'1', 1: what the column holds
	db.Where("active = ?", true).Find(&Order{}) // by the label, not by its index
}

func ExampleBools_Mapping() {
	codec := migrate.LegacyBools(&Order{}).Mapping("orders", "state", "open", "closed")
	_ = codec
}

func ExampleParam() {
	var (
		db  *gorm.DB
		err error
	)
	var orders []Order
	err = db.Where("COALESCE(active, ?) = ?",
		migrate.Param(db, &Order{}, "active", false),
		migrate.Param(db, &Order{}, "active", true)).Find(&orders).Error
	_ = err
}

func ExampleAsStored() {
	var (
		db  *gorm.DB
		err error
	)
	var labels []string
	err = db.Model(&Order{}).Scopes(migrate.AsStored).Select("active").Scan(&labels).Error
	_ = err
}
