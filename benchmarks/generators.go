package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// result is the best of several rounds: other programs on the machine can
// only make a round slower.
type result struct {
	ns     float64
	allocs int64
}

func (r *result) add(b testing.BenchmarkResult, per float64) {
	ns := float64(b.T.Nanoseconds()) / float64(b.N) / per
	if r.ns == 0 || ns < r.ns {
		r.ns = ns
	}
	r.allocs = b.AllocsPerOp()
}

// generators measures every peer in turn, several rounds over, so that a busy
// moment of the machine falls on all of them, and prints ratios to the floor.
func generators(out io.Writer, rounds int) error {
	all := peers()
	singles, parallels := make([]result, len(all)), make([]result, len(all))
	var fill result
	for range rounds {
		for i, p := range all {
			next, done, err := p.open()
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			singles[i].add(testing.Benchmark(single(next)), 1)
			parallels[i].add(testing.Benchmark(parallel(next)), 1)
			done()
		}
		b, err := benchmarkFill()
		if err != nil {
			return err
		}
		fill.add(b, burst)
	}
	fmt.Fprintf(out, "Generators, best of %d rounds on %d cores; ratios to the floor of the same run\n\n", rounds, runtime.GOMAXPROCS(0))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "generator\tns/id\tratio\tparallel ns/id\tratio\tallocs\t")
	for i, p := range all {
		fmt.Fprintf(w, "%s\t%.1f\t%.2f\t%.1f\t%.2f\t%d\t  %s\n", p.name,
			singles[i].ns, singles[i].ns/singles[0].ns, parallels[i].ns, parallels[i].ns/parallels[0].ns, singles[i].allocs, p.note)
	}
	fmt.Fprintf(w, "gormflake Fill(%d)\t%.2f\t%.2f\t\t\t%d\t  sequence wide enough not to bind\n", burst, fill.ns, fill.ns/singles[0].ns, fill.allocs)
	if err := w.Flush(); err != nil {
		return err
	}
	return saturation(out)
}

const burst = 1000

func benchmarkFill() (testing.BenchmarkResult, error) {
	ctx := context.Background()
	g, err := generator.Open(ctx, generator.Config{Store: lease.Memory(), Layout: wide()})
	if err != nil {
		return testing.BenchmarkResult{}, err
	}
	defer g.Close(ctx)
	ids := make([]generator.ID, burst)
	return testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if err := g.Fill(ctx, ids); err != nil {
				b.Fatal(err)
			}
		}
	}), nil
}

// saturation asks for ids as fast as it can for two seconds: waiting sleeps
// and never spins, so one core stays mostly idle.
func saturation(out io.Writer) error {
	ctx := context.Background()
	g, err := generator.Open(ctx, generator.Config{Store: lease.Memory()})
	if err != nil {
		return err
	}
	defer g.Close(ctx)
	const span = 2 * time.Second
	cpu, began, n := processTime(), time.Now(), 0
	for time.Since(began) < span {
		for range 512 {
			if _, err := g.Next(ctx); err != nil {
				return err
			}
		}
		n += 512
	}
	took := time.Since(began)
	capacity := float64(took.Milliseconds()) * 4096
	fmt.Fprintf(out, "\nSaturated for %v: %.1f %% of 4,096 ids per millisecond at %.0f %% of one core\n\n",
		span, math.Min(100, 100*float64(n)/capacity), 100*float64(processTime()-cpu)/float64(took))
	return nil
}

// processTime is the processor time, of user and system, that this process
// has used.
func processTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
