package gormflake

import (
	"reflect"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// beside adds conditions that hold beside all others of a statement, whatever
// joins those. To a plain Where "a OR b" would become "a OR b AND c": a deletion
// would take every row of a. It adds them last, so that it sees what the
// application's own scopes add.
func beside(db *gorm.DB, conditions ...clause.Expression) *gorm.DB {
	return lastly(db, func(db *gorm.DB) *gorm.DB {
		stmt := db.Statement
		where := stmt.Clauses["WHERE"]
		if others, ok := where.Expression.(clause.Where); ok {
			where.Expression = clause.Where{Exprs: grouped(others.Exprs)}
			stmt.Clauses["WHERE"] = where
		}
		stmt.AddClause(clause.Where{Exprs: conditions})
		return db
	})
}

// lastly adds a scope that runs when no other has anything left to add: a scope
// may add scopes, which GORM runs after all that it knew of before.
func lastly(db *gorm.DB, scope func(*gorm.DB) *gorm.DB) *gorm.DB {
	var last func(*gorm.DB) *gorm.DB
	last = func(db *gorm.DB) *gorm.DB {
		// GORM doesn't say how many scopes there are. While one runs, these are the
		// ones that were added since the round began.
		if added := reflect.ValueOf(db.Statement).Elem().FieldByName("scopes"); added.IsValid() && added.Len() > 0 {
			return db.Scopes(last)
		}
		return scope(db)
	}
	return db.Scopes(last)
}

// grouped puts conditions into parentheses, so that they stand beside others as
// they are: all into one where an Or joins them, and otherwise each that is not
// the package's own. GORM does so itself only where it sees " OR " between blanks.
func grouped(conditions []clause.Expression) []clause.Expression {
	if slices.ContainsFunc(conditions, isOr) {
		return []clause.Expression{group(conditions)}
	}
	each := make([]clause.Expression, len(conditions))
	for i, condition := range conditions {
		switch condition.(type) {
		case Window, Cursor, Vicinity, keyCondition, group:
			each[i] = condition
		default:
			each[i] = group{condition}
		}
	}
	return each
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
