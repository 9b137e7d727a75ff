package migrate

import (
	"errors"
	"strings"
	"testing"
)

// TestSwapSeesLateChanges has somebody alter the old column between Prepare and
// Swap. The new column has no twin of that, so it would go with the old one: an
// index or a default without a word, a unique key by becoming another one.
func TestSwapSeesLateChanges(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		for _, c := range []struct{ name, ddl, undo string }{
			{"an index", "ADD INDEX late (active)", "DROP INDEX late"},
			{"a unique key", "ADD UNIQUE late (code, active)", "DROP INDEX late"},
			{"a default", "ALTER active SET DEFAULT 'Y'", "ALTER active SET DEFAULT 'N'"},
		} {
			f.exec("CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, code int, active enum('N','Y') NOT NULL DEFAULT 'N', KEY by_active (active))")
			f.exec("INSERT INTO t (code, active) VALUES (1, 'Y'), (1, 'N'), (2, 'Y')")
			p := f.plan(BoolSpec{Table: "t", Columns: []string{"active"}})
			f.must(p.Prepare)
			f.exec("ALTER TABLE t " + c.ddl)
			f.must(fill(p))
			if err := p.Swap(f.Context()); !errors.Is(err, ErrOutOfOrder) || !strings.Contains(err.Error(), "active`") {
				t.Errorf("%s: expected ErrOutOfOrder and what it is, met %v", c.name, err)
			}
			f.phase(p, PhasePrepared)
			f.exec("ALTER TABLE t " + c.undo)
			f.must(p.Swap, p.Cleanup)
			f.exec("DROP TABLE t")
		}
	})
}
