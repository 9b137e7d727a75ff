package gormflake

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/gormflake/gormflake/generator"
)

// ErrRetention says that a retention can't be run as it was asked for.
var ErrRetention = errors.New("gormflake: retention")

// defaultRetentionBatch keeps a batch's locks short and its log small.
const defaultRetentionBatch = 1000

// RetentionOptions says how DeleteBefore and ArchiveBefore go about it. The
// zero value deletes 1,000 rows at a time without a pause.
type RetentionOptions struct {
	BatchSize int           // rows per batch, each in a transaction of its own; 0: 1,000
	Pause     time.Duration // between batches, so that others come to their turn; 0: none
	MaxRows   int64         // stop after so many rows; 0: no limit
	DryRun    bool          // count the rows, change nothing

	// After resumes behind an id: RetentionResult.Last of a call that was
	// stopped. Rows that were deleted need no resuming; it saves a soft delete,
	// or a deletion among few of many rows, from going over the same keys again.
	After ID

	// IncludeLegacy takes the rows numbered by AUTO_INCREMENT too (see
	// Window.ExcludeLegacy). Their ids say nothing of their age, so they are
	// left alone unless this is set. Ids of 0 and less always are.
	IncludeLegacy bool

	// SoftDelete sets the model's gorm.DeletedAt, also where db is Unscoped.
	// Otherwise rows are deleted for good, those deleted softly included.
	// ArchiveBefore refuses it.
	SoftDelete bool

	Layout   generator.Layout      // of the ids; zero value: the plugin's
	Progress func(RetentionResult) // called after each batch
}

// RetentionResult is what was done so far.
type RetentionResult struct {
	Rows    int64 // deleted or archived; in a dry run: that would be
	Batches int
	Last    ID   // all rows up to this id are done; see RetentionOptions.After
	Done    bool // whether no rows are left
}

// DeleteBefore deletes the rows of a model whose ids were made before t, in
// batches by ranges of the primary key, oldest first:
//
//	result, err := gormflake.DeleteBefore(ctx, db, &Order{}, time.Now().AddDate(-2, 0, 0), gormflake.RetentionOptions{Pause: 50 * time.Millisecond})
//
// db may carry conditions and another table without an alias, but no joins, no
// RETURNING and no other model. Hooks are not run. When ctx ends, or a batch
// fails, the result says what was done until then; calling again goes on from
// there.
//
// An error is ErrRetention for options that contradict themselves, ErrNoKey
// for a model without a snowflake key, ErrWindow for a zero time, ErrNoLayout
// without the plugin, or the database's.
func DeleteBefore(ctx context.Context, db *gorm.DB, model any, t time.Time, opts RetentionOptions) (RetentionResult, error) {
	r, err := newRetention(ctx, db, model, t, opts)
	if err != nil {
		return RetentionResult{}, err
	}
	if opts.SoftDelete && !deletesSoftly(r.schema) {
		return RetentionResult{}, fmt.Errorf("%w: SoftDelete wants a gorm.DeletedAt in the model, %s has none", ErrRetention, r.schema.Name)
	}
	return r.run(ctx, func(db *gorm.DB, rows func(*gorm.DB) *gorm.DB) (int64, error) {
		model := reflect.New(r.schema.ModelType).Interface()
		tx := rows(db).Model(model).Delete(model) // Delete alone would keep a model of db
		return tx.RowsAffected, tx.Error
	})
}

// retention is one run.
type retention struct {
	db     *gorm.DB // with the caller's conditions
	opts   RetentionOptions
	schema *schema.Schema
	table  string
	window Window
}

