package gormflake

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// archiveAttempts bounds how often a batch is tried again whose rows changed
// in the meantime, which takes a writer of rows of the past.
const archiveAttempts = 5

// errArchiveMoved says that a batch copied and deleted different rows. It
// rolls the batch back.
var errArchiveMoved = errors.New("gormflake: retention: rows came in between the copy and the deletion")

// ArchiveBefore is DeleteBefore with a copy: each batch is inserted into the
// table archive and deleted in one transaction, so a row is always in exactly
// one of the two. The rows are locked first, and a batch of which more or
// fewer rows would be deleted than were copied is rolled back and tried again.
//
// The archive must be a table of the same database that has every column of
// the source, known to the model or not:
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
		err := errArchiveMoved
		for attempt := 0; errors.Is(err, errArchiveMoved) && attempt < archiveAttempts; attempt++ {
			err = db.Transaction(func(tx *gorm.DB) (err error) {
				moved, err = r.move(tx, rows, archive, columns)
				return err
			})
		}
		return moved, err
	})
}

// move copies and deletes one batch.
func (r *retention) move(tx *gorm.DB, rows func(*gorm.DB) *gorm.DB, archive string, columns []string) (int64, error) {
	model := reflect.New(r.schema.ModelType).Interface()
	batch := func() *gorm.DB { return rows(tx).Model(model) }
	if tx.Name() != dialectSQLite { // which locks the whole database at the first write
		var locked []int64
		lock := batch().Select("?", keyExpr{foreign: true}).Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate})
		if err := lock.Scan(&locked).Error; err != nil {
			return 0, err
		}
	}
	list := strings.Join(columns, ",")
	copied := tx.Session(&gorm.Session{NewDB: true, Context: tx.Statement.Context}).
		Exec("INSERT INTO ? ("+list+") ?", clause.Table{Name: archive}, batch().Select(list))
	if copied.Error != nil {
		return 0, copied.Error
	}
	deleted := rows(tx).Delete(model)
	if deleted.Error != nil {
		return 0, deleted.Error
	}
	if copied.RowsAffected != deleted.RowsAffected {
		return 0, errArchiveMoved
	}
	return deleted.RowsAffected, nil
}

// archiveColumns returns the quoted columns of the source, after a check that
// the archive has them all. They come from the database: a column that the
// model doesn't know would else be lost.
func (r *retention) archiveColumns(archive string) ([]string, error) {
	db := r.db.Session(&gorm.Session{NewDB: true, Context: r.db.Statement.Context})
	if archive == "" || archive == r.table {
		return nil, fmt.Errorf("%w: want a table other than %s to archive into, got %q", ErrRetention, r.table, archive)
	}
	if !db.Migrator().HasTable(archive) {
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
	there := map[string]bool{}
	for _, c := range target {
		there[c.Name()] = true
	}
	var columns, missing []string
	for _, c := range source {
		if !there[c.Name()] {
			missing = append(missing, c.Name())
		}
		columns = append(columns, db.Statement.Quote(c.Name()))
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: the table %s lacks the columns %s of %s; add them", ErrRetention, archive, strings.Join(missing, ", "), r.table)
	}
	return columns, nil
}
