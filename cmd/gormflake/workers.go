package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// workersFlags name a namespace in a store.
type workersFlags struct {
	dsn       dsnFlags
	namespace string
}

func (f *workersFlags) register(c *cobra.Command) {
	f.dsn.register(c.Flags())
	c.Flags().StringVar(&f.namespace, "namespace", generator.DefaultNamespace, "id space")
}

func newWorkers() *cobra.Command {
	c := &cobra.Command{Use: "workers", Short: "Show and free the worker ids that a store has leased"}
	c.AddCommand(newWorkersList(), newWorkersRelease())
	return c
}

func newWorkersList() *cobra.Command {
	var flags workersFlags
	var asJSON, all bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the worker ids that are held, and by whom",
		Long: `List the worker ids that are held, and by whom.

held      a process has it
released  nobody has it, and it can't be taken before its high water has passed
expired   its process is dead, or has lost its lease; it can be taken
free      nobody has it; it can be taken, as can any that isn't listed`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			store, done, err := flags.dsn.store(c.Context())
			if err != nil {
				return err
			}
			defer done()
			lister, ok := store.(lease.Lister)
			if !ok {
				return fmt.Errorf("a %T lists no rows", store)
			}
			rows, err := lister.List(c.Context(), flags.namespace)
			if err != nil {
				return err
			}
			var shown [][]string
			held := 0
			for _, row := range rows {
				if state(row) == stateHeld {
					held++
				} else if !all {
					continue
				}
				if asJSON {
					if err := printJSON(c.OutOrStdout(), asListed(row)); err != nil {
						return err
					}
					continue
				}
				shown = append(shown, []string{
					strconv.FormatInt(row.Worker, 10), state(row), row.Host(), strconv.FormatInt(row.Term, 10),
					moment(row.HighWater), moment(row.ExpiresAt),
				})
			}
			if asJSON {
				return nil
			}
			if len(shown) > 0 {
				if err := printTable(c.OutOrStdout(), []string{"WORKER", "STATE", "OWNER", "TERM", "HIGH WATER", "FREE AT"}, shown); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%d held, %d released, expired or free, in namespace %q\n", held, len(rows)-held, flags.namespace)
			return err
		},
	}
	flags.register(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object on a line for each row")
	c.Flags().BoolVar(&all, "all", false, "show those released, expired and free too")
	return c
}

func newWorkersRelease() *cobra.Command {
	var flags workersFlags
	var yes bool
	c := &cobra.Command{
		Use:   "release WORKER",
		Short: "Free a worker id whose process is dead, before its lease expires",
		Long: `Free a worker id whose process is dead, before its lease expires.

It is safe even if the process lives: the high water stays, so the next owner
starts above every id that was granted, and the old one loses its lease at its
next extension and takes another worker id.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			last := generator.Standard().LiveWorkers().Hi
			worker, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || worker < 0 {
				return usagef("want a worker id of 0 to %d, got %q", last, args[0])
			}
			store, done, err := flags.dsn.store(c.Context())
			if err != nil {
				return err
			}
			defer done()
			row, ok, err := store.Lookup(c.Context(), flags.namespace, worker)
			switch {
			case err != nil:
				return err
			case !ok && worker > last: // a layout of one's own may have more
				return usagef("want a worker id of 0 to %d, or one that is leased, got %d", last, worker)
			case !ok || row.Owner == "":
				_, err := fmt.Fprintf(c.OutOrStdout(), "Worker id %d of %q is free already.\n", worker, flags.namespace)
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "Worker id %d of %q is held by %s, term %d, until %s.\n",
				worker, flags.namespace, row.Host(), row.Term, moment(row.ExpiresAt))
			if !yes {
				return fmt.Errorf("%w: add --yes to release it", errRefused)
			}
			held := lease.Grant{Namespace: flags.namespace, Worker: worker, Term: row.Term, Token: row.Owner, Through: row.HighWater}
			if err := store.Release(c.Context(), held, row.HighWater); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "Released. It can be taken from %s on, its high water.\n", moment(row.HighWater))
			return err
		},
	}
	flags.register(c)
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	return c
}

// The states of a worker id, as in the metric gormflake_worker_slots, whose free
// are those expired and free here and those without a row.
const (
	stateHeld     = "held"     // by an owner whose lease has not expired
	stateReleased = "released" // by its owner, but its high water has not passed
	stateExpired  = "expired"  // has an owner, but can be taken
	stateFree     = "free"
)

func state(row lease.Row) string {
	switch {
	case row.Owner != "" && row.Held:
		return stateHeld
	case row.Owner != "":
		return stateExpired
	case row.Held:
		return stateReleased
	}
	return stateFree
}

// listed is a row as JSON. FreeAt is when it can be taken, or could be since;
// null is never.
type listed struct {
	Worker    int64   `json:"worker"`
	State     string  `json:"state"`
	Held      bool    `json:"held"`
	Owner     string  `json:"owner"`
	Host      string  `json:"host"`
	Term      int64   `json:"term"`
	HighWater *string `json:"high_water"`
	FreeAt    *string `json:"free_at"`
}

func asListed(row lease.Row) listed {
	instant := func(ms int64) *string {
		if ms == lease.Unbounded {
			return nil
		}
		return new(moment(ms))
	}
	return listed{
		Worker: row.Worker, State: state(row), Held: state(row) == stateHeld, Owner: row.Owner, Host: row.Host(), Term: row.Term,
		HighWater: instant(row.HighWater), FreeAt: instant(row.ExpiresAt),
	}
}

// moment prints Unix milliseconds.
func moment(ms int64) string {
	if ms == lease.Unbounded {
		return "never"
	}
	return time.UnixMilli(ms).UTC().Format(stamp)
}
