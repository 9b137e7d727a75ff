package generator

import (
	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// GormDataType makes a field of type ID a plain BIGINT: no sequence and no
// AUTO_INCREMENT, which GORM gives to a primary key of type int64.
func (ID) GormDataType() string { return "bigint" }

// GormDBDataType returns "integer" on SQLite, where a BIGINT primary key is no
// alias of the rowid and takes NULL, and "bigint" elsewhere.
func (ID) GormDBDataType(db *gorm.DB, _ *schema.Field) string {
	if db.Name() == "sqlite" {
		return "integer"
	}
	return "bigint"
}
