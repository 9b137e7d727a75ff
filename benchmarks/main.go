// Command benchmarks measures gormflake against its peers and against the
// floors beneath it, in one run, and prints ratios: times differ between
// machines, ratios hardly do.
//
//	go run . [-rounds 3] [-rows 10000] [generators] [create]
package main

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

func main() {
	testing.Init()
	rounds := flag.Int("rounds", 3, "how often everything is measured; the best round counts")
	rows := flag.Int("rows", 10_000, "rows per batch of the insert benchmark")
	flag.Parse()
	parts := flag.Args()
	if len(parts) == 0 {
		parts = []string{"generators", "create"}
	}
	if err := run(parts, *rounds, *rows); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(parts []string, rounds, rows int) error {
	if rounds < 1 || rows < 1 {
		return fmt.Errorf("benchmarks: want at least 1 round and 1 row, got %d and %d", rounds, rows)
	}
	for _, part := range parts {
		var err error
		switch part {
		case "generators":
			err = generators(os.Stdout, rounds)
		case "create":
			err = create(os.Stdout, rounds, rows)
		default:
			err = fmt.Errorf("benchmarks: want generators or create, got %q", part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
