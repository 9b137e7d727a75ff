package migrate

import (
	"context"
	"errors"
	"testing"
)

func TestPartialErrorText(t *testing.T) {
	for _, c := range []struct{ step, want string }{
		{"Swap", "migrate: Swap failed after 1 statement: why (in: ALTER); call Swap again to resume, or Rollback"},
		{"Rollback", "migrate: Rollback failed after 1 statement: why (in: ALTER); call Rollback again to resume"},
		{"Cleanup", "migrate: Cleanup failed after 1 statement: why (in: ALTER); call Cleanup again to resume"},
	} {
		e := &PartialError{Step: c.step, Applied: []string{"x"}, Failed: "ALTER", Err: errors.New("why")}
		if e.Error() != c.want {
			t.Errorf("expected %q, met %q", c.want, e.Error())
		}
	}
}

// TestBoolsStepContext: a step whose context ends says so, whatever the driver made
// of it.
func TestBoolsStepContext(t *testing.T) {
	onMySQL(t, func(t *testing.T, f *fixture) {
		orderTable(f, 3)
		p := f.plan(BoolSpec{Table: "t"})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		lost := errors.New("the connection was lost")
		err := p.step(ctx, "Prepare", func(*boolSession, boolState) error {
			cancel()
			return lost
		})
		if !errors.Is(err, lost) || !errors.Is(err, context.Canceled) {
			t.Errorf("expected both errors, met %v", err)
		}
	})
}
