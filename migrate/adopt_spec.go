package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake/generator"
)

var (
	// ErrNotAdopted reports a table that verification finds not wholly adopted. The
	// error's text lists what is missing.
	ErrNotAdopted = errors.New("migrate: the table isn't adopted")

	// ErrDialect reports a database that Adopt doesn't know.
	ErrDialect = errors.New("migrate: Adopt needs Postgres, MySQL, MariaDB or SQLite")
)

// AdoptSpec says which table shall get snowflake keys, and how gently.
type AdoptSpec struct {
	Table string // a table that its plain name finds on the connection; "" takes the Model's
	Model any    // a GORM model, instead of Table

	// References are columns that hold the table's keys without a foreign key
	// that says so. Foreign keys are found without being named here.
	References []Reference

	// Layout is that of the new ids; the zero value is generator.Standard().
	Layout generator.Layout

	// FirstID is the smallest id that may be issued from now on, which must be
	// larger than every id of the table. 0 takes Layout.First(time.Now()).
	FirstID int64

	// Unsigned lets columns of MySQL's bigint unsigned become bigint, which no
	// value in them prevents, as long as all are below FirstID; without it the plan
	// refuses, since programs that read them may be built on the type.
	Unsigned bool

	// MaxBlock is how long a DDL statement may wait for a table's lock before it is
	// cancelled and tried again; writers queue behind it meanwhile. 0 means one
	// second. Too little throws away a long copy on MySQL, whose last act is to
	// wait for that lock.
	MaxBlock time.Duration

	// Patience is how long such a statement is tried again before ErrBusy.
	// 0 means one minute. On SQLite the connection's busy_timeout takes the place
	// of both.
	Patience time.Duration
}

// Reference names a column that holds another table's keys.
type Reference struct{ Table, Column string }

// String is "table.column".
func (r Reference) String() string { return r.Table + "." + r.Column }

// resolve fills in the defaults and the table's name.
func (s AdoptSpec) resolve(db *gorm.DB, now time.Time) (AdoptSpec, error) {
	if s.Table == "" && s.Model != nil {
		stmt := &gorm.Statement{DB: db}
		if err := stmt.Parse(s.Model); err != nil {
			return s, fmt.Errorf("migrate: the model %T: %w", s.Model, err)
		}
		s.Table = stmt.Table
	}
	s.References = slices.Clone(s.References)
	for _, name := range append([]string{s.Table}, each(s.References, func(r Reference) string { return r.Table })...) {
		if name == "" || strings.ContainsAny(name, ".`\"\x00") {
			return s, fmt.Errorf("migrate: expected the plain name of a table of the connection's database, met %q", name)
		}
	}
	if s.Layout == (generator.Layout{}) {
		s.Layout = generator.Standard()
	}
	if s.FirstID == 0 {
		first, err := s.Layout.First(now)
		if err != nil {
			return s, fmt.Errorf("migrate: the first id of now: %w", err)
		}
		s.FirstID = int64(first)
	}
	s.MaxBlock = cmp.Or(s.MaxBlock, time.Second)
	s.Patience = cmp.Or(s.Patience, time.Minute)
	if s.MaxBlock < 0 || s.Patience < 0 || s.FirstID < 0 {
		return s, fmt.Errorf("migrate: MaxBlock, Patience and FirstID must not be negative, met %v, %v and %d", s.MaxBlock, s.Patience, s.FirstID)
	}
	return s, nil
}
