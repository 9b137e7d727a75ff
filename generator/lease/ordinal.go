package lease

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// WorkerIDVariable is the environment variable that holds a fixed worker id.
const WorkerIDVariable = "GORMFLAKE_WORKER_ID"

// Ordinal returns Fixed with the number of a StatefulSet's pod as worker id:
// 3 for the pod named orders-3. It reads GORMFLAKE_WORKER_ID, else the name of
// the pod in POD_NAME, else the host's name, once, when it is called. When
// there is no number, or the layout has no such worker id, Acquire returns
// ErrInvalid; it never falls back to another number.
//
// Kubernetes starts a pod of a StatefulSet only after the one before it with
// that name has ended. Deleting a pod by force breaks that promise, and so do
// two StatefulSets that share a namespace of ids. What Fixed says holds
// besides.
func Ordinal() Store {
	if store, ok, err := FromEnvironment(); err != nil || ok {
		if err != nil {
			return &unusable{err}
		}
		return store
	}
	source, name := "POD_NAME", os.Getenv("POD_NAME")
	if name == "" {
		var err error
		source = "the host's name"
		if name, err = os.Hostname(); err != nil {
			return &unusable{fmt.Errorf("%w: want a worker id in %s or a pod's number in POD_NAME, and the host's name can't be read: %w",
				ErrInvalid, WorkerIDVariable, err)}
		}
	}
	worker, err := ordinalOf(name)
	if err != nil {
		return &unusable{fmt.Errorf("%w: want %s to end in a pod's number, as in orders-3, got %q; or set %s",
			ErrInvalid, source, name, WorkerIDVariable)}
	}
	return &fixed{worker: worker, source: fmt.Sprintf(" (from %s %q)", source, name)}
}

// FromEnvironment returns Fixed with the worker id in GORMFLAKE_WORKER_ID, of
// which 0 is one. ok is false when the variable is not set or is empty. What
// is no decimal number from 0 up is ErrInvalid: a typing error must not
// become another worker id.
func FromEnvironment() (store Store, ok bool, err error) {
	text := os.Getenv(WorkerIDVariable)
	if text == "" {
		return nil, false, nil
	}
	worker, err := decimal(text)
	if err != nil {
		return nil, false, fmt.Errorf("%w: want a decimal worker id in %s, 0 or more, got %q", ErrInvalid, WorkerIDVariable, text)
	}
	return &fixed{worker: worker, source: " (from " + WorkerIDVariable + ")"}, true, nil
}

func ordinalOf(name string) (int64, error) {
	hyphen := strings.LastIndexByte(name, '-')
	if hyphen < 0 {
		return 0, strconv.ErrSyntax
	}
	return decimal(name[hyphen+1:])
}

// decimal takes digits alone: no sign, no space, no other base.
func decimal(s string) (int64, error) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, strconv.ErrSyntax
		}
	}
	return strconv.ParseInt(s, 10, 64)
}

// unusable is a store that could not be set up; each call says why.
type unusable struct{ err error }

func (u *unusable) Key() any       { return u }
func (u *unusable) Timing() Timing { return Timing{} }

func (u *unusable) Describe() string { return u.err.Error() }

func (u *unusable) Acquire(context.Context, Request) (Grant, error) { return Grant{}, u.err }

func (u *unusable) Extend(context.Context, Grant, int64) (Grant, error) { return Grant{}, u.err }

func (u *unusable) Release(context.Context, Grant, int64) error { return u.err }

func (u *unusable) Lookup(context.Context, string, int64) (Row, bool, error) {
	return Row{}, false, u.err
}
