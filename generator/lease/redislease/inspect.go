package redislease

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// inspect refuses a server that shows what can't be: rows that may be evicted,
// or replicas beside those that were stated. It asks INFO, since CONFIG is for
// administrators.
func (s *store) inspect(ctx context.Context, conn *redis.Conn) error {
	memory, err := info(ctx, conn, "memory")
	if err != nil {
		return err
	}
	if policy := memory["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys-") {
		return fmt.Errorf("%w: want noeviction or volatile-*, got %s; a lease that is deleted may be given twice", ErrEviction, policy)
	}
	if !s.own.durability() || s.own.guard >= 0 {
		return nil
	}
	replication, err := info(ctx, conn, "replication")
	if err != nil {
		return err
	}
	if attached, err := strconv.Atoi(replication["connected_slaves"]); err == nil && attached > s.own.replicas {
		return &ReplicasError{Stated: s.own.replicas, Met: attached, err: ErrReplicas}
	}
	return nil
}

func info(ctx context.Context, conn *redis.Conn, section string) (map[string]string, error) {
	cmd := once{redis.NewCmd(ctx, "info", section)}
	if err := conn.Process(ctx, cmd); err != nil {
		return nil, typed(ctx, err)
	}
	text, err := cmd.Text()
	if err != nil {
		return nil, typed(ctx, err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}
