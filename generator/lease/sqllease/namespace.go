package sqllease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/gormflake/gormflake/generator/lease"
)

// record is what the database keeps of a namespace.
type record struct {
	layout   string
	identity string // of the server that held the rows last
	floor    int64  // no newcomer's ids lie below it
	reach    int64  // how far past the clock any store's high water may lie

	now    int64  // the database's clock
	server string // the identity of the server that answered
}

// enter reads the namespace's record, which its first user begins, and brings
// it up to date: the longest reach, and the identity of the server.
//
// When the identity has changed, the rows may lack grants that the former
// server gave. Each of those ends before that server's clock plus reach, so
// from now plus reach on, every time is free on every worker.
func (s *store) enter(ctx context.Context, d *database, namespace string, layout lease.Layout) (record, error) {
	const rounds = 20 // each brings one change; others may come between
	for range rounds {
		r, found, err := s.readRecord(ctx, d, namespace)
		var text string
		var args []any
		switch {
		case err != nil && classify(err) == missing:
			if err := s.create(ctx, err); err != nil {
				return record{}, err
			}
			continue
		case err != nil:
			return record{}, err
		case !found:
			text, args = d.begin, []any{namespace, layout.String(), s.reach()}
		case r.layout != layout.String():
			return record{}, fmt.Errorf("sqllease: %w", &lease.LayoutMismatchError{
				Namespace: namespace, Recorded: r.layout, Requested: layout.String(),
			})
		case r.reach < s.reach():
			text, args = s.texts.reach, []any{s.reach(), namespace, s.reach()}
		case r.server != "" && r.server != r.identity:
			text, args = s.texts.reidentify, []any{r.server, namespace, r.identity}
		default:
			return r, nil
		}
		err = s.retry(ctx, "write the namespace's record", func() error {
			_, err := s.db.ExecContext(ctx, text, args...)
			return err
		})
		if err != nil && classify(err) != missing {
			return record{}, err
		}
	}
	return record{}, fmt.Errorf("sqllease: the record of namespace %q changed %d times while it was read; want one primary that answers all statements, or WithGuard where several servers answer in turn", namespace, rounds)
}

func (s *store) readRecord(ctx context.Context, d *database, namespace string) (r record, found bool, err error) {
	err = s.retry(ctx, "read the namespace's record", func() error {
		err := s.db.QueryRowContext(ctx, d.enter, namespace).
			Scan(&r.layout, &r.identity, &r.floor, &r.reach, &r.now, &r.server)
		found = err == nil
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return r, found, err
}
