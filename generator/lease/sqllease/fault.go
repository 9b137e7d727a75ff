package sqllease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"
)

// fault is what the database says went wrong, as far as it matters here. The
// package knows no driver: it asks for the methods that drivers share, and
// reads MySQL's number from its text, whose form go-sql-driver documents.
type fault int

const (
	other     fault = iota
	transient       // rolled back for certain, and worth another try
	missing         // no such table
	refused         // no such function or variable, or no privilege for it
)

var mysqlError = regexp.MustCompile(`^Error (\d+)(?: \([0-9A-Z]{5}\))?: `)

func classify(err error) fault {
	if err == nil {
		return other
	}
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return byState(state.SQLState(), err.Error())
	}
	var code interface{ Code() int }
	if errors.As(err, &code) && sqliteBusy(code.Code()) {
		return transient
	}
	text := err.Error()
	for ; err != nil; err = errors.Unwrap(err) {
		if m := mysqlError.FindStringSubmatch(err.Error()); m != nil {
			return byNumber(m[1])
		}
	}
	switch {
	case strings.Contains(text, "database is locked"), strings.Contains(text, "database table is locked"):
		return transient
	case strings.Contains(text, "no such table"):
		return missing
	}
	return other
}

// byState reads a SQLSTATE of Postgres.
func byState(state, text string) fault {
	switch state {
	case "40001", "40P01", "55P03": // serialization, deadlock, lock not available
		return transient
	case "42P01":
		return missing
	case "42P07", "42710": // someone else created the table or its type meanwhile
		return transient
	case "23505":
		// CREATE TABLE IF NOT EXISTS of two sessions meets in the catalogue.
		if strings.Contains(text, "pg_type_") || strings.Contains(text, "pg_class_") {
			return transient
		}
	case "42501", "42883", "0A000": // privilege, no function, not supported
		return refused
	}
	return other
}

// byNumber reads an error number of MySQL or MariaDB.
func byNumber(number string) fault {
	switch number {
	case "1213", "1205", "1020": // deadlock, lock wait timeout, record has changed
		return transient
	case "1146":
		return missing
	case "1193", "1227", "1142": // unknown variable, no privilege
		return refused
	}
	return other
}

// sqliteBusy recognises SQLITE_BUSY (5) and SQLITE_LOCKED (6) with all their
// extended codes.
func sqliteBusy(code int) bool { return code&0xff == 5 || code&0xff == 6 }

// patience bounds retries when the context does not. SQLite's writers hold
// each other off for seconds, and its drivers give up at once by default.
const patience = 30 * time.Second

// retry runs a statement again as long as the database says that it did
// nothing. Any other error comes back wrapped; its outcome may be unknown.
func (s *store) retry(ctx context.Context, what string, run func() error) error {
	begun := time.Now()
	pause := 2 * time.Millisecond
	for {
		err := run()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w (%w)", ctx.Err(), err)
		}
		if ctx.Err() != nil || classify(err) != transient || time.Since(begun) > patience {
			return fmt.Errorf("sqllease: %s: %w", what, err)
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("sqllease: %s: %w (%w)", what, ctx.Err(), err)
		case <-timer.C:
		}
		pause = min(2*pause, 250*time.Millisecond)
	}
}
