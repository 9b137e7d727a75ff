package simulation

import (
	"errors"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fresh seed each time: the protocol holds for all of them. The command
// replays a failure.
func TestFleetsKeepEveryPromise(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	result, err := Run(Config{Seed: seed, IDs: 400_000})
	if err != nil {
		t.Fatalf("go run ./internal/simulation/cmd -seed %d -ids 400000: %v", seed, err)
	}
	if result.IDs < 400_000 || result.Past == 0 {
		t.Errorf("want at least 400000 ids, some of them of backfills, got %d and %d", result.IDs, result.Past)
	}
	for _, fault := range []string{
		"crash", "pause", "clock jump", "clock drift", "clock frozen", "clock oscillating", "request lost",
		"reply lost", "request doubled", "message delayed", "node partitioned", "failover", "clone extended",
	} {
		if result.Counts[fault] == 0 {
			t.Errorf("seed %d: the run had no %q; it proves little", seed, fault)
		}
	}
}

func TestSameSeedGivesSameRun(t *testing.T) {
	first, err := Run(Config{Seed: 42, IDs: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Run(Config{Seed: 42, IDs: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	other, err := Run(Config{Seed: 43, IDs: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	if first.Digest != again.Digest || first.Virtual != again.Virtual {
		t.Errorf("seed 42 gave digest %s after %v, then %s after %v", first.Digest, first.Virtual, again.Digest, again.Virtual)
	}
	if first.Digest == other.Digest {
		t.Errorf("seeds 42 and 43 gave the same digest %s", first.Digest)
	}
}

// Every mutant fails the run, and not merely by the bookkeeping of grants: in
// the end each one gives an id twice.
func TestMutantsAreCaught(t *testing.T) {
	if len(Mutants()) < 8 {
		t.Fatalf("want at least 8 mutants, got %d", len(Mutants()))
	}
	for _, m := range Mutants() {
		for _, only := range []string{"", CheckUnique} {
			name := m.Name
			if only != "" {
				name += "/" + only
			}
			t.Run(name, func(t *testing.T) {
				result, err := Run(Config{Seed: 1, IDs: 2_000_000, Mutant: m.Name, Only: only})
				var violation *Violation
				if !errors.As(err, &violation) {
					t.Fatalf("%s survived %d ids: %v", m.What, result.IDs, err)
				}
				if only != "" && violation.Check != only {
					t.Errorf("want check %q to fail, got %v", only, violation)
				}
				t.Logf("after %d ids: %v", result.IDs, violation)
			})
		}
	}
}

func TestUnknownMutantIsRefused(t *testing.T) {
	_, err := Run(Config{Seed: 1, IDs: 1, Mutant: "none-such"})
	var violation *Violation
	if err == nil || errors.As(err, &violation) {
		t.Errorf("want an error that is no violation, got %v", err)
	}
}

func TestIDSet(t *testing.T) {
	var s idSet
	r := rand.New(rand.NewPCG(1, 2))
	known := map[int64]bool{}
	for range 100_000 {
		id := 1 + r.Int64N(200_000)
		if got := s.add(id); got == known[id] {
			t.Fatalf("add(%d) = %v, it was added before: %v", id, got, known[id])
		}
		known[id] = true
	}
	if s.count != len(known) {
		t.Errorf("count is %d, want %d", s.count, len(known))
	}
}
