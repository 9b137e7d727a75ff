package servers

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Version returns what the server says it is.
func (p *Process) Version(ctx context.Context) (string, error) {
	return version(ctx, p.kind, p.DSN(""))
}

func version(ctx context.Context, kind Kind, dsn string) (string, error) {
	if kind == Redis {
		return redisVersion(ctx, dsn)
	}
	query := "SELECT version()"
	if kind == SQLite {
		query, dsn = "SELECT sqlite_version()", ":memory:"
	}
	db, err := sql.Open(driverName(kind), dsn)
	if err != nil {
		return "", fmt.Errorf("servers: open %s: %w", kind, err)
	}
	defer db.Close()
	var text string
	if err := db.QueryRowContext(ctx, query).Scan(&text); err != nil {
		return "", fmt.Errorf("servers: version of %s: %w", kind, err)
	}
	return text, nil
}

func redisVersion(ctx context.Context, url string) (string, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return "", fmt.Errorf("servers: version of redis: %w", err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("servers: version of redis: %w", err)
	}
	for line := range strings.Lines(info) {
		if version, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return strings.TrimSpace(version), nil
		}
	}
	return "", fmt.Errorf("servers: version of redis: INFO doesn't say")
}
