package migrate

import (
	"strings"
	"testing"
)

// oddTable is a table t whose names, keys or labels are unusual but sound.
type oddTable struct {
	name      string
	columns   string // with the keys
	options   string
	rows      []string // in the order of the column's wanted values
	column    string   // v if empty
	overrides []Override
	want      string
}

var oddTables = []oddTable{
	{name: "a backtick in a name", columns: "id int PRIMARY KEY, `a``b` enum('N','Y') NOT NULL, KEY `a``b` (`a``b`)", column: "a`b", rows: []string{"1, 'Y'", "2, 'N'", "3, 'Y'"}, want: "1 0 1"},
	{name: "a backtick in the key", columns: "`i``d` int PRIMARY KEY, v bit(1) NOT NULL", rows: []string{"1, 1", "2, 0", "3, 1"}, want: "1 0 1"},
	{name: "a name of 64 letters", columns: "id int PRIMARY KEY, `" + strings.Repeat("é", 64) + "` char(1) NOT NULL", options: "DEFAULT CHARSET=utf8",
		column: strings.Repeat("é", 64), rows: []string{"1, 'Y'", "2, 'N'"}, want: "1 0"},
	{name: "placeholders in a name and in labels", columns: "id int PRIMARY KEY, `? BETWEEN ?` enum('AND ?','BETWEEN ?') NOT NULL", column: "? BETWEEN ?",
		overrides: []Override{Labels("? BETWEEN ?", "AND ?", "BETWEEN ?")}, rows: []string{"1, 'AND ?'", "2, 'BETWEEN ?'"}, want: "0 1"},
	{name: "unsigned keys on both sides of 2^63", columns: "id bigint unsigned PRIMARY KEY, v enum('N','Y') NOT NULL",
		rows: []string{"0, 'N'", "5, 'Y'", "9223372036854775807, 'Y'", "9223372036854775808, 'Y'", "18446744073709551615, 'N'"}, want: "0 1 1 1 0"},
	{name: "every signed key", columns: "id bigint PRIMARY KEY, v enum('N','Y') NOT NULL",
		rows: []string{"-9223372036854775808, 'N'", "-1, 'Y'", "0, 'Y'", "5, 'N'", "9223372036854775807, 'Y'"}, want: "0 1 1 0 1"},
	{name: "keys with zeros in front", columns: "id int(10) unsigned zerofill PRIMARY KEY, v enum('N','Y') NOT NULL", rows: []string{"8, 'N'", "9, 'Y'", "10, 'Y'", "77, 'N'"}, want: "0 1 1 0"},
	{name: "labels that the connection's character set spells otherwise", columns: "id int PRIMARY KEY, v enum('ä','ö') CHARACTER SET latin1 NOT NULL",
		overrides: []Override{Labels("v", "ä", "ö")}, rows: []string{"1, 'ä'", "2, 'ö'"}, want: "0 1"},
	{name: "labels of four bytes", columns: "id int PRIMARY KEY, v varchar(3) CHARACTER SET utf8mb4 NOT NULL",
		overrides: []Override{Labels("v", "👎", "👍")}, rows: []string{"1, '👎'", "2, '👍'"}, want: "0 1"},
	{name: "a quote and a comma in labels", columns: "id int PRIMARY KEY, v enum('it''s','a,b') NOT NULL DEFAULT 'a,b'",
		overrides: []Override{Labels("v", "it's", "a,b")}, rows: []string{"1, 'it''s'", "2, 'a,b'"}, want: "0 1"},
	{name: "a comment that quotes a definition", columns: `id int PRIMARY KEY, v char(1) NOT NULL COMMENT ' COMMENT ''x'' DEFAULT ''\\'''`, rows: []string{"1, 'N'", "2, 'Y'"}, want: "0 1"},
	{name: "partitions by the key", columns: "id int PRIMARY KEY, v enum('N','Y') NOT NULL", options: "PARTITION BY HASH (id) PARTITIONS 4", rows: []string{"8, 'N'", "9, 'Y'", "10, 'N'"}, want: "0 1 0"},
	{name: "a partition of the column's name", columns: "id int PRIMARY KEY, v enum('N','Y') NOT NULL",
		options: "PARTITION BY RANGE (id) (PARTITION v VALUES LESS THAN (9), PARTITION w VALUES LESS THAN MAXVALUE)", rows: []string{"8, 'N'", "9, 'Y'"}, want: "0 1"},
	{name: "no rows", columns: "id int PRIMARY KEY, v enum('N','Y') NOT NULL"},
}

// TestBoolsOddTables takes each of them there, back and there again.
func TestBoolsOddTables(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		for _, c := range oddTables {
			t.Run(c.name, func(t *testing.T) {
				f := f.fresh(t)
				if c.column == "" {
					c.column = "v"
				}
				f.exec("CREATE TABLE t (" + c.columns + ") " + c.options)
				for _, row := range c.rows {
					f.exec("INSERT INTO t VALUES (" + strings.ReplaceAll(row, "?", "\\?") + ")")
				}
				create, sum := f.create("t"), f.checksum("t")
				p := f.plan(BoolSpec{Table: "t", Columns: []string{c.column}}, c.overrides...)
				f.must(p.Prepare, fill(p), verified(p), p.Swap, verified(p), p.Rollback)
				if got := f.create("t"); got != create || f.checksum("t") != sum {
					t.Errorf("expected the original\n%s\nmet\n%s", create, got)
				}
				f.must(p.Prepare, fill(p), p.Swap, p.Cleanup)
				if got := join(f.column("SELECT " + quoteName(c.column) + " FROM t ORDER BY 1 * " + f.key())); got != c.want {
					t.Errorf("expected %q, met %q", c.want, got)
				}
				f.nothingLeft()
			})
		}
	})
}

// key is t's primary key, quoted.
func (f *fixture) key() string {
	f.Helper()
	return quoteName(f.one("SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 't' AND COLUMN_KEY = 'PRI'"))
}

// TestBoolsBacktickObjects: what mentions a column of such a name is found.
func TestBoolsBacktickObjects(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		f.exec("CREATE TABLE t (id int PRIMARY KEY, `a``b` enum('N','Y') NOT NULL)")
		f.exec("CREATE TRIGGER own AFTER INSERT ON t FOR EACH ROW SET @seen = NEW.`a``b`")
		f.exec("CREATE VIEW yes AS SELECT id FROM t WHERE `a``b` = 'Y'")
		p := f.anyPlan(BoolSpec{Table: "t", Columns: []string{"a`b"}})
		f.refused(p, "trigger", "a`b")
		f.refused(p, "view", "a`b")
	})
}
