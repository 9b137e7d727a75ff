package gormflake

import "github.com/gormflake/gormflake/generator"

// ID is a Snowflake id: an int64 in Go and in SQL, a decimal string in JSON.
// It has the methods of generator.ID; Plugin.Layout().Decompose gives its time,
// worker id and sequence.
type ID = generator.ID
