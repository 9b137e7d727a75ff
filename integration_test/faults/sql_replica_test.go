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

// replicated is a MariaDB primary with an asynchronous replica behind a link
// that can be cut. Its fleet connects to a name, which leads to the primary
// until the replica is promoted.
type replicated struct {
	*sqlFleet
	primary *servers.Server
	replica *sql.DB
	addr    string       // of the replica
	link    *proxy.Proxy // from the primary to the replica
	name    *proxy.Proxy
}

func newReplicated(t *testing.T) *replicated {
	primary := servers.Private(t, servers.MariaDB, servers.Setting("server-id", "1"), servers.Args("--log-bin=binlog"))
	second := servers.Private(t, servers.MariaDB, servers.Setting("server-id", "2"))
	r := &replicated{primary: primary, addr: second.Process().Addr()}
	r.link = proxy.New(t, primary.Process().Addr())
	host, port, err := net.SplitHostPort(r.link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	r.replica = second.OpenSQL(t, second.Process().DSN(""))
	r.run(t, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='root', MASTER_PASSWORD='', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1", host, port))
	r.run(t, "START SLAVE")
	r.sqlFleet = newSQLFleet(t, primary)
	r.name = through(t, r.sqlFleet)
	return r
}

func (r *replicated) run(t *testing.T, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := r.replica.ExecContext(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// awaitArrival waits until the replica has as many of the namespace's rows as
// a condition selects.
func (r *replicated) awaitArrival(t *testing.T, table, condition string, want int) {
	t.Helper()
	config := strings.Split(r.dsn, "/")
	database, _, _ := strings.Cut(config[len(config)-1], "?")
	query := "SELECT COUNT(*) FROM " + database + "." + table + " WHERE namespace='faults' AND " + condition
	var got int
	var err error
	eventually(t, "the replica has got the rows", func() bool {
		err = r.replica.QueryRowContext(t.Context(), query).Scan(&got)
		return err == nil && got == want
	})
}

// promote makes the replica the primary that the name leads to. The former one
// is dead, or goes on for those who are connected to it.
func (r *replicated) promote(t *testing.T) {
	r.run(t, "STOP SLAVE")
	r.run(t, "RESET SLAVE ALL")
	r.name.Lead(r.addr)
}

// TestSQLReplicaPromoted promotes a replica that has not got the last writes,
// while the owners of the time before go on until their grants end. The fleet
// then has as many members as there are worker ids, so that each of them is
// used again. Newcomers notice another server, and wait.
func TestSQLReplicaPromoted(t *testing.T) {
	for name, arrived := range map[string]bool{"without the leases": false, "with older rows": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReplicated(t)
			options := []lease.Option{lease.Window(short), lease.Workers(0, 5)}
			if !arrived {
				// The namespace is known, nothing after that.
				g := open(t, r.config(r.store(lease.Window(short), lease.Workers(6, 6))))
				r.outsider("before the cut").draw(g, 10)
				if err := g.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.awaitArrival(t, "gormflake_leases", "worker_id=6 AND owner=''", 1)
				r.link.Stall()
			}
			members := r.join(3, options...)
			r.awaitIssue("the fleet starts", members...)
			if arrived {
				r.awaitArrival(t, "gormflake_leases", "owner<>''", 3)
				r.link.Stall()
				awaitExtends(t, members, 2)
			}
			r.awaitLosses(members, func() {
				r.primary.Kill(t)
				r.promote(t)
				r.name.Reset()
				members = append(members, r.join(3, options...)...)
			})
			r.awaitIssue("the fleet recovers", members...)
			r.awaitArrival(t, "gormflake_leases_namespaces", "identity=@@server_uid AND identity_floor>0", 1)
			r.check()
			waited := false
			for _, err := range r.met() {
				waited = waited || strings.Contains(err.Error(), "grants that a promoted server may lack")
			}
			if !waited {
				t.Error("no call was refused because of the promotion; want newcomers to wait, and to say why")
			}
		})
	}
}

// TestSQLGuardIsNeeded repeats the promotion with the check of the identity
// turned off, until an id is given twice: the checks of this package do notice
// what it prevents.
func TestSQLGuardIsNeeded(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	options := []lease.Option{lease.Window(time.Hour), lease.Workers(0, 0), sqllease.WithGuard(0)}
	g := open(t, r.config(r.store(lease.Window(short), lease.Workers(6, 6))))
	r.outsider("before the cut").draw(g, 1)
	r.awaitArrival(t, "gormflake_leases", "worker_id=6", 1)
	r.link.Stall()
	first := r.join(1, options...)
	r.awaitIssue("the first starts", first...)
	r.primary.Kill(t)
	r.promote(t)
	r.name.Reset()
	r.join(1, options...)
	eventually(t, "an id is given twice", func() bool {
		_, wrong := r.inspect()
		return len(wrong) > 0
	})
}
