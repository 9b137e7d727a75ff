// Command benchmarks measures gormflake against its peers and against the
// floors beneath it, in one run, and prints ratios: times differ between
// machines, ratios hardly do.
//
//	go run . [-rounds 3] [-rows 10000] [-window-rows 2000000] [generators] [create] [windows]
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
	windowRows := flag.Int("window-rows", 2_000_000, "rows in each table of the comparison of time windows")
	flag.Parse()
	parts := flag.Args()
	if len(parts) == 0 {
		parts = []string{"generators", "create", "windows"}
	}
	if err := run(parts, *rounds, *rows, *windowRows); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(parts []string, rounds, rows, windowRows int) error {
	if rounds < 1 || rows < 1 || windowRows < windowShare {
		return fmt.Errorf("benchmarks: want at least 1 round, 1 row and %d rows for windows, got %d, %d and %d", windowShare, rounds, rows, windowRows)
	}
	for _, part := range parts {
		var err error
		switch part {
		case "generators":
			err = generators(os.Stdout, rounds)
		case "create":
			err = create(os.Stdout, rounds, rows)
		case "windows":
			err = windows(os.Stdout, rounds, windowRows)
		default:
			err = fmt.Errorf("benchmarks: want generators, create or windows, got %q", part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
