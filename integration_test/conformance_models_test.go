package integration_test

import (
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
)

// Models of every kind of key.
type (
	typed struct {
		ID   gormflake.ID `gorm:"primaryKey"`
		Name string       `gorm:"size:100"`
	}
	plain struct {
		ID   int64  `gorm:"primaryKey"`
		Name string `gorm:"size:100"`
	}
	unsigned struct {
		ID   uint64 `gorm:"primaryKey"`
		Name string `gorm:"size:100"`
	}
	pointed struct {
		ID   *int64 `gorm:"primaryKey"`
		Name string `gorm:"size:100"`
	}
	pointedID struct {
		ID   *gormflake.ID `gorm:"primaryKey"`
		Name string        `gorm:"size:100"`
	}
	number  int64
	renamed struct {
		Number number `gorm:"primaryKey"`
		Name   string `gorm:"size:100"`
	}
	modelled struct {
		gormflake.Model
		Name string `gorm:"size:100"`
	}
	base struct {
		ID gormflake.ID `gorm:"primaryKey"`
	}
	prefixed struct {
		Base base   `gorm:"embedded;embeddedPrefix:base_"`
		Name string `gorm:"size:100"`
	}
	Base struct {
		ID gormflake.ID `gorm:"primaryKey"`
	}
	nilEmbedded struct {
		*Base
		Name string `gorm:"size:100"`
	}
	several struct {
		ID    gormflake.ID  `gorm:"primaryKey"`
		Trace gormflake.ID  `gormflake:"fill"`
		Batch *gormflake.ID `gormflake:"fill"`
		Other gormflake.ID
		Name  string `gorm:"size:100"`
	}
	pair struct {
		Number int64  `gorm:"primaryKey" gormflake:"fill"`
		Region string `gorm:"primaryKey;size:20"`
		Name   string `gorm:"size:100"`
	}

	// Keys that are left to the application or the database.
	small struct {
		ID   int32  `gorm:"primaryKey"`
		Name string `gorm:"size:100"`
	}
	signed struct {
		ID   int    `gorm:"primaryKey"`
		Name string `gorm:"size:100"`
	}
	legacy struct {
		gorm.Model
		Name string `gorm:"size:100"`
	}
	worded struct {
		ID   string `gorm:"primaryKey;size:40"`
		Name string `gorm:"size:100"`
	}
	numbered struct {
		ID   int64  `gorm:"primaryKey;autoIncrement"`
		Name string `gorm:"size:100"`
	}
	pairOfKeys struct {
		Left  int64  `gorm:"primaryKey;autoIncrement:false"`
		Right int64  `gorm:"primaryKey;autoIncrement:false"`
		Name  string `gorm:"size:100"`
	}
	skipped struct {
		ID   int64  `gorm:"primaryKey;autoIncrement:false" gormflake:"-"`
		Name string `gorm:"size:100"`
	}
)

// Models with hooks.
type (
	hooked struct {
		ID   gormflake.ID `gorm:"primaryKey"`
		Seen gormflake.ID // what BeforeCreate saw
		Want gormflake.ID `gorm:"-"` // what BeforeCreate sets the id to
		Act  string       `gorm:"-"`
	}
	reading struct {
		ID          gormflake.ID `gorm:"primaryKey" gormflake:"time:CollectedAt;business:SensorID"`
		CollectedAt time.Time
		SensorID    int64
		Value       float64
	}
)

func (h *hooked) BeforeCreate(*gorm.DB) error {
	h.Seen = h.ID
	switch h.Act {
	case "override":
		h.ID = h.Want
	case "zero":
		h.ID = 0
	case "own":
		if h.ID == 0 {
			h.ID = h.Want
		}
	}
	return nil
}

// filledModels returns a pointer to each model whose key is filled.
func filledModels() []any {
	return []any{
		&typed{}, &plain{}, &unsigned{}, &pointed{}, &pointedID{}, &renamed{}, &modelled{}, &prefixed{},
		&nilEmbedded{}, &several{}, &pair{}, &hooked{}, &reading{},
	}
}

// otherModels returns those whose key is left alone.
func otherModels() []any {
	return []any{&small{}, &signed{}, &legacy{}, &worded{}, &numbered{}, &pairOfKeys{}, &skipped{}}
}
