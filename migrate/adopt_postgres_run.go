package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

func (a *postgresAdopter) run(ctx context.Context, s AdoptStatement) error {
	switch {
	case s.fill != nil:
		return a.fill(ctx, s)
	case s.alone:
		return a.runAlone(ctx, s)
	}
	return a.runTogether(ctx, s)
}

// beforeDeadlock is how long a statement waits that has locked a table already: less
// than Postgres' deadlock_timeout, of one second, after which it might be somebody
// else's transaction that has to give way.
const beforeDeadlock = 500 * time.Millisecond

// runTogether executes the statements in one transaction, which gives up a lock
// that it doesn't get within MaxBlock, since everybody else queues behind it,
// unless the statement is one behind which nobody queues.
func (a *postgresAdopter) runTogether(ctx context.Context, s AdoptStatement) error {
	wait := a.spec.MaxBlock
	if s.several {
		wait = min(wait, beforeDeadlock)
	}
	sets := []string{fmt.Sprintf("SET LOCAL lock_timeout = %d", max(1, wait.Milliseconds()))}
	if s.gentle {
		sets = []string{"SET LOCAL lock_timeout = 0", "SET LOCAL statement_timeout = 0"}
	}
	err := retry(ctx, a.spec.Patience, pgBusy, func() error {
		tx, err := a.conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := a.tell(s, tx, false); err != nil {
			return err
		}
		for i, statement := range append(slices.Clone(sets), s.SQL...) {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%w (in: %s)", err, statement)
			}
			if i == len(sets) && s.still != nil { // on the transaction's connection, which is a's
				if err := s.still(ctx); err != nil {
					return err
				}
			}
		}
		if err := a.tell(s, tx, true); err != nil {
			return err
		}
		return tx.Commit()
	})
	if err == nil {
		a.confirmed(strings.Join(s.SQL, "; "))
	}
	return err
}

// runAlone executes what Postgres allows in no transaction. Nobody queues behind
// it, so that it may wait for its locks.
func (a *postgresAdopter) runAlone(ctx context.Context, s AdoptStatement) (err error) {
	for _, setting := range []string{"lock_timeout", "statement_timeout"} {
		if _, err := a.conn.ExecContext(ctx, "SET "+setting+" = 0"); err != nil {
			return err
		}
		defer func() {
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_, _ = a.conn.ExecContext(late, "RESET "+setting)
		}()
	}
	for _, statement := range s.SQL {
		if _, err := a.conn.ExecContext(ctx, statement); err != nil {
			return err
		}
		a.confirmed(statement)
	}
	return nil
}
