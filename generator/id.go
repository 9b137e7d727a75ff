// Package generator makes int64 Snowflake ids that are unique across a fleet
// and sorted by time.
//
// An ID holds a time, the worker id of the process that made it, and a
// sequence within the tick:
//
//	 63 62                                        22 21        12 11           0
//	+--+--------------------------------------------+------------+--------------+
//	| 0|      41 bits: milliseconds since 2015      | 10: worker | 12: sequence |
//	+--+--------------------------------------------+------------+--------------+
//
// That is the Standard layout; Layout describes any other. A Generator leases
// its worker id from a lease.Store, and issues ids only inside the time range
// that the store has granted, so that no clock, pause or network fault can
// make an id twice.
package generator

import (
	"bytes"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
)

// ID is a Snowflake id: an int64 in Go and in SQL (BIGINT), a decimal string
// in JSON and text, since JavaScript rounds integers above 2^53. Which bits
// mean what is the Layout's to say. The zero ID is no id.
type ID int64

// ErrInvalidID says that text, JSON or a column holds no id.
var ErrInvalidID = errors.New("generator: not an id")

func invalidID(met string) error {
	const most = 40
	if len(met) > most {
		met = met[:most] + "…"
	}
	return fmt.Errorf("%w: want a decimal integer from 0 to 9223372036854775807, got %q", ErrInvalidID, met)
}

// ParseID reads the decimal form that String writes: 1 to 19 digits without a
// sign or leading spaces. Anything else is ErrInvalidID.
func ParseID(s string) (ID, error) {
	if s == "" || len(s) > 19 {
		return 0, invalidID(s)
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, invalidID(s)
		}
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, invalidID(s)
	}
	return ID(v), nil
}

// String returns the id in decimal.
func (id ID) String() string { return strconv.FormatInt(int64(id), 10) }

// Int64 returns the id as a plain integer.
func (id ID) Int64() int64 { return int64(id) }

// IsZero reports whether the id is unset.
func (id ID) IsZero() bool { return id == 0 }

// MarshalText writes the decimal form: map keys, flags, query parameters.
func (id ID) MarshalText() ([]byte, error) {
	return strconv.AppendInt(nil, int64(id), 10), nil
}

// AppendText appends the decimal form.
func (id ID) AppendText(b []byte) ([]byte, error) {
	return strconv.AppendInt(b, int64(id), 10), nil
}

// UnmarshalText reads what ParseID reads.
func (id *ID) UnmarshalText(text []byte) error {
	v, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = v
	return nil
}

// MarshalJSON writes the id as a string of decimal digits.
func (id ID) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 21)
	b = append(b, '"')
	b = strconv.AppendInt(b, int64(id), 10)
	return append(b, '"'), nil
}

// UnmarshalJSON reads a string of decimal digits or a bare integer. A
// fraction, an exponent, a sign or an overflow is ErrInvalidID; null changes
// nothing.
func (id *ID) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	if n := len(data); n >= 2 && data[0] == '"' && data[n-1] == '"' {
		data = data[1 : n-1]
	}
	return id.UnmarshalText(data)
}

// Scan reads a column: an integer, or its decimal form as bytes or a string.
// NULL is an error: give the field the type *ID or sql.Null[ID] where the
// column may be NULL.
func (id *ID) Scan(src any) error {
	switch v := src.(type) {
	case int64:
		*id = ID(v)
		return nil
	case uint64:
		if v > math.MaxInt64 {
			return invalidID(strconv.FormatUint(v, 10))
		}
		*id = ID(v)
		return nil
	case []byte:
		return id.scanText(string(v))
	case string:
		return id.scanText(v)
	case nil:
		return fmt.Errorf("%w: the column is NULL; use *ID or sql.Null[ID] for a column that may be NULL", ErrInvalidID)
	default:
		return fmt.Errorf("%w: want an integer column, got a %T", ErrInvalidID, src)
	}
}

// scanText is more lenient than ParseID: a column may hold any int64.
func (id *ID) scanText(s string) error {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return invalidID(s)
	}
	*id = ID(v)
	return nil
}

// Value returns the id as int64 for database/sql.
func (id ID) Value() (driver.Value, error) { return int64(id), nil }

// LogValue returns the decimal form, since JSON logs are read by JavaScript too.
func (id ID) LogValue() slog.Value { return slog.StringValue(id.String()) }

// crockford is Crockford's base 32 alphabet, in ascending ASCII order.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// base32Length is ceil(64 / 5).
const base32Length = 13

// Base32 returns the id in Crockford's base 32: 13 characters whose order is
// the order of the ids. See https://www.crockford.com/base32.html.
func (id ID) Base32() string {
	var b [base32Length]byte
	v := uint64(id)
	for i := base32Length - 1; i >= 0; i-- {
		b[i] = crockford[v&31]
		v >>= 5
	}
	return string(b[:])
}

// ParseBase32 reads what Base32 writes: upper or lower case, O as 0, I and L
// as 1. Anything else is ErrInvalidID.
func ParseBase32(s string) (ID, error) {
	fail := func() (ID, error) {
		return 0, fmt.Errorf("%w: want 13 characters of Crockford's base 32, got %q", ErrInvalidID, s)
	}
	if len(s) != base32Length {
		return fail()
	}
	var v uint64
	for _, r := range strings.ToUpper(s) {
		switch r {
		case 'O':
			r = '0'
		case 'I', 'L':
			r = '1'
		}
		digit := strings.IndexRune(crockford, r)
		if digit < 0 || v > math.MaxUint64>>5 {
			return fail()
		}
		v = v<<5 | uint64(digit)
	}
	if v > math.MaxInt64 {
		return fail()
	}
	return ID(v), nil
}
