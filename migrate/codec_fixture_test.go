package migrate

import (
	"database/sql"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormflake/gormflake/internal/servers"
)

// codecKinds are the servers that the codec is tested on.
var codecKinds = []servers.Kind{servers.MariaDB, servers.MySQL57, servers.MySQL56}

// modes are the values of sql_mode that differ.
var modes = map[string]string{
	"strict": "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION",
	"loose":  "NO_ENGINE_SUBSTITUTION",
}

// bench is a database of the test's own, on one server in one mode.
type bench struct {
	*testing.T
	srv  *servers.Server
	kind servers.Kind
	mode string
	dsn  string
	sql  *sql.DB // without GORM
}

// onServers runs the test on every server.
func onServers(t *testing.T, test func(b *bench)) {
	t.Helper()
	servers.Each(t, codecKinds, func(t *testing.T, srv *servers.Server) { newBench(t, srv, "strict", test) })
}

// inModes runs the test on every server in both modes.
func inModes(t *testing.T, test func(b *bench)) {
	t.Helper()
	servers.Each(t, codecKinds, func(t *testing.T, srv *servers.Server) {
		for mode := range modes {
			t.Run(mode, func(t *testing.T) { newBench(t, srv, mode, test) })
		}
	})
}

func newBench(t *testing.T, srv *servers.Server, mode string, test func(b *bench)) {
	dsn := srv.Database(t) + "&sql_mode=" + url.QueryEscape("'"+modes[mode]+"'")
	test(&bench{T: t, srv: srv, kind: srv.Kind(), mode: mode, dsn: dsn, sql: srv.OpenSQL(t, dsn)})
}

// open opens the database with the codec. more is added to the data source name.
func (b *bench) open(codec *Bools, config *gorm.Config, more string) *gorm.DB {
	b.Helper()
	if config == nil {
		config = &gorm.Config{Logger: logger.Discard}
	}
	db := b.srv.OpenDSN(b.T, b.dsn+more, config)
	if codec != nil {
		if err := db.Use(codec); err != nil {
			b.Fatal(err)
		}
	}
	return db
}

// exec executes a statement without GORM.
func (b *bench) exec(statement string, args ...any) {
	b.Helper()
	if _, err := b.sql.Exec(statement, args...); err != nil {
		b.Fatalf("%s: %v", statement, err)
	}
}

// stored reads one text column without GORM; NULL is "NULL", bits are digits.
func (b *bench) stored(query string) string {
	b.Helper()
	rows, err := b.sql.Query(query)
	if err != nil {
		b.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var v sql.NullString
		if err := rows.Scan(&v); err != nil {
			b.Fatal(err)
		}
		switch {
		case !v.Valid:
			v.String = "NULL"
		case v.String == "\x00" || v.String == "\x01":
			v.String = string('0' + v.String[0])
		}
		all = append(all, v.String)
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	return strings.Join(all, " ")
}

// quiet takes the codec's own messages.
var quiet = slog.New(slog.DiscardHandler)

// silent is a logger that isn't logger.Discard, which GORM gives to subqueries.
var silent = logger.New(nil, logger.Config{LogLevel: logger.Silent})

// must fails the test if the statement failed.
func (b *bench) must(tx *gorm.DB) *gorm.DB {
	b.Helper()
	if tx.Error != nil {
		b.Fatal(tx.Error)
	}
	return tx
}

// form is a way to hold a boolean.
type form struct {
	name, column string
	yes, no      string // as stored
	codec        func(*Bools) *Bools
}

var forms = []form{
	{name: "enum N Y", column: "enum('N','Y')", yes: "Y", no: "N"},
	{name: "enum Y N", column: "enum('Y','N')", yes: "Y", no: "N"},
	{name: "enum y n", column: "enum('y','n')", yes: "y", no: "n"},
	{name: "enum 0 1", column: "enum('0','1')", yes: "1", no: "0"},
	{name: "enum 1 0", column: "enum('1','0')", yes: "1", no: "0"},
	{name: "enum false true", column: "enum('false','true')", yes: "true", no: "false"},
	{name: "enum mapped", column: "enum('off','on')", yes: "on", no: "off", codec: func(c *Bools) *Bools {
		return c.Mapping("orders", "active", "on", "off").Mapping("orders", "maybe", "on", "off")
	}},
	{name: "char", column: "char(1)", yes: "Y", no: "N"},
	{name: "varchar", column: "varchar(5)", yes: "Y", no: "N"},
	{name: "char mapped", column: "char(1)", yes: "J", no: "N", codec: func(c *Bools) *Bools {
		return c.Mapping("orders", "active", "J", "N").Mapping("orders", "maybe", "J", "N")
	}},
	{name: "bit", column: "bit(1)", yes: "1", no: "0"},
	{name: "tinyint 1", column: "tinyint(1)", yes: "1", no: "0"},
	{name: "tinyint 4", column: "tinyint(4)", yes: "1", no: "0"},
	{name: "boolean", column: "boolean", yes: "1", no: "0"},
}
