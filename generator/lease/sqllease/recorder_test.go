package sqllease_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gormflake/gormflake/internal/servers"
)

// recorder keeps the text of every statement that reaches the driver.
type recorder struct {
	driver.Connector

	mu    sync.Mutex
	texts []string
}

// openRecorded opens a data source name through a recorder.
func openRecorded(t *testing.T, srv *servers.Server, dsn string) (*sql.DB, *recorder) {
	t.Helper()
	plain := srv.OpenSQL(t, dsn)
	opener, ok := plain.Driver().(driver.DriverContext)
	var connector driver.Connector = dsnConnector{dsn, plain.Driver()}
	if ok {
		var err error
		if connector, err = opener.OpenConnector(dsn); err != nil {
			t.Fatal(err)
		}
	}
	r := &recorder{Connector: connector}
	db := sql.OpenDB(r)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, r
}

type dsnConnector struct {
	dsn    string
	driver driver.Driver
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c dsnConnector) Driver() driver.Driver                        { return c.driver }

func (r *recorder) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := r.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &recordingConn{conn, r}, nil
}

func (r *recorder) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, text)
}

// take returns the texts since the last call.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	texts := r.texts
	r.texts = nil
	return texts
}

// recordingConn counts a statement once, whether it is run at once or is
// prepared first because the driver wants that.
type recordingConn struct {
	driver.Conn
	recorder *recorder
}

func (c *recordingConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, text, args)
	if !errors.Is(err, driver.ErrSkip) {
		c.recorder.add(text)
	}
	return result, err
}

func (c *recordingConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, text, args)
	if !errors.Is(err, driver.ErrSkip) {
		c.recorder.add(text)
	}
	return rows, err
}

func (c *recordingConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	c.recorder.add(text)
	return c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, text)
}

func (c *recordingConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	c.recorder.add("BEGIN")
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, options)
}

// CheckNamedValue leaves the conversion of arguments to the driver.
func (c *recordingConn) CheckNamedValue(value *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(value)
	}
	return driver.ErrSkip
}

// verbs returns the first word of each text.
func verbs(texts []string) []string {
	var found []string
	for _, text := range texts {
		verb, _, _ := strings.Cut(text, " ")
		found = append(found, verb)
	}
	return slices.Clip(found)
}
