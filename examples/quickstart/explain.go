package main

import (
	"fmt"
	"strings"

	"gorm.io/gorm"
)

// explain returns the database's plan of a query, a line for each step. On
// SQLite "USING INTEGER PRIMARY KEY" says that the key's range alone is read.
func explain(query *gorm.DB) ([]string, error) {
	prefix := "EXPLAIN "
	if query.Name() == "sqlite" {
		prefix = "EXPLAIN QUERY PLAN "
	}
	dry := query.Session(&gorm.Session{DryRun: true}).Find(&[]Quake{}).Statement
	rows, err := query.Session(&gorm.Session{NewDB: true}).Raw(prefix+dry.SQL.String(), dry.Vars...).Rows()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var plan []string
	for rows.Next() {
		cells, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		plan = append(plan, step(columns, cells))
	}
	return plan, rows.Err()
}

// step writes one line of a plan: the text alone where the database gives
// text, column=value on MySQL.
func step(columns []string, cells []any) string {
	var parts []string
	for i, cell := range cells {
		if b, ok := cell.([]byte); ok {
			cell = string(b)
		}
		switch name := strings.ToLower(columns[i]); {
		case name == "detail" || name == "query plan":
			return fmt.Sprint(cell)
		case cell != nil:
			parts = append(parts, fmt.Sprintf("%s=%v", name, cell))
		}
	}
	return strings.Join(parts, " ")
}
