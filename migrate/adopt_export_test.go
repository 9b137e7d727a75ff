package migrate

import "database/sql"

// SetAdoptHook lets a test fail before a statement.
func SetAdoptHook(p *AdoptPlan, hook func(AdoptStatement) error) { p.hook = hook }

// SetAdoptAfter calls a test whenever Postgres has confirmed something.
func SetAdoptAfter(p *AdoptPlan, after func(sql string)) { p.after = after }

// SetAdoptInside calls a test when a transaction of Postgres begins, and again
// before it is committed.
func SetAdoptInside(p *AdoptPlan, inside func(s AdoptStatement, tx *sql.Tx, done bool) error) {
	p.inside = inside
}

// RunsAlone says that a statement runs outside a transaction.
func RunsAlone(s AdoptStatement) bool { return s.alone }
