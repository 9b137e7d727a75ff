package gormflake

import "github.com/gormflake/gormflake/generator"

// ID is a Snowflake id: an int64 in Go and in SQL, a decimal string in JSON.
type ID = generator.ID
