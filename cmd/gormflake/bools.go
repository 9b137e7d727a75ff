package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gormflake/gormflake/migrate"
)

// boolsFlags say which columns to move, and how.
type boolsFlags struct {
	dsn       dsnFlags
	table     string
	columns   []string
	target    string
	overrides overrideFlags
	batch     int
	pause     time.Duration
	yes       bool
}

func newBools() *cobra.Command {
	c := &cobra.Command{
		Use:   "bools",
		Short: "Move legacy MySQL booleans to tinyint(1) while programs go on",
		Long: `Move legacy MySQL booleans, such as enum('N','Y'), to tinyint(1) while programs go on.

The steps, in their order: inspect, plan, run (prepare, backfill, verify), swap, and,
once the old column is no longer wanted, cleanup. rollback undoes all before cleanup.
Each may be stopped and called again.`,
	}
	c.AddCommand(
		newBoolsInspect(),
		newBoolsStep("plan", "Print the statements of every step, and what the plan refuses", false, func(context.Context, io.Writer, *boolsFlags, *migrate.BoolPlan) error { return nil }),
		newBoolsStep("run", "Add the new column and its triggers, fill it, and verify it", true, runBools),
		newBoolsStep("verify", "Compare the old and the new column in every row", false, verifyBools),
		newBoolsStep("swap", "Give the new column the old one's name; writes wait for a moment", true, func(ctx context.Context, _ io.Writer, _ *boolsFlags, p *migrate.BoolPlan) error { return p.Swap(ctx) }),
		newBoolsStep("rollback", "Bring the table back to what it was", true, func(ctx context.Context, _ io.Writer, _ *boolsFlags, p *migrate.BoolPlan) error {
			return p.Rollback(ctx)
		}),
		newBoolsStep("cleanup", "Drop the old column; there is no way back", true, func(ctx context.Context, _ io.Writer, _ *boolsFlags, p *migrate.BoolPlan) error {
			return p.Cleanup(ctx)
		}),
	)
	return c
}

func (f *boolsFlags) register(c *cobra.Command) {
	f.dsn.register(c.Flags())
	c.Flags().StringVar(&f.table, "table", "", "table to move")
	c.Flags().StringSliceVar(&f.columns, "column", nil, "columns; default: those that are an enum or bit(1) of two known values; name char and others")
	_ = c.MarkFlagRequired("table")
}

func newBoolsInspect() *cobra.Command {
	var flags boolsFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "inspect",
		Short: "Report what the columns hold and what depends on them",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			db, done, err := flags.dsn.open(c.Context())
			if err != nil {
				return err
			}
			defer done()
			report, err := migrate.InspectBools(c.Context(), db, flags.table, flags.columns...)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), report)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), report)
			return err
		},
	}
	flags.register(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return c
}

// newBoolsStep makes a command of one step of the plan. One that changes the
// table prints the plan and does nothing without --yes.
func newBoolsStep(name, short string, changes bool, step func(context.Context, io.Writer, *boolsFlags, *migrate.BoolPlan) error) *cobra.Command {
	var flags boolsFlags
	c := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			overrides, err := flags.overrides.parse()
			if err != nil {
				return err
			}
			db, done, err := flags.dsn.open(c.Context())
			if err != nil {
				return err
			}
			defer done()
			spec := migrate.BoolSpec{Table: flags.table, Columns: flags.columns, Target: flags.target}
			if name == "swap" || name == "cleanup" { // a plan of what is finished can't be made
				if done, err := migrate.BoolsDone(c.Context(), db, spec); err != nil {
					return err
				} else if done {
					_, err = fmt.Fprintf(c.OutOrStdout(), "%s: nothing left to do; no migration is under way, and no column is left to move\n", flags.table)
					return err
				}
			}
			plan, err := migrate.PlanBools(c.Context(), db, spec, overrides...)
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			if name == "plan" || (changes && !flags.yes) {
				fmt.Fprintln(out, plan.SQL())
			}
			if err := plan.Err(); err != nil {
				return errors.Join(err, fmt.Errorf("%w; what decides is a flag here, such as --map-null column=false for MapNull: see --help", errRefused))
			}
			if changes && !flags.yes {
				return fmt.Errorf("%w: add --yes for the step %s", errRefused, name)
			}
			if err := step(c.Context(), out, &flags, plan); err != nil {
				return err
			}
			phase, err := plan.Phase(c.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "%s: %s\n", flags.table, phase)
			return err
		},
	}
	flags.register(c)
	c.Flags().StringVar(&flags.target, "target", "", "type of the new column; default: tinyint(1)")
	flags.overrides.register(c.Flags())
	if name == "run" {
		c.Flags().IntVar(&flags.batch, "batch", 2000, "rows that one transaction fills")
		c.Flags().DurationVar(&flags.pause, "pause", 0, "pause after every batch")
	}
	if changes {
		c.Flags().BoolVar(&flags.yes, "yes", false, "do it")
	}
	return c
}

func runBools(ctx context.Context, out io.Writer, flags *boolsFlags, plan *migrate.BoolPlan) error {
	if err := plan.Prepare(ctx); err != nil {
		return err
	}
	show, finish := fillProgress()
	defer finish()
	if err := plan.Backfill(ctx, migrate.BackfillOptions{BatchSize: flags.batch, Pause: flags.pause, Progress: show}); err != nil {
		return err
	}
	finish()
	return verifyBools(ctx, out, flags, plan)
}

func verifyBools(ctx context.Context, out io.Writer, _ *boolsFlags, plan *migrate.BoolPlan) error {
	report, err := plan.Verify(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "verified %d rows of %s: ", report.Rows, report.Table)
	if report.OK() {
		fmt.Fprintln(out, "old and new agree")
		return nil
	}
	fmt.Fprintln(out, "they differ")
	return &migrate.DisagreeError{Report: report}
}
