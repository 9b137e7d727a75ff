package servers

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
)

// recipes holds the outcome of locating each kind's programs, so that what is
// missing is asked for once in a program.
var recipes sync.Map // Kind to *located

type located struct {
	once   sync.Once
	recipe recipe
	err    error
}

func find(ctx context.Context, kind Kind) (recipe, error) {
	if switchedOn("GORMFLAKE_NO_SERVERS") && kind != SQLite {
		return nil, unavailable(kind, "GORMFLAKE_NO_SERVERS is set")
	}
	if runtime.GOOS == "windows" {
		return nil, unavailable(kind, "its processes are managed with Unix signals; name a running one in %s", kind.Environment())
	}
	entry, _ := recipes.LoadOrStore(kind, &located{})
	l := entry.(*located)
	l.once.Do(func() {
		if l.recipe, l.err = newRecipe(kind); l.err == nil {
			l.err = l.recipe.find(ctx)
		}
	})
	return l.recipe, l.err
}

func newRecipe(kind Kind) (recipe, error) {
	switch kind {
	case MariaDB:
		return &mariaDB{}, nil
	case MySQL57:
		return &mySQL57{}, nil
	case MySQL56:
		return &mySQL56{}, nil
	case Postgres:
		return &postgresServer{}, nil
	case Redis:
		return &redisServer{}, nil
	case MySQL80, MySQL84:
		return nil, unavailable(kind, "it is only used where %s names one", kind.Environment())
	case SQLite:
		return nil, unavailable(kind, "it is embedded; there is no process to start or break")
	}
	return nil, unavailable(kind, "it is not a kind of server known here")
}

func unavailable(kind Kind, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrUnavailable, kind, fmt.Sprintf(format, args...))
}

// newFolder makes a server's folder. Postgres refuses to run as root; for the
// superuser it runs as the user postgres, or as nobody.
func newFolder(kind Kind) (string, *credential, error) {
	base, err := watchdog.folder()
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp(base, string(kind)+"-")
	if err != nil {
		return "", nil, fmt.Errorf("servers: %w", err)
	}
	if kind != Postgres || os.Geteuid() != 0 {
		return dir, nil, nil
	}
	owner, err := unprivileged()
	if err == nil {
		err = giveTo(owner, dir)
	}
	if err != nil {
		return "", nil, fmt.Errorf("servers: a user for Postgres to run as: %w", err)
	}
	return dir, owner, nil
}
