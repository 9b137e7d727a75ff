package gormflake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormflake/gormflake/generator"
)

// ErrPartition says that a table can't be partitioned as it is, and why, or
// that it was changed since a plan was made.
var ErrPartition = errors.New("gormflake: partitions")

// mostPartitions is what one plan adds at most. MySQL has room for 8,192 in a
// table, and both databases slow down long before.
const mostPartitions = 1000

// PartitionOptions says which partitions a table shall have.
type PartitionOptions struct {
	Width  Width            // Days, Weeks, Months or Years of a location
	From   time.Time        // the first partition holds this time; zero: now
	Ahead  int              // how many partitions after that of now; 0: 3
	Layout generator.Layout // of the ids; zero value: the plugin's
}

// defaultAhead leaves time to notice that the plan is no longer applied.
const defaultAhead = 3

// PartitionStep is one change of a plan.
type PartitionStep struct {
	Comment string   // what it does, in one line
	SQL     []string // its statements, without semicolons, in their order
	Names   []string // the partitions that it adds or drops
	Drop    bool

	parts []idPartition // those of Names, with the bounds of the plan
	from  string        // the partition whose rows move, quoted; empty: none do
}

// PartitionPlan is what is to be done to a table. Review it with SQL, run it
// with Apply or with your own tools.
type PartitionPlan struct {
	Table string
	Steps []PartitionStep

	of *partitioner
}

// PlanPartitions plans the partitions of a model's table, by RANGE of its
// snowflake key: from the one that holds From to Ahead after that of now, and
// one that catches every other row, so that no insert ever fails for want of a
// partition. What is there already is kept, whatever its width, so planning
// and applying it again and again, from a cron job, is how to use it:
//
//	plan, err := gormflake.PlanPartitions(ctx, db, &Order{}, gormflake.PartitionOptions{Width: gormflake.Months(time.UTC)})
//	fmt.Print(plan.SQL())
//	err = plan.Apply(ctx)
//
// A primary key on the id alone is enough on both kinds of database.
//
// On Postgres the table must have been created PARTITION BY RANGE on the key;
// GORM does so with db.Set("gorm:table_options", "PARTITION BY RANGE (id)").
// A plain table can't be partitioned in place and is refused. Rows of a new
// partition that the default partition has caught move into it, unless foreign
// keys or triggers would take that for a deletion, which is refused.
//
// On MySQL and MariaDB a plain table becomes a partitioned one, which rewrites
// it. A table with foreign keys, from it or to it, with a unique index that
// leaves out the key, or with a full-text index is refused, as the server
// would refuse it. So is a key of a type of 32 bits or fewer, on Postgres too:
// adopt the table first, see package migrate. Later plans split the last partition, which is quick while
// it is empty.
//
// An error is ErrPartition for what can't be, ErrWidth, ErrNoKey, ErrNoLayout,
// ErrDialect on SQLite, or the database's.
func PlanPartitions(ctx context.Context, db *gorm.DB, model any, opts PartitionOptions) (*PartitionPlan, error) {
	p, err := newPartitioner(ctx, db, model, opts.Layout)
	if err != nil {
		return nil, err
	}
	if opts.Width.unit < unitDay {
		return nil, fmt.Errorf("%w: want Days, Weeks, Months or Years, got %v", ErrWidth, opts.Width)
	}
	if err := opts.Width.validate(p.source.layout.Tick); err != nil {
		return nil, err
	}
	if opts.Ahead < 0 {
		return nil, fmt.Errorf("%w: want Ahead of 0 or more, got %d", ErrPartition, opts.Ahead)
	}
	if opts.Ahead == 0 {
		opts.Ahead = defaultAhead
	}
	now := p.source.now()
	if opts.From.IsZero() || opts.From.After(now) {
		opts.From = now
	}
	end := opts.Width.next(opts.Width.floor(now))
	for range opts.Ahead {
		end = opts.Width.next(end)
	}
	steps, err := p.engine.create(p, opts.Width, opts.Width.floor(opts.From), end)
	if err != nil {
		return nil, err
	}
	return p.plan(steps), nil
}

// PlanDropBefore plans to drop the partitions of a model's table that hold
// only rows made before t: retention that costs no row-by-row deletion. The
// partition that catches the rest stays, and so does one that holds rows
// numbered by AUTO_INCREMENT, whose age nobody knows. Apply looks again before
// it drops, and returns ErrPartition if it finds such rows, or other bounds.
// Errors are those of PlanPartitions; a time that has not passed is
// ErrPartition, a zero time ErrWindow.
func PlanDropBefore(ctx context.Context, db *gorm.DB, model any, t time.Time, layout ...generator.Layout) (*PartitionPlan, error) {
	var of generator.Layout
	if len(layout) > 0 {
		of = layout[0]
	}
	p, err := newPartitioner(ctx, db, model, of)
	if err != nil {
		return nil, err
	}
	if now := p.source.now(); t.After(now) {
		return nil, fmt.Errorf("%w: want a time that has passed, got %s, and now is %s; what partitions of the present and the future hold is not old",
			ErrPartition, t.Format(time.RFC3339), now.In(t.Location()).Format(time.RFC3339))
	}
	r, err := Until(t).resolve(p.source)
	if err != nil {
		return nil, err
	}
	end := r.hi
	if !r.hasHi && !r.empty {
		end = math.MaxInt64
	}
	steps, err := p.engine.drop(p, end)
	if err != nil {
		return nil, err
	}
	return p.plan(steps), nil
}

