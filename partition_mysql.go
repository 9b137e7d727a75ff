package gormflake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"
)

// The names of the partitions at both ends of a table on MySQL.
const (
	mysqlFirst = "p_before" // rows from before the first planned partition
	mysqlLast  = "p_max"    // rows from after the last
)

// mysqlLockSeconds is how long Apply waits for another's Apply.
const mysqlLockSeconds = 60

// mysqlPartitions are the partitions of MySQL and MariaDB.
type mysqlPartitions struct {
	table  string
	column string
}

func newMySQLPartitions(p *partitioner) (*mysqlPartitions, error) {
	if strings.Contains(p.table, ".") {
		return nil, fmt.Errorf("%w: want a table of the connection's database, got %s; connect to the database that it is in", ErrPartition, p.table)
	}
	var kind string
	const query = "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?"
	if err := p.db.Raw(query, p.table).Scan(&kind).Error; err != nil {
		return nil, err
	}
	if kind != "BASE TABLE" {
		return nil, fmt.Errorf("%w: there is no table %s; create it first", ErrPartition, p.table)
	}
	var column struct{ Kind, Full string }
	const columns = "SELECT DATA_TYPE AS kind, COLUMN_TYPE AS full FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND COLUMN_NAME = ?"
	if err := p.db.Raw(columns, p.table, p.column).Scan(&column).Error; err != nil {
		return nil, err
	}
	if err := p.checkColumn(column.Kind, column.Full, "tinyint", "smallint", "mediumint", "int"); err != nil {
		return nil, err
	}
	return &mysqlPartitions{table: p.table, column: p.column}, nil
}

// list returns the partitions in their order, none for a plain table.
func (e *mysqlPartitions) list(db *gorm.DB) ([]idPartition, error) {
	var rows []struct{ Name, Method, Expression, Bound, Sub *string }
	const query = `SELECT PARTITION_NAME AS name, PARTITION_METHOD AS method, PARTITION_EXPRESSION AS expression,
	PARTITION_DESCRIPTION AS bound, SUBPARTITION_METHOD AS sub
FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY PARTITION_ORDINAL_POSITION`
	if err := db.Raw(query, e.table).Scan(&rows).Error; err != nil {
		return nil, err
	}
	var out []idPartition
	lo := ID(math.MinInt64)
	for _, row := range rows {
		if row.Name == nil {
			return nil, nil // a plain table has one row without a name
		}
		if row.Method == nil || *row.Method != "RANGE" || row.Sub != nil || row.Expression == nil || strings.Trim(*row.Expression, "`") != e.column || row.Bound == nil {
			return nil, fmt.Errorf("%w: the table %s is partitioned otherwise; want PARTITION BY RANGE (%s)", ErrPartition, e.table, e.column)
		}
		part := idPartition{name: *row.Name, lo: lo, hi: math.MaxInt64, rest: *row.Bound == "MAXVALUE"}
		if !part.rest {
			hi, err := strconv.ParseInt(*row.Bound, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%w: the partition %s has the bound %s; want an integer", ErrPartition, part.name, *row.Bound)
			}
			part.hi = ID(hi)
		}
		lo = part.hi
		out = append(out, part)
	}
	return out, nil
}

