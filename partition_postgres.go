package gormflake

import (
	"database/sql"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"
)

// postgresPartitions are the partitions of declarative partitioning.
type postgresPartitions struct {
	oid          int64
	schema, name string // of the table
}

// postgresNameLength is what Postgres cuts longer names to, in silence.
const postgresNameLength = 63

func newPostgresPartitions(p *partitioner) (*postgresPartitions, error) {
	var table struct {
		OID          int64 `gorm:"column:oid"`
		Schema, Name string
		Kind         string
		Strategy     *string
		Columns      *int
		Column       *string
		Type, Full   *string // of the key
	}
	const query = `SELECT c.oid::bigint AS oid, n.nspname AS schema, c.relname AS name, c.relkind::text AS kind,
	t.partstrat::text AS strategy, t.partnatts AS columns, a.attname AS column,
	y.typname AS type, format_type(k.atttypid, k.atttypmod) AS full
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_partitioned_table t ON t.partrelid = c.oid
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = t.partattrs[0]
LEFT JOIN pg_attribute k ON k.attrelid = c.oid AND k.attname = ? LEFT JOIN pg_type y ON y.oid = k.atttypid
WHERE c.oid = to_regclass(?)`
	tx := p.db.Raw(query, p.column, p.quote(p.table)).Scan(&table)
	switch {
	case tx.Error != nil:
		return nil, tx.Error
	case tx.RowsAffected == 0:
		return nil, fmt.Errorf("%w: there is no table %s; create it with PARTITION BY RANGE (%s)", ErrPartition, p.table, p.column)
	case table.Type == nil:
		return nil, p.checkColumn("", "")
	}
	if err := p.checkColumn(*table.Type, *table.Full, "int2", "int4"); err != nil {
		return nil, err
	}
	switch {
	case table.Kind != "p":
		return nil, fmt.Errorf("%w: Postgres can't partition the table %s in place; create another with (LIKE %s INCLUDING ALL) PARTITION BY RANGE (%s), plan its partitions, copy the rows and rename both",
			ErrPartition, p.table, p.table, p.column)
	case *table.Strategy != "r" || *table.Columns != 1 || table.Column == nil || *table.Column != p.column:
		return nil, fmt.Errorf("%w: the table %s is partitioned otherwise; want PARTITION BY RANGE (%s)", ErrPartition, p.table, p.column)
	}
	return &postgresPartitions{oid: table.OID, schema: table.Schema, name: table.Name}, nil
}

// postgresBounds is how pg_get_expr writes the bounds of a range.
var postgresBounds = regexp.MustCompile(`^FOR VALUES FROM \('?(MINVALUE|-?\d+)'?\) TO \('?(MAXVALUE|-?\d+)'?\)$`)

func (e *postgresPartitions) list(db *gorm.DB) ([]idPartition, error) {
	var rows []struct{ Schema, Name, Bounds string }
	const query = `SELECT n.nspname AS schema, c.relname AS name, pg_get_expr(c.relpartbound, c.oid) AS bounds
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE i.inhparent = ? ORDER BY c.relname`
	if err := db.Raw(query, e.oid).Scan(&rows).Error; err != nil {
		return nil, err
	}
	var out []idPartition
	for _, row := range rows {
		part := idPartition{name: row.Name, lo: math.MinInt64, hi: math.MaxInt64}
		if row.Schema != e.schema {
			part.name = row.Schema + "." + row.Name
		}
		if row.Bounds == "DEFAULT" {
			part.rest = true
			out = append(out, part)
			continue
		}
		bounds := postgresBounds.FindStringSubmatch(row.Bounds)
		if bounds == nil {
			return nil, fmt.Errorf("%w: the partition %s has the bounds %q; want a range of integers", ErrPartition, part.name, row.Bounds)
		}
		for i, id := range []*ID{&part.lo, &part.hi} {
			if v, err := strconv.ParseInt(bounds[i+1], 10, 64); err == nil {
				*id = ID(v)
			}
		}
		out = append(out, part)
	}
	slices.SortFunc(out, func(a, b idPartition) int {
		if a.lo < b.lo {
			return -1
		}
		return 1
	})
	return out, nil
}

// inSchema names a partition within the table's schema.
func (e *postgresPartitions) inSchema(p *partitioner, name string) string {
	return p.quote(e.qualified(name))
}

