package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/gormflake/gormflake/migrate"
)

// adoptFlags say which table to adopt, and how.
type adoptFlags struct {
	dsn        dsnFlags
	layout     layoutFlags
	spec       migrate.AdoptSpec
	references []string
	widening   string
	json       bool
	yes        bool
}

func newAdopt() *cobra.Command {
	c := &cobra.Command{
		Use:   "adopt",
		Short: "Move a table with AUTO_INCREMENT, serial or identity keys to snowflake keys",
		Long: `Move a table with AUTO_INCREMENT, serial or identity keys to snowflake keys.

Old ids stay, new ones are larger. The key and every column that refers to it become
bigint, and the database stops numbering: programs that leave the key out must have been
replaced by then; --keep-numbering puts that off on Postgres. rollback lets it number
again. Each may be stopped and called again.`,
	}
	c.AddCommand(
		newAdoptInspect(),
		newAdoptStep("plan", "Print the statements that are still to run, and what the plan refuses", false,
			func(context.Context, io.Writer, *adoptFlags, *migrate.AdoptPlan) error { return nil }),
		newAdoptStep("apply", "Carry the plan out; without --yes only print it", true,
			func(ctx context.Context, out io.Writer, f *adoptFlags, p *migrate.AdoptPlan) error {
				if err := p.Apply(ctx); err != nil {
					return err
				}
				return verifyAdoption(ctx, out, f, p)
			}),
		newAdoptStep("verify", "Look whether the table is wholly adopted, and no row lost its parent", false, verifyAdoption),
		newAdoptStep("rollback", "Let the database number the table again, with the old types where the values fit", true,
			func(ctx context.Context, out io.Writer, _ *adoptFlags, p *migrate.AdoptPlan) error {
				for _, h := range p.RollbackHazards() {
					fmt.Fprintf(out, "hazard: %s: %s\n", h.Code, h.Reason)
				}
				if err := p.Rollback(ctx); err != nil {
					return err
				}
				_, err := fmt.Fprintf(out, "%s: the database numbers it again\n", p.Report.Table)
				return err
			}),
	)
	return c
}

func (f *adoptFlags) register(c *cobra.Command) {
	f.dsn.register(c.Flags())
	f.layout.register(c.Flags())
	set := c.Flags()
	set.StringVar(&f.spec.Table, "table", "", "table to adopt")
	set.StringSliceVar(&f.references, "reference", nil, "table.column that holds the table's keys without a foreign key; may be repeated")
	set.BoolVar(&f.spec.Unsigned, "unsigned", false, "let MySQL's bigint unsigned become bigint")
	set.Int64Var(&f.spec.FirstID, "first-id", 0, "smallest id that will be issued; default: the layout's first id of now")
	set.StringVar(&f.widening, "widening", "", "on Postgres, online (a second column, filled while programs go on) or rewrite (reads and writes wait); default: by the tables' size")
	set.BoolVar(&f.spec.KeepNumbering, "keep-numbering", false, "on Postgres, widen only, and let the database go on to number for old programs")
	set.DurationVar(&f.spec.MaxBlock, "max-block", 0, "how long a statement may wait for a lock before it is tried again; default: 1s")
	set.DurationVar(&f.spec.Patience, "patience", 0, "how long it is tried again; default: 1m")
	_ = c.MarkFlagRequired("table")
}

// resolve reads the flags that aren't in the spec yet.
func (f *adoptFlags) resolve() (err error) {
	f.spec.References = nil
	if f.spec.Widening = migrate.Widening(f.widening); !slices.Contains([]migrate.Widening{migrate.WidenBySize, migrate.WidenOnline, migrate.WidenRewrite}, f.spec.Widening) {
		return usagef("--widening wants online or rewrite, got %q", f.widening)
	}
	for _, r := range f.references {
		table, column, ok := strings.Cut(r, ".")
		if !ok || table == "" || column == "" || strings.Contains(column, ".") {
			return usagef("--reference wants table.column, got %q", r)
		}
		f.spec.References = append(f.spec.References, migrate.Reference{Table: table, Column: column})
	}
	f.spec.Layout, err = f.layout.layout()
	return err
}

