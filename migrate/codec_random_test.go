package migrate

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAnalyseAnything puts words together at random: whatever comes out is analysed
// without a panic, keeps its placeholders, and no bool for a legacy column passes.
func TestAnalyseAnything(t *testing.T) {
	words := strings.Fields(`SELECT INSERT UPDATE DELETE REPLACE INTO FROM JOIN LEFT ON USING WHERE HAVING SET VALUES VALUE
		AND OR NOT IN IS EXISTS BETWEEN TRUE FALSE NULL AS WITH UNION ALL GROUP BY ORDER LIMIT RETURNING DUPLICATE KEY FOR
		orders users moving moved plain odd o t active paid flag vip state id name shop MAX COALESCE
		( ( ) ) , , . * = <> <=> ? ? ? ; + 1 'Y' ` + "`active` `orders`" + ` IGNORE DISTINCT CASE WHEN THEN END`)
	lookup := testTables(t)
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.SampledFrom([]string{"SELECT * FROM orders", "INSERT INTO orders ( active , name ) VALUES ( ? , ? )", "UPDATE orders SET active = ?", "DELETE FROM moving", "WITH c AS ( SELECT 1 )", "( SELECT active FROM users"}).Draw(t, "start")
		query := start + " " + strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 25).Draw(t, "words"), " ")
		p, err := analyse(query, false, false, everything, lookup)
		if err != nil {
			t.Fatal(err)
		}
		if p == nil {
			return
		}
		args := make([]any, strings.Count(query, "?"))
		for i := range args {
			args[i] = rapid.Bool().Draw(t, "arg")
		}
		for i := range p.outputs {
			p.origin(i, "active", len(p.outputs))
		}
		got, err := p.encode(query, args, func(e *UnprovenBoolError) error { return e })
		if err != nil {
			return
		}
		if strings.Count(got.sql, "?") != len(args) || len(got.args) != len(args) {
			t.Fatalf("%s\nbecame %s with %v", query, got.sql, got.args)
		}
		for i, s := range p.slots {
			if _, isBool := got.args[i].(bool); isBool && s.use != foreign && s.use != unproven && s.column.sees() {
				t.Fatalf("%s\nsends %v to %s", got.sql, got.args[i], s.column)
			}
		}
	})
}
