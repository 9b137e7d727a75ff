package gormflake

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// archiveChunk bounds the keys of a statement, by the 999 parameters that old
// versions of SQLite take.
const archiveChunk = 500

// ArchiveBefore is DeleteBefore with a copy: each batch is inserted into the
// table archive and deleted in one transaction, so a row is always in exactly
// one of the two. The rows are chosen and locked first, then copied and deleted
// by their keys alone; what comes in behind them stays until the next call. A
// batch of which more or fewer rows would be deleted than were copied is rolled
// back with ErrRetention.
//
// The archive must be a table of the same database that has every column of
// the source, known to the model or not. It computes its generated columns
// itself:
//
//	CREATE TABLE orders_archive (LIKE orders INCLUDING ALL)  -- Postgres
//	CREATE TABLE orders_archive LIKE orders                  -- MySQL, MariaDB
//
// A row that is in the archive already fails its batch with the database's
// error of a duplicate key. Errors are those of DeleteBefore, and ErrRetention
// where the archive is missing or lacks a column.
func ArchiveBefore(ctx context.Context, db *gorm.DB, model any, archive string, t time.Time, opts RetentionOptions) (RetentionResult, error) {
	r, err := newRetention(ctx, db, model, t, opts)
	if err != nil {
		return RetentionResult{}, err
	}
	if opts.SoftDelete {
		return RetentionResult{}, fmt.Errorf("%w: ArchiveBefore moves rows; leave out SoftDelete", ErrRetention)
	}
	columns, err := r.archiveColumns(archive)
	if err != nil {
		return RetentionResult{}, err
	}
	return r.run(ctx, func(db *gorm.DB, rows func(*gorm.DB) *gorm.DB) (int64, error) {
		var moved int64
		err := db.Transaction(func(tx *gorm.DB) (err error) {
			moved, err = r.move(tx, rows, archive, columns)
			return err
		})
		return moved, err
	})
}

// move copies and deletes one batch. Its conditions choose the rows once: a
// subquery among them may say something else of the same row a moment later.
func (r *retention) move(tx *gorm.DB, rows func(*gorm.DB) *gorm.DB, archive string, columns []string) (int64, error) {
	model := reflect.New(r.schema.ModelType).Interface()
	blank := tx.Session(&gorm.Session{NewDB: true, SkipHooks: true, Context: tx.Statement.Context})
	if tx.Name() == dialectSQLite { // which has no row locks: the first write locks the whole database
		if err := blank.Exec("DELETE FROM ? WHERE 1 = 0", clause.Table{Name: archive}).Error; err != nil {
			return 0, err
		}
	}
	var table string // with its expression, which a scope may set
	var expr *clause.Expr
	choose := lastly(rows(tx).Model(model).Select("?", keyExpr{foreign: true}), func(db *gorm.DB) *gorm.DB {
		table, expr = db.Statement.Table, db.Statement.TableExpr
		return db
	})
	if tx.Name() != dialectSQLite {
		choose = choose.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate})
	}
	var locked []int64
	if err := choose.Scan(&locked).Error; err != nil {
		return 0, err
	}
	keys := make([]any, len(locked))
	for i, key := range locked {
		keys[i] = key
	}
	list := strings.Join(columns, ",")
	each := func(do func(chosen *gorm.DB) *gorm.DB) (n int64, err error) {
		for chunk := range slices.Chunk(keys, archiveChunk) {
			chosen := blank.Unscoped().Model(model)
			chosen.Statement.Table, chosen.Statement.TableExpr = table, expr
			done := do(chosen.Where(clause.IN{Column: clause.Column{Table: clause.CurrentTable, Name: r.schema.PrimaryFields[0].DBName}, Values: chunk}))
			if done.Error != nil {
				return 0, done.Error
			}
			n += done.RowsAffected
		}
		return n, nil
	}
	// All are copied before the first is deleted, which may take others along.
	copied, err := each(func(chosen *gorm.DB) *gorm.DB {
		return blank.Exec("INSERT INTO ? ("+list+") ?", clause.Table{Name: archive}, chosen.Select(list))
	})
	if err != nil {
		return 0, err
	}
	deleted, err := each(func(chosen *gorm.DB) *gorm.DB { return chosen.Delete(model) })
	if err != nil {
		return 0, err
	}
	if copied != deleted || copied != int64(len(keys)) {
		return 0, fmt.Errorf("%w: want %d rows copied into %s and deleted from %s, got %d and %d; look for triggers and foreign keys that add or take rows",
			ErrRetention, len(keys), archive, r.table, copied, deleted)
	}
	return deleted, nil
}

// archiveColumns returns the quoted columns of the source, without those that
// the archive generates, after a check that the archive has them all. They come
// from the database: a column that the model doesn't know would else be lost.
func (r *retention) archiveColumns(archive string) ([]string, error) {
	db := r.db.Session(&gorm.Session{NewDB: true, Context: r.db.Statement.Context})
	if archive == "" || archive == r.table {
		return nil, fmt.Errorf("%w: want a table other than %s to archive into, got %q", ErrRetention, r.table, archive)
	}
	if !db.Migrator().HasTable(archive) {
		// It says so too where the database did not answer.
		if err := db.Exec("SELECT 1").Error; err != nil {
			return nil, fmt.Errorf("gormflake: retention: the table %s: %w", archive, err)
		}
		return nil, fmt.Errorf("%w: the table %s is not there; create it with the columns of %s", ErrRetention, archive, r.table)
	}
	source, err := db.Migrator().ColumnTypes(r.table)
	if err != nil {
		return nil, fmt.Errorf("gormflake: retention: the columns of %s: %w", r.table, err)
	}
	target, err := db.Migrator().ColumnTypes(archive)
	if err != nil {
		return nil, fmt.Errorf("gormflake: retention: the columns of %s: %w", archive, err)
	}
	generated, err := generatedColumns(db, archive)
	if err != nil {
		return nil, fmt.Errorf("gormflake: retention: the generated columns of %s: %w", archive, err)
	}
	there := map[string]bool{}
	for _, c := range target {
		there[c.Name()] = true
	}
	var columns, missing []string
	for _, c := range source {
		if !there[c.Name()] {
			missing = append(missing, c.Name())
		}
		if !slices.Contains(generated, c.Name()) {
			columns = append(columns, db.Statement.Quote(c.Name()))
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: the table %s lacks the columns %s of %s; add them", ErrRetention, archive, strings.Join(missing, ", "), r.table)
	}
	return columns, nil
}

// generatedColumns returns the columns of a table that take no values, as the
// database computes them.
func generatedColumns(db *gorm.DB, table string) ([]string, error) {
	var within any // the schema, NULL for the current one
	if schema, name, found := cutColumn(table); found {
		within, table = schema, name
	}
	var sql string
	args := []any{within, table}
	switch db.Name() {
	case dialectPostgres:
		sql = "SELECT column_name FROM information_schema.columns WHERE table_schema = COALESCE(CAST(? AS text), CURRENT_SCHEMA()) AND table_name = ? AND is_generated = 'ALWAYS'"
	case dialectMySQL: // whose EXTRA is DEFAULT_GENERATED for a mere default
		sql = "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ?" +
			" AND (EXTRA LIKE '%VIRTUAL GENERATED%' OR EXTRA LIKE '%STORED GENERATED%')"
	case dialectSQLite:
		sql, args = "SELECT name FROM pragma_table_xinfo(?) WHERE hidden IN (2, 3)", []any{table}
	default:
		return nil, nil
	}
	var names []string
	err := db.Raw(sql, args...).Scan(&names).Error
	return names, err
}
