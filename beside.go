package gormflake

import (
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// beside adds conditions that hold beside all others of a statement, whatever
// joins those. To a plain Where "a OR b" would become "a OR b AND c": a deletion
// would take every row of a. It is a scope, so that it sees what the
// application's own scopes add, which run before it.
func beside(db *gorm.DB, conditions ...clause.Expression) *gorm.DB {
	return db.Scopes(func(db *gorm.DB) *gorm.DB {
		stmt := db.Statement
		where := stmt.Clauses["WHERE"]
		if others, ok := where.Expression.(clause.Where); ok && slices.ContainsFunc(others.Exprs, isOr) {
			where.Expression = clause.Where{Exprs: []clause.Expression{group(others.Exprs)}}
			stmt.Clauses["WHERE"] = where
		}
		stmt.AddClause(clause.Where{Exprs: conditions})
		return db
	})
}

func isOr(condition clause.Expression) bool {
	_, ok := condition.(clause.OrConditions)
	return ok
}

// group is conditions in parentheses of their own. In clause.And an Or that
// comes first would turn into an AND.
type group []clause.Expression

// Build writes the conditions.
func (g group) Build(builder clause.Builder) {
	_ = builder.WriteByte('(')
	// Where.Build may reorder the slice that it is given.
	clause.Where{Exprs: slices.Clone(g)}.Build(builder)
	_ = builder.WriteByte(')')
}

// shaped returns which clause of its own a statement is ordered or cut by, ""
// for none.
func shaped(stmt *gorm.Statement) string {
	for _, name := range []string{"ORDER BY", "LIMIT"} {
		if _, found := stmt.Clauses[name]; found {
			return name
		}
	}
	return ""
}
