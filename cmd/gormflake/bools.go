package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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
	asJSON    bool
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
				return spellError(err)
			}
			if flags.asJSON {
				return printJSON(c.OutOrStdout(), snake(report))
			}
			underWay := ""
			if report.Migration != nil { // in commands instead of Go
				underWay, report.Migration = "  "+spellMigration(report.Migration)+"\n", nil
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%v%s\n", report, underWay)
			return err
		},
	}
	flags.register(c)
	c.Flags().BoolVar(&flags.asJSON, "json", false, "print a JSON object")
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
					return spellError(err)
				} else if done {
					_, err = fmt.Fprintf(c.OutOrStdout(), "%s: nothing left to do; no migration is under way, and no column is left to move\n", flags.table)
					return err
				}
			}
			plan, err := migrate.PlanBools(c.Context(), db, spec, overrides...)
			if err != nil {
				return spellError(err)
			}
			out := c.OutOrStdout()
			switch {
			case name == "plan" && flags.asJSON:
				err = printBoolPlan(c.Context(), out, plan)
			case name == "plan" || (changes && !flags.yes):
				_, err = fmt.Fprintln(out, spellPlan(plan.SQL()))
			}
			if err != nil {
				return err
			}
			if err := plan.Err(); err != nil {
				return errors.Join(spellError(err), errRefused)
			}
			if changes && !flags.yes {
				return fmt.Errorf("%w: add --yes for the step %s", errRefused, name)
			}
			if err := step(c.Context(), out, &flags, plan); err != nil {
				return spellError(err)
			}
			if flags.asJSON {
				return nil
			}
			phase, err := plan.Phase(c.Context())
			if err != nil {
				return spellError(err)
			}
			_, err = fmt.Fprintf(out, "%s: %s\n", flags.table, spellPhase(phase, name == "run" || name == "verify"))
			return err
		},
	}
	flags.register(c)
	c.Flags().StringVar(&flags.target, "target", "", "type of the new column; default: tinyint(1)")
	flags.overrides.register(c.Flags())
	if !changes {
		c.Flags().BoolVar(&flags.asJSON, "json", false, "print a JSON object")
	}
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

func verifyBools(ctx context.Context, out io.Writer, flags *boolsFlags, plan *migrate.BoolPlan) error {
	report, err := plan.Verify(ctx)
	if report == nil {
		return err
	}
	if flags.asJSON {
		return errors.Join(printJSON(out, append(object{{"ok", report.OK()}}, snake(report).(object)...)), err)
	}
	agree := "old and new agree"
	if !report.OK() {
		agree = "they differ"
	}
	fmt.Fprintf(out, "verified %d rows of %s: %s\n", report.Rows, report.Table, agree)
	return err
}

func spellAll(texts []string) []string {
	spelled := make([]string, len(texts))
	for i, text := range texts {
		spelled[i] = spell(text)
	}
	return spelled
}

// printBoolPlan prints a plan as JSON, with the refusals' remedies as flags.
func printBoolPlan(ctx context.Context, out io.Writer, plan *migrate.BoolPlan) error {
	phase, err := plan.Phase(ctx)
	if err != nil && len(plan.Refusals) == 0 { // the phase of what is refused may be none
		return spellError(err)
	}
	refusals := slices.Clone(plan.Refusals)
	for i := range refusals {
		refusals[i].Reason, refusals[i].Remedy = spell(refusals[i].Reason), spell(refusals[i].Remedy)
	}
	return printJSON(out, object{
		{"table", plan.Table}, {"phase", phase}, {"resumed", plan.Resumed}, {"refusals", snake(refusals)}, {"warnings", spellAll(plan.Warnings)}, {"statements", snake(plan.Statements())},
	})
}
