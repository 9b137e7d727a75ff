package generator_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"

	"gorm.io/gorm/schema"
	"pgregory.net/rapid"

	"github.com/gormflake/gormflake/generator"
)

var (
	_ sql.Scanner                  = (*generator.ID)(nil)
	_ schema.GormDataTypeInterface = generator.ID(0)
)

func TestIDText(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     generator.ID
		bad      bool
	}{
		{name: "zero", in: "0"},
		{name: "observed", in: "7193010915251875840", want: 7193010915251875840},
		{name: "largest", in: "9223372036854775807", want: math.MaxInt64},
		{name: "leading zeros", in: "0042", want: 42},
		{name: "one too large", in: "9223372036854775808", bad: true},
		{name: "twenty digits", in: "10000000000000000000", bad: true},
		{name: "empty", in: "", bad: true},
		{name: "negative", in: "-1", bad: true},
		{name: "plus", in: "+1", bad: true},
		{name: "space", in: " 1", bad: true},
		{name: "fraction", in: "1.0", bad: true},
		{name: "exponent", in: "1e3", bad: true},
		{name: "hexadecimal", in: "0x10", bad: true},
		{name: "underscore", in: "1_000", bad: true},
		{name: "other digits", in: "١", bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := generator.ParseID(c.in)
			if c.bad != errors.Is(err, generator.ErrInvalidID) || got != c.want {
				t.Fatalf("ParseID(%q) = %v, %v", c.in, got, err)
			}
			id := generator.ID(7)
			err = id.UnmarshalText([]byte(c.in))
			if c.bad && (err == nil || id != 7) {
				t.Fatalf("UnmarshalText(%q) must fail and leave the id alone, got %v, %v", c.in, id, err)
			}
			if !c.bad && (err != nil || id != c.want) {
				t.Fatalf("UnmarshalText(%q) = %v, %v", c.in, id, err)
			}
		})
	}
}

func TestIDJSON(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     generator.ID
		bad      bool
	}{
		{name: "string", in: `"7193010915251875840"`, want: 7193010915251875840},
		{name: "bare", in: `7193010915251875840`, want: 7193010915251875840},
		{name: "null changes nothing", in: `null`, want: 99},
		{name: "fraction", in: `1.5`, bad: true},
		{name: "whole fraction", in: `1.0`, bad: true},
		{name: "exponent", in: `1e3`, bad: true},
		{name: "negative", in: `-5`, bad: true},
		{name: "overflow", in: `9223372036854775808`, bad: true},
		{name: "empty string", in: `""`, bad: true},
		{name: "words", in: `"abc"`, bad: true},
		{name: "true", in: `true`, bad: true},
		{name: "array", in: `[1]`, bad: true},
		{name: "escaped", in: `"\u0031"`, bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := struct{ ID generator.ID }{99}
			err := json.Unmarshal([]byte(`{"ID":`+c.in+`}`), &got)
			if c.bad {
				if !errors.Is(err, generator.ErrInvalidID) || got.ID != 99 {
					t.Fatalf("want ErrInvalidID and an id left alone, got %v, %v", got.ID, err)
				}
				return
			}
			if err != nil || got.ID != c.want {
				t.Fatalf("got %v, %v", got.ID, err)
			}
		})
	}
	out, err := json.Marshal(map[string]any{"list": []generator.ID{1, math.MaxInt64}, "key": map[generator.ID]bool{5: true}})
	if want := `{"key":{"5":true},"list":["1","9223372036854775807"]}`; err != nil || string(out) != want {
		t.Fatalf("want %s, got %s, %v", want, out, err)
	}
}

