package dsn

import (
	"errors"
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
