package memorylease_test

import (
	"database/sql"
	"testing"

	"github.com/gormflake/gormflake/internal/memorylease"
)

func TestOneStoreForOneDatabase(t *testing.T) {
	a, b, c := new(sql.DB), new(sql.DB), new(sql.DB)
	plain := memorylease.Of(a, "leases", "")
	if memorylease.Of(a, "leases", "") != plain {
		t.Error("one pool and table: want one store")
	}
	if memorylease.Of(a, "other", "") == plain {
		t.Error("another table: want another store")
	}
	if memorylease.Of(b, "leases", "") == plain {
		t.Error("another pool: want another store")
	}
	if memorylease.Of(a, "leases", "shared") != plain {
		t.Error("a pool that turns out to have a name: want its store")
	}
	if memorylease.Of(c, "leases", "shared") != plain || memorylease.Of(c, "leases", "") != plain {
		t.Error("another pool of one name: want one store, also once the name is not known")
	}
}
