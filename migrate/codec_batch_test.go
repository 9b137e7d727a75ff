package migrate

import (
	"strings"
	"testing"
)

// BenchmarkEncodeBatch is an INSERT of 1,000 rows with 3 booleans each, which isn't
// kept in the cache of plans.
func BenchmarkEncodeBatch(b *testing.B) {
	query := "INSERT INTO `orders` (`name`,`active`,`flag`,`paid`) VALUES " + strings.Repeat("(?,?,?,?),", 999) + "(?,?,?,?)"
	args := make([]any, 0, 4000)
	for i := range 1000 {
		args = append(args, "a", i%2 == 0, i%3 == 0, true)
	}
	lookup := testTables(b)
	b.ReportAllocs()
	for b.Loop() {
		p, err := analyse(query, false, false, everything, lookup)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.encode(query, args, nil); err != nil {
			b.Fatal(err)
		}
	}
}
