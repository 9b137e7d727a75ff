package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gormflake/gormflake/generator"
)

func newID() *cobra.Command {
	id := &cobra.Command{Use: "id", Short: "Take ids apart and put them together"}
	id.AddCommand(newIDDecode(), newIDEncode())
	return id
}

// decoded is an id's parts as JSON.
type decoded struct {
	ID       generator.ID `json:"id"`
	Time     string       `json:"time"`
	Worker   int64        `json:"worker"`
	Sequence int64        `json:"sequence"`
}

func newIDDecode() *cobra.Command {
	var layout layoutFlags
	var form string
	var asJSON bool
	c := &cobra.Command{
		Use:   "decode [ID...]",
		Short: "Print the time, worker id and sequence of ids; reads standard input when none is given",
		Example: `  gormflake id decode 1212730992747900970
  gormflake id decode --layout newlife --json 7193010915251875840
  psql -Atc 'SELECT id FROM orders' | gormflake id decode`,
		RunE: func(c *cobra.Command, args []string) error {
			l, err := layout.layout()
			if err != nil {
				return err
			}
			if !asJSON && len(args) != 1 {
				fmt.Fprintf(c.OutOrStdout(), "%-19s  %-24s  %6s  %8s\n", "id", "time", "worker", "sequence")
			}
			words, bad := 0, 0
			err = eachWord(c.InOrStdin(), args, func(word string) error {
				words++
				id, err := parseID(word, form)
				if errors.Is(err, generator.ErrInvalidID) && (len(args) != 1 || args[0] == "-") {
					// One bad line of many must not hide the others.
					bad++
					fmt.Fprintln(c.ErrOrStderr(), "gormflake:", err)
					return nil
				}
				if err != nil {
					return err
				}
				p := l.Decompose(id)
				d := decoded{ID: id, Time: p.Time.Format(stamp), Worker: p.Worker, Sequence: p.Sequence}
				switch {
				case asJSON:
					return printJSON(c.OutOrStdout(), d)
				case len(args) == 1:
					_, err = fmt.Fprintf(c.OutOrStdout(), "id        %v\nhex       %016x\nbase32    %s\ntime      %s\nworker    %d\nsequence  %d\n",
						id, int64(id), id.Base32(), d.Time, d.Worker, d.Sequence)
				default:
					_, err = fmt.Fprintf(c.OutOrStdout(), "%-19v  %-24s  %6d  %8d\n", id, d.Time, d.Worker, d.Sequence)
				}
				return err
			})
			if err == nil && bad > 0 {
				verb := "were"
				if bad == 1 {
					verb = "was"
				}
				return fmt.Errorf("%d of %d words %s no id", bad, words, verb)
			}
			return err
		},
	}
	layout.register(c.Flags())
	c.Flags().StringVar(&form, "form", "auto", "form of the ids: auto, decimal, hex, base32 (Crockford's)")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object on a line for each id")
	return c
}

func newIDEncode() *cobra.Command {
	var layout layoutFlags
	var at, form, zone string
	var worker, sequence int64
	var asJSON bool
	c := &cobra.Command{
		Use:     "encode",
		Short:   "Print the id of a time, worker id and sequence",
		Example: `  gormflake id encode --time 2024-02-29T12:00:00.123Z --worker 391 --sequence 42`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := layout.layout()
			if err != nil {
				return err
			}
			location, err := parseZone(zone)
			if err != nil {
				return err
			}
			t := time.Now()
			if at != "now" {
				if t, err = parseTime(at, location); err != nil {
					return err
				}
			}
			id, err := l.Compose(t, worker, sequence)
			if err != nil {
				return err
			}
			if asJSON {
				p := l.Decompose(id)
				return printJSON(c.OutOrStdout(), decoded{ID: id, Time: p.Time.Format(stamp), Worker: p.Worker, Sequence: p.Sequence})
			}
			text, err := formatID(id, form)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), text)
			return err
		},
	}
	layout.register(c.Flags())
	c.Flags().StringVar(&at, "time", "now", "time of the id")
	c.Flags().StringVar(&zone, "zone", "UTC", "time zone of a --time without one")
	c.Flags().Int64Var(&worker, "worker", 0, "worker id")
	c.Flags().Int64Var(&sequence, "sequence", 0, "sequence")
	c.Flags().StringVar(&form, "form", "decimal", "form of the id: decimal, hex, base32 (Crockford's)")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return c
}

// eachWord calls f for each argument, or for each word of the input where
// there are none or the only one is a dash.
func eachWord(in io.Reader, args []string, f func(string) error) error {
	if len(args) > 0 && (len(args) > 1 || args[0] != "-") {
		for _, arg := range args {
			if err := f(arg); err != nil {
				return err
			}
		}
		return nil
	}
	words := bufio.NewScanner(in)
	words.Split(bufio.ScanWords)
	for words.Scan() {
		if err := f(strings.Trim(words.Text(), `",`)); err != nil {
			return err
		}
	}
	return words.Err()
}

// parseID reads an id. In the form auto, 0x begins a hexadecimal one, and 13
// characters with a letter among them are Crockford's base 32.
func parseID(s, form string) (generator.ID, error) {
	digits, hasPrefix := strings.CutPrefix(strings.ToLower(s), "0x")
	switch form {
	case "decimal":
		return generator.ParseID(s)
	case "hex":
		return parseHex(digits)
	case "base32":
		return generator.ParseBase32(s)
	case "auto":
		switch {
		case hasPrefix:
			return parseHex(digits)
		case len(s) == 13 && strings.Trim(s, "0123456789") != "":
			return generator.ParseBase32(s)
		}
		id, err := generator.ParseID(s)
		if err != nil {
			return 0, fmt.Errorf("%w: want a decimal integer from 0 to 9223372036854775807, 0x and hexadecimal digits, or 13 characters of Crockford's base 32; got %q",
				generator.ErrInvalidID, s)
		}
		return id, nil
	}
	return 0, usagef("--form wants auto, decimal, hex or base32, got %q", form)
}

func parseHex(digits string) (generator.ID, error) {
	v, err := strconv.ParseUint(digits, 16, 63)
	if err != nil {
		return 0, fmt.Errorf("%w: want up to 16 hexadecimal digits and at most 7fffffffffffffff, got %q", generator.ErrInvalidID, digits)
	}
	return generator.ID(v), nil
}

func formatID(id generator.ID, form string) (string, error) {
	switch form {
	case "decimal":
		return id.String(), nil
	case "hex":
		return fmt.Sprintf("%016x", int64(id)), nil
	case "base32":
		return id.Base32(), nil
	}
	return "", usagef("--form wants decimal, hex or base32, got %q", form)
}
