package gormflake

import (
	"time"

	"gorm.io/gorm"
)

// Model is gorm.Model with a Snowflake key: embed it in a model. The key is a
// plain BIGINT (INTEGER on SQLite), without a sequence or AUTO_INCREMENT.
//
//	type Order struct {
//		gormflake.Model
//		Customer string
//	}
type Model struct {
	ID        ID `gorm:"primaryKey;autoIncrement:false"`
	CreatedAt time.Time
	UpdatedAt time.Time
	DeletedAt gorm.DeletedAt `gorm:"index"`
}
