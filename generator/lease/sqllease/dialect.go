package sqllease

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gormflake/gormflake/generator/lease"
)

// Dialect is the SQL that a database speaks. Its values are GORM's names.
type Dialect string

// The dialects.
const (
	MySQL    Dialect = "mysql" // MySQL 5.6 and later, MariaDB
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

func (d Dialect) validate() error {
	switch d {
	case MySQL, Postgres, SQLite:
		return nil
	}
	return fmt.Errorf("sqllease: %w: want the dialect %q, %q or %q, got %q", lease.ErrInvalid, MySQL, Postgres, SQLite, string(d))
}

// now is the database's clock in Unix milliseconds. It serves the expiry and
// the cap alone. (MySQL's UNIX_TIMESTAMP(NOW()) is an hour wrong while clocks
// are set back, and Postgres's now() stands still within a transaction.)
func (d Dialect) now() string {
	switch d {
	case Postgres:
		return "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp())*1000) AS BIGINT)"
	case SQLite:
		return "CAST((julianday('now')-2440587.5)*86400000 AS INTEGER)"
	default:
		return "TIMESTAMPDIFF(MICROSECOND,'1970-01-01 00:00:00',UTC_TIMESTAMP(6)) DIV 1000"
	}
}

// insert returns a single-row insert that ignores a conflict.
func (d Dialect) insert(table, columns, values string) string {
	if d == MySQL {
		return "INSERT IGNORE INTO " + table + " (" + columns + ") VALUES (" + values + ")"
	}
	return "INSERT INTO " + table + " (" + columns + ") VALUES (" + values + ") ON CONFLICT DO NOTHING"
}

func (d Dialect) greatest(a, b string) string {
	if d == SQLite {
		return "MAX(" + a + "," + b + ")"
	}
	return "GREATEST(" + a + "," + b + ")"
}

// bind numbers the placeholders where the dialect wants that. No statement of
// this package has a question mark of another meaning.
func (d Dialect) bind(statement string) string {
	if d != Postgres {
		return statement
	}
	var b strings.Builder
	n := 0
	for _, r := range statement {
		if r != '?' {
			b.WriteRune(r)
			continue
		}
		n++
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}

// quote quotes a table's name, which tableName has matched, with an ending.
func (d Dialect) quote(table, ending string) string {
	mark := `"`
	if d == MySQL {
		mark = "`"
	}
	schema, name, qualified := strings.Cut(table, ".")
	if !qualified {
		return mark + table + ending + mark
	}
	return mark + schema + mark + "." + mark + name + ending + mark
}

// statements are the texts of one store. Each reads or writes rows by their
// whole primary key or a range of it, is committed by itself, and writes one
// row at most: no isolation level matters and no locks form a cycle.
type statements struct {
	page, row, list                 string
	take, takeOver, extend, free    string
	enter, begin, reach, reidentify string // enter and begin with %IDENTITY%
	blocks, block                   string
}

func newStatements(d Dialect, table string) statements {
	now := d.now()
	leases, namespaces, blocks := d.quote(table, ""), d.quote(table, "_namespaces"), d.quote(table, "_blocks")
	const columns = "worker_id, term, owner, high_water, expires_at"
	nowReturned, returning := now, ""
	switch d {
	case MySQL:
		// The reply to the update then brings the clock along.
		nowReturned = "LAST_INSERT_ID(" + now + ")"
	case Postgres:
		returning = " RETURNING " + now
	}
	s := statements{
		page: "SELECT " + columns + ", " + now + " FROM " + leases + " WHERE namespace=? AND worker_id>=? AND worker_id<=?",
		row:  "SELECT " + columns + ", " + now + " FROM " + leases + " WHERE namespace=? AND worker_id=?",
		list: "SELECT " + columns + ", " + now + " FROM " + leases + " WHERE namespace=? ORDER BY worker_id",

		take: d.insert(leases, "namespace, worker_id, term, owner, high_water, expires_at", "?, ?, 1, ?, ?, "+now+"+?"),
		takeOver: "UPDATE " + leases + " SET owner=?, term=term+1, high_water=?, expires_at=" + now + "+?" +
			" WHERE namespace=? AND worker_id=? AND term=? AND high_water=? AND expires_at<=" + now + " AND ?<=" + now + "+?",
		extend: "UPDATE " + leases + " SET high_water=?, expires_at=" + nowReturned + "+?" +
			" WHERE namespace=? AND worker_id=? AND owner=? AND term=? AND high_water=? AND ?<=" + now + "+?" + returning,
		free: "UPDATE " + leases + " SET owner='', expires_at=high_water" +
			" WHERE namespace=? AND worker_id=? AND owner=? AND term=?",

		enter: "SELECT layout, identity, identity_floor, reach, " + now + ", %IDENTITY% FROM " + namespaces + " WHERE namespace=?",
		begin: d.insert(namespaces, "namespace, layout, identity, identity_floor, reach", "?, ?, %IDENTITY%, 0, ?"),
		reach: "UPDATE " + namespaces + " SET reach=? WHERE namespace=? AND reach<?",
		reidentify: "UPDATE " + namespaces + " SET identity=?, identity_floor=" + d.greatest("identity_floor", now+"+reach") +
			" WHERE namespace=? AND identity=?",

		blocks: "SELECT worker_id, MAX(version), MAX(CASE WHEN first_tick<=? AND last_tick>=? THEN last_sequence ELSE -1 END) FROM " + blocks +
			" WHERE namespace=? AND worker_id>=? AND worker_id<=? GROUP BY worker_id",
		block: d.insert(blocks, "namespace, worker_id, version, first_tick, last_tick, first_sequence, last_sequence", "?, ?, ?, ?, ?, ?, ?"),
	}
	for _, text := range []*string{&s.page, &s.row, &s.list, &s.take, &s.takeOver, &s.extend, &s.free,
		&s.enter, &s.begin, &s.reach, &s.reidentify, &s.blocks, &s.block} {
		*text = d.bind(*text)
	}
	return s
}
