package migrate

import (
	"errors"
	"strings"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// refusals are statements over the tables of testTables, and what the error says was
// found; empty if the statement must pass.
var refusals = map[string]struct{ sql, found string }{
	"set to a condition":              {"UPDATE orders SET active = (id > ?)", "(id > ?)"},
	"set to a bare condition":         {"UPDATE orders SET name = 'a', active = id > 0, paid = 1 WHERE id = 1", "id > 0"},
	"set to IF of literals":           {"UPDATE orders SET active = IF(id > ?, TRUE, FALSE)", "IF(id > ?, TRUE, FALSE)"},
	"set to CASE of numbers":          {"UPDATE orders SET active = CASE WHEN id > 3 THEN 1 ELSE 'N' END", "CASE WHEN id > 3 THEN 1"},
	"set to COALESCE with a number":   {"UPDATE orders SET active = COALESCE(active, 0)", "COALESCE(active, 0)"},
	"set to NOT":                      {"UPDATE orders SET active = NOT active", "NOT active"},
	"set to a bang":                   {"UPDATE orders SET active = !active", "!active"},
	"set to a difference":             {"UPDATE orders SET active = 1 - active WHERE id = 3", "1 - active"},
	"set to a number in brackets":     {"UPDATE orders SET active = (1)", "(1)"},
	"set to a bracketed literal":      {"UPDATE orders SET active = (TRUE)", "(TRUE)"},
	"set to a negative":               {"UPDATE orders SET active = -1", "-1"},
	"set to a number's column":        {"UPDATE orders SET active = id", "id"},
	"set to an own comparison":        {"UPDATE orders SET active = (active = ?)", "(active = ?)"},
	"set to a function":               {"UPDATE orders SET active = ROUND(id)", "ROUND(id)"},
	"set to EXISTS":                   {"UPDATE orders SET active = EXISTS (SELECT 1 FROM plain)", "EXISTS"},
	"set to a subquery's condition":   {"UPDATE orders SET active = (SELECT COUNT(*) > 0 FROM plain)", "(SELECT COUNT(*) > 0"},
	"set to a subquery's literal":     {"UPDATE orders SET active = (SELECT 1)", "(SELECT 1)"},
	"set in a join":                   {"UPDATE users u JOIN orders o ON o.id = u.id SET u.name = 'x', o.active = u.id > 1", "u.id > 1"},
	"set of a text":                   {"UPDATE users SET active = id > 0", "id > 0"},
	"upsert to a condition":           {"INSERT INTO orders (id, active) VALUES (1, 'Y') ON DUPLICATE KEY UPDATE `active`=id > 0", "id > 0"},
	"upsert of another column":        {"INSERT INTO orders (id, active) VALUES (1, 'Y') ON DUPLICATE KEY UPDATE active = VALUES(paid)", "VALUES(paid)"},
	"upsert behind a select":          {"INSERT INTO orders (id) SELECT id FROM plain ON DUPLICATE KEY UPDATE active = orders.id > 0", "orders.id > 0"},
	"insert of a condition":           {"INSERT INTO orders (id, active) VALUES (1, 'Y'), (2, 3 > 2)", "3 > 2"},
	"insert of a difference":          {"INSERT INTO orders (active) VALUES (1 - ?)", "1 - ?"},
	"insert without a list":           {"INSERT INTO orders VALUES (1, 'a', 1 > 0, b'0', 1)", "1 > 0"},
	"insert set":                      {"INSERT INTO orders SET name = 'a', active = (1 = 1)", "(1 = 1)"},
	"replace of a condition":          {"REPLACE INTO orders (active) VALUES (1 = 1)", "1 = 1"},
	"insert select of a condition":    {"INSERT INTO orders (id, active) SELECT id, id > 3 AS a FROM plain", "id > 3"},
	"insert select of a number":       {"INSERT INTO orders (id, active) SELECT id, 1 FROM plain", "1"},
	"a long value":                    {"UPDATE orders SET active = CONCAT('" + strings.Repeat("é", 100) + "')", "..."},
	"set to its label":                {"UPDATE orders SET active = 'Y', paid = id > 0 WHERE id > 0", ""},
	"set to NULL":                     {"UPDATE orders SET active = NULL, name = 'x'", ""},
	"set to its default":              {"UPDATE orders SET active = DEFAULT, name = DEFAULT(name)", ""},
	"set to the default of":           {"UPDATE orders SET active = DEFAULT(active)", ""},
	"set to itself":                   {"UPDATE orders SET active = orders.active", ""},
	"set to a placeholder":            {"UPDATE orders SET active = (?) WHERE id = 1", ""},
	"set to IF of labels":             {"UPDATE orders SET active = IF(id > 0, 'Y', 'N')", ""},
	"set to IF of placeholders":       {"UPDATE orders SET active = IF(id > ?, ?, ?)", ""},
	"set to CASE of labels":           {"UPDATE orders SET active = CASE WHEN id > 3 THEN 'Y' WHEN id = 2 THEN CASE id WHEN 1 THEN NULL ELSE ? END ELSE active END", ""},
	"set to CASE on its label":        {"UPDATE orders SET active = CASE active WHEN 'Y' THEN 'N' ELSE 'Y' END", ""},
	"set to COALESCE":                 {"UPDATE orders SET active = COALESCE(NULL, ?, active, ('N'))", ""},
	"set to a like column":            {"UPDATE users u JOIN orders o ON o.id = u.id SET o.active = u.vip", ""},
	"set to a text's column":          {"UPDATE orders SET active = name", ""},
	"set to a subquery's column":      {"UPDATE orders SET active = (SELECT MAX(vip) AS v FROM users WHERE users.id = orders.id AND id > 3)", ""},
	"set to text of a character set":  {"UPDATE orders SET active = _utf8'Y' COLLATE utf8_general_ci", ""},
	"set of other columns":            {"UPDATE orders SET paid = id > 0, flag = NOT flag, name = CONCAT(name, 1), id = id + 1", ""},
	"upsert to its value":             {"INSERT INTO orders (id, active) VALUES (1, 'Y') ON DUPLICATE KEY UPDATE id = id + 1, active = VALUES(`active`)", ""},
	"upsert to a case":                {"INSERT INTO orders (id, active) VALUES (1, ?) ON DUPLICATE KEY UPDATE active = IF(id > 3, VALUES(active), active)", ""},
	"upsert to the row's alias":       {"INSERT INTO orders (id, active) VALUES (1, 'Y') AS new ON DUPLICATE KEY UPDATE active = new.active", ""},
	"upsert behind a select, itself":  {"INSERT INTO orders (id, active) SELECT id, vip FROM users ON DUPLICATE KEY UPDATE active = VALUES(active), id = orders.id", ""},
	"insert of labels":                {"INSERT INTO orders (id, active) VALUES (1 + 1, 'Y'), (2, NULL), (3, DEFAULT), (4, ?)", ""},
	"insert select of labels":         {"INSERT INTO orders (id, active) SELECT id, IF(id > 3, 'Y', 'N') a FROM plain", ""},
	"insert select of CASE":           {"INSERT INTO orders (id, active) SELECT id, CASE done WHEN 1 THEN 'Y' ELSE 'N' END FROM plain", ""},
	"condition of IF":                 {"SELECT COUNT(IF(active,1,NULL)) FROM orders", "a bare column as the condition of IF"},
	"condition of IF in WHERE":        {"SELECT id FROM orders WHERE IF(`orders`.`active`,1,0)=1", "a bare column as the condition of IF"},
	"condition of IF in brackets":     {"SELECT IF((active), 1, 0) FROM orders", "a bare column as the condition of IF"},
	"condition of a text":             {"SELECT IF(active, 1, 0) FROM users", "a bare column as the condition of IF"},
	"condition of CASE":               {"SELECT SUM(CASE WHEN active THEN 1 ELSE 0 END) FROM orders", "a bare column as the condition of CASE"},
	"condition of a later WHEN":       {"SELECT CASE WHEN id = 1 THEN 2 WHEN active THEN 1 END FROM orders", "a bare column as the condition of CASE"},
	"case of a literal":               {"SELECT CASE TRUE WHEN active THEN 1 END FROM orders", "a bare column as the condition of CASE"},
	"case of a column and a number":   {"SELECT COUNT(CASE active WHEN 1 THEN 1 END) FROM orders", "1"},
	"case of a column and a literal":  {"SELECT CASE active WHEN 'Y' THEN 1 WHEN FALSE THEN 0 END FROM orders", "FALSE"},
	"operand of AND":                  {"SELECT MAX(active AND id>0) FROM orders", "a bare column as a condition"},
	"right operand of AND":            {"SELECT MAX(id>0 AND active) FROM orders", "a bare column as a condition"},
	"operand of OR":                   {"SELECT COUNT(active OR NULL) FROM orders", "a bare column as a condition"},
	"operand of XOR":                  {"SELECT id FROM orders WHERE (paid XOR active) = 1", "a bare column"},
	"operand of pipes":                {"SELECT id FROM orders WHERE id > 3 || active", "a bare column as a condition"},
	"operand of NOT":                  {"SELECT NOT active AS off FROM orders", "a bare column as a condition"},
	"operand of a bang":               {"SELECT !active = id FROM orders", "a bare column as a condition"},
	"first operand in an assignment":  {"UPDATE orders SET id = active AND id > 0", "a bare column as a condition"},
	"operand in an assignment":        {"UPDATE orders SET paid = (id > 0 AND active)", "a bare column as a condition"},
	"condition in brackets":           {"SELECT id FROM orders WHERE (active)", "a bare column as a condition"},
	"condition of a join":             {"SELECT o.id FROM users u JOIN orders o ON (o.active) AND u.id = o.id", "a bare column as a condition"},
	"sum":                             {"SELECT SUM(active) FROM orders", "a bare column in a function of numbers"},
	"sum of distinct":                 {"SELECT AVG(DISTINCT (active)) FROM orders", "a bare column in a function of numbers"},
	"addition":                        {"SELECT active + 0 FROM orders", "a bare column in arithmetic"},
	"product":                         {"SELECT SUM(id * orders.active) FROM orders", "a bare column in arithmetic"},
	"modulo":                          {"SELECT id FROM orders WHERE active MOD 2 = 1", "a bare column in arithmetic"},
	"sign":                            {"SELECT id FROM orders ORDER BY -active", "a bare column in arithmetic"},
	"greater than a number":           {"SELECT id FROM orders WHERE active > 0", "0"},
	"number in an expression":         {"SELECT SUM(IF(active = 1, id, 0)) FROM orders", "1"},
	"number in a list":                {"SELECT id FROM orders WHERE active IN (1)", "1"},
	"between numbers":                 {"SELECT id FROM orders WHERE active NOT BETWEEN 0 AND 1", "0"},
	"equal to a condition":            {"SELECT id FROM orders WHERE active = (id > 3)", "id > 3"},
	"in a derived table":              {"SELECT n FROM (SELECT SUM(active) AS n FROM orders) t", "a bare column in a function of numbers"},
	"counted, ordered and grouped":    {"SELECT active, COUNT(active), COUNT(DISTINCT active), MAX(active), MIN(active) FROM orders GROUP BY active HAVING MAX(active) = 'Y' ORDER BY active DESC, id", ""},
	"compared with texts":             {"SELECT SUM(active = 'Y'), IF(active = 'Y', 1, 0), CASE WHEN active <> 'N' AND id > 3 THEN 1 END FROM orders WHERE NOT active = 'N' OR active IN ('Y', 'N') AND active LIKE 'Y'", ""},
	"compared with placeholders":      {"SELECT COUNT(IF(active = ?, 1, NULL)), SUM(CASE WHEN active IN (?) THEN 1 ELSE 0 END) FROM orders WHERE active = ? OR NOT active <> ?", ""},
	"case of a column and labels":     {"SELECT CASE active WHEN 'Y' THEN 1 WHEN 'N' THEN 0 END FROM orders", ""},
	"case of a column and a column":   {"SELECT CASE o.active WHEN u.vip THEN 1 END, CASE 'Y' WHEN o.active THEN 2 END FROM orders o JOIN users u ON u.id = o.id", ""},
	"null":                            {"SELECT active IS NULL AND id > 3, ISNULL(active), COALESCE(active, 'N'), IFNULL(active, 'N') FROM orders WHERE id > 3 AND active IS NOT NULL", ""},
	"between columns":                 {"SELECT id FROM orders WHERE 'N' BETWEEN 'A' AND active AND id > 3 OR active BETWEEN 'A' AND 'Z'", ""},
	"joined text":                     {"SELECT active || '!', CONCAT(active, '!') FROM orders", ""},
	"result of IF and CASE":           {"SELECT IF(id > 3, active, 'N'), CASE WHEN id > 3 THEN active ELSE active END FROM orders", ""},
	"within a list's subquery":        {"SELECT id FROM orders WHERE active IN (SELECT vip FROM users WHERE id = 1 + 2) AND (active, id) IN (SELECT vip, id FROM users WHERE id = 1)", ""},
	"equal columns and more":          {"SELECT o.id FROM orders o JOIN users u ON o.active = u.vip AND u.vip = o.active AND o.id > 3", ""},
	"renamed expression":              {"SELECT name, SUM(active = 'Y') AS active FROM orders GROUP BY name HAVING active > 3 ORDER BY -active", ""},
	"renamed, in WHERE":               {"SELECT SUM(active = 'Y') AS active FROM orders WHERE active > 3", "3"},
	"renamed otherwise":               {"SELECT SUM(active = 'Y') AS n, active FROM orders GROUP BY active HAVING active > 3", "3"},
	"star before":                     {"SELECT o.*, active FROM orders o", ""},
	"numbers of today's and of a bit": {"SELECT SUM(paid), SUM(flag), IF(paid, 1, 0), IF(flag, 1, 0), flag + paid, NOT flag, MAX(paid AND flag) FROM orders WHERE flag IN (1) AND CASE WHEN flag THEN paid END", ""},
	"text that nobody declared":       {"SELECT SUM(name), IF(name, 1, 0), name + 1 FROM orders WHERE active = 'Y' AND name > 0", ""},
}

func TestResolveRefusals(t *testing.T) {
	for name, tc := range refusals {
		t.Run(name, func(t *testing.T) {
			p, err := analyse(tc.sql, false, false, everything, testTables(t))
			if err != nil || p == nil {
				t.Fatal(p, err)
			}
			_, err = p.encode(tc.sql, nil, func(e *UnprovenBoolError) error { return e })
			var detail *UnprovenBoolError
			switch {
			case tc.found == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case tc.found == "":
			case !errors.As(err, &detail) || !strings.Contains(detail.Found, tc.found) || detail.Column != "active":
				t.Fatalf("encode: %v, expected ErrUnprovenBool for %q", err, tc.found)
			case len(detail.Found) > 80:
				t.Fatalf("a statement of any length is quoted: %q", detail.Found)
			}
		})
	}
}

// TestCodecTruthOfLabels: what GORM sends for expressions is refused before it
// reaches the server, in every form of column that has labels; the proven way round
// works; a warning lets MySQL have its way.
func TestCodecTruthOfLabels(t *testing.T) {
	onServers(t, func(b *bench) {
		for _, column := range []string{"enum('N','Y') NOT NULL", "char(1) NOT NULL", "varchar(5) NOT NULL"} {
			b.flags(column, "'N'", "'Y'")
			db := b.open(LegacyBools(&flag{}), nil, "")
			for name, send := range map[string]func(*gorm.DB) *gorm.DB{
				"update": func(db *gorm.DB) *gorm.DB { return db.Model(&flag{ID: 1}).Update("v", gorm.Expr("id > ?", 0)) },
				"update column": func(db *gorm.DB) *gorm.DB {
					return db.Model(&flag{ID: 1}).UpdateColumn("v", gorm.Expr("NOT v"))
				},
				"updates": func(db *gorm.DB) *gorm.DB {
					return db.Model(&flag{ID: 1}).Updates(map[string]any{"v": gorm.Expr("IF(id > ?, TRUE, FALSE)", 0)})
				},
				"create": func(db *gorm.DB) *gorm.DB {
					return db.Model(&flag{}).Create(map[string]any{"v": gorm.Expr("1 > ?", 0)})
				},
				"upsert": func(db *gorm.DB) *gorm.DB {
					return db.Clauses(clause.OnConflict{DoUpdates: clause.Assignments(map[string]any{"v": gorm.Expr("id > 0")})}).Create(&flag{ID: 1})
				},
				"exec": func(db *gorm.DB) *gorm.DB { return db.Exec("UPDATE flags SET v = (id > ?)", 0) },
				"raw": func(db *gorm.DB) *gorm.DB {
					return db.Raw("SELECT SUM(CASE WHEN v THEN 1 ELSE 0 END) FROM flags").Scan(new(int))
				},
				"select": func(db *gorm.DB) *gorm.DB {
					return db.Model(&flag{}).Select("COUNT(IF(v, 1, NULL))").Scan(new(int))
				},
				"pluck": func(db *gorm.DB) *gorm.DB { return db.Model(&flag{}).Pluck("SUM(v)", new([]int)) },
				"where": func(db *gorm.DB) *gorm.DB { return db.Where("IF(v, 1, 0) = ?", 1).Find(&[]flag{}) },
			} {
				if err := send(db.Session(&gorm.Session{})).Error; !errors.Is(err, ErrUnprovenBool) {
					b.Errorf("%s, %s: %v, expected ErrUnprovenBool", column, name, err)
				}
			}
			if got := b.stored("SELECT v FROM flags ORDER BY id"); got != "N Y" {
				b.Fatalf("%s: a refused statement left %q", column, got)
			}
			is := func(v bool) any { return Param(db, &flag{}, "v", v) }
			b.must(db.Model(&flag{}).Where("id > 0").Update("v", gorm.Expr("IF(id > ?, ?, ?)", 1, is(false), is(true))))
			b.must(db.Clauses(clause.OnConflict{DoUpdates: clause.AssignmentColumns([]string{"v"})}).Create(&flag{ID: 2, V: true}))
			if got := b.stored("SELECT v FROM flags ORDER BY id"); got != "Y Y" {
				b.Fatalf("%s: proven values stored %q", column, got)
			}
			var n int
			b.must(db.Model(&flag{}).Select("SUM(CASE WHEN v = ? THEN 1 ELSE 0 END)", true).Scan(&n))
			if n != 2 {
				b.Errorf("%s: a proven condition counts %d, expected 2", column, n)
			}
			warned := b.open(LegacyBools(&flag{}).WarnOnRaw().Logger(quiet), nil, "")
			b.must(warned.Model(&flag{}).Select("COUNT(IF(v, 1, NULL))").Scan(&n))
			b.must(warned.Model(&flag{ID: 1}).Update("v", gorm.Expr("id > ?", 0)))
		}
		// MySQL is right about today's form and about bits.
		for _, column := range []string{"tinyint(1) NOT NULL", "bit(1) NOT NULL"} {
			b.flags(column, "0", "1")
			db := b.open(LegacyBools(&flag{}), nil, "")
			b.must(db.Model(&flag{}).Where("id > 0").Update("v", gorm.Expr("id < ?", 2)))
			var n int
			b.must(db.Model(&flag{}).Select("COUNT(IF(v, 1, NULL)) + SUM(v)").Scan(&n))
			if got := b.stored("SELECT v FROM flags ORDER BY id"); got != "1 0" || n != 2 {
				b.Errorf("%s: stored %q, counted %d", column, got, n)
			}
		}
	})
}

// TestResolveFragments: no broken statement makes the codec panic.
func TestResolveFragments(t *testing.T) {
	lookup := testTables(t)
	for name, tc := range refusals {
		tokens, _ := tokenize(tc.sql, false, false)
		for i, tok := range tokens {
			for _, broken := range []string{tc.sql[:tok.start], tc.sql[:tok.end] + ")", tc.sql[:tok.start] + tc.sql[tok.end:], tc.sql[:tok.start] + "(" + tc.sql[tok.start:]} {
				p, err := analyse(broken, false, false, everything, lookup)
				if err != nil {
					t.Fatalf("%s, token %d: %v", name, i, err)
				}
				if p == nil {
					continue
				}
				if _, err := p.encode(broken, nil, func(*UnprovenBoolError) error { return nil }); err != nil {
					t.Fatalf("%s, token %d: %v", name, i, err)
				}
			}
		}
	}
}
