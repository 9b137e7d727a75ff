package lease_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/generator/lease/leasetest"
)

func TestFixedContract(t *testing.T) {
	for name, worker := range map[string]int64{"zero": 0, "seven": 7, "highest live worker of the layout": 1007} {
		t.Run(name, func(t *testing.T) {
			leasetest.Run(t, func(*testing.T) lease.Store { return lease.Fixed(worker) },
				leasetest.OneWorker(worker),
				leasetest.Without(leasetest.LayoutRecord, "nothing is kept outside the process"),
				leasetest.Without(leasetest.Backfill, "nothing is kept outside the process"))
		})
	}
}

// newNamespace returns a namespace that nobody used before: the process
// remembers fixed worker ids for longer than a test lasts.
func newNamespace() string { return "test-" + rand.Text() }

// request asks for a worker id of the standard layout at now.
func request(namespace string, now int64) lease.Request {
	return lease.Request{
		Namespace: namespace,
		Layout:    lease.Layout{EpochMillis: 1420070400000, TickMillis: 1, TimeBits: 41, WorkerBits: 10, SequenceBits: 12},
		Workers:   lease.Range{Lo: 0, Hi: 1007}, Token: lease.NewToken(),
		Now: now, MaxAhead: 10, MaxLead: 10, Avoid: -1,
	}
}

func TestFixedStartsAboveWhatWasUsed(t *testing.T) {
	const now = 1_700_000_000_000
	ctx, ns := t.Context(), newNamespace()
	tests := []struct {
		name            string
		now, used       int64
		from, notBefore int64
	}{
		{"a fresh process waits out the lead of the one before", now, now + 500, now + 10, now + 10},
		{"the clock has passed what was used", now + 1000, now + 2000, now + 1000, 0},
		{"the clock was set back", now - 3_600_000, now - 3_600_000, now + 2000, 0},
		{"nothing was used under the last grant", now - 3_600_000, 0, now + 2000, 0},
	}
	for i, test := range tests {
		grant, err := lease.Fixed(1).Acquire(ctx, request(ns, test.now))
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if grant.From != test.from || grant.NotBefore != test.notBefore || grant.Term != int64(i+1) {
			t.Errorf("%s: %+v; want from %d, not before %d, term %d", test.name, grant, test.from, test.notBefore, i+1)
		}
		if err := lease.Fixed(1).Release(ctx, grant, test.used); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
	}
}

func TestFixedIsHeldOnceInTheProcess(t *testing.T) {
	ctx, ns := t.Context(), newNamespace()
	if lease.Fixed(4).Key() != lease.Fixed(4).Key() || lease.Fixed(4).Key() == lease.Fixed(5).Key() {
		t.Error("keys do not follow the worker id")
	}
	if _, err := lease.Fixed(4).Acquire(ctx, request(ns, 1000)); err != nil {
		t.Fatal(err)
	}
	if _, err := lease.Fixed(4).Acquire(ctx, request(ns, 1000)); !errors.Is(err, lease.ErrWorkerInUse) {
		t.Errorf("a second store of the same worker: error %v; want ErrWorkerInUse", err)
	}
	if _, err := lease.Fixed(5).Acquire(ctx, request(ns, 1000)); err != nil {
		t.Errorf("another worker: %v", err)
	}
	if _, err := lease.Fixed(4).Acquire(ctx, request(ns+"2", 1000)); err != nil {
		t.Errorf("another namespace: %v", err)
	}
}

func TestFixedRefusesWorkersOutsideTheRange(t *testing.T) {
	for _, worker := range []int64{-1, 1008, 1023, 1 << 40} {
		if _, err := lease.Fixed(worker).Acquire(t.Context(), request(newNamespace(), 1000)); !errors.Is(err, lease.ErrInvalid) {
			t.Errorf("worker %d: error %v; want ErrInvalid", worker, err)
		}
	}
}

