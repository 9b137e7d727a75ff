// Package gormflake gives every row an int64 Snowflake primary key, in Go,
// before the INSERT. Ids rise with time and no two are equal, in any number of
// processes, because each process leases a worker id of its own.
//
//	type Order struct {
//		ID       gormflake.ID `gorm:"primaryKey"` // or a plain int64 of a model in Config.Models
//		Customer string
//	}
//
//	flake := gormflake.New(gormflake.Config{}) // leases in this very database
//	err = db.Use(flake)
//	err = flake.Start(ctx) // fails at boot, not at the first order
//	defer flake.Close(context.Background())
//
//	db.Create(&orders) // every orders[i].ID is set, in order
//	db.Where(gormflake.Last(time.Hour)).Find(&recent)
//
// # An id
//
// An [ID] holds, in the [generator.Standard] layout:
//
//	 63  62                                     22 21         12 11          0
//	┌───┬─────────────────────────────────────────┬─────────────┬─────────────┐
//	│ 0 │  milliseconds since 2015-01-01, 41 bits │ worker, 10  │ sequence, 12│
//	└───┴─────────────────────────────────────────┴─────────────┴─────────────┘
//
// That is 4,096 ids per millisecond for each of 1,024 worker ids, 16 of which
// are kept for backfills, until the year 2084. Because the time comes first, a range of time is a range of keys: see
// [Window].
//
// # What is filled
//
// With no configuration at all, every primary key of kind int64 or uint64 that
// is zero: of structs, pointers, slices, arrays, and of maps whose model is
// known. Ids that are set are kept. Keys of kind int and uint, gorm.Model's
// among them, and keys tagged autoIncrement are left to the database. Tags say
// more about single fields:
//
//	gormflake:"fill"                        also this one: a composite key's, or a column that is no key
//	gormflake:"-"                           not this one
//	gormflake:"time:CollectedAt;business:SensorID"  made of the row's own columns
//
// The last makes the id of a time and of a number of up to 22 bits in the
// Standard layout. It is unique as long as no two rows have both in common,
// within the layout's tick; so that a row which comes in twice gets the same
// id, and an upsert keeps one of them. Such ids are unique among themselves
// only: don't mix them with leased ids in one table. The columns are read
// after hooks and belongs-to associations.
//
// # After an upsert
//
// After a Create that returned nil, an id in a struct, slice or map is the id
// of a row in the table, or zero; so also where ON CONFLICT met another row.
// See docs/gorm.md for how, and for what it costs.
//
// # When there is no id
//
// A create that can't get an id returns an error, and inserts nothing:
// [ErrNotStarted], [ErrSealed], [ErrClockBehind], and the others of this
// package. It never waits longer than Config.MaxWait or its context.
package gormflake
