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

	// Widening is how Postgres makes an int column a bigint; the other databases
	// have one way each. A widening that has begun online goes on online.
	Widening Widening

	// KeepNumbering leaves the sequence or identity of a Postgres table in place, so
	// that old programs may go on to insert without a key beside new ones that bring
	// theirs; Apply without it ends the numbering later. The other databases refuse
	// it, since their counters follow the largest key.
	KeepNumbering bool

	// Backfill is how gently the online widening fills its second columns. A
	// resumed one passes over the rows that are filled, and its progress counts from
	// there; in a table without a key of one integer column keys are block numbers.
	Backfill BackfillOptions
}

// Widening is a way to make an int column of Postgres a bigint.
type Widening string

const (
	// WidenBySize is WidenOnline once a table of the plan, with its indexes, has more
	// than 16 MiB, and WidenRewrite before.
	WidenBySize Widening = ""

	// WidenOnline fills a second column while programs go on, and gives it the
	// first one's place. No lock that anybody waits for lasts longer for a larger
	// table. The column moves to the table's end.
	WidenOnline Widening = "online"

	// WidenRewrite changes the column's type: one statement for each table, which
	// writes it anew while reads and writes wait.
	WidenRewrite Widening = "rewrite"
)

// rewriteLimit is where WidenBySize goes over to WidenOnline, in bytes.
const rewriteLimit = 16 << 20

// Reference names a column that holds another table's keys.
type Reference struct{ Table, Column string }

// String is "table.column".
func (r Reference) String() string { return r.Table + "." + r.Column }

// resolve fills in the defaults and the table's name.
func (s AdoptSpec) resolve(db *gorm.DB, now time.Time) (_ AdoptSpec, err error) {
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
	if !slices.Contains([]Widening{WidenBySize, WidenOnline, WidenRewrite}, s.Widening) {
		return s, fmt.Errorf("migrate: expected the widening %q or %q, or none to choose by size, met %q", WidenOnline, WidenRewrite, s.Widening)
	}
	if s.Backfill, err = s.Backfill.resolve(); err != nil {
		return s, err
	}
	if s.MaxBlock < 0 || s.Patience < 0 || s.FirstID < 0 {
		return s, fmt.Errorf("migrate: MaxBlock, Patience and FirstID must not be negative, met %v, %v and %d", s.MaxBlock, s.Patience, s.FirstID)
	}
	return s, nil
}
