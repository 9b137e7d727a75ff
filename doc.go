// Package gormflake gives every row an int64 Snowflake primary key, in Go,
// before the INSERT.
package gormflake