func newRetention(ctx context.Context, db *gorm.DB, model any, t time.Time, opts RetentionOptions) (*retention, error) {
	switch {
	case opts.BatchSize < 0 || opts.Pause < 0 || opts.MaxRows < 0 || opts.After < 0:
		return nil, fmt.Errorf("%w: want BatchSize, Pause, MaxRows and After of 0 or more, got %d, %v, %d and %d",
			ErrRetention, opts.BatchSize, opts.Pause, opts.MaxRows, opts.After)
	case opts.BatchSize == 0:
		opts.BatchSize = defaultRetentionBatch
	}
	db = db.Session(&gorm.Session{Context: ctx, SkipHooks: true})
	if err := refuseCut(db.Statement); err != nil {
		return nil, err
	}
	stmt := &gorm.Statement{DB: db}
	if err := stmt.Parse(model); err != nil {
		return nil, fmt.Errorf("gormflake: retention: %w", err)
	}
	r := &retention{opts: opts, schema: stmt.Schema, table: db.Statement.Table, window: Until(t)}
	if err := r.refuseOther(db.Statement); err != nil {
		return nil, err
	}
	if r.table == "" {
		r.table = stmt.Table
	}
	hasLayout := opts.Layout != generator.Layout{}
	if _, err := primaryKey(db, r.schema, hasLayout, tableAdvice); err != nil {
		return nil, err
	}
	if hasLayout {
		r.window = r.window.In(opts.Layout)
	}
	if !opts.IncludeLegacy {
		r.window = r.window.ExcludeLegacy()
	}
	source, err := r.window.source(db)
	if err != nil {
		return nil, err
	}
	if _, err := r.window.resolve(source); err != nil {
		return nil, err
	}
	uncut := func(db *gorm.DB) *gorm.DB { // by a scope, when all are known
		if err := refuseCut(db.Statement); err != nil {
			_ = db.AddError(err)
		} else if err := r.refuseOther(db.Statement); err != nil {
			_ = db.AddError(err)
		}
		db.Statement.Unscoped = !opts.SoftDelete // to GORM an Unscoped deletion is for good
		return db
	}
	r.db = beside(lastly(db, uncut), r.window).Session(&gorm.Session{})
	return r, nil
}

// refuseCut refuses what a batch can't do, or would do to the SELECT of its keys
// alone: a DELETE has no joins, and would take the rows that they leave out.
func refuseCut(stmt *gorm.Statement) error {
	if len(stmt.Joins) > 0 {
		return fmt.Errorf("%w: want conditions, met a join, which a deletion leaves out; write it as a condition, such as id IN (subquery)", ErrRetention)
	}
	if _, found := stmt.Clauses["GROUP BY"]; found || stmt.Distinct {
		return fmt.Errorf("%w: want conditions, met a grouping or DISTINCT, which a deletion leaves out; write it as a condition, such as id IN (subquery)", ErrRetention)
	}
	if _, found := stmt.Clauses["RETURNING"]; found {
		return fmt.Errorf("%w: want conditions, met a RETURNING, whose rows nobody reads; leave it out", ErrRetention)
	}
	if expr := stmt.TableExpr; expr != nil && (len(expr.Vars) > 0 || aliased(expr.SQL)) {
		return fmt.Errorf("%w: want the name of a table, met %q, whose alias not every DELETE takes; leave out the alias", ErrRetention, expr.SQL)
	}
	if where, _ := stmt.Clauses["WHERE"].Expression.(clause.Where); hasVicinity(where.Exprs) {
		return fmt.Errorf("%w: want conditions, met Around, whose rows are others in each batch; select their ids first, and delete by those", ErrRetention)
	}
	if name := shaped(stmt); name != "" {
		return fmt.Errorf("%w: the rows go oldest first and in batches; leave out %s", ErrRetention, name)
	}
	return nil
}

// hasVicinity reports whether Around is among conditions, in a group or Not too.
func hasVicinity(conditions []clause.Expression) bool {
	return slices.ContainsFunc(conditions, func(condition clause.Expression) bool {
		switch c := condition.(type) {
		case Vicinity:
			return true
		case clause.Where:
			return hasVicinity(c.Exprs)
		case clause.AndConditions:
			return hasVicinity(c.Exprs)
		case clause.OrConditions:
			return hasVicinity(c.Exprs)
		case clause.NotConditions:
			return hasVicinity(c.Exprs)
		}
		return false
	})
}

// aliased reports whether a table expression is more than a name, by a space
// or a comma outside of quotes.
func aliased(expr string) bool {
	quoted := false
	for _, c := range expr {
		switch c {
		case '`', '"':
			quoted = !quoted
		case ' ', ',':
			if !quoted {
				return true
			}
		}
	}
	return false
}