func TestIDScan(t *testing.T) {
	for _, c := range []struct {
		name string
		src  any
		want generator.ID
		bad  bool
	}{
		{name: "int64", src: int64(5), want: 5},
		{name: "negative", src: int64(-5), want: -5},
		{name: "bytes", src: []byte("5"), want: 5},
		{name: "string", src: "5", want: 5},
		{name: "uint64", src: uint64(5), want: 5},
		{name: "uint64 too large", src: uint64(math.MaxUint64), bad: true},
		{name: "NULL", src: nil, bad: true},
		{name: "float", src: 5.0, bad: true},
		{name: "words", src: "five", bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := generator.ID(0)
			if err := id.Scan(c.src); c.bad != errors.Is(err, generator.ErrInvalidID) || id != c.want {
				t.Fatalf("got %v, %v", id, err)
			}
		})
	}
	if v, err := generator.ID(5).Value(); v != int64(5) || err != nil {
		t.Fatalf("want the driver value int64(5), got %T(%v), %v", v, v, err)
	}
}

func TestIDLogsAsAString(t *testing.T) {
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("created", "id", generator.ID(7193010915251875840))
	if !strings.Contains(out.String(), `"id":"7193010915251875840"`) {
		t.Fatalf("want the id as a string, got %s", out.String())
	}
}

func TestIDFormsRoundTripAndKeepTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.Int64Range(0, math.MaxInt64)
		a, b := generator.ID(ids.Draw(t, "a")), generator.ID(ids.Draw(t, "b"))
		if got, err := generator.ParseID(a.String()); err != nil || got != a {
			t.Fatalf("decimal: %v became %v, %v", a, got, err)
		}
		if got, err := generator.ParseBase32(strings.ToLower(a.Base32())); err != nil || got != a {
			t.Fatalf("base 32: %v became %v, %v", a, got, err)
		}
		if (a < b) != (a.Base32() < b.Base32()) {
			t.Fatalf("base 32 does not keep the order of %v and %v", a, b)
		}
		var back generator.ID
		text, _ := json.Marshal(a)
		if err := json.Unmarshal(text, &back); err != nil || back != a {
			t.Fatalf("JSON: %v became %v, %v", a, back, err)
		}
	})
}

func TestParseBase32(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     generator.ID
		bad      bool
	}{
		{name: "zero", in: "0000000000000"},
		{name: "largest", in: "7ZZZZZZZZZZZZ", want: math.MaxInt64},
		{name: "letters for digits", in: "OOOOOOOOOOOIL", want: 33},
		{name: "above int64", in: "8000000000000", bad: true},
		{name: "above 64 bits", in: "ZZZZZZZZZZZZZ", bad: true},
		{name: "short", in: "123", bad: true},
		{name: "not in the alphabet", in: "U000000000000", bad: true},
		{name: "beyond ASCII", in: "00000000000é", bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := generator.ParseBase32(c.in)
			if c.bad != errors.Is(err, generator.ErrInvalidID) || got != c.want {
				t.Fatalf("got %v, %v", got, err)
			}
		})
	}
}

func FuzzParseID(f *testing.F) {
	for _, seed := range []string{"", "0", "-1", "9223372036854775808", "1e3", " 5", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := generator.ParseID(s)
		if err != nil {
			if !errors.Is(err, generator.ErrInvalidID) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if trimmed := strings.TrimLeft(s, "0"); id.String() != trimmed && (id != 0 || trimmed != "") {
			t.Fatalf("%q became %v", s, id)
		}
	})
}

func FuzzIDScan(f *testing.F) {
	f.Add([]byte("5"))
	f.Add([]byte("-9223372036854775808"))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var fromBytes, fromString, fromJSON generator.ID
		errBytes, errString := fromBytes.Scan(b), fromString.Scan(string(b))
		if (errBytes == nil) != (errString == nil) || fromBytes != fromString {
			t.Fatalf("bytes gave %v, %v and a string %v, %v", fromBytes, errBytes, fromString, errString)
		}
		if err := fromJSON.UnmarshalJSON(b); err != nil && fromJSON != 0 {
			t.Fatalf("a failed UnmarshalJSON left %v", fromJSON)
		}
	})
}
