package migrate

import (
	"fmt"
	"slices"
	"strings"
)

// AdoptReport is what InspectAdopt finds. It is also what the journal keeps of
// the table as it was, for Rollback.
type AdoptReport struct {
	Dialect     string // "postgres", "mysql" or "sqlite"
	Server      string // the version that it tells
	Table       string
	Key         AdoptColumn
	References  []AdoptColumn     // by foreign keys, also through further tables, and as declared
	ForeignKeys []AdoptForeignKey // that lead to the key or to one of References
	Sequence    *AdoptSequence    // Postgres only: what numbers the key
	Create      string            // SQLite only: the table's CREATE TABLE
	MaxID       int64             // the largest key of a row; 0 in an empty table
	FirstID     int64             // the smallest id that will be issued from now on
	Widening    Widening          // Postgres only: how columns will be widened; "" when none needs it
	Hazards     []AdoptHazard     // what a person should know before going on
	Refusals    []Refusal         // why no plan can be carried out

	// EarlierFirstID is the FirstID of an adoption that was rolled back while the table
	// had snowflake ids, so that they aren't taken for old ones; 0 for none.
	EarlierFirstID int64

	Progress AdoptProgress // how far the adoption has come
	Next     []string      // the steps still to run while it is under way, such as "backfill orders"

	// RolledBack is set in the journal only, where it keeps EarlierFirstID.
	RolledBack bool

	state *pgState // Postgres only: the tables in detail

	comments commenter         // MySQL only
	away     []AdoptForeignKey // MySQL only: what the comments tell of them
}

// AdoptColumn is a key or a column that holds keys.
type AdoptColumn struct {
	Table      string
	Column     string
	Type       string // as the database writes it
	Definition string // MySQL only: all that follows the name
	Bits       int    // 8 to 64; 0 when it isn't an integer
	Unsigned   bool
	Numbering  string // "AUTO_INCREMENT", "identity always", "identity by default", "sequence", "AUTOINCREMENT" or ""
	Declared   bool   // named in AdoptSpec.References
	Rows       int64  // the server's estimate for the table; -1 when it has none
}

func (c AdoptColumn) reference() Reference { return Reference{c.Table, c.Column} }

func (c AdoptColumn) same(o AdoptColumn) bool { return c.Table == o.Table && c.Column == o.Column }

// ready says that the column can hold every snowflake id.
func (c AdoptColumn) ready() bool { return c.Bits == 64 && !c.Unsigned }

// AdoptForeignKey is a foreign key that leads to the table's key.
type AdoptForeignKey struct {
	Table      string
	Column     string
	Name       string
	Definition string // as the database writes it
	ToTable    string
	ToColumn   string
}

func (k AdoptForeignKey) same(o AdoptForeignKey) bool { return k.Table == o.Table && k.Name == o.Name }

// AdoptSequence is a sequence of Postgres, as Rollback makes it again.
type AdoptSequence struct {
	Schema, Name, Type                string
	Start, Increment, Min, Max, Cache int64
	Cycle, Owned                      bool
	Last                              int64 // the last value it gave
	Shared                            bool  // another column's default uses it, so that it stays
}

// AdoptHazard is no reason to refuse, but one to think.
type AdoptHazard struct {
	Code   string // "copy", "fill", "column-order", "triggers", "replication", "replicas", "numbering", "sql-mode", "cached-plans", "foreign-keys", "foreign-key-away", "out-of-order", "journal"
	Reason string
}

// columns are the references and, last, the key.
func (r *AdoptReport) columns() []AdoptColumn { return append(slices.Clone(r.References), r.Key) }

// tables are the tables of columns, the key's last, each once.
func (r *AdoptReport) tables() (all []string) {
	for _, c := range r.References {
		if c.Table != r.Table && !slices.Contains(all, c.Table) {
			all = append(all, c.Table)
		}
	}
	return append(all, r.Table)
}

func (r *AdoptReport) hazard(code, format string, args ...any) {
	r.Hazards = append(r.Hazards, AdoptHazard{code, fmt.Sprintf(format, args...)})
}

func (r *AdoptReport) refuse(code, column, name, reason, remedy string) {
	r.Refusals = append(r.Refusals, Refusal{Code: code, Column: column, Name: name, Reason: reason, Remedy: remedy})
}

// String is a text for people.
func (r *AdoptReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s %s\n", r.Table, r.product(), r.Server)
	if text := r.progressText(); text != "" {
		fmt.Fprintf(&b, "  %-10s %s\n", "adoption", text)
	}
	line := func(what string, c AdoptColumn) {
		fmt.Fprintf(&b, "  %-10s %s  %s", what, c.reference(), c.Type)
		if c.Numbering != "" {
			fmt.Fprintf(&b, "  %s", c.Numbering)
		}
		if c.Rows >= 0 {
			fmt.Fprintf(&b, "  about %d rows", c.Rows)
		}
		b.WriteByte('\n')
	}
	line("key", r.Key)
	for _, c := range r.References {
		what := "reference"
		if c.Declared {
			what = "declared"
		}
		line(what, c)
	}
	for _, k := range r.ForeignKeys {
		fmt.Fprintf(&b, "  %-10s %s on %s.%s to %s.%s\n", "foreign key", k.Name, k.Table, k.Column, k.ToTable, k.ToColumn)
	}
	fmt.Fprintf(&b, "  %-10s %d, first snowflake id %d\n", "largest id", r.MaxID, r.FirstID)
	if r.Widening != "" {
		fmt.Fprintf(&b, "  %-10s %s\n", "widening", r.Widening)
	}
	for _, h := range r.Hazards {
		fmt.Fprintf(&b, "  hazard     %s: %s\n", h.Code, h.Reason)
	}
	for _, x := range r.Refusals {
		fmt.Fprintf(&b, "  refused    %s\n", x)
	}
	return strings.TrimRight(b.String(), "\n")
}