// refuseOther refuses a statement of another model than the one to delete, and
// one of a row: in GORM the key of Model's value is a condition of a deletion.
func (r *retention) refuseOther(stmt *gorm.Statement) error {
	if stmt.Model == nil {
		return nil
	}
	named := &gorm.Statement{DB: stmt.DB}
	if err := named.Parse(stmt.Model); err != nil || named.Schema.ModelType != r.schema.ModelType {
		return fmt.Errorf("%w: want the rows of %s, met Model(%T); leave out Model", ErrRetention, r.schema.Name, stmt.Model)
	}
	if keys, _ := schema.GetIdentityFieldValuesMap(stmt.Context, reflect.ValueOf(stmt.Model), r.schema.PrimaryFields); len(keys) > 0 {
		return fmt.Errorf("%w: want conditions, met the key of a row in Model(%T); write it with Where", ErrRetention, stmt.Model)
	}
	return nil
}

// batchFunc does one batch on the rows that rows adds to a statement.
type batchFunc func(db *gorm.DB, rows func(*gorm.DB) *gorm.DB) (int64, error)

func (r *retention) run(ctx context.Context, do batchFunc) (RetentionResult, error) {
	result := RetentionResult{Last: r.opts.After}
	if r.opts.DryRun {
		err := r.from(r.db, result.Last).Count(&result.Rows).Error
		if limit := r.opts.MaxRows; limit > 0 {
			result.Rows = min(result.Rows, limit)
		}
		return result, err
	}
	for {
		size := int64(r.opts.BatchSize)
		if limit := r.opts.MaxRows; limit > 0 {
			if size = min(size, limit-result.Rows); size == 0 {
				return result, nil
			}
		}
		end, found, err := r.batchEnd(result.Last, size)
		if err != nil {
			return result, err
		}
		if !found {
			result.Done = true
			return result, nil
		}
		start := result.Last
		n, err := do(r.db, func(db *gorm.DB) *gorm.DB {
			return beside(db, keyCondition{operator: " > ", id: start}, keyCondition{operator: " <= ", id: end})
		})
		if err != nil {
			return result, fmt.Errorf("gormflake: retention of %s, after %d rows; it goes on with After: %d: %w", r.table, result.Rows, result.Last, err)
		}
		result.Rows, result.Batches, result.Last = result.Rows+n, result.Batches+1, end
		if r.opts.Progress != nil {
			r.opts.Progress(result)
		}
		if err := pause(ctx, r.opts.Pause); err != nil {
			return result, err
		}
	}
}

// from adds the model and the rows after an id.
func (r *retention) from(db *gorm.DB, id ID) *gorm.DB {
	return beside(db.Model(reflect.New(r.schema.ModelType).Interface()), keyCondition{operator: " > ", id: id})
}

// batchEnd returns the last key of the batch after an id: the size-th, or the
// last there is.
func (r *retention) batchEnd(after ID, size int64) (ID, bool, error) {
	key := func(desc bool, offset int) *gorm.DB {
		return lastly(r.from(r.db, after).Select("?", keyExpr{foreign: true}), func(db *gorm.DB) *gorm.DB {
			return db.Order(clause.OrderByColumn{
				Column: clause.Column{Table: clause.CurrentTable, Name: clause.PrimaryKey}, Desc: desc,
			}).Limit(1).Offset(offset)
		})
	}
	var ids []int64
	if err := key(false, int(size)-1).Scan(&ids).Error; err != nil {
		return 0, false, err
	}
	if len(ids) == 0 {
		if err := key(true, 0).Scan(&ids).Error; err != nil {
			return 0, false, err
		}
	}
	if len(ids) == 0 {
		return 0, false, nil
	}
	return ID(ids[0]), true, nil
}

func deletesSoftly(s *schema.Schema) bool {
	for _, c := range s.DeleteClauses {
		if _, ok := c.(gorm.SoftDeleteDeleteClause); ok {
			return true
		}
	}
	return false
}

// pause waits for d, or returns the context's error as soon as it ends.
func pause(ctx context.Context, d time.Duration) error {
	if d == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
