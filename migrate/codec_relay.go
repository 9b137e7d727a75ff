package migrate

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
)

// source is a result whose boolean columns are decoded on the way. GORM and its
// users want *sql.Rows, which only a driver can make: source is the driver of a
// database/sql handle that lives for one query and opens nothing.
type source struct {
	inner  *sql.Rows
	err    error // of the query; then there are no rows
	names  []string
	types  []*sql.ColumnType
	cells  []*cell // nil where the value passes as it is
	ahead  [][]driver.Value
	done   bool // inner is read to its end
	values []any
	into   []any
}

func (s *source) describe() (err error) {
	if s.names, err = s.inner.Columns(); err != nil {
		return err
	}
	if s.types, err = s.inner.ColumnTypes(); err != nil {
		return err
	}
	s.values, s.into = make([]any, len(s.names)), make([]any, len(s.names))
	for i := range s.values {
		s.into[i] = &s.values[i]
	}
	s.cells = make([]*cell, len(s.names))
	return nil
}

// next reads and decodes a row. It ends with io.EOF.
func (s *source) next(dest []driver.Value) error {
	if s.done {
		return io.EOF
	}
	if !s.inner.Next() {
		s.done = true
		if err := s.inner.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	if err := s.inner.Scan(s.into...); err != nil {
		return err
	}
	for i, v := range s.values {
		if c := s.cells[i]; c != nil {
			decoded, err := c.decode(v)
			if err != nil {
				return err
			}
			v = decoded
		}
		dest[i] = v
	}
	return nil
}

// peek reads the first row and keeps it. It reports whether there is none, or but
// one that looks like an aggregate over nothing; the result is then at its end.
func (s *source) peek() (empty bool, err error) {
	for {
		row := make([]driver.Value, len(s.names))
		err := s.next(row)
		if errors.Is(err, io.EOF) {
			return len(s.ahead) == 0 || len(s.ahead) == 1 && zeros(s.ahead[0]), nil
		}
		if err != nil {
			return false, err
		}
		s.ahead = append(s.ahead, row)
		if len(s.ahead) > 1 || !zeros(row) {
			return false, nil
		}
	}
}

// zeros reports whether a row looks like an aggregate over nothing.
func zeros(row []driver.Value) bool {
	for _, v := range row {
		if v != nil && v != int64(0) {
			return false
		}
	}
	return true
}

// readAll reads every row and keeps them.
func (s *source) readAll() error {
	for {
		row := make([]driver.Value, len(s.names))
		err := s.next(row)
		if errors.Is(err, io.EOF) {
			return s.inner.Close()
		}
		if err != nil {
			return also(err, s.inner.Close())
		}
		s.ahead = append(s.ahead, row)
	}
}

// rows makes the *sql.Rows that delivers the decoded result.
func (s *source) rows() (*sql.Rows, error) {
	db := sql.OpenDB(relay{s})
	defer db.Close() // the rows go on; the handle's goroutine ends
	rows, err := db.QueryContext(context.Background(), "")
	if err != nil {
		return nil, also(err, s.inner.Close())
	}
	return rows, nil
}

// row is rows for QueryRow, which takes the query's error along.
func (s *source) row() *sql.Row {
	db := sql.OpenDB(relay{s})
	defer db.Close()
	return db.QueryRowContext(context.Background(), "")
}

// relay is the connector and the connection of a source.
type relay struct{ source *source }

func (r relay) Connect(context.Context) (driver.Conn, error) { return r, nil }
func (r relay) Driver() driver.Driver                        { return relayDriver{} }
func (r relay) Prepare(string) (driver.Stmt, error)          { return nil, driver.ErrSkip }
func (r relay) Begin() (driver.Tx, error)                    { return nil, driver.ErrSkip }
func (r relay) Close() error                                 { return nil }

func (r relay) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	if r.source.err != nil {
		return nil, r.source.err
	}
	return relayRows{r.source}, nil
}

type relayDriver struct{}

func (relayDriver) Open(string) (driver.Conn, error) { return nil, driver.ErrSkip }

// relayRows is a source as a driver's rows.
type relayRows struct{ *source }

func (r relayRows) Columns() []string { return r.names }
func (r relayRows) Close() error      { return r.inner.Close() }

func (r relayRows) Next(dest []driver.Value) error {
	if len(r.ahead) > 0 {
		copy(dest, r.ahead[0])
		r.source.ahead = r.ahead[1:]
		return nil
	}
	return r.next(dest)
}

// HasNextResultSet can't look ahead, so it always tries.
func (r relayRows) HasNextResultSet() bool { return true }

// NextResultSet goes on to the next result of a multi-statement; nothing of it is
// decoded, since no plan describes it.
func (r relayRows) NextResultSet() error {
	if !r.inner.NextResultSet() {
		if err := r.inner.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	r.source.done = false
	return r.describe()
}

func (r relayRows) ColumnTypeDatabaseTypeName(i int) string { return r.types[i].DatabaseTypeName() }
func (r relayRows) ColumnTypeNullable(i int) (nullable, ok bool) {
	return r.types[i].Nullable()
}

func (r relayRows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	return r.types[i].DecimalSize()
}

// ColumnTypeScanType is a nullable bool for what is decoded, so that a map without
// a model holds bools.
func (r relayRows) ColumnTypeScanType(i int) reflect.Type {
	if r.cells[i] != nil {
		return reflect.TypeFor[sql.NullBool]()
	}
	return r.types[i].ScanType()
}