// Empty reports whether there is nothing to do.
func (p *PartitionPlan) Empty() bool { return len(p.Steps) == 0 }

// SQL returns the plan as a script, with a comment on each step.
func (p *PartitionPlan) SQL() string {
	if p.Empty() {
		return "-- " + p.Table + ": nothing to do\n"
	}
	var sql strings.Builder
	begin, commit := p.of.engine.transaction()
	sql.WriteString(begin)
	for i, step := range p.Steps {
		if i > 0 {
			sql.WriteByte('\n')
		}
		sql.WriteString("-- " + step.Comment + "\n")
		for _, statement := range step.SQL {
			sql.WriteString(statement + ";\n")
		}
	}
	sql.WriteString(commit)
	return sql.String()
}

// Apply runs the plan. Two programs that apply at once take turns, and steps
// that are done already are left out, so applying twice changes nothing. On
// Postgres all of it is one transaction. MySQL commits each step; after an
// error plan again, and what is left is planned. A partition of the plan's name
// with other bounds is ErrPartition, and so is what a plan would refuse by now.
func (p *PartitionPlan) Apply(ctx context.Context) error {
	if p.Empty() {
		return nil
	}
	return p.of.engine.locked(p.of.db.WithContext(ctx), p.Table, func(tx *gorm.DB) error {
		for _, step := range p.Steps {
			if err := p.of.apply(tx, step); err != nil {
				return err
			}
		}
		return nil
	})
}

// apply runs a step, unless it is done.
func (p *partitioner) apply(tx *gorm.DB, step PartitionStep) error {
	there, err := p.engine.list(tx)
	if err != nil {
		return err
	}
	if todo, err := step.todo(there, p.engine.same); err != nil || !todo {
		return err
	}
	return p.engine.guarded(p, tx, step, func() error {
		for _, statement := range step.SQL {
			if err := tx.Exec(statement).Error; err != nil {
				return fmt.Errorf("gormflake: partitions: %s: %w", step.Comment, err)
			}
		}
		return nil
	})
}

// stillOld returns why partitions can't be dropped by now, under a lock that
// keeps what it finds as it is, or nil.
func (p *partitioner) stillOld(tx *gorm.DB, step PartitionStep, table func(name string) string) error {
	there, err := p.engine.list(tx)
	if err != nil {
		return err
	}
	todo, err := step.todo(there, p.engine.same)
	if err != nil {
		return err
	}
	if !todo {
		return fmt.Errorf("%w: %s: the partitions are gone; the table was changed since the plan was made: plan again", ErrPartition, step.Comment)
	}
	for _, part := range there {
		if !slices.Contains(step.Names, part.name) {
			continue
		}
		legacy, err := p.holdsLegacy(tx, table(part.name), part)
		if err != nil {
			return err
		}
		if legacy {
			return fmt.Errorf("%w: the partition %s holds rows numbered by AUTO_INCREMENT, inserted since the plan was made; plan again, which leaves it out",
				ErrPartition, part.name)
		}
	}
	return nil
}

// todo reports whether a step is still to be done, given the partitions.
func (s PartitionStep) todo(there []idPartition, same func(a, b idPartition) bool) (bool, error) {
	found := 0
	for _, p := range there {
		if !slices.Contains(s.Names, p.name) {
			continue
		}
		found++
		for _, planned := range s.parts {
			if planned.name == p.name && !same(planned, p) {
				return false, fmt.Errorf("%w: want the partition %s to hold %s, and it holds %s; the table was changed since the plan was made: plan again",
					ErrPartition, p.name, planned, p)
			}
		}
	}
	switch {
	case found != 0 && found != len(s.Names):
		return false, fmt.Errorf("%w: %d of the %d partitions %s are there; the table was changed since the plan was made: plan again",
			ErrPartition, found, len(s.Names), strings.Join(s.Names, ", "))
	case s.Drop:
		return found > 0, nil
	}
	return found == 0, nil
}

// idPartition is a partition that a table has: lo <= id < hi, with the
// extremes of int64 for no bound.
type idPartition struct {
	name   string
	lo, hi ID
	rest   bool // catches every other row
}

// String describes what a partition holds.
func (p idPartition) String() string {
	switch {
	case p.rest:
		return "all other rows"
	case p.lo == math.MinInt64:
		return fmt.Sprintf("ids below %d", p.hi)
	}
	return fmt.Sprintf("ids of %d to %d", p.lo, p.hi)
}