func (e *mysqlPartitions) create(p *partitioner, width Width, from, to time.Time) ([]PartitionStep, error) {
	there, err := e.list(p.db)
	if err != nil {
		return nil, err
	}
	table := p.quote(p.table)
	if len(there) == 0 {
		if err := e.refuse(p); err != nil {
			return nil, err
		}
		first, err := p.bound(from)
		if err != nil {
			return nil, err
		}
		definitions, parts, err := e.definitions(p, width, from, to, nil)
		if err != nil {
			return nil, err
		}
		definitions = append([]string{fmt.Sprintf("PARTITION %s VALUES LESS THAN (%d)", mysqlFirst, first)}, definitions...)
		definitions = append(definitions, lastPartition)
		parts = append([]idPartition{{name: mysqlFirst, lo: math.MinInt64, hi: first}}, parts...)
		parts = append(parts, idPartition{name: mysqlLast, hi: math.MaxInt64, rest: true})
		return []PartitionStep{{
			Comment: span(from, to) + ", and all other rows; this rewrites the table",
			Names:   namesOf(parts),
			parts:   parts,
			SQL:     []string{fmt.Sprintf("ALTER TABLE %s PARTITION BY RANGE (%s) (%s)", table, p.quote(p.column), strings.Join(definitions, ",\n  "))},
		}}, nil
	}
	last := there[len(there)-1]
	end := last.hi
	if last.rest {
		end = last.lo
	}
	// A range can only be split off at its end: what lies between the last
	// partition and the first of the plan is cut in the same width.
	if begin := p.source.layout.Decompose(end).Time; end > 0 && begin.Before(to) {
		from = begin.In(width.loc)
	} else if end > 0 {
		from = to
	}
	definitions, parts, err := e.definitions(p, width, from, to, there)
	if err != nil {
		return nil, err
	}
	step := PartitionStep{Comment: span(from, to)}
	switch {
	case len(parts) == 0 && last.rest:
		return nil, nil
	case last.rest:
		// The last partition keeps its name, so that todo does not count it.
		definitions = append(definitions, strings.Replace(lastPartition, mysqlLast, p.quote(last.name), 1))
		step.SQL = []string{fmt.Sprintf("ALTER TABLE %s REORGANIZE PARTITION %s INTO (%s)", table, p.quote(last.name), strings.Join(definitions, ",\n  "))}
	default:
		name := freeName(mysqlLast, there)
		definitions = append(definitions, strings.Replace(lastPartition, mysqlLast, name, 1))
		parts = append(parts, idPartition{name: name, hi: math.MaxInt64, rest: true})
		step.SQL = []string{fmt.Sprintf("ALTER TABLE %s ADD PARTITION (%s)", table, strings.Join(definitions, ",\n  "))}
	}
	step.Names, step.parts = namesOf(parts), parts
	return []PartitionStep{step}, nil
}

const lastPartition = "PARTITION " + mysqlLast + " VALUES LESS THAN MAXVALUE"

// definitions returns the partitions between two times.
func (e *mysqlPartitions) definitions(p *partitioner, width Width, from, to time.Time, there []idPartition) (definitions []string, parts []idPartition, err error) {
	edges, err := width.edges(from, to, mostPartitions)
	if err != nil {
		return nil, nil, err
	}
	for i := range len(edges) - 1 {
		lo, err := p.bound(edges[i])
		if err != nil {
			return nil, nil, err
		}
		hi, err := p.bound(edges[i+1])
		if err != nil {
			return nil, nil, err
		}
		if hi == math.MaxInt64 || hi == 0 {
			continue // the partition of the rest holds it, or the one before
		}
		name := partitionName("p", edges[i], append(slices.Clone(there), parts...))
		parts = append(parts, idPartition{name: name, lo: lo, hi: hi})
		definitions = append(definitions, fmt.Sprintf("PARTITION %s VALUES LESS THAN (%d)", name, hi))
	}
	return definitions, parts, nil
}

// refuse returns why the server can't partition a plain table, or nil.
func (e *mysqlPartitions) refuse(p *partitioner) error {
	reasons := []struct{ query, reason string }{
		{
			`SELECT CONCAT(TABLE_NAME, '.', CONSTRAINT_NAME) FROM information_schema.KEY_COLUMN_USAGE
WHERE REFERENCED_TABLE_NAME IS NOT NULL AND (TABLE_SCHEMA = DATABASE() AND TABLE_NAME = @table OR REFERENCED_TABLE_SCHEMA = DATABASE() AND REFERENCED_TABLE_NAME = @table) ORDER BY 1`,
			"partitioned tables allow no foreign keys, from them or to them; drop the foreign key %s",
		},
		{
			`SELECT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = @table AND NON_UNIQUE = 0
GROUP BY INDEX_NAME HAVING SUM(COLUMN_NAME = @column) = 0 ORDER BY 1`,
			"every unique index of a partitioned table must hold the key; drop the index %s or add the key to it",
		},
		{
			`SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = @table AND INDEX_TYPE IN ('FULLTEXT', 'SPATIAL') ORDER BY 1`,
			"partitioned tables allow no full-text or spatial index; drop the index %s",
		},
	}
	for _, r := range reasons {
		var names []string
		if err := p.db.Raw(r.query, map[string]any{"table": p.table, "column": p.column}).Scan(&names).Error; err != nil {
			return err
		}
		if len(names) > 0 {
			return fmt.Errorf("%w: the server can't partition the table %s: "+r.reason, ErrPartition, p.table, strings.Join(names, ", "))
		}
	}
	return nil
}

