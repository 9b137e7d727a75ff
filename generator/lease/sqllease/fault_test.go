package sqllease

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

type codeError int

func (e codeError) Error() string { return "database refused" }
func (e codeError) Code() int     { return int(e) }

func TestClassify(t *testing.T) {
	pg := func(state, text string) error { return &pgconn.PgError{Code: state, Message: text} }
	my := func(number uint16) error {
		return &mysql.MySQLError{Number: number, SQLState: [5]byte{'4', '0', '0', '0', '1'}, Message: "text"}
	}
	tests := []struct {
		name string
		err  error
		want fault
	}{
		{"no error", nil, other},
		{"any error", errors.New("broken pipe"), other},
		{"a cancelled context", context.Canceled, other},
		{"Postgres serialization", pg("40001", ""), transient},
		{"Postgres deadlock", pg("40P01", ""), transient},
		{"Postgres table is being created", pg("23505", `violates unique constraint "pg_type_typname_nsp_index"`), transient},
		{"Postgres another unique key", pg("23505", `violates unique constraint "orders_pkey"`), other},
		{"Postgres no table", pg("42P01", ""), missing},
		{"Postgres no privilege", pg("42501", ""), refused},
		{"Postgres read only", pg("25006", ""), other},
		{"Postgres standby has no write position", pg("55000", ""), other},
		{"MySQL deadlock", my(1213), transient},
		{"MySQL lock wait", my(1205), transient},
		{"MariaDB record has changed", my(1020), transient},
		{"MySQL no table", my(1146), missing},
		{"MySQL unknown variable", my(1193), refused},
		{"MySQL read only", my(1290), other},
		{"MySQL without a state", errors.New("Error 1213: Deadlock found"), transient},
		{"a number within a text", errors.New("saw Error 1213: Deadlock found"), other},
		{"SQLite busy", codeError(5), transient},
		{"SQLite locked", codeError(6), transient},
		{"SQLite busy snapshot", codeError(5 | 2<<8), transient},
		{"SQLite full", codeError(13), other},
		{"SQLite busy as a text", errors.New("database is locked"), transient},
		{"SQLite no table", errors.New("SQL logic error: no such table: leases (1)"), missing},
	}
	for _, test := range tests {
		if got := classify(test.err); got != test.want {
			t.Errorf("%s: %v; want %v", test.name, got, test.want)
		}
		if test.err == nil {
			continue
		}
		if got := classify(fmt.Errorf("wrapped: %w", test.err)); got != test.want {
			t.Errorf("%s, wrapped: %v; want %v", test.name, got, test.want)
		}
	}
}

func TestRetry(t *testing.T) {
	s := &store{}
	tries := 0
	err := s.retry(t.Context(), "try", func() error {
		if tries++; tries < 4 {
			return &mysql.MySQLError{Number: 1213}
		}
		return nil
	})
	if err != nil || tries != 4 {
		t.Errorf("%d tries, error %v; want the fourth to succeed", tries, err)
	}
	tries = 0
	broken := errors.New("broken pipe")
	err = s.retry(t.Context(), "try", func() error { tries++; return broken })
	if !errors.Is(err, broken) || tries != 1 {
		t.Errorf("%d tries, error %v; want none after an error of unknown outcome", tries, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = s.retry(ctx, "try", func() error { cancel(); return &mysql.MySQLError{Number: 1213} })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want the context's", err)
	}
}

// The package must not bring a driver along.
func TestCompilesNoDriver(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for _, driver := range []string{"jackc/pgx", "go-sql-driver", "modernc.org/sqlite", "glebarez"} {
		if strings.Contains(string(out), driver) {
			t.Errorf("sqllease compiles %s", driver)
		}
	}
}