func newAdoptInspect() *cobra.Command {
	var flags adoptFlags
	c := &cobra.Command{
		Use:   "inspect",
		Short: "Report the key, what refers to it, and what stands in the way",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.resolve(); err != nil {
				return err
			}
			db, done, err := flags.dsn.open(c.Context())
			if err != nil {
				return err
			}
			defer done()
			report, err := migrate.InspectAdopt(c.Context(), db, flags.spec)
			if err != nil {
				return err
			}
			if flags.json {
				return printJSON(c.OutOrStdout(), report)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), report)
			return err
		},
	}
	flags.register(c)
	c.Flags().BoolVar(&flags.json, "json", false, "print a JSON object")
	return c
}

// newAdoptStep makes a command of one method of the plan. One that changes the
// table does nothing without --yes.
func newAdoptStep(name, short string, changes bool, step func(context.Context, io.Writer, *adoptFlags, *migrate.AdoptPlan) error) *cobra.Command {
	var flags adoptFlags
	c := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.resolve(); err != nil {
				return err
			}
			db, done, err := flags.dsn.open(c.Context())
			if err != nil {
				return err
			}
			defer done()
			var finish func()
			flags.spec.Backfill.Progress, finish = fillProgress()
			defer finish()
			plan, err := migrate.PlanAdopt(c.Context(), db, flags.spec)
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			show := plan.SQL
			if name == "rollback" {
				show = func() string { sql, planErr := plan.RollbackSQL(c.Context()); err = planErr; return sql }
			}
			switch {
			case name == "rollback" && plan.Restored():
				_, err = fmt.Fprintf(out, "%s: the database numbers it already\n", plan.Report.Table)
				return err
			case name == "plan" && flags.json:
				err = printJSON(out, plan)
			case name == "plan" || (changes && !flags.yes):
				fmt.Fprint(out, show())
			}
			if err != nil {
				return err
			}
			if name == "plan" || name == "apply" {
				if err := plan.Err(); err != nil {
					return errors.Join(err, errRefused)
				}
			}
			if changes && !flags.yes {
				return fmt.Errorf("%w: add --yes for the step %s", errRefused, name)
			}
			return step(c.Context(), out, &flags, plan)
		},
	}
	flags.register(c)
	if changes {
		c.Flags().IntVar(&flags.spec.Backfill.BatchSize, "batch", 2000, "on Postgres, rows that one transaction of an online widening fills")
		c.Flags().DurationVar(&flags.spec.Backfill.Pause, "pause", 0, "pause after every batch")
		c.Flags().BoolVar(&flags.yes, "yes", false, "do it")
	} else {
		c.Flags().BoolVar(&flags.json, "json", false, "print a JSON object")
	}
	return c
}

// fillProgress shows how far a backfill has come, on a terminal.
func fillProgress() (show func(migrate.BackfillProgress), finish func()) {
	bar := progressbar.NewOptions64(-1, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetVisibility(onTerminal(os.Stderr)), progressbar.OptionSetDescription("backfill"),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionThrottle(200*time.Millisecond), progressbar.OptionClearOnFinish())
	return func(p migrate.BackfillProgress) { _ = bar.Set64(p.Rows) }, func() { _ = bar.Finish() }
}

func verifyAdoption(ctx context.Context, out io.Writer, flags *adoptFlags, plan *migrate.AdoptPlan) error {
	v, err := plan.Verify(ctx)
	if v == nil {
		return err
	}
	if flags.json {
		return errors.Join(printJSON(out, v), err)
	}
	if len(v.ToDo) > 0 {
		fmt.Fprintf(out, "%s: still to do:\n  %s\nsee gormflake adopt plan for their statements\n", v.Table, strings.Join(v.ToDo, "\n  "))
		for _, problem := range v.Problems {
			if !strings.HasPrefix(problem, "still to do: ") {
				fmt.Fprintf(out, "%s: %s\n", v.Table, problem)
			}
		}
		return fmt.Errorf("%w: %s: see above", migrate.ErrNotAdopted, v.Table)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: adopted; %d old rows with keys up to %d, %d new ones\n", v.Table, v.Legacy, v.MaxLegacy, v.New)
	return err
}
