package simulation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// Config says what to simulate. Equal configs give equal runs.
type Config struct {
	Seed uint64
	// IDs is how many ids the run issues at least. They are spread over
	// episodes, each with a store, a fleet and faults of its own.
	IDs int64
	// Mutant is the fault in the protocol to simulate; "" for none.
	Mutant string
	// Only is the one check that counts; "" for all.
	Only string
	// Log gets a line for each episode; nil for none.
	Log io.Writer
}

// Result is what a run did.
type Result struct {
	Episodes int
	IDs      int64            // issued, backfills included
	Past     int64            // of these, of backfills
	Virtual  time.Duration    // simulated time
	Counts   map[string]int64 // faults that were injected and what came of them
	Digest   string           // of all ids in the order of their issue
}

// Episodes are long enough for a hundred windows of a few nodes, and short
// enough that a run has many of them.
const (
	shortestEpisode = 20_000
	longestEpisode  = 200_000
)

// Run simulates until the ids are issued or a check fails, with a *Violation.
func Run(c Config) (Result, error) {
	result := Result{Counts: map[string]int64{}}
	var mutant *Mutant
	if c.Mutant != "" {
		for _, m := range Mutants() {
			if m.Name == c.Mutant {
				mutant = &m
			}
		}
		if mutant == nil {
			return result, fmt.Errorf("simulation: there is no mutant %q; -mutants lists them", c.Mutant)
		}
	}
	digest := sha256.New()
	each := max(shortestEpisode, min(longestEpisode, c.IDs/20))
	for result.IDs < c.IDs {
		r := rand.New(rand.NewPCG(c.Seed, uint64(result.Episodes)))
		s := draw(r, each)
		if mutant != nil {
			mutant.shape(&s)
			s.pace(each)
		}
		f := newFleet(r, s, mutant, c.Only)
		violation := f.run(each)
		result.Episodes++
		result.IDs += f.checker.ids
		result.Past += f.checker.past
		result.Virtual += f.now
		for what, n := range f.counts {
			result.Counts[what] += n
		}
		digest.Write(f.checker.digest.Sum(nil))
		result.Digest = hex.EncodeToString(digest.Sum(nil)[:16])
		if c.Log != nil {
			fmt.Fprintf(c.Log, "episode %d: %v; %d ids in %v\n", result.Episodes, &s, f.checker.ids, f.now.Round(time.Second))
		}
		if violation != nil {
			return result, violation
		}
	}
	return result, nil
}
