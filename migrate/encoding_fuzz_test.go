package migrate

import (
	"strings"
	"testing"
)

// FuzzEncoding reads any column type and any stored value: what Value writes is
// read back as it was, a label is decoded only as what it means, and nothing
// panics.
func FuzzEncoding(f *testing.F) {
	for _, seed := range [][3]string{
		{"enum", "enum('N','Y')", "Y"}, {"enum", "enum('Y','N')", "n"}, {"enum", "enum('0','1')", "1"},
		{"enum", "enum('it''s',',')", ","}, {"enum", "enum('", ""}, {"char", "char(1)", "y"},
		{"varchar", "varchar(5)", ""}, {"bit", "bit(1)", "\x01"}, {"enum", "enum('N','Y')", "\x00"}, {"enum", "enum('N','Y')", "y  "}, {"tinyint", "tinyint(1) unsigned", "2"},
		{"tinyint", "tinyint(4)", "-1"}, {"int", "int(11)", "1"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, dataType, columnType, stored string) {
		_, _ = EnumLabels(columnType)
		e, ok := ParseColumn(dataType, columnType)
		if !ok {
			return
		}
		for _, want := range []bool{false, true} {
			got, null, err := e.Decode(e.Value(want))
			if err != nil || null || got != want {
				t.Errorf("%+v: %v is written as %v and read as %v, %v, %v", e, want, e.Value(want), got, null, err)
			}
		}
		got, null, err := e.Decode([]byte(stored))
		// Decode takes a label in any case and with trailing blanks, and a bit's
		// byte whatever the column, for reads just after it changed.
		bit := map[bool]string{false: "\x00", true: "\x01"}[got]
		label := stored == e.Label(got) || strings.EqualFold(strings.TrimRight(stored, " "), e.Label(got))
		if err == nil && (e.Kind == Enum || e.Kind == Char) && (null || !label && stored != bit) {
			t.Errorf("%+v: %q is read as %v, %v", e, stored, got, null)
		}
		fromString, _, stringErr := e.Decode(stored)
		if (err == nil) != (stringErr == nil) || got != fromString {
			t.Errorf("%+v: bytes are read as %v, %v and a string as %v, %v", e, got, err, fromString, stringErr)
		}
	})
}

// FuzzAnalyse analyses any text as a statement, without a panic.
func FuzzAnalyse(f *testing.F) {
	for _, seed := range []string{
		"SELECT * FROM orders WHERE active = ?", "INSERT INTO orders (active) VALUES (?), (?)", "UPDATE orders SET active = NOT active",
		"SELECT '", "/*", "-- x\n?", "`", "((((((", "SELECT ? FROM (SELECT active FROM orders) AS o", "\x00\xff",
	} {
		f.Add(seed, false, false)
	}
	f.Fuzz(func(t *testing.T, query string, ansiQuotes, noBackslash bool) {
		p, err := analyse(query, ansiQuotes, noBackslash, everything, testTables(t))
		if err != nil || p == nil {
			return
		}
		for i := range p.outputs {
			p.origin(i, "active", len(p.outputs))
		}
	})
}
