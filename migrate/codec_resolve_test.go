package migrate

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testTables are orders (active enum('N','Y'), flag bit(1), paid tinyint(1)),
// users (active char(1), vip enum('Y','N')) and moving, whose column active is in
// the middle of a migration from enum('N','Y') to tinyint.
func testTables(t testing.TB) lookupFunc {
	t.Helper()
	b := LegacyBools()
	b.declare("users", "active", declaration{})
	b.declare("odd", "state", declaration{})
	c := newCatalog(b)
	c.database = "shop"
	raw := map[string][]rawColumn{
		"orders": {{"id", "bigint", "bigint(20)"}, {"name", "varchar", "varchar(20)"}, {"active", "enum", "enum('N','Y')"}, {"flag", "bit", "bit(1)"}, {"paid", "tinyint", "tinyint(1)"}},
		"users":  {{"id", "bigint", "bigint(20)"}, {"active", "char", "char(1)"}, {"vip", "enum", "enum('Y','N')"}},
		"moving": {{"id", "bigint", "bigint(20)"}, {"active", "enum", "enum('N','Y')"}, {"active__gf", "tinyint", "tinyint(1)"}},
		"moved":  {{"id", "bigint", "bigint(20)"}, {"active", "tinyint", "tinyint(1)"}, {"active__gf", "enum", "enum('N','Y')"}},
		"odd":    {{"id", "bigint", "bigint(20)"}, {"state", "enum", "enum('off','on')"}},
		"plain":  {{"id", "bigint", "bigint(20)"}, {"done", "tinyint", "tinyint(1)"}},
	}
	return func(database, name string) (*table, error) {
		if database == "" {
			database = "shop"
		}
		if r, ok := raw[strings.ToLower(name)]; ok && strings.EqualFold(database, "shop") {
			return c.build(database, name, r, testTime), nil
		}
		return nil, nil
	}
}

func everything([]tableRef) bool { return true }

