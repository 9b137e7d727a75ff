package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	bwmarrin "github.com/bwmarrin/snowflake"
	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"
	"github.com/rs/xid"
	"github.com/sony/sonyflake"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// peer is one generator of the table. Each of its functions makes one id.
type peer struct {
	name string
	note string
	// open returns a function that makes an id, and one that ends it.
	open func() (next func() error, done func(), err error)
}

func peers() []peer {
	return []peer{
		{"floor", "one wall-clock read and one compare-and-swap", openFloor},
		{"gormflake Next", "sequence wide enough not to bind", openNext(wide())},
		{"gormflake Next, 12 bits", "bound by 4,096 ids a millisecond", openNext(generator.Standard())},
		{"bwmarrin", "as it ships: bound by 4,096 ids a millisecond", openBwmarrin(10, 12)},
		{"bwmarrin, wide step", "21 step bits, never bound", openBwmarrin(1, 21)},
		{"sonyflake", "bound by 256 ids in 10 ms", openSonyflake},
		{"google/uuid v7", "128 bits", plain(func() error { _, err := uuid.NewV7(); return err })},
		{"oklog/ulid", "128 bits", plain(func() error { _ = ulid.Make(); return nil })},
		{"rs/xid", "96 bits", plain(func() error { _ = xid.New(); return nil })},
	}
}

// wide is a layout whose sequence no caller can use up.
func wide() generator.Layout {
	l := generator.Standard()
	l.WorkerBits, l.SequenceBits = 2, 20
	return l
}

func plain(next func() error) func() (func() error, func(), error) {
	return func() (func() error, func(), error) { return next, func() {}, nil }
}

func openFloor() (func() error, func(), error) {
	var word atomic.Int64
	return func() error {
		old := word.Load()
		word.CompareAndSwap(old, max(wallMillis()<<12, old+1))
		return nil
	}, func() {}, nil
}

func openNext(l generator.Layout) func() (func() error, func(), error) {
	return func() (func() error, func(), error) {
		ctx := context.Background()
		g, err := generator.Open(ctx, generator.Config{Store: lease.Memory(), Layout: l})
		if err != nil {
			return nil, nil, err
		}
		return func() error { _, err := g.Next(ctx); return err }, func() { _ = g.Close(ctx) }, nil
	}
}

func openBwmarrin(nodeBits, stepBits uint8) func() (func() error, func(), error) {
	return func() (func() error, func(), error) {
		bwmarrin.NodeBits, bwmarrin.StepBits = nodeBits, stepBits
		node, err := bwmarrin.NewNode(1)
		if err != nil {
			return nil, nil, err
		}
		return func() error { _ = node.Generate(); return nil }, func() {}, nil
	}
}

func openSonyflake() (func() error, func(), error) {
	s := sonyflake.NewSonyflake(sonyflake.Settings{MachineID: func() (uint16, error) { return 1, nil }})
	if s == nil {
		return nil, nil, errors.New("benchmarks: sonyflake refused its settings")
	}
	return func() error { _, err := s.NextID(); return err }, func() {}, nil
}

// single and parallel are the two ways that a peer is called.
func single(next func() error) func(*testing.B) {
	return func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if err := next(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func parallel(next func() error) func(*testing.B) {
	return func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := next(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
}
