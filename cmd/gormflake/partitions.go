package main

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
)

// partitionFlags say which partitions a table shall have.
type partitionFlags struct {
	dsn                                    dsnFlags
	layout                                 layoutFlags
	table, column, width, zone, from, drop string
	ahead                                  int
	asJSON                                 bool
}

// partitionJSON is a plan as JSON.
type partitionJSON struct {
	Table string              `json:"table"`
	Steps []partitionStepJSON `json:"steps"`
	SQL   string              `json:"sql"` // all steps as a script
}

type partitionStepJSON struct {
	Comment    string   `json:"comment"`
	Partitions []string `json:"partitions"`
	Drop       bool     `json:"drop"`
	SQL        []string `json:"sql"`
}

func asPartitionJSON(p *gormflake.PartitionPlan) partitionJSON {
	steps := make([]partitionStepJSON, len(p.Steps))
	for i, step := range p.Steps {
		steps[i] = partitionStepJSON{Comment: step.Comment, Partitions: step.Names, Drop: step.Drop, SQL: step.SQL}
	}
	return partitionJSON{Table: p.Table, Steps: steps, SQL: p.SQL()}
}

func newPartitions() *cobra.Command {
	c := &cobra.Command{Use: "partitions", Short: "Partition a table by the time in its key"}
	c.AddCommand(newPartitionsPlan(), newPartitionsApply())
	return c
}

func newPartitionsPlan() *cobra.Command {
	var flags partitionFlags
	c := &cobra.Command{
		Use:     "plan",
		Short:   "Print the SQL that creates partitions ahead and drops old ones",
		Example: "  gormflake partitions plan --table orders --width month --ahead 3 --drop-before 2023-01-01",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return flags.each(c.Context(), c.OutOrStdout(), func(*gormflake.PartitionPlan) error { return nil })
		},
	}
	flags.register(c)
	c.Flags().BoolVar(&flags.asJSON, "json", false, "print a JSON object on a line for each plan: what is created, and what is dropped")
	return c
}

func newPartitionsApply() *cobra.Command {
	var flags partitionFlags
	var yes bool
	c := &cobra.Command{
		Use:   "apply",
		Short: "Carry the plan out; without --yes only print it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			waiting := false
			err := flags.each(c.Context(), c.OutOrStdout(), func(p *gormflake.PartitionPlan) error {
				if p.Empty() {
					return nil
				}
				if !yes {
					waiting = true
					return nil
				}
				return p.Apply(c.Context())
			})
			if err == nil && waiting {
				return fmt.Errorf("%w: add --yes to apply the plan", errRefused)
			}
			return err
		},
	}
	flags.register(c)
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	return c
}

func (f *partitionFlags) register(c *cobra.Command) {
	f.dsn.register(c.Flags())
	f.layout.register(c.Flags())
	set := c.Flags()
	set.StringVar(&f.table, "table", "", "table to partition")
	set.StringVar(&f.column, "column", "id", "its snowflake key")
	set.StringVar(&f.width, "width", "month", "width of a partition: day, week, month or year")
	set.StringVar(&f.zone, "zone", "UTC", "time zone of the calendar")
	set.StringVar(&f.from, "from", "", "time that the first partition holds; default: now")
	set.IntVar(&f.ahead, "ahead", 3, "how many partitions after the present one")
	set.StringVar(&f.drop, "drop-before", "", "also drop partitions that hold only rows before this time")
	_ = c.MarkFlagRequired("table")
}

// each makes the plans, prints them, and hands each to use before the next is
// made.
func (f *partitionFlags) each(ctx context.Context, out io.Writer, use func(*gormflake.PartitionPlan) error) error {
	zone, err := parseZone(f.zone)
	if err != nil {
		return err
	}
	options := gormflake.PartitionOptions{Ahead: f.ahead}
	if options.Layout, err = f.layout.layout(); err != nil {
		return err
	}
	switch strings.TrimSuffix(strings.ToLower(f.width), "s") {
	case "day":
		options.Width = gormflake.Days(zone)
	case "week":
		options.Width = gormflake.Weeks(zone)
	case "month":
		options.Width = gormflake.Months(zone)
	case "year":
		options.Width = gormflake.Years(zone)
	default:
		return usagef("--width wants day, week, month or year, got %q", f.width)
	}
	if f.from != "" {
		if options.From, err = parseTime(f.from, zone); err != nil {
			return err
		}
	}
	var before time.Time
	if f.drop != "" {
		if before, err = parseTime(f.drop, zone); err != nil {
			return err
		}
		if before.After(time.Now()) {
			return usagef("--drop-before wants a time that has passed, got %s", before.Format(time.RFC3339))
		}
	}
	db, done, err := f.dsn.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	model := keyOnly(f.column)
	plans := []func() (*gormflake.PartitionPlan, error){func() (*gormflake.PartitionPlan, error) {
		return gormflake.PlanPartitions(ctx, onTable(db, f.table), model, options)
	}}
	if !before.IsZero() {
		plans = append(plans, func() (*gormflake.PartitionPlan, error) {
			return gormflake.PlanDropBefore(ctx, onTable(db, f.table), model, before, options.Layout)
		})
	}
	for _, plan := range plans {
		p, err := plan()
		if err != nil {
			return err
		}
		if f.asJSON {
			err = printJSON(out, asPartitionJSON(p))
		} else {
			_, err = fmt.Fprint(out, p.SQL())
		}
		if err != nil {
			return err
		}
		if err := use(p); err != nil {
			return err
		}
	}
	return nil
}

func onTable(db *gorm.DB, table string) *gorm.DB {
	return db.Session(&gorm.Session{NewDB: true}).Table(table)
}

// keyOnly returns a model that knows a table's snowflake key and nothing else.
func keyOnly(column string) any {
	return reflect.New(reflect.StructOf([]reflect.StructField{{
		Name: "ID",
		Type: reflect.TypeFor[gormflake.ID](),
		Tag:  reflect.StructTag(fmt.Sprintf(`gorm:"primaryKey;column:%s"`, column)),
	}})).Interface()
}