func TestOrdinal(t *testing.T) {
	tests := []struct {
		name, variable, pod string
		worker              int64
		err                 error
	}{
		{name: "the variable", variable: "7", worker: 7},
		{name: "the variable is zero", variable: "0", worker: 0},
		{name: "the variable comes first", variable: "7", pod: "orders-3", worker: 7},
		{name: "a pod's name", pod: "orders-3", worker: 3},
		{name: "a pod's name with more hyphens", pod: "eu-west-orders-12", worker: 12},
		{name: "the first pod", pod: "orders-0", worker: 0},
		{name: "a leading zero", pod: "orders-007", worker: 7},
		{name: "rubbish in the variable does not fall back", variable: "seven", pod: "orders-3", err: lease.ErrInvalid},
		{name: "a sign", variable: "+3", err: lease.ErrInvalid},
		{name: "a negative number", variable: "-3", err: lease.ErrInvalid},
		{name: "a space", variable: " 3", err: lease.ErrInvalid},
		{name: "another base", variable: "0x3", err: lease.ErrInvalid},
		{name: "too large for a number", variable: "99999999999999999999", err: lease.ErrInvalid},
		{name: "a pod of a Deployment", pod: "orders-6d4cf56db6-x2x7k", err: lease.ErrInvalid},
		{name: "no number after the hyphen", pod: "orders-", err: lease.ErrInvalid},
		{name: "no hyphen", pod: "orders3", err: lease.ErrInvalid},
		{name: "outside the layout", variable: "1024", err: lease.ErrInvalid},
		{name: "kept for backfills", pod: "orders-1008", err: lease.ErrInvalid},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(lease.WorkerIDVariable, test.variable)
			t.Setenv("POD_NAME", test.pod)
			store := lease.Ordinal()
			grant, err := store.Acquire(t.Context(), request(newNamespace(), 1000))
			if !errors.Is(err, test.err) || err == nil && grant.Worker != test.worker {
				t.Errorf("worker %d, error %v; want worker %d, error %v", grant.Worker, err, test.worker, test.err)
			}
			if err == nil && store.Key() != lease.Fixed(test.worker).Key() {
				t.Error("Ordinal and Fixed of one worker id have different keys")
			}
		})
	}
}

func TestOrdinalContract(t *testing.T) {
	t.Setenv(lease.WorkerIDVariable, "11")
	leasetest.Run(t, func(*testing.T) lease.Store { return lease.Ordinal() },
		leasetest.OneWorker(11),
		leasetest.Without(leasetest.LayoutRecord, "nothing is kept outside the process"),
		leasetest.Without(leasetest.Backfill, "nothing is kept outside the process"))
}

func TestFromEnvironment(t *testing.T) {
	t.Setenv(lease.WorkerIDVariable, "")
	if store, ok, err := lease.FromEnvironment(); store != nil || ok || err != nil {
		t.Errorf("without the variable: %v, %v, %v; want no store and no error", store, ok, err)
	}
	t.Setenv(lease.WorkerIDVariable, "0")
	if store, ok, err := lease.FromEnvironment(); !ok || err != nil || store.Key() != lease.Fixed(0).Key() {
		t.Errorf("with 0: %v, %v, %v; want Fixed(0)", store, ok, err)
	}
	t.Setenv(lease.WorkerIDVariable, "1.5")
	if store, ok, err := lease.FromEnvironment(); ok || !errors.Is(err, lease.ErrInvalid) {
		t.Errorf("with 1.5: %v, %v, %v; want ErrInvalid", store, ok, err)
	}
}

// Whatever can't be set up says why at every call.
func TestUnusable(t *testing.T) {
	ctx := context.Background()
	for name, store := range map[string]lease.Store{
		"Fenced": lease.Fenced(nil, lease.Memory()), "File": lease.File("", 1),
	} {
		_, acquireErr := store.Acquire(ctx, request(newNamespace(), 1000))
		_, extendErr := store.Extend(ctx, lease.Grant{}, 1)
		_, _, lookupErr := store.Lookup(ctx, "n", 1)
		for call, err := range map[string]error{
			"Acquire": acquireErr, "Extend": extendErr, "Lookup": lookupErr, "Release": store.Release(ctx, lease.Grant{}, 0),
		} {
			if !errors.Is(err, lease.ErrInvalid) {
				t.Errorf("%s: %s: error %v; want ErrInvalid", name, call, err)
			}
		}
	}
}
