package lease_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gormflake/gormflake/generator/lease"
)

func exampleRequest(now time.Time) lease.Request {
	return lease.Request{
		Namespace: "example",
		Layout:    lease.Layout{EpochMillis: 1420070400000, TickMillis: 1, TimeBits: 41, WorkerBits: 10, SequenceBits: 12},
		Workers:   lease.Range{Lo: 0, Hi: 1}, Token: lease.NewToken(),
		Now: now.UnixMilli(), Avoid: -1,
	}
}

// A generator does this in the background: it acquires a row, extends it, and
// releases it. Its ids lie in the grants that it saw succeed.
func ExampleStore() {
	ctx, now := context.Background(), time.Now()
	store := lease.Memory()
	grant, err := store.Acquire(ctx, exampleRequest(now))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("term", grant.Term, "through", grant.Through-now.UnixMilli(), "ms past the clock")
	grant, err = store.Extend(ctx, grant, now.Add(33*time.Second).UnixMilli())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("through", grant.Through-now.UnixMilli(), "ms past the clock")
	fmt.Println("released:", store.Release(ctx, grant, grant.Through))
	// Output:
	// term 1 through 30000 ms past the clock
	// through 33000 ms past the clock
	// released: <nil>
}

// One acquirer too many learns who holds the rows.
func ExampleNoWorkerError() {
	ctx, store := context.Background(), lease.Memory()
	for range 3 {
		_, err := store.Acquire(ctx, exampleRequest(time.Now()))
		var full *lease.NoWorkerError
		if errors.As(err, &full) {
			fmt.Println(errors.Is(err, lease.ErrNoWorker), "workers", full.Workers, "rows", len(full.Rows))
		}
	}
	// Output:
	// true workers 0 to 1 rows 2
}

func ExampleFixed() {
	ctx, store := context.Background(), lease.Fixed(0)
	grant, err := store.Acquire(ctx, exampleRequest(time.Now()))
	fmt.Println("worker", grant.Worker, "unbounded", grant.Through == lease.Unbounded, err)
	_, err = lease.Fixed(0).Acquire(ctx, exampleRequest(time.Now()))
	fmt.Println(errors.Is(err, lease.ErrWorkerInUse))
	fmt.Println("released:", store.Release(ctx, grant, grant.From))
	// Output:
	// worker 0 unbounded true <nil>
	// true
	// released: <nil>
}

// The database, here lease.Memory, refuses a second process that was given the
// same fixed worker id by mistake.
func ExampleFenced() {
	ctx, fence := context.Background(), lease.Memory(lease.Window(10*time.Minute))
	other := exampleRequest(time.Now())
	other.Namespace, other.Workers = "fenced", lease.Range{Lo: 1, Hi: 1}
	if _, err := fence.Acquire(ctx, other); err != nil { // the other process
		fmt.Println(err)
	}
	req := exampleRequest(time.Now())
	req.Namespace = "fenced"
	_, err := lease.Fenced(lease.Fixed(1), fence).Acquire(ctx, req)
	fmt.Println(errors.Is(err, lease.ErrWorkerInUse))
	// Output:
	// true
}
