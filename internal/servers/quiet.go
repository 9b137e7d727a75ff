package servers

import (
	"context"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

// Tests break servers on purpose; the drivers' own lines about lost
// connections would drown what matters. The errors reach the tests.
func init() {
	_ = mysql.SetLogger(&mysql.NopLogger{})
	redis.SetLogger(noLogger{})
}

type noLogger struct{}

func (noLogger) Printf(context.Context, string, ...any) {}
