package gormflake

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"reflect"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

const (
	keysPerQuery    = 1000 // ids in one IN
	lookupsPerQuery = 100  // SELECTs in one UNION; SQLite takes 500
)

// missingRows returns the rows whose key is in no row of the table, by their
// index. Rows with a composite key are all looked up one by one.
func (p *plan) missingRows(db *gorm.DB, rows []upsertRow) (missing []int, err error) {
	key := p.singleKey()
	if key == nil {
		for i := range rows {
			missing = append(missing, i)
		}
		return missing, nil
	}
	filled := p.filled()
	at := slices.Index(filled, key)
	present := map[int64][]int64{}
	for chunk := range slices.Chunk(rows, keysPerQuery) {
		q := p.newQuery(db)
		values := make([]any, 0, len(chunk))
		for _, row := range chunk {
			if id := row.id(p.schema, key); id != 0 {
				values = append(values, id)
			}
		}
		if len(values) == 0 {
			continue
		}
		p.writeSelect(q, "", filled)
		clause.IN{Column: clause.Column{Name: key.field.DBName}, Values: values}.Build(q)
		err := run(q, len(filled), func(ids []int64) { present[ids[at]] = slices.Clone(ids) })
		if err != nil {
			return nil, err
		}
	}
	for i, row := range rows {
		ids, ok := present[row.id(p.schema, key)]
		if !ok {
			missing = append(missing, i)
			continue
		}
		if len(filled) > 1 { // the other ids of a row that was there already
			if err := p.put(db, row, ids, true); err != nil {
				return nil, err
			}
		}
	}
	return missing, nil
}

// singleKey returns the key of a model that has no other.
func (p *plan) singleKey() *target {
	if len(p.schema.PrimaryFields) != 1 {
		return nil
	}
	for _, t := range p.filled() {
		if t.field.PrimaryKey {
			return t
		}
	}
	return nil
}