func (e *postgresPartitions) create(p *partitioner, width Width, from, to time.Time) ([]PartitionStep, error) {
	there, err := e.list(p.db)
	if err != nil {
		return nil, err
	}
	edges, err := width.edges(from, to, mostPartitions)
	if err != nil {
		return nil, err
	}
	rest := slices.IndexFunc(there, func(part idPartition) bool { return part.rest })
	taken := slices.Clone(there)
	var steps []PartitionStep
	for i := range len(edges) - 1 {
		lo, err := p.bound(edges[i])
		if err != nil {
			return nil, err
		}
		hi, err := p.bound(edges[i+1])
		if err != nil {
			return nil, err
		}
		for _, free := range uncovered(lo, hi, there) {
			begin, end := edges[i], edges[i+1]
			if free.lo != lo {
				begin = p.source.layout.Decompose(free.lo).Time.In(width.loc)
			}
			if free.hi != hi {
				end = p.source.layout.Decompose(free.hi).Time.In(width.loc)
			}
			free.name = partitionName(e.name+"_p", begin, taken)
			taken = append(taken, free)
			step, err := e.createOne(p, free, span(begin, end), rest >= 0, there, rest)
			if err != nil {
				return nil, err
			}
			steps = append(steps, step)
		}
	}
	if rest < 0 {
		name := freeName(e.name+"_default", taken)
		if err := checkName(name, postgresNameLength); err != nil {
			return nil, err
		}
		steps = append(steps, PartitionStep{
			Comment: "the partition of all other rows",
			Names:   []string{name},
			parts:   []idPartition{{name: name, lo: math.MinInt64, hi: math.MaxInt64, rest: true}},
			SQL:     []string{fmt.Sprintf("CREATE TABLE %s PARTITION OF %s DEFAULT", e.inSchema(p, name), p.quote(p.table))},
		})
	}
	return steps, nil
}

// createOne adds a partition. Rows of its range that the default partition
// holds have to move first: Postgres refuses a partition whose rows are there.
func (e *postgresPartitions) createOne(p *partitioner, part idPartition, span string, hasRest bool, there []idPartition, rest int) (PartitionStep, error) {
	if err := checkName(part.name, postgresNameLength); err != nil {
		return PartitionStep{}, err
	}
	table, name := p.quote(p.table), e.inSchema(p, part.name)
	to := strconv.FormatInt(int64(part.hi), 10)
	if part.hi == math.MaxInt64 {
		to = "MAXVALUE"
	}
	bounds := fmt.Sprintf("FOR VALUES FROM (%d) TO (%s)", part.lo, to)
	step := PartitionStep{Comment: span, Names: []string{part.name}, parts: []idPartition{part}}
	moves := false
	if hasRest {
		var err error
		if moves, err = p.exists(p.db, e.qualified(there[rest].name), part.lo, part.hi); err != nil {
			return step, err
		}
	}
	if !moves {
		step.SQL = []string{fmt.Sprintf("CREATE TABLE %s PARTITION OF %s %s", name, table, bounds)}
		return step, nil
	}
	column, caught := p.quote(p.column), e.inSchema(p, there[rest].name)
	if err := e.quiet(p.db, caught); err != nil {
		return step, err
	}
	columns, err := e.columns(p)
	if err != nil {
		return step, err
	}
	step.from = caught
	step.Comment += ", with its rows from the default partition"
	step.SQL = []string{
		fmt.Sprintf("CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED)", name, table),
		fmt.Sprintf("WITH moved AS (DELETE FROM %s WHERE %s >= %d AND %s < %d RETURNING %s) INSERT INTO %s (%s) SELECT %s FROM moved",
			caught, column, part.lo, column, part.hi, columns, name, columns, columns),
		fmt.Sprintf("ALTER TABLE %s ATTACH PARTITION %s %s", table, name, bounds),
	}
	return step, nil
}