// partitionEngine is what Postgres and MySQL do differently.
type partitionEngine interface {
	list(db *gorm.DB) ([]idPartition, error)
	create(p *partitioner, width Width, from, to time.Time) ([]PartitionStep, error)
	drop(p *partitioner, end ID) ([]PartitionStep, error)
	transaction() (begin, commit string)
	locked(db *gorm.DB, table string, run func(*gorm.DB) error) error

	// same reports whether two partitions of one name have the same bounds.
	same(a, b idPartition) bool

	// guarded runs a step if nothing that has changed since it was planned
	// forbids it, and keeps that so meanwhile.
	guarded(p *partitioner, tx *gorm.DB, step PartitionStep, run func() error) error
}

// partitioner is a table to be partitioned.
type partitioner struct {
	db     *gorm.DB
	table  string // as the model has it, perhaps with a schema
	column string
	source idSource
	engine partitionEngine
}

func newPartitioner(ctx context.Context, db *gorm.DB, model any, layout generator.Layout) (*partitioner, error) {
	source, err := sourceOf(db, layout, layout != generator.Layout{})
	if err != nil {
		return nil, err
	}
	stmt := &gorm.Statement{DB: db}
	if err := stmt.Parse(model); err != nil {
		return nil, fmt.Errorf("gormflake: partitions: %w", err)
	}
	field, err := primaryKey(db, stmt.Schema, layout != generator.Layout{}, tableAdvice)
	if err != nil {
		return nil, err
	}
	p := &partitioner{
		db:     db.Session(&gorm.Session{NewDB: true, Context: ctx}),
		table:  stmt.Table,
		column: field.DBName,
		source: source,
	}
	if db.Statement.Table != "" {
		p.table = db.Statement.Table
	}
	switch name := db.Name(); name {
	case dialectPostgres:
		p.engine, err = newPostgresPartitions(p)
	case dialectMySQL:
		p.engine, err = newMySQLPartitions(p)
	case dialectSQLite:
		err = fmt.Errorf("%w: SQLite has no partitions; use DeleteBefore for retention", ErrDialect)
	default:
		err = unknownDialect(name)
	}
	return p, err
}

func (p *partitioner) plan(steps []PartitionStep) *PartitionPlan {
	return &PartitionPlan{Table: p.table, Steps: steps, of: p}
}

// checkColumn refuses a key that is missing, or of one of the types that are too
// narrow: no bound of a partition could be reached.
func (p *partitioner) checkColumn(kind, full string, narrow ...string) error {
	switch {
	case kind == "":
		return fmt.Errorf("%w: the table %s has no column %s", ErrPartition, p.table, p.column)
	case slices.Contains(narrow, strings.ToLower(kind)):
		return fmt.Errorf("%w: %s.%s is %s and can't hold snowflake ids; adopt the table first (gormflake adopt plan --table %s)",
			ErrPartition, p.table, p.column, full, p.table)
	}
	return nil
}

// quote quotes a table or column for a statement.
func (p *partitioner) quote(name string) string { return p.db.Statement.Quote(name) }

// bound returns the first id at or after a time.
func (p *partitioner) bound(t time.Time) (ID, error) {
	id, _, err := p.source.layout.Bounds(t, t)
	if err != nil {
		return 0, fmt.Errorf("gormflake: partitions: %w", err)
	}
	return id, nil
}

// exists reports whether a table has rows with lo <= id < hi.
func (p *partitioner) exists(db *gorm.DB, table string, lo, hi ID) (bool, error) {
	column := clause.Column{Name: p.column}
	var found []int64
	err := db.Table(table).Select("?", column).
		Where("? >= ? AND ? < ?", column, int64(lo), column, int64(hi)).Limit(1).Scan(&found).Error
	return len(found) > 0, err
}

// partitionName names a partition by the date on which it begins, and by its
// time too where it does not begin with the day, or the date is taken. What is
// taken still, by a partition of another zone or width, gets a number.
func partitionName(prefix string, from time.Time, taken []idPartition) string {
	name := prefix + from.Format("20060102")
	day := startOfDay(date{from.Year(), from.Month(), from.Day()}, from.Location())
	if day.Equal(from) && !named(taken, name) {
		return name
	}
	return freeName(prefix+from.Format("20060102_150405"), taken)
}

// freeName returns a name with the first number that makes it free, if any.
func freeName(name string, taken []idPartition) string {
	free := name
	for n := 2; named(taken, free); n++ {
		free = fmt.Sprintf("%s_%d", name, n)
	}
	return free
}

// named reports whether a partition has the name.
func named(parts []idPartition, name string) bool {
	return slices.ContainsFunc(parts, func(p idPartition) bool { return p.name == name })
}

// namesOf returns the names of partitions.
func namesOf(parts []idPartition) []string {
	names := make([]string, len(parts))
	for i, part := range parts {
		names[i] = part.name
	}
	return names
}

// span describes a range of time in a comment.
func span(from, to time.Time) string {
	return from.Format(time.RFC3339) + " to " + to.Format(time.RFC3339)
}
