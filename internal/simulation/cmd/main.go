// Command cmd runs the fleet simulation, or one of its mutants, and replays a
// run by its seed. It exits with 1 when a check fails and with 2 when it was
// not told right.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/gormflake/gormflake/internal/simulation"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("simulation", flag.ContinueOnError)
	seed := flags.Uint64("seed", 0, "seed of the run; a fresh one when absent")
	ids := flags.Int64("ids", 5_000_000, "ids to issue")
	mutant := flags.String("mutant", "", "fault in the protocol to simulate; the run should fail")
	list := flags.Bool("mutants", false, "list the mutants and exit")
	only := flags.String("only", "", `the one check that counts, such as "unique"; all when absent`)
	quiet := flags.Bool("quiet", false, "print no line for each episode")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *list {
		for _, m := range simulation.Mutants() {
			fmt.Fprintf(out, "%-32s %s\n", m.Name, m.What)
		}
		return 0
	}
	given := false
	flags.Visit(func(f *flag.Flag) { given = given || f.Name == "seed" })
	if !given {
		*seed = rand.Uint64()
	}
	config := simulation.Config{Seed: *seed, IDs: *ids, Mutant: *mutant, Only: *only}
	if !*quiet {
		config.Log = out
	}
	fmt.Fprintf(out, "seed %d, ids %d, mutant %q\n", *seed, *ids, *mutant)
	began := time.Now()
	result, err := simulation.Run(config)
	for _, what := range slices.Sorted(maps.Keys(result.Counts)) {
		fmt.Fprintf(out, "%9d %s\n", result.Counts[what], what)
	}
	took := time.Since(began)
	fmt.Fprintf(out, "%d ids (%d of backfills) in %d episodes, %v of virtual time, in %v: %.0f ids/s\n",
		result.IDs, result.Past, result.Episodes, result.Virtual.Round(time.Second), took.Round(time.Millisecond), float64(result.IDs)/took.Seconds())
	fmt.Fprintf(out, "digest %s\n", result.Digest)
	var violation *simulation.Violation
	switch {
	case errors.As(err, &violation):
		fmt.Fprintf(out, "FAILED in episode %d: %v\nreplay: go run ./internal/simulation/cmd -seed %d -ids %d", result.Episodes, err, *seed, *ids)
		if *mutant != "" {
			fmt.Fprintf(out, " -mutant %s", *mutant)
		}
		if *only != "" {
			fmt.Fprintf(out, " -only %q", *only)
		}
		fmt.Fprintln(out)
		return 1
	case err != nil:
		fmt.Fprintln(out, err)
		return 2
	case *mutant != "":
		fmt.Fprintf(out, "the mutant %s survived\n", *mutant)
	}
	return 0
}