// TestEncode gives statements whose every argument is the bool true.
func TestEncode(t *testing.T) {
	const guarded = " AND active <> '0')"
	for name, tc := range map[string]struct {
		sql  string
		args []any  // nil: as many trues as placeholders
		want []any  // nil: an error
		text string // empty: unchanged
		bad  string // part of the error's text
	}{
		"insert":                {sql: "INSERT INTO `orders` (`name`,`active`,`paid`) VALUES (?,?,?)", args: []any{"a", true, true}, want: []any{"a", "Y", true}},
		"insert batch":          {sql: "INSERT INTO orders (active,flag) VALUES (?,?),(?,?)", args: []any{true, false, false, true}, want: []any{"Y", int64(0), "N", int64(1)}},
		"insert default":        {sql: "INSERT INTO orders (id,active) VALUES (DEFAULT,?)", want: []any{"Y"}},
		"insert function":       {sql: "INSERT INTO orders (name,active) VALUES (CONCAT(?,'x'),?)", args: []any{"a", true}, want: []any{"a", "Y"}},
		"insert expression":     {sql: "INSERT INTO orders (name,active) VALUES ('a',IFNULL(?,'N'))", bad: "neither compared"},
		"insert without list":   {sql: "INSERT INTO orders VALUES (1,'a',?,b'0',1)", bad: "no list of columns"},
		"insert set":            {sql: "INSERT INTO orders SET name='a', active=?", want: []any{"Y"}},
		"upsert":                {sql: "INSERT INTO orders (id,active) VALUES (?,?) ON DUPLICATE KEY UPDATE active=?, name=VALUES(name)", args: []any{1, true, false}, want: []any{1, "Y", "N"}},
		"replace":               {sql: "REPLACE INTO shop.orders (active) VALUES (?)", want: []any{"Y"}},
		"insert select":         {sql: "INSERT INTO orders (active) SELECT active FROM users WHERE active = ?", want: []any{"Y"}, text: "INSERT INTO orders (active) SELECT active FROM users WHERE (active = ?" + guarded},
		"update":                {sql: "UPDATE `orders` SET `active`=?,`name`=? WHERE `id` = ?", args: []any{true, "n", 1}, want: []any{"Y", "n", 1}},
		"update alias":          {sql: "UPDATE orders AS o JOIN users u ON u.id = o.id SET o.active = ?, u.vip = ? WHERE u.active = ?", args: []any{true, false, false}, want: []any{"Y", "N", "N"}},
		"update expression":     {sql: "UPDATE orders SET active = COALESCE(?, active)", bad: "bind migrate.Param"},
		"update case":           {sql: "UPDATE orders SET active = CASE id WHEN 1 THEN ? END", bad: "neither compared"},
		"equal":                 {sql: "SELECT * FROM orders WHERE active = ?", want: []any{"Y"}, text: "SELECT * FROM orders WHERE (active = ?" + guarded},
		"equal false":           {sql: "SELECT * FROM orders WHERE active = ?", args: []any{false}, want: []any{"N"}},
		"unequal":               {sql: "SELECT * FROM orders WHERE active <> ?", want: []any{"Y"}, text: "SELECT * FROM orders WHERE (active <> ? AND active <> '1.0')"},
		"unequal by bang":       {sql: "SELECT * FROM orders WHERE active != ?", args: []any{false}, want: []any{"N"}},
		"null safe":             {sql: "SELECT * FROM orders WHERE active <=> ?", args: []any{false}, want: []any{"N"}},
		"not":                   {sql: "SELECT * FROM orders WHERE NOT active = ?", want: []any{"Y"}, text: "SELECT * FROM orders WHERE NOT (active = ? OR active = '1.0')"},
		"not around":            {sql: "DELETE FROM orders WHERE NOT (id > 3 AND active <> ?)", want: []any{"Y"}, text: "DELETE FROM orders WHERE NOT (id > 3 AND (active <> ? OR active = '0'))"},
		"flipped":               {sql: "SELECT * FROM orders WHERE ? = active", args: []any{false}, want: []any{"N"}},
		"in":                    {sql: "SELECT * FROM orders WHERE active IN (?,?) AND id IN (?)", args: []any{true, false, 1}, want: []any{"Y", "N", 1}},
		"in one":                {sql: "SELECT * FROM orders WHERE `orders`.`active` IN (?)", want: []any{"Y"}, text: "SELECT * FROM orders WHERE (`orders`.`active` IN (?) AND `orders`.`active` <> '0')"},
		"not in":                {sql: "SELECT * FROM orders WHERE active NOT IN (?)", args: []any{false}, want: []any{"N"}},
		"quoted":                {sql: "SELECT * FROM `orders` WHERE `orders`.`active` = ?", args: []any{false}, want: []any{"N"}},
		"database":              {sql: "SELECT * FROM `shop`.`orders` WHERE `shop`.`orders`.`active` = ?", args: []any{false}, want: []any{"N"}},
		"other database":        {sql: "SELECT * FROM other.orders WHERE active = ?", want: []any{true}},
		"alias":                 {sql: "SELECT * FROM orders o, users AS u WHERE o.active = ? AND u.active = ?", args: []any{false, false}, want: []any{"N", "N"}},
		"two tables":            {sql: "SELECT * FROM orders JOIN plain ON plain.id = orders.id AND plain.done = ? WHERE active = ?", args: []any{true, false}, want: []any{true, "N"}},
		"bit":                   {sql: "SELECT * FROM orders WHERE flag = ?", want: []any{int64(1)}},
		"tinyint":               {sql: "SELECT * FROM orders WHERE paid = ?", want: []any{true}},
		"no boolean in sight":   {sql: "SELECT IF(?, 1, 2) FROM orders", want: []any{true}},
		"plain table":           {sql: "UPDATE plain SET done = ? WHERE IF(?, 1, 0)", want: []any{true, true}},
		"subquery":              {sql: "SELECT * FROM users WHERE id IN (SELECT id FROM orders WHERE active = ? AND users.vip = ?)", args: []any{false, false}, want: []any{"N", "N"}},
		"not exists":            {sql: "SELECT * FROM users WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.active = ?)", want: []any{"Y"}, text: "SELECT * FROM users WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE (o.active = ? OR o.active = '1.0'))"},
		"derived":               {sql: "SELECT * FROM (SELECT active FROM orders WHERE active = ?) AS t WHERE t.active = ?", bad: "table isn't known"},
		"derived inside":        {sql: "SELECT * FROM (SELECT id FROM orders WHERE active = ?) AS t WHERE t.id > 3", args: []any{false}, want: []any{"N"}},
		"common table":          {sql: "WITH orders AS (SELECT 1 AS active) SELECT * FROM orders WHERE active = ?", want: []any{true}},
		"common table's body":   {sql: "WITH c AS (SELECT id FROM orders WHERE active = ?) SELECT * FROM c", args: []any{false}, want: []any{"N"}},
		"union":                 {sql: "SELECT id FROM orders WHERE active = ? UNION ALL SELECT id FROM users WHERE vip = ?", args: []any{false, false}, want: []any{"N", "N"}},
		"having":                {sql: "SELECT active, COUNT(*) FROM orders GROUP BY active HAVING active = ?", args: []any{false}, want: []any{"N"}},
		"join on":               {sql: "SELECT * FROM users u LEFT JOIN orders o ON o.id = u.id AND o.active = ? WHERE u.id = 1", args: []any{false}, want: []any{"N"}},
		"case when":             {sql: "SELECT SUM(CASE WHEN active = ? THEN 1 ELSE 0 END) FROM orders", args: []any{false}, want: []any{"N"}},
		"between":               {sql: "SELECT * FROM orders WHERE id BETWEEN 1 AND active = ?", bad: "longer expression"},
		"and after between":     {sql: "SELECT * FROM orders WHERE id BETWEEN 1 AND 2 AND active = ?", args: []any{false}, want: []any{"N"}},
		"coalesce":              {sql: "SELECT * FROM orders WHERE COALESCE(active, ?) = 'Y'", bad: "placeholder 1"},
		"sum":                   {sql: "SELECT * FROM orders WHERE id + active = ?", bad: "longer expression"},
		"selected":              {sql: "SELECT ?, active FROM orders", bad: "neither compared"},
		"mere comment":          {sql: "SELECT * FROM orders /* active = ? */ WHERE active = ? -- ?\n", args: []any{false}, want: []any{"N"}},
		"placeholder in text":   {sql: "SELECT * FROM orders WHERE name = 'who?' AND active = ?", args: []any{false}, want: []any{"N"}},
		"escaped text":          {sql: `SELECT * FROM orders WHERE name = 'it\'s ?' AND active = ?`, args: []any{false}, want: []any{"N"}},
		"for update":            {sql: "SELECT * FROM orders WHERE active = ? LIMIT 1 FOR UPDATE", args: []any{false}, want: []any{"N"}},
		"index hint":            {sql: "SELECT * FROM orders USE INDEX (a, b) WHERE active = ? ORDER BY id LIMIT ?", args: []any{false, 3}, want: []any{"N", 3}},
		"labels pass":           {sql: "SELECT * FROM orders WHERE active = ? OR COALESCE(active, ?) = 1", args: []any{"Y", "N"}, want: []any{"Y", "N"}},
		"text by nobody":        {sql: "UPDATE orders SET name = ? WHERE name = ? AND id = 1", args: []any{true, "x"}, want: []any{"Y", "x"}},
		"text in a list":        {sql: "INSERT INTO orders (name) VALUES (?)", args: []any{false}, want: []any{"N"}},
		"alias of an aggregate": {sql: "SELECT MAX(active) AS m FROM orders GROUP BY id HAVING m = ?", bad: "table isn't known"},
		"renamed in a derived":  {sql: "SELECT * FROM (SELECT active AS a FROM orders) AS t WHERE t.a = ?", bad: "table isn't known"},
		"compared across forms": {sql: "SELECT * FROM orders o JOIN plain p ON p.done = o.active", bad: "column "},
		"compared alike":        {sql: "SELECT * FROM orders o JOIN users u ON u.active = o.active AND u.vip = o.active AND o.paid = o.flag", want: []any{}},
		"set across forms":      {sql: "UPDATE moving SET active__gf = active", bad: "column "},
		"copied across forms":   {sql: "INSERT INTO plain (id, done) SELECT id, active FROM orders", bad: "column active"},
		"copied alike":          {sql: "INSERT INTO orders (id, active) SELECT id, vip FROM users", want: []any{}},
		"several statements":    {sql: "UPDATE orders SET active = ?; UPDATE users SET active = ?", bad: "several statements"},
		"a last semicolon":      {sql: "UPDATE orders SET active = ?;", want: []any{"Y"}},
		"unmapped enum":         {sql: "UPDATE odd SET state = ?", bad: "declare its labels"},
		"null":                  {sql: "UPDATE orders SET active = ?", args: []any{nil}, want: []any{nil}},
		"ddl":                   {sql: "ALTER TABLE orders ADD KEY (active)", args: []any{true}, want: []any{true}},
		"moving, true":          {sql: "SELECT * FROM moving WHERE active = ?", want: []any{"Y"}, text: "SELECT * FROM moving WHERE (active IN (?, '1.0') AND active <> '0')"},
		"moving, false":         {sql: "SELECT * FROM moving WHERE active = ?", args: []any{false}, want: []any{"N"}, text: "SELECT * FROM moving WHERE (active IN (?, '0.0'))"},
		"moving, unequal":       {sql: "SELECT * FROM moving WHERE active <> ?", want: []any{"Y"}, text: "SELECT * FROM moving WHERE (NOT (active IN (?, '1.0') AND active <> '0'))"},
		"moving, in both":       {sql: "SELECT * FROM moving WHERE active IN (?,?)", args: []any{true, false}, want: []any{"Y", "N"}, text: "SELECT * FROM moving WHERE (active IN (?,?, '1.0', '0.0'))"},
		"moving, null safe":     {sql: "SELECT * FROM moving WHERE active <=> ?", args: []any{false}, want: []any{"N"}, text: "SELECT * FROM moving WHERE ((active IN (?, '0.0')) IS TRUE)"},
		"moved, true":           {sql: "SELECT * FROM moved WHERE active = ?", want: []any{"1.0"}, text: "SELECT * FROM moved WHERE (active IN (?, 'Y') AND active <> '0')"},
		"moving, delete":        {sql: "DELETE FROM moving WHERE active = ?", want: []any{"Y"}, text: "DELETE FROM moving WHERE (active = ? AND active <> '0')"},
		"moving, delete false":  {sql: "DELETE FROM moving WHERE active = ?", args: []any{false}, want: []any{"N"}},
		"moved, delete":         {sql: "DELETE FROM moved WHERE active = ?", want: []any{"1.0"}},
		"moved, delete unequal": {sql: "DELETE FROM moved WHERE active <> ?", want: []any{"1.0"}, text: "DELETE FROM moved WHERE (active <> ? AND active < '999')"},
		"moved, delete not":     {sql: "DELETE FROM moved WHERE NOT active = ?", args: []any{false}, want: []any{"0.0"}, text: "DELETE FROM moved WHERE NOT (active = ? OR (active > '999') IS TRUE)"},
		"moved, insert":         {sql: "INSERT INTO moved (active) VALUES (?)", want: []any{"1.0"}},
		"literal TRUE":          {sql: "SELECT * FROM orders WHERE active = TRUE", bad: "TRUE in a statement"},
		"literal 1":             {sql: "SELECT * FROM orders WHERE 1 = active", bad: "1 in a statement"},
		"literal in SET":        {sql: "UPDATE orders SET active = 1", bad: "1 in a statement"},
		"literal in VALUES":     {sql: "INSERT INTO orders (name, active) VALUES ('a', FALSE)", bad: "FALSE in a statement"},
		"is true":               {sql: "SELECT * FROM orders WHERE active IS NOT TRUE", bad: "IS TRUE"},
		"is null":               {sql: "SELECT * FROM orders WHERE active IS NULL", want: []any{}},
		"bare":                  {sql: "SELECT * FROM orders WHERE id > 1 AND active", bad: "a bare column"},
		"bare not":              {sql: "SELECT * FROM orders WHERE NOT orders.active ORDER BY id", bad: "a bare column"},
		"bare of today":         {sql: "SELECT * FROM orders WHERE paid AND paid = 1 AND paid IS TRUE", want: []any{}},
		"literal of a bit":      {sql: "SELECT * FROM orders WHERE flag = TRUE AND flag", want: []any{}},
		"label literal":         {sql: "SELECT * FROM orders WHERE active = 'Y' AND id = 1", want: []any{}},
		"ordered and grouped":   {sql: "SELECT active, MAX(id) FROM orders GROUP BY active ORDER BY active, id", want: []any{}},
		"between and a column":  {sql: "SELECT * FROM orders WHERE 'N' BETWEEN 'A' AND active", want: []any{}},
		"version comment":       {sql: "SELECT /*!40001 SQL_NO_CACHE */ * FROM orders WHERE active = ?", args: []any{false}, want: []any{"N"}},
		"parenthesised joins":   {sql: "SELECT * FROM (orders o JOIN users u ON u.id = o.id) WHERE o.active = ?", args: []any{false}, want: []any{"N"}},
		"delete with join":      {sql: "DELETE o FROM orders o JOIN users u ON u.id = o.id WHERE u.active = ?", args: []any{false}, want: []any{"N"}},
		"bracketed select":      {sql: "(SELECT id FROM orders WHERE active = ?)", args: []any{false}, want: []any{"N"}},
		"row constructor":       {sql: "SELECT * FROM orders WHERE (id, active) IN ((?,?))", args: []any{1, true}, bad: "placeholder 2"},
		"comparison as a value": {sql: "UPDATE orders SET paid = (active = ?)", args: []any{false}, want: []any{"N"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := analyse(tc.sql, false, false, everything, testTables(t))
			if err != nil {
				t.Fatal(err)
			}
			if p == nil {
				p = &plan{}
			}
			args := tc.args
			if args == nil {
				args = []any{}
				for range p.slots {
					args = append(args, true)
				}
				for range strings.Count(tc.sql, "?") - len(p.slots) {
					args = append(args, true)
				}
			}
			got, err := p.encode(tc.sql, args, func(e *UnprovenBoolError) error { return e })
			if tc.want == nil {
				if err == nil || !strings.Contains(err.Error(), tc.bad) || !errors.Is(err, ErrUnprovenBool) && !errors.Is(err, ErrNotBoolean) {
					t.Fatalf("encode = %q %v, %v; want an error with %q", got.sql, got.args, err, tc.bad)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text := tc.text
			if text == "" {
				text = tc.sql
			}
			if d := cmp.Diff(tc.want, got.args); d != "" || got.sql != text {
				t.Fatalf("arguments (-want +got):\n%s\nstatement\n got %s\nwant %s", d, got.sql, text)
			}
		})
	}
}

func TestOutputs(t *testing.T) {
	for name, tc := range map[string]struct {
		sql     string
		columns []string // of the result
		want    []string // the column that each comes from; "?" for one of several, "" for none
	}{
		"star":        {"SELECT * FROM orders", []string{"id", "name", "active"}, []string{"", "", "?shop.orders.active"}},
		"columns":     {"SELECT id, `active` FROM `orders`", []string{"id", "active"}, []string{"", "shop.orders.active"}},
		"alias":       {"SELECT o.active AS a, u.active b FROM orders o JOIN users u ON u.id = o.id", []string{"a", "b"}, []string{"shop.orders.active", "shop.users.active"}},
		"distinct":    {"SELECT DISTINCT active FROM orders", []string{"active"}, []string{"shop.orders.active"}},
		"expression":  {"SELECT MAX(active) AS active, COUNT(*) FROM orders", []string{"active", "COUNT(*)"}, []string{"shop.orders.active", ""}},
		"renamed":     {"SELECT name AS active FROM orders", []string{"active"}, []string{""}},
		"joined":      {"SELECT `users`.`id`,`Order`.`active` AS `Order__active` FROM `users` LEFT JOIN `orders` `Order` ON 1=1", []string{"id", "Order__active"}, []string{"", "shop.orders.active"}},
		"returning":   {"INSERT INTO orders (active) VALUES ('Y') RETURNING id, active", []string{"id", "active"}, []string{"", "shop.orders.active"}},
		"derived":     {"SELECT t.active FROM (SELECT active FROM orders) t", []string{"active"}, []string{"?shop.orders.active"}},
		"star and as": {"SELECT orders.*, u.vip AS v FROM orders JOIN users u ON u.id = orders.id", []string{"id", "active", "v"}, []string{"", "?shop.orders.active?shop.users.active", "?shop.users.vip"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := analyse(tc.sql, false, false, everything, testTables(t))
			if err != nil || p == nil {
				t.Fatal(p, err)
			}
			var got []string
			for i, column := range tc.columns {
				exact, candidates := p.origin(i, column, len(tc.columns))
				text := ""
				for _, c := range exact {
					text += c.String()
				}
				for _, c := range candidates {
					text += "?" + c.String()
				}
				got = append(got, text)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Fatal(d)
			}
		})
	}
}

func TestTokenize(t *testing.T) {
	for name, tc := range map[string]struct {
		sql         string
		ansi, plain bool
		want        []string
		ok          bool
	}{
		"words":           {"a.b=`c``d`", false, false, []string{"a", ".", "b", "=", "`c``d`"}, true},
		"numbers":         {"1.5e-3,.5,0x1F,b'1',t.5", false, false, []string{"1.5e-3", ",", ".5", ",", "0x1F", ",", "b'1'", ",", "t", ".", "5"}, true},
		"operators":       {"a<=>b<>c!=d:=e", false, false, []string{"a", "<=>", "b", "<>", "c", "!=", "d", ":=", "e"}, true},
		"strings":         {`'a''b' "c\"d" N'e'`, false, false, []string{"'a''b'", `"c\"d"`, "N'e'"}, true},
		"ansi quotes":     {`"a""b" = 1`, true, false, []string{`"a""b"`, "=", "1"}, true},
		"no backslash":    {`'a\' ?`, false, true, []string{`'a\'`, "?"}, true},
		"comments":        {"a -- b\nc # d\ne /* f */ g", false, false, []string{"a", "c", "e", "g"}, true},
		"double minus":    {"1--1", false, false, []string{"1", "-", "-", "1"}, true},
		"version comment": {"a /*!50000 b */ c", false, false, []string{"a", "b", "c"}, true},
		"open string":     {"a 'b", false, false, []string{"a"}, false},
		"open comment":    {"a /* b", false, false, []string{"a"}, false},
		"variable":        {"@a := @@b", false, false, []string{"@a", ":=", "@@b"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			tokens, ok := tokenize(tc.sql, tc.ansi, tc.plain)
			var got []string
			for _, tok := range tokens {
				got = append(got, tc.sql[tok.start:tok.end])
			}
			if d := cmp.Diff(tc.want, got); d != "" || ok != tc.ok {
				t.Fatalf("%s ok = %v, want %v", d, ok, tc.ok)
			}
		})
	}
}
