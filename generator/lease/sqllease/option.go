package sqllease

import (
	"fmt"
	"regexp"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

// Option is a setting of the store: lease.Workers, lease.Window, and those of
// this package.
type Option = lease.Option

// DefaultTable is the table that holds the leases unless Table names another.
const DefaultTable = "gormflake_leases"

// own is what this package's options set.
type own struct {
	table   string
	guard   time.Duration
	guarded bool // WithGuard was given: no identity is asked for
	create  bool
}

// set applies an option of this package.
func set(change func(*own)) Option {
	return func(s *lease.Settings) {
		o, ok := s.Own.(*own)
		if !ok {
			s.Fail(fmt.Errorf("sqllease: %w: an option of sqllease was given to another store", lease.ErrInvalid))
			return
		}
		change(o)
	}
}

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*\.)?[A-Za-z_][A-Za-z0-9_]*$`)

// Table names the table of leases, and with it the two beside it, whose names
// begin with it: 1 to 48 ASCII letters, digits and underscores, if wanted
// after a schema and a dot. Stores with different tables know nothing of each
// other.
func Table(name string) Option {
	return func(s *lease.Settings) {
		if !tableName.MatchString(name) || len(name) > 48 {
			s.Fail(fmt.Errorf("sqllease: %w: want a table name of 1 to 48 ASCII letters, digits and underscores, if need be after a schema and a dot, got %q",
				lease.ErrInvalid, name))
			return
		}
		set(func(o *own) { o.table = name })(s)
	}
}

// WithGuard says how long every newcomer waits, by the database's clock, before
// its first id, and ends the check of the server's identity.
//
// Without it the store asks the server who it is, and only newcomers after a
// change wait, for the window and its slack: an asynchronous replica that was
// promoted may lack the last grants. Set a guard of at least the window and
// its slack where a promotion does not show (a restore of an older backup, a
// replica that took over the identity). Set 0 where several servers hold the
// same rows synchronously and answer in turn, as in a Galera cluster: there a
// changing identity means nothing.
func WithGuard(d time.Duration) Option {
	return func(s *lease.Settings) {
		if d < 0 || d > 24*time.Hour {
			s.Fail(fmt.Errorf("sqllease: %w: WithGuard wants 0 to 24h, got %v", lease.ErrInvalid, d))
			return
		}
		set(func(o *own) { o.guard, o.guarded = d, true })(s)
	}
}

// WithoutCreate keeps the store from creating its tables, for programs that
// may not run DDL. Create them with the statements of Schema.
func WithoutCreate() Option {
	return set(func(o *own) { o.create = false })
}
