package migrate

import (
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseColumn(t *testing.T) {
	for name, tc := range map[string]struct {
		dataType, columnType string
		want                 Encoding
		ok                   bool
	}{
		"enum N Y":          {"enum", "enum('N','Y')", Encoding{Enum, "Y", "N", "enum('N','Y')"}, true},
		"enum Y N":          {"enum", "enum('Y','N')", Encoding{Enum, "Y", "N", "enum('Y','N')"}, true},
		"enum n y":          {"enum", "enum('n','y')", Encoding{Enum, "y", "n", "enum('n','y')"}, true},
		"enum 0 1":          {"enum", "enum('0','1')", Encoding{Enum, "1", "0", "enum('0','1')"}, true},
		"enum 1 0":          {"enum", "enum('1','0')", Encoding{Enum, "1", "0", "enum('1','0')"}, true},
		"enum false true":   {"enum", "enum('false','true')", Encoding{Enum, "true", "false", "enum('false','true')"}, true},
		"enum True False":   {"ENUM", "ENUM('True','False')", Encoding{Enum, "True", "False", "enum('True','False')"}, true},
		"enum unknown":      {"enum", "enum('off','on')", Encoding{}, false},
		"enum mixed pairs":  {"enum", "enum('N','1')", Encoding{}, false},
		"enum three":        {"enum", "enum('N','Y','?')", Encoding{}, false},
		"enum one":          {"enum", "enum('Y')", Encoding{}, false},
		"char 1":            {"char", "char(1)", Encoding{Char, "Y", "N", "char(1)"}, true},
		"varchar":           {"varchar", "varchar(255)", Encoding{Char, "Y", "N", "varchar(255)"}, true},
		"varchar 0":         {"varchar", "varchar(0)", Encoding{}, false},
		"bit 1":             {"bit", "bit(1)", Encoding{Bit, "1", "0", "bit(1)"}, true},
		"bit 8":             {"bit", "bit(8)", Encoding{}, false},
		"tinyint 1":         {"tinyint", "tinyint(1)", Encoding{Integer, "1", "0", "tinyint(1)"}, true},
		"tinyint 4":         {"tinyint", "tinyint(4)", Encoding{Integer, "1", "0", "tinyint(4)"}, true},
		"tinyint unsigned":  {"tinyint", "tinyint unsigned", Encoding{Integer, "1", "0", "tinyint unsigned"}, true},
		"tinyint no width":  {"tinyint", "tinyint", Encoding{Integer, "1", "0", "tinyint"}, true},
		"int":               {"int", "int(11)", Encoding{}, false},
		"text":              {"text", "text", Encoding{}, false},
		"enum not finished": {"enum", "enum('N','Y'", Encoding{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := ParseColumn(tc.dataType, tc.columnType)
			if ok != tc.ok || got != tc.want {
				t.Fatalf("ParseColumn(%q, %q) = %+v, %v; want %+v, %v", tc.dataType, tc.columnType, got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestParseMapped(t *testing.T) {
	for name, tc := range map[string]struct {
		dataType, columnType, trueLabel, falseLabel string
		want                                        Encoding
		ok                                          bool
	}{
		"two labels":          {"enum", "enum('off','on')", "on", "off", Encoding{Enum, "on", "off", "enum('off','on')"}, true},
		"spelled as declared": {"enum", "enum('Off','On')", "on", "off", Encoding{Enum, "On", "Off", "enum('Off','On')"}, true},
		"inverted":            {"enum", "enum('N','Y')", "N", "Y", Encoding{Enum, "N", "Y", "enum('N','Y')"}, true},
		"three labels":        {"enum", "enum('','no','yes')", "yes", "no", Encoding{Enum, "yes", "no", "enum('','no','yes')"}, true},
		"label is missing":    {"enum", "enum('off','on')", "yes", "off", Encoding{}, false},
		"same label":          {"enum", "enum('off','on')", "on", "on", Encoding{}, false},
		"case makes two":      {"enum", "enum('y','Y')", "Y", "y", Encoding{Enum, "Y", "y", "enum('y','Y')"}, true},
		"char":                {"char", "char(1)", "J", "N", Encoding{Char, "J", "N", "char(1)"}, true},
		"char too narrow":     {"char", "char(1)", "yes", "no", Encoding{}, false},
		"not a label column":  {"tinyint", "tinyint(1)", "Y", "N", Encoding{}, false},
		"backslash":           {"enum", `enum('a\b','c')`, `a\b`, "c", Encoding{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := ParseMapped(tc.dataType, tc.columnType, tc.trueLabel, tc.falseLabel)
			if ok != tc.ok || got != tc.want {
				t.Fatalf("ParseMapped = %+v, %v; want %+v, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestEnumLabels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.StringMatching(`[a-z',() ]{0,6}`), 1, 5).Draw(t, "labels")
		text := "enum("
		for i, l := range want {
			if i > 0 {
				text += ","
			}
			text += quoteString(l)
		}
		got, ok := EnumLabels(text + ")")
		if !ok || !cmp.Equal(got, want) {
			t.Fatalf("EnumLabels(%s)) = %q, %v; want %q", text, got, ok, want)
		}
	})
}

func TestEncodingText(t *testing.T) {
	yn, _ := ParseColumn("enum", "enum('N','Y')")
	bit, _ := ParseColumn("bit", "bit(1)")
	tiny, _ := ParseColumn("tinyint", "tinyint(1)")
	quoted, _ := ParseMapped("enum", "enum('it''s','no')", "it's", "no")
	for name, tc := range map[string]struct {
		e                          Encoding
		literal, caseText, inverse string
		value                      driver.Value
		legacy                     bool
	}{
		"enum":    {yn, "'Y'", "CASE `v` WHEN 'Y' THEN 1 WHEN 'N' THEN 0 END", "CASE `v` WHEN 1 THEN 'Y' WHEN 0 THEN 'N' END", "Y", true},
		"bit":     {bit, "b'1'", "CASE `v` WHEN b'1' THEN 1 WHEN b'0' THEN 0 END", "CASE `v` WHEN 1 THEN b'1' WHEN 0 THEN b'0' END", int64(1), true},
		"tinyint": {tiny, "1", "CASE `v` WHEN 1 THEN 1 WHEN 0 THEN 0 END", "CASE `v` WHEN 1 THEN 1 WHEN 0 THEN 0 END", int64(1), false},
		"quote":   {quoted, "'it''s'", "CASE `v` WHEN 'it''s' THEN 1 WHEN 'no' THEN 0 END", "CASE `v` WHEN 1 THEN 'it''s' WHEN 0 THEN 'no' END", "it's", true},
	} {
		t.Run(name, func(t *testing.T) {
			got := []any{tc.e.Literal(true), tc.e.Case("`v`"), tc.e.CaseInverse("`v`"), tc.e.Value(true), tc.e.Legacy()}
			want := []any{tc.literal, tc.caseText, tc.inverse, tc.value, tc.legacy}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
		})
	}
}

func TestEncodingDecode(t *testing.T) {
	yn, _ := ParseColumn("enum", "enum('N','Y')")
	zeroOne, _ := ParseColumn("enum", "enum('0','1')")
	inverted, _ := ParseMapped("enum", "enum('0','1')", "0", "1")
	char, _ := ParseColumn("char", "char(3)")
	bit, _ := ParseColumn("bit", "bit(1)")
	tiny, _ := ParseColumn("tinyint", "tinyint(4)")
	byCase, _ := ParseMapped("enum", "enum('y','Y')", "Y", "y")
	for name, tc := range map[string]struct {
		e       Encoding
		src     any
		v, null bool
		wantErr bool
	}{
		"label":                   {yn, []byte("Y"), true, false, false},
		"false label":             {yn, "N", false, false, false},
		"null":                    {yn, nil, false, true, false},
		"other case":              {yn, "y", true, false, false},
		"integer after a swap":    {yn, int64(1), true, false, false},
		"empty enum":              {yn, []byte(""), false, false, true},
		"foreign label":           {yn, "true", false, false, true},
		"zero one":                {zeroOne, []byte("0"), false, false, false},
		"mapped the other way":    {inverted, []byte("0"), true, false, false},
		"char padded":             {char, "N  ", false, false, false},
		"char holds a digit":      {char, "1", false, false, true},
		"bit set":                 {bit, []byte{1}, true, false, false},
		"bit clear":               {bit, []byte{0}, false, false, false},
		"tinyint":                 {tiny, int64(0), false, false, false},
		"tinyint out of range":    {tiny, int64(2), false, false, true},
		"tinyint minus one":       {tiny, int64(-1), false, false, true},
		"unsigned":                {tiny, uint64(1), true, false, false},
		"labels by case":          {byCase, "y", false, false, false},
		"bool":                    {yn, true, true, false, false},
		"something else entirely": {yn, 1.5, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			v, null, err := tc.e.Decode(tc.src)
			if tc.wantErr {
				if !errors.Is(err, ErrUnexpectedValue) {
					t.Fatalf("Decode(%v) = %v, %v, %v; want ErrUnexpectedValue", tc.src, v, null, err)
				}
				return
			}
			if err != nil || v != tc.v || null != tc.null {
				t.Fatalf("Decode(%v) = %v, %v, %v; want %v, %v", tc.src, v, null, err, tc.v, tc.null)
			}
		})
	}
}
