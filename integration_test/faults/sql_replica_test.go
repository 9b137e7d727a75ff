package faults

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/sqllease"
	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/internal/servers/proxy"
)

// replicated is a primary with an asynchronous replica behind a link that can
// be cut. Its fleet connects to a name, which leads to the primary until the
// replica is promoted.
type replicated struct {
	*sqlFleet
	primary *servers.Server
	replica *sql.DB      // the fleet's database there
	admin   *sql.DB      // the server
	addr    string       // of the replica
	link    *proxy.Proxy // from the primary to the replica
	name    *proxy.Proxy
}

func newReplicated(t *testing.T, kind servers.Kind) *replicated {
	var options []servers.Option
	if kind == servers.MariaDB {
		options = []servers.Option{servers.Setting("server-id", "1"), servers.Args("--log-bin=binlog")}
	}
	primary := servers.Private(t, kind, options...)
	r := &replicated{primary: primary, sqlFleet: newSQLFleet(t, primary), link: proxy.New(t, primary.Process().Addr())}
	switch kind {
	case servers.MariaDB:
		options = []servers.Option{servers.Setting("server-id", "2")}
	case servers.Postgres:
		options = []servers.Option{servers.StandbyOf(r.link.Addr())}
	}
	second := servers.Private(t, kind, options...)
	r.addr = second.Process().Addr()
	r.admin = second.OpenSQL(t, second.Process().DSN(""))
	database, _, _ := strings.Cut(r.dsn[strings.LastIndex(r.dsn, "/")+1:], "?")
	r.replica = second.OpenSQL(t, second.Process().DSN(database))
	if kind == servers.MariaDB {
		host, port, err := net.SplitHostPort(r.link.Addr())
		if err != nil {
			t.Fatal(err)
		}
		r.run(t, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='root', MASTER_PASSWORD='', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1", host, port))
		r.run(t, "START SLAVE")
	}
	r.name = through(t, r.sqlFleet)
	return r
}

// run runs a statement on the replica.
func (r *replicated) run(t *testing.T, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := r.admin.ExecContext(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// awaitArrival waits until the replica has as many of the namespace's rows as
// a condition selects.
func (r *replicated) awaitArrival(t *testing.T, table, condition string, want int) {
	t.Helper()
	query := "SELECT COUNT(*) FROM " + table + " WHERE namespace='faults' AND " + condition
	eventually(t, fmt.Sprintf("the replica has %d of %s where %s", want, table, condition), func() bool {
		var got int
		err := r.replica.QueryRowContext(t.Context(), query).Scan(&got)
		return err == nil && got == want
	})
}

// promote kills the primary and makes the replica the one that the name leads
// to.
func (r *replicated) promote(t *testing.T) {
	r.primary.Kill(t)
	if r.srv.Kind() == servers.Postgres {
		r.run(t, "SELECT pg_promote()")
	} else {
		r.run(t, "STOP SLAVE")
		r.run(t, "RESET SLAVE ALL")
	}
	r.name.Lead(r.addr)
	r.name.Reset()
}

// TestSQLReplicaPromoted promotes a replica that has not got the last writes,
// while the owners of the time before go on until their grants end. The fleet
// then has as many members as there are worker ids, so that each of them is
// used again. Newcomers notice another server, and wait.
func TestSQLReplicaPromoted(t *testing.T) {
	for _, kind := range sqlServers {
		for name, arrived := range map[string]bool{"without the leases": false, "with older rows": true} {
			t.Run(string(kind)+"/"+name, func(t *testing.T) {
				t.Parallel()
				replicaPromoted(t, newReplicated(t, kind), arrived)
			})
		}
	}
}

func replicaPromoted(t *testing.T, r *replicated, arrived bool) {
	options := []lease.Option{lease.Window(short), lease.Workers(0, 5)}
	if !arrived {
		r.begin(t)
	}
	members := r.join(3, options...)
	r.awaitIssue("the fleet starts", members...)
	if arrived {
		r.awaitArrival(t, "gormflake_leases", "owner<>''", 3)
		r.link.Stall()
		awaitExtends(t, members, 2)
	}
	r.awaitLosses(members, func() {
		r.promote(t)
		members = append(members, r.join(3, options...)...)
	})
	r.awaitIssue("the fleet recovers", members...)
	own := map[servers.Kind]string{
		servers.MariaDB:  "identity=@@server_uid",
		servers.Postgres: "identity LIKE '%/00000002'", // the second timeline
	}
	r.awaitArrival(t, "gormflake_leases_namespaces", own[r.srv.Kind()]+" AND identity_floor>0", 1)
	r.check()
	for _, err := range r.met() {
		if strings.Contains(err.Error(), "grants that a promoted server may lack") {
			return
		}
	}
	t.Error("no call was refused because of the promotion; want newcomers to wait, and to say why")
}

// begin begins the namespace, and cuts the link: the replica knows of it, and
// of nothing after that.
func (r *replicated) begin(t *testing.T) {
	t.Helper()
	g := open(t, r.config(r.store(lease.Window(short), lease.Workers(6, 6))))
	r.outsider("before the cut").draw(g, 10)
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitArrival(t, "gormflake_leases", "worker_id=6 AND owner=''", 1)
	r.link.Stall()
}

// TestSQLGuardIsNeeded repeats the promotion with the check of the identity
// turned off, until an id is given twice: the checks of this package do notice
// what it prevents.
func TestSQLGuardIsNeeded(t *testing.T) {
	for _, kind := range sqlServers {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := newReplicated(t, kind)
			options := []lease.Option{lease.Window(time.Hour), lease.Workers(0, 0), sqllease.WithGuard(0)}
			r.begin(t)
			first := r.join(1, options...)
			r.awaitIssue("the first starts", first...)
			r.promote(t)
			r.join(1, options...)
			eventually(t, "an id is given twice", func() bool {
				_, wrong := r.inspect()
				return len(wrong) > 0
			})
		})
	}
}
