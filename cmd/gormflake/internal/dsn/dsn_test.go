package dsn

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzRedact(f *testing.F) {
	f.Add("user", "pass word", "host")
	f.Add("a:b", "@", "c")
	f.Add("", "x'y", "[::1]")
	f.Fuzz(func(t *testing.T, user, password, host string) {
		for _, dsn := range []string{
			"postgres://" + user + ":" + password + "@" + host + "/db",
			user + ":" + password + "@tcp(" + host + ")/db",
			"password=" + password + " host=" + host,
		} {
			_ = KindOf(dsn)
			_, _ = MySQLConfig(dsn)
			_ = Hide(errors.New(dsn), dsn)
			if once := Redact(dsn); Redact(once) != once {
				t.Errorf("%q became %q and then %q", dsn, once, Redact(once))
			}
		}
	})
}

// FuzzParse puts passwords of any characters into DSNs of any form. No error
// quotes a part of them, and what is parsed has the whole password.
func FuzzParse(f *testing.F) {
	for _, middle := range []string{"", "/", "#", "?", "@", ":", "%", "%zz", " ", "'", `\`, "@tcp(", ")/", "@/", "://", ";", "=", "a=b ", "\n", "\x00"} {
		f.Add(middle, "app")
	}
	f.Fuzz(func(t *testing.T, middle, user string) {
		const begin, end = "q7Zw", "k3Xv"
		if strings.Contains(user, begin) || strings.Contains(user, end) {
			t.Skip("the user has a part of the password in its name, which may be quoted")
		}
		password := begin + middle + end
		for _, form := range []string{
			"{u}:{p}@127.0.0.1:23306/shop", "{u}:{p}@db.internal", "{u}:{p}@tcp(h:1)/shop", "{u}:{p}@tcp(h:1)", "{u}:{p}@tcp(h:1)/shop?timeout=x", "{u}:{p}@/shop", "{u}:{p}@(h:1)/shop", "{u}:{p}@unix(/a/b)/shop",
			"mysql://{u}:{p}@h:1/shop", "mysql://{u}:{p}@h/shop?timeout=x", "mysql://{u}:{p}@tcp(h:1)/shop", "postgres://{u}:{p}@h/shop", " postgres://{u}:{p}@h/shop", `"postgres://{u}:{p}@h/shop"`, "postgres://{u}:{p}@h:1,i:2/shop",
			"redis://{u}:{p}@h:1/0", "pgsql://{u}:{p}@h/shop", "pgsql://{u}:{p}@/shop", "sqlite://{u}:{p}@h", "postgres:{u}:{p}@h/shop", "Server=h;User={u};Password={p}", "host=h user={u} password={p}", "host=h;user={u};password={p}", "{p}",
		} {
			text := strings.NewReplacer("{u}", user, "{p}", password).Replace(form)
			clean, kind, err := Parse(text)
			if err != nil {
				if !errors.Is(err, ErrInvalid) {
					t.Errorf("Parse(%q): want ErrInvalid, got %v", text, err)
				}
				if strings.Contains(err.Error(), begin) || strings.Contains(err.Error(), end) {
					t.Errorf("Parse(%q) quotes the password: %v", text, err)
				}
				continue
			}
			if form == "{p}" {
				continue // a DSN of the fuzzer's own, whose parts are what they are
			}
			switch kind {
			case MySQL:
				config, err := MySQLConfig(clean)
				if err != nil {
					t.Errorf("Parse(%q) is nil, but MySQLConfig says %v", text, err)
				} else if address := config.Net + config.Addr + config.DBName; strings.Contains(address, begin) || strings.Contains(address, end) {
					t.Errorf("%q: a part of the password became the address %q", text, address)
				}
			case Redis, Postgres:
				if !strings.Contains(clean, "://") || strings.Contains(clean, ",") {
					continue
				}
				if u, err := url.Parse(clean); err == nil && schemeForm.MatchString(clean) && strings.Contains(u.Host+u.Path+u.RawQuery+u.Fragment, end) {
					t.Errorf("%q: a part of the password became %q, %q, %q or %q", text, u.Host, u.Path, u.RawQuery, u.Fragment)
				}
			}
		}
	})
}

func TestParse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.db")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text, clean string
		kind        Kind
		want        string // part of the error
	}{
		{" 'app:pw@tcp(h:3306)/shop' \n", "app:pw@tcp(h:3306)/shop", MySQL, ""},
		{"Postgres://app:pw@h/shop", "postgres://app:pw@h/shop", Postgres, ""},
		{"postgres://app:p%40w@a:1,b:2/shop?sslmode=disable", "postgres://app:p%40w@a:1,b:2/shop?sslmode=disable", Postgres, ""},
		{"host=h user=app password='it''s' application_name=x", "", Postgres, "keyword=value"},
		{`host=h user=app password='it\'s' application_name = x`, `host=h user=app password='it\'s' application_name = x`, Postgres, ""},
		{"unix://app:pw@/run/redis.sock?db=1", "unix://app:pw@/run/redis.sock?db=1", Redis, ""},
		{file, file, SQLite, ""},
		{"file:" + file + "?mode=ro", "file:" + file + "?mode=ro", SQLite, ""},
		{file + "x", "", Unknown, "no file of that name"},
		{":memory:", "", Unknown, "no file of that name"},
		{"app:pw@h/shop", "", Unknown, "MySQL's form is"},
		{"mysql://app:pw@h/shop?parseTime=maybe", "", MySQL, "maybe"},
		{"app:pw@tcp(h)/shop?parseTime=maybe", "", MySQL, "maybe"},
	} {
		clean, kind, err := Parse(c.text)
		if kind != c.kind || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || err == nil && clean != c.clean {
			t.Errorf("Parse(%q): want %q, %q and the error %q, got %q, %q and %v", c.text, c.clean, c.kind, c.want, clean, kind, err)
		}
	}
	config, err := MySQLConfig("mysql://a%3Ap:p%2Fw@h/my%20shop?timeout=3s")
	if err != nil || config.User != "a:p" || config.Passwd != "p/w" || config.Addr != "h:3306" || config.DBName != "my shop" || !config.ParseTime {
		t.Errorf("a MySQL URL: %+v, %v", config, err)
	}
}