// columns lists what moves of a row: a partition may have the table's columns
// in another order, and those that are generated are computed anew.
func (e *postgresPartitions) columns(p *partitioner) (string, error) {
	var names []string
	const query = "SELECT attname FROM pg_attribute WHERE attrelid = ? AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"
	if err := p.db.Raw(query, e.oid).Scan(&names).Error; err != nil {
		return "", err
	}
	for i, name := range names {
		names[i] = `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	return strings.Join(names, ", "), nil
}

// quiet refuses to move rows out of a partition, quoted, whose foreign keys or
// triggers would take that for a deletion.
func (e *postgresPartitions) quiet(db *gorm.DB, caught string) error {
	var fired []string
	const query = `SELECT DISTINCT CASE WHEN k.contype = 'f' THEN 'the foreign key ' || coalesce(r.conname, k.conname) || ' of ' || k.conrelid::regclass ELSE 'the trigger ' || t.tgname END
FROM pg_trigger t LEFT JOIN pg_constraint k ON k.oid = t.tgconstraint LEFT JOIN pg_constraint r ON r.oid = k.conparentid
WHERE t.tgrelid IN (SELECT relid FROM pg_partition_tree(to_regclass(?))) AND t.tgtype & 8 <> 0
	AND t.tgenabled IN ('A', CASE current_setting('session_replication_role') WHEN 'replica' THEN 'R' ELSE 'O' END)
ORDER BY 1`
	if err := db.Raw(query, caught).Scan(&fired).Error; err != nil {
		return err
	}
	if len(fired) > 0 {
		return fmt.Errorf("%w: rows of a new partition are in the default partition %s, and to move them deletes them there, which fires %s; drop that, apply a plan, and create it again",
			ErrPartition, caught, strings.Join(fired, " and "))
	}
	return nil
}

// same compares both bounds.
func (*postgresPartitions) same(a, b idPartition) bool { return a == b }

// guarded locks what a step is about, and looks at it again. Each statement of
// the transaction sees what was committed before it.
func (e *postgresPartitions) guarded(p *partitioner, tx *gorm.DB, step PartitionStep, run func() error) error {
	if step.Drop || step.from != "" { // a caller's transaction may be older than what it has to see
		var isolation string
		if err := tx.Raw("SHOW transaction_isolation").Scan(&isolation).Error; err != nil {
			return err
		}
		if isolation != "read committed" {
			return fmt.Errorf("%w: want a transaction at READ COMMITTED, which sees what others have inserted since the plan was made, got one at %s; apply the plan outside of it",
				ErrPartition, strings.ToUpper(isolation))
		}
	}
	switch {
	case step.Drop:
		// In the order of an insert: the table first. Both locks are those that
		// the step takes anyway.
		locks := []string{"ONLY " + p.quote(p.table)}
		for _, name := range step.Names {
			locks = append(locks, e.inSchema(p, name))
		}
		for _, table := range locks {
			if err := tx.Exec("LOCK TABLE " + table + " IN ACCESS EXCLUSIVE MODE").Error; err != nil {
				return fmt.Errorf("gormflake: partitions: %s: %w", step.Comment, err)
			}
		}
		if err := p.stillOld(tx, step, e.qualified); err != nil {
			return err
		}
	case step.from != "":
		// No trigger or foreign key can be added beside this lock, and the
		// partition can't be detached.
		if err := tx.Exec("LOCK TABLE " + step.from + " IN ROW EXCLUSIVE MODE").Error; err != nil {
			return fmt.Errorf("gormflake: partitions: %s: %w", step.Comment, err)
		}
		there, err := e.list(tx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(there, func(part idPartition) bool { return part.rest && e.inSchema(p, part.name) == step.from }) {
			return fmt.Errorf("%w: %s is no longer the default partition, whose rows were to move; plan again", ErrPartition, step.from)
		}
		if err := e.quiet(tx, step.from); err != nil {
			return err
		}
	}
	return run()
}

func (e *postgresPartitions) drop(p *partitioner, end ID) ([]PartitionStep, error) {
	there, err := e.list(p.db)
	if err != nil {
		return nil, err
	}
	var steps []PartitionStep
	for _, part := range there {
		if part.rest || part.hi > end || part.hi == math.MaxInt64 {
			continue
		}
		legacy, err := p.holdsLegacy(p.db, e.qualified(part.name), part)
		if err != nil {
			return nil, err
		}
		if legacy {
			continue
		}
		name := e.inSchema(p, part.name)
		steps = append(steps, PartitionStep{
			Comment: p.until(part),
			Names:   []string{part.name},
			parts:   []idPartition{part},
			Drop:    true,
			SQL:     []string{fmt.Sprintf("ALTER TABLE %s DETACH PARTITION %s", p.quote(p.table), name), "DROP TABLE " + name},
		})
	}
	return steps, nil
}

func (e *postgresPartitions) qualified(name string) string {
	if strings.Contains(name, ".") {
		return name
	}
	return e.schema + "." + name
}

func (*postgresPartitions) transaction() (begin, commit string) { return "BEGIN;\n\n", "\nCOMMIT;\n" }

func (*postgresPartitions) locked(db *gorm.DB, table string, run func(*gorm.DB) error) error {
	return db.Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("SELECT pg_advisory_xact_lock(hashtext(?))", "gormflake partitions "+table).Error; err != nil {
			return err
		}
		return run(tx)
	}, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
}

// uncovered returns what the partitions leave free of a range, in order.
func uncovered(lo, hi ID, there []idPartition) []idPartition {
	var out []idPartition
	for _, part := range there { // in the order of lo
		if part.rest || part.hi <= lo || part.lo >= hi {
			continue
		}
		if part.lo > lo {
			out = append(out, idPartition{lo: lo, hi: part.lo})
		}
		lo = part.hi
	}
	if lo < hi {
		out = append(out, idPartition{lo: lo, hi: hi})
	}
	return out
}

func checkName(name string, most int) error {
	if len(name) > most {
		return fmt.Errorf("%w: want names of at most %d bytes, got %s; shorten the table's name", ErrPartition, most, name)
	}
	return nil
}

// holdsLegacy reports whether a partition holds ids of AUTO_INCREMENT days.
func (p *partitioner) holdsLegacy(db *gorm.DB, table string, part idPartition) (bool, error) {
	end := legacyEnd(p.source.layout)
	if part.lo >= end {
		return false, nil
	}
	return p.exists(db, table, part.lo, min(part.hi, end))
}

// until describes a partition that is dropped.
func (p *partitioner) until(part idPartition) string {
	return "drop the rows before " + p.source.layout.Decompose(part.hi).Time.Format(time.RFC3339)
}