// lookUpRows finds the rows that those of the statement have met: by the
// columns that ON CONFLICT names, by the key, and by every unique index that
// the model declares. It compares in SQL, as the database did: by its
// collations, in which 'A' and 'a ' may equal 'a'.
func (p *plan) lookUpRows(db *gorm.DB, rows []upsertRow, missing []int, conflict clause.OnConflict, locking bool) (map[int][]int64, error) {
	type lookup struct {
		row, rank int
		columns   []*schema.Field
		values    []any
		where     string
	}
	var lookups []lookup
	for _, i := range missing {
	indexes:
		for rank, index := range p.uniqueIndexes(conflict) {
			l := lookup{row: i, rank: rank, columns: index.fields, where: index.where}
			for _, field := range index.fields {
				value, known := rows[i].value(db, p.schema, field)
				if !known {
					continue indexes
				}
				l.values = append(l.values, value)
			}
			lookups = append(lookups, l)
		}
	}
	filled := p.filled()
	found, best := map[int][]int64{}, map[int]int64{}
	for chunk := range slices.Chunk(lookups, lookupsPerQuery) {
		q := p.newQuery(db)
		for n, l := range chunk {
			if n > 0 {
				q.WriteString(" UNION ALL ")
			}
			if locking {
				q.WriteString("(")
			}
			p.writeSelect(q, fmt.Sprintf("%d,%d,", l.row, l.rank), filled)
			for c, column := range l.columns {
				if c > 0 {
					q.WriteString(" AND ")
				}
				clause.Eq{Column: clause.Column{Name: column.DBName}, Value: l.values[c]}.Build(q)
			}
			if l.where != "" {
				q.WriteString(" AND (" + l.where + ")")
			}
			if locking {
				q.WriteString(" LOCK IN SHARE MODE)")
			}
		}
		err := run(q, 2+len(filled), func(got []int64) {
			row, rank := int(got[0]), got[1]
			if _, ok := found[row]; !ok || rank < best[row] {
				found[row], best[row] = slices.Clone(got[2:]), rank
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

type uniqueIndex struct {
	fields []*schema.Field
	where  string
}

// uniqueIndexes returns what a row may meet another one by, the likeliest
// first.
func (p *plan) uniqueIndexes(conflict clause.OnConflict) (all []uniqueIndex) {
	var named []*schema.Field
	for _, column := range conflict.Columns {
		if field := p.schema.LookUpField(column.Name); field != nil && !column.Raw {
			named = append(named, field)
		}
	}
	if len(named) > 0 && len(named) == len(conflict.Columns) {
		all = append(all, uniqueIndex{fields: named})
	}
	p.indexing.Do(func() { p.indexes = declaredIndexes(p.schema) })
	return append(all, p.indexes...)
}

// declaredIndexes returns the key and the unique indexes of a model's tags.
func declaredIndexes(s *schema.Schema) (all []uniqueIndex) {
	if len(s.PrimaryFields) > 0 {
		all = append(all, uniqueIndex{fields: s.PrimaryFields})
	}
	for _, field := range s.Fields {
		if field.Unique && field.DBName != "" {
			all = append(all, uniqueIndex{fields: []*schema.Field{field}})
		}
	}
next:
	for _, index := range s.ParseIndexes() {
		if index.Class != "UNIQUE" {
			continue
		}
		var fields []*schema.Field
		for _, option := range index.Fields {
			if option.Field == nil || option.Expression != "" || option.DBName == "" {
				continue next
			}
			fields = append(fields, option.Field)
		}
		all = append(all, uniqueIndex{fields: fields, where: index.Where})
	}
	return all
}

// newQuery returns a statement of its own on the INSERT's connection. It runs
// past the callbacks, which might send it to a replica.
func (p *plan) newQuery(db *gorm.DB) *gorm.Statement {
	q := db.Session(&gorm.Session{NewDB: true}).Model(db.Statement.Model).Statement
	q.Table, q.TableExpr, q.Schema = db.Statement.Table, db.Statement.TableExpr, p.insert
	q.ConnPool, q.Context = db.Statement.ConnPool, db.Statement.Context
	return q
}

// writeSelect writes SELECT with the filled columns, up to WHERE.
func (p *plan) writeSelect(q *gorm.Statement, first string, filled []*target) {
	q.WriteString("SELECT " + first)
	for i, t := range filled {
		if i > 0 {
			q.WriteByte(',')
		}
		q.WriteQuoted(clause.Column{Name: t.field.DBName})
	}
	q.WriteString(" FROM ")
	q.WriteQuoted(clause.Table{Name: clause.CurrentTable})
	q.WriteString(" WHERE ")
}

// run runs a query of integer columns, of which NULL counts as 0.
func run(q *gorm.Statement, columns int, each func([]int64)) (err error) {
	if q.DB.Error != nil {
		return q.DB.Error
	}
	begin, count := time.Now(), int64(0)
	defer func() {
		q.DB.Logger.Trace(q.Context, begin, func() (string, int64) {
			return q.DB.Explain(q.SQL.String(), q.Vars...), count
		}, err)
	}()
	rows, err := q.ConnPool.QueryContext(q.Context, q.SQL.String(), q.Vars...)
	if err != nil {
		return fmt.Errorf("gormflake: read back the ids of an upsert: %w", err)
	}
	defer rows.Close()
	nullable, into, got := make([]sql.NullInt64, columns), make([]any, columns), make([]int64, columns)
	for i := range nullable {
		into[i] = &nullable[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("gormflake: read back the ids of an upsert: %w", err)
		}
		for i, n := range nullable {
			got[i] = n.Int64
		}
		count++
		each(got)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("gormflake: read back the ids of an upsert: %w", err)
	}
	return nil
}

// isNull reports whether a value becomes NULL.
func isNull(value any) bool {
	if value == nil {
		return true
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer && v.IsNil() {
		return true
	}
	if valuer, ok := value.(driver.Valuer); ok {
		got, err := valuer.Value()
		return err == nil && got == nil
	}
	return false
}
