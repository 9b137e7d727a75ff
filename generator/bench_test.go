package generator_test

import (
	"context"
	"testing"
	"time"

	"github.com/gormflake/gormflake/generator"
)

// openBench returns a generator with this many sequence bits; 20 never bind.
func openBench(b *testing.B, bits int) *generator.Generator {
	layout := generator.Standard()
	layout.TimeBits, layout.SequenceBits = 53-bits, bits
	if bits > 12 {
		layout.TimeBits, layout.WorkerBits = 41, 63-41-bits
	}
	g, err := generator.Open(context.Background(), generator.Config{Store: unbounded{}, Layout: layout})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = g.Close(context.Background()) })
	return g
}

var sink generator.ID

func BenchmarkNext(b *testing.B) {
	g := openBench(b, 20)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		sink, _ = g.Next(ctx)
	}
}

func BenchmarkNextStandardLayout(b *testing.B) {
	g := openBench(b, 12)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		sink, _ = g.Next(ctx)
	}
}

func BenchmarkNextParallel(b *testing.B) {
	g := openBench(b, 20)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = g.Next(context.Background())
		}
	})
}

func BenchmarkFill1000(b *testing.B) {
	g := openBench(b, 20)
	ids := make([]generator.ID, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if err := g.Fill(context.Background(), ids); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/id")
}

func BenchmarkSaturated(b *testing.B) {
	g := openBench(b, 12)
	ctx := context.Background()
	began := time.Now()
	n := 0
	for b.Loop() {
		if _, err := g.Next(ctx); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(n)/float64(time.Since(began).Milliseconds())/4096, "of-capacity")
}
