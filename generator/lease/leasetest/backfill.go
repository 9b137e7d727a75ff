package leasetest

import (
	"errors"
	"testing"

	"github.com/gormflake/gormflake/generator/lease"
)

func (s *suite) testBackfill(t *testing.T) {
	s.needs(t, Backfill)
	t.Run("Blocks", s.testBlocks)
	t.Run("Concurrent", s.testConcurrentBlocks)
	t.Run("Invalid", s.testInvalidBlocks)
}

func (s *suite) backfiller(t *testing.T) lease.Backfiller {
	b, ok := s.open(t).(lease.Backfiller)
	if !ok {
		t.Fatal("the store is no lease.Backfiller")
	}
	return b
}

// blockRequest asks two workers of a layout with 256 sequences.
func blockRequest(namespace string, first, last, sequences int64) lease.BlockRequest {
	layout := testLayout()
	layout.SequenceBits = 8
	return lease.BlockRequest{
		Namespace: namespace, Layout: layout, Workers: lease.Range{Lo: 1008, Hi: 1009},
		FirstTick: first, LastTick: last, Sequences: sequences,
	}
}

// ledger checks that no (tick, worker, sequence) is in two blocks.
type ledger []lease.Block

func (l *ledger) add(t *testing.T, req lease.BlockRequest, b lease.Block) {
	t.Helper()
	if b.FirstTick != req.FirstTick || b.LastTick != req.LastTick || !req.Workers.Contains(b.Worker) {
		t.Fatalf("block %+v; want ticks %d to %d on a worker of %v", b, req.FirstTick, req.LastTick, req.Workers)
	}
	if n := b.LastSequence - b.FirstSequence + 1; n < 1 || n > req.Sequences || b.FirstSequence < 0 || b.LastSequence > req.Layout.LastSequence() {
		t.Fatalf("block %+v; want 1 to %d sequences of 0 to %d", b, req.Sequences, req.Layout.LastSequence())
	}
	for _, o := range *l {
		if o.Worker == b.Worker && o.FirstTick <= b.LastTick && b.FirstTick <= o.LastTick &&
			o.FirstSequence <= b.LastSequence && b.FirstSequence <= o.LastSequence {
			t.Fatalf("blocks %+v and %+v overlap", o, b)
		}
	}
	*l = append(*l, b)
}

func (s *suite) testBlocks(t *testing.T) {
	ctx, store, ns := newContext(t), s.backfiller(t), newNamespace()
	var blocks ledger
	reserve := func(first, last, sequences int64) (lease.Block, error) {
		req := blockRequest(ns, first, last, sequences)
		b, err := store.ReserveBlock(ctx, req)
		if err == nil {
			blocks.add(t, req, b)
		}
		return b, err
	}
	total := int64(0)
	for i := 0; ; i++ {
		b, err := reserve(1000, 1999, 100)
		if errors.Is(err, lease.ErrSequenceExhausted) {
			break
		}
		if err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		total += b.LastSequence - b.FirstSequence + 1
	}
	if total != 512 {
		t.Errorf("blocks of one range hold %d sequences; want all 512 of two workers", total)
	}
	for name, r := range map[string][2]int64{"last tick": {1999, 2500}, "first tick": {0, 1000}, "within": {1500, 1500}} {
		if b, err := reserve(r[0], r[1], 1); !errors.Is(err, lease.ErrSequenceExhausted) {
			t.Errorf("%s: a range that touches a full one got %+v, error %v; want ErrSequenceExhausted", name, b, err)
		}
	}
	for name, r := range map[string][2]int64{"before": {0, 999}, "after": {2000, 3000}} {
		if b, err := reserve(r[0], r[1], 256); err != nil || b.FirstSequence != 0 || b.LastSequence != 255 {
			t.Errorf("%s: a range beside a full one got %+v, error %v; want sequences 0 to 255", name, b, err)
		}
	}
	other := blockRequest(newNamespace(), 1000, 1999, 256)
	if b, err := store.ReserveBlock(ctx, other); err != nil || b.FirstSequence != 0 {
		t.Errorf("another namespace got %+v, error %v; want sequences from 0", b, err)
	}
}

func (s *suite) testConcurrentBlocks(t *testing.T) {
	ctx, store, ns := newContext(t), s.backfiller(t), newNamespace()
	const importers, each = 8, 6
	reserved := make([][]lease.Block, importers)
	errs := make([]error, importers)
	request := func(i, k int) lease.BlockRequest {
		first := int64(i%3*400 + k)
		return blockRequest(ns, first, first+1000, 5)
	}
	inParallel(importers, func(i int) {
		for k := range each {
			b, err := store.ReserveBlock(ctx, request(i, k))
			if err != nil {
				errs[i] = err
				return
			}
			reserved[i] = append(reserved[i], b)
		}
	})
	var blocks ledger
	for i, list := range reserved {
		if errs[i] != nil {
			t.Errorf("importer %d: %v", i, errs[i])
		}
		for k, b := range list {
			blocks.add(t, request(i, k), b)
		}
	}
}

func (s *suite) testInvalidBlocks(t *testing.T) {
	ctx, store, ns := newContext(t), s.backfiller(t), newNamespace()
	for name, spoil := range map[string]func(*lease.BlockRequest){
		"no sequences":     func(r *lease.BlockRequest) { r.Sequences = 0 },
		"reversed ticks":   func(r *lease.BlockRequest) { r.FirstTick = r.LastTick + 1 },
		"a negative tick":  func(r *lease.BlockRequest) { r.FirstTick = -1 },
		"a tick too far":   func(r *lease.BlockRequest) { r.LastTick = 1 << 41 },
		"no workers":       func(r *lease.BlockRequest) { r.Workers = lease.Range{Lo: 1, Hi: 0} },
		"foreign workers":  func(r *lease.BlockRequest) { r.Workers.Hi = 1024 },
		"a bad namespace":  func(r *lease.BlockRequest) { r.Namespace = "" },
		"a layout of zero": func(r *lease.BlockRequest) { r.Layout = lease.Layout{} },
	} {
		req := blockRequest(ns, 1, 2, 1)
		spoil(&req)
		if b, err := store.ReserveBlock(ctx, req); !errors.Is(err, lease.ErrInvalid) {
			t.Errorf("%s: block %+v, error %v; want ErrInvalid", name, b, err)
		}
	}
	if _, err := store.ReserveBlock(ctx, blockRequest(ns, 1, 2, 1)); err != nil {
		t.Fatal(err)
	}
	if reason, ok := s.without[LayoutRecord]; ok {
		t.Logf("left out, the store has not %s: %s", LayoutRecord, reason)
		return
	}
	req := blockRequest(ns, 1, 2, 1)
	req.Layout.TickMillis = 10
	if b, err := store.ReserveBlock(ctx, req); !errors.Is(err, lease.ErrLayoutMismatch) {
		t.Errorf("another layout: block %+v, error %v; want ErrLayoutMismatch", b, err)
	}
}
