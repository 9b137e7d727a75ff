package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

func newBench() *cobra.Command {
	var dsn dsnFlags
	var duration time.Duration
	var burst int
	var asJSON bool
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure how many ids per second this machine makes",
		Long:  "Measure how many ids per second this machine makes, with a lease of the database that --dsn names, or with one in memory.",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if duration <= 0 || duration > time.Minute || burst < 1 || burst > 100_000 {
				return usagef("want --duration up to 1m and --burst from 1 to 100000, got %v and %d", duration, burst)
			}
			store := lease.Memory()
			if _, err := dsn.value(); err == nil {
				opened, done, err := dsn.store(c.Context())
				if err != nil {
					return err
				}
				defer done()
				store = opened
			}
			g, err := generator.Open(c.Context(), generator.Config{Store: store, Namespace: "bench"})
			if err != nil {
				return err
			}
			defer g.Close(context.WithoutCancel(c.Context()))
			ids := make([]generator.ID, burst)
			next, err := measure(duration, 1, func() error { _, err := g.Next(c.Context()); return err })
			if err != nil {
				return err
			}
			fill, err := measure(duration, burst, func() error { return g.Fill(c.Context(), ids) })
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), map[string]float64{"next_per_second": next, "fill_per_second": fill})
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "Next       %11.0f ids/s\nFill(%d) %11.0f ids/s\nBoth are bound by the layout: 4,096 ids per millisecond and worker id are 4,096,000 ids/s.\n", next, burst, fill)
			return err
		},
	}
	dsn.register(c.Flags())
	c.Flags().DurationVar(&duration, "duration", time.Second, "how long each measurement takes")
	c.Flags().IntVar(&burst, "burst", 1000, "ids per Fill")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return c
}

// measure calls f for a while and returns how many ids it made per second.
func measure(d time.Duration, each int, f func() error) (float64, error) {
	began, n := time.Now(), 0
	for time.Since(began) < d {
		for range 64 {
			if err := f(); err != nil {
				return 0, err
			}
		}
		n += 64 * each
	}
	return float64(n) / time.Since(began).Seconds(), nil
}
