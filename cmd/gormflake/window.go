package main

import (
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator"
)

// windowFlags are the ways to say a range of time.
type windowFlags struct {
	from, to, on, month, hour, week, zone string
	last                                  time.Duration
}

// windowJSON is a window as JSON: from is its first id, to the first one after
// it, absent where the window has no such end.
type windowJSON struct {
	From     *generator.ID `json:"from,omitempty"`
	FromTime string        `json:"from_time,omitempty"`
	To       *generator.ID `json:"to,omitempty"`
	ToTime   string        `json:"to_time,omitempty"`
	SQL      string        `json:"sql"`
	Args     []string      `json:"args"` // of the SQL, integers of 64 bits
}

func newWindow() *cobra.Command {
	var layout layoutFlags
	var flags windowFlags
	var column, dialect string
	var asJSON bool
	c := &cobra.Command{
		Use:   "window",
		Short: "Print the id range of a range of time, and its SQL",
		Example: `  gormflake window --from 2024-02-01 --to 2024-03-01
  gormflake window --on 2024-02-29 --zone Europe/Berlin --column orders.id
  gormflake window --last 1h --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := layout.layout()
			if err != nil {
				return err
			}
			window, err := flags.window()
			if err != nil {
				return err
			}
			where, args, err := gormflake.SQL(window.In(l).Column(column), dialect)
			if err != nil {
				return err
			}
			zone, err := parseZone(flags.zone)
			if err != nil {
				return err
			}
			shown := windowJSON{SQL: where, Args: make([]string, len(args))}
			out := c.OutOrStdout()
			for i, arg := range args {
				shown.Args[i] = fmt.Sprint(arg)
				id, ok := asID(arg)
				if !ok {
					continue
				}
				at := l.Decompose(id).Time.In(zone).Format(stamp)
				name := "from"
				if i == 0 && (len(args) > 1 || flags.to == "") { // a --to alone is the only argument
					shown.From, shown.FromTime = &id, at
				} else {
					name, shown.To, shown.ToTime = "to", &id, at
				}
				if !asJSON {
					fmt.Fprintf(out, "%-4s  %-19v  %s\n", name, id, at)
				}
			}
			if asJSON {
				return printJSON(out, shown)
			}
			_, err = fmt.Fprintf(out, "sql   %s\nargs  %v\n", where, args)
			return err
		},
	}
	layout.register(c.Flags())
	f := c.Flags()
	f.StringVar(&flags.from, "from", "", "begin of the range, included")
	f.StringVar(&flags.to, "to", "", "end of the range, excluded")
	f.StringVar(&flags.on, "on", "", "a calendar day, such as 2024-02-29")
	f.StringVar(&flags.month, "month", "", "a calendar month, such as 2024-02-01")
	f.StringVar(&flags.week, "week", "", "the ISO week of a day")
	f.StringVar(&flags.hour, "hour", "", "the hour of a time")
	f.DurationVar(&flags.last, "last", 0, "the time until now, such as 1h30m")
	f.StringVar(&flags.zone, "zone", "UTC", "time zone of times without one, of days, and of the times printed")
	f.StringVar(&column, "column", "id", "column of the ids")
	f.StringVar(&dialect, "dialect", "mysql", "form of the SQL: mysql, postgres or sqlite")
	f.BoolVar(&asJSON, "json", false, "print a JSON object")
	return c
}

// asID reads a bound parameter.
func asID(arg any) (generator.ID, bool) {
	switch v := arg.(type) {
	case generator.ID:
		return v, v != math.MaxInt64
	case int64:
		return generator.ID(v), v != math.MaxInt64
	}
	return 0, false
}

func (f windowFlags) window() (gormflake.Window, error) {
	zone, err := parseZone(f.zone)
	if err != nil {
		return gormflake.Window{}, err
	}
	var found []gormflake.Window
	for _, unit := range []struct {
		value string
		of    func(time.Time) gormflake.Window
	}{{f.on, gormflake.On}, {f.month, gormflake.InMonth}, {f.week, gormflake.InWeek}, {f.hour, gormflake.InHour}} {
		if unit.value == "" {
			continue
		}
		t, err := parseTime(unit.value, zone)
		if err != nil {
			return gormflake.Window{}, err
		}
		found = append(found, unit.of(t.In(zone)))
	}
	if f.last != 0 {
		found = append(found, gormflake.Last(f.last))
	}
	if f.from != "" || f.to != "" {
		w, err := between(f.from, f.to, zone)
		if err != nil {
			return gormflake.Window{}, err
		}
		found = append(found, w)
	}
	if len(found) != 1 {
		return gormflake.Window{}, usagef("want one range of time, by --from and --to, --on, --week, --month, --hour or --last; got %d", len(found))
	}
	return found[0], nil
}

func between(from, to string, zone *time.Location) (gormflake.Window, error) {
	var begin, end time.Time
	var err error
	if from != "" {
		if begin, err = parseTime(from, zone); err != nil {
			return gormflake.Window{}, err
		}
	}
	if to != "" {
		if end, err = parseTime(to, zone); err != nil {
			return gormflake.Window{}, err
		}
	}
	switch {
	case to == "":
		return gormflake.Since(begin), nil
	case from == "":
		return gormflake.Until(end), nil
	}
	return gormflake.Between(begin, end), nil
}
