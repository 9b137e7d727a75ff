// Command gormflake reads and makes ids, turns times into key ranges, shows and
// frees leases, and runs the migrations, each as a plan first.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailed  = 1 // the error is on standard error
	exitUsage   = 2 // flags or arguments that make no sense
	exitRefused = 3 // a plan that refuses, or that awaits --yes
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string, in io.Reader, out, problems io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(problems)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(problems, "gormflake:", strings.TrimPrefix(err.Error(), "gormflake: "))
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errRefused):
		return exitRefused
	}
	return exitFailed
}

// errRefused says that nothing was changed, by the plan's refusal or for want
// of --yes.
var errRefused = errors.New("nothing was changed")

// usageError is a command line that makes no sense.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "gormflake",
		Short: "Ids, time windows, leases and migrations of gormflake",
		Long: `Ids, time windows, leases and migrations of gormflake.

Whatever changes a schema or a lease shows its plan, and goes on only with --yes.
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 nothing changed (a plan refuses, or awaits --yes).`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if unshown(err.Error()) { // such as -dsn=..., which quotes the value
			return usagef("unknown or wrong flag, not shown since it may hold a password; flags have two dashes, see --help")
		}
		return usageError{err}
	})
	root.AddCommand(newID(), newWindow(), newWorkers(), newPartitions(), newBools(), newAdopt(), newBench())
	// Cobra's own complaints about arguments are usage errors, too.
	wrapArgs(root)
	return root
}

// unshown reports whether a text may be a DSN, and hold a password.
func unshown(text string) bool {
	return strings.ContainsRune(text, '@') || strings.Contains(text, "://") || strings.Contains(strings.ToLower(text), "password=")
}

func wrapArgs(c *cobra.Command) {
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		var err error
		if check != nil && slices.ContainsFunc(args, unshown) {
			return usagef("%s: unexpected argument, not shown since it may hold a password; a database goes to --dsn", c.CommandPath())
		}
		if check != nil {
			err = check(c, args)
		}
		if err == nil {
			err = c.ValidateRequiredFlags()
		}
		if err != nil {
			return usageError{err}
		}
		return nil
	}
	if c.HasSubCommands() && c.RunE == nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 && unshown(args[0]) {
				return usagef("unknown command for %q, not shown since it may hold a password; a database goes to --dsn", c.CommandPath())
			}
			if len(args) > 0 {
				return usagef("unknown command %q for %q; see --help", args[0], c.CommandPath())
			}
			return c.Help()
		}
		c.Args = cobra.ArbitraryArgs
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}