func (e *mysqlPartitions) drop(p *partitioner, end ID) ([]PartitionStep, error) {
	there, err := e.list(p.db)
	if err != nil {
		return nil, err
	}
	if len(there) == 0 {
		return nil, fmt.Errorf("%w: the table %s is not partitioned; use PlanPartitions first, or DeleteBefore", ErrPartition, p.table)
	}
	step := PartitionStep{Drop: true}
	var quoted []string
	for _, part := range there {
		if part.rest || part.hi > end {
			break
		}
		legacy, err := p.holdsLegacy(p.db, p.table, part)
		if err != nil {
			return nil, err
		}
		if legacy {
			continue
		}
		step.Comment = p.until(part)
		step.parts, quoted = append(step.parts, part), append(quoted, p.quote(part.name))
	}
	step.Names = namesOf(step.parts)
	switch len(step.Names) {
	case 0:
		return nil, nil
	case len(there):
		return nil, fmt.Errorf("%w: the server can't drop every partition of %s; plan the next ones first", ErrPartition, p.table)
	}
	step.SQL = []string{fmt.Sprintf("ALTER TABLE %s DROP PARTITION %s", p.quote(p.table), strings.Join(quoted, ", "))}
	return []PartitionStep{step}, nil
}

func (*mysqlPartitions) transaction() (begin, commit string) { return "", "" }

// same compares the ends alone: a partition begins where the one before it
// ends, which may have been dropped.
func (*mysqlPartitions) same(a, b idPartition) bool { return a.rest == b.rest && a.hi == b.hi }

// guarded locks the table while partitions are looked at again and dropped.
func (e *mysqlPartitions) guarded(p *partitioner, tx *gorm.DB, step PartitionStep, run func() error) (err error) {
	if !step.Drop {
		return run() // moves rows between partitions and loses none
	}
	if err := tx.Exec("LOCK TABLES " + p.quote(p.table) + " WRITE").Error; err != nil {
		return fmt.Errorf("gormflake: partitions: can't lock the table %s to look again at what is dropped; it takes the privilege LOCK TABLES: %w", p.table, err)
	}
	defer func() {
		after := tx.WithContext(context.WithoutCancel(tx.Statement.Context))
		err = errors.Join(err, after.Exec("UNLOCK TABLES").Error)
	}()
	if err := p.stillOld(tx, step, func(string) string { return p.table }); err != nil {
		return err
	}
	return run()
}

func (*mysqlPartitions) locked(db *gorm.DB, table string, run func(*gorm.DB) error) error {
	return db.Connection(func(tx *gorm.DB) (err error) {
		tx = tx.Session(&gorm.Session{})
		name := "gormflake partitions " + table
		name = name[:min(len(name), 64)]
		var got *int
		if err := tx.Raw("SELECT GET_LOCK(?, ?)", name, mysqlLockSeconds).Scan(&got).Error; err != nil {
			return err
		}
		if got == nil || *got != 1 {
			return fmt.Errorf("%w: another program has been changing %s for %d seconds; try again", ErrPartition, table, mysqlLockSeconds)
		}
		defer func() {
			var released *int
			after := tx.WithContext(context.WithoutCancel(tx.Statement.Context))
			err = errors.Join(err, after.Raw("SELECT RELEASE_LOCK(?)", name).Scan(&released).Error)
		}()
		return run(tx)
	})
}
