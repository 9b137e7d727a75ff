package migrate

import "gorm.io/gorm"

func (b *Bools) guard(db *gorm.DB) {}
