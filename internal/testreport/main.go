// Testreport reads the output of go test -json and prints what a person wants
// to see of it: a line for every package, everything about what failed, and at
// the end why tests were skipped. It exits with 1 if anything failed.
//
//	go test -json ./... | go run ./internal/testreport
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	ok, err := report(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

type event struct {
	Action, Package, ImportPath, Test, Output string
}

// run collects one package's output.
type run struct {
	own   []string            // outside of any test
	tests map[string][]string // of tests that haven't ended
	order []string
}

type skipped struct {
	pkg, test, reason string
	count             int
}

type reporter struct {
	out                    io.Writer
	runs                   map[string]*run
	skips                  []*skipped
	packages, tests, fails int
	failedPackages         []string
}

func report(in io.Reader, out io.Writer) (ok bool, err error) {
	r := &reporter{out: out, runs: map[string]*run{}}
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				fmt.Fprintf(out, "%s", line) // not go test's
			} else {
				r.take(e)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return false, err
		}
	}
	// A package without an end: go test itself was killed.
	for pkg, run := range r.runs {
		r.print(run.rest())
		fmt.Fprintf(out, "FAIL\t%s\tits test never ended\n", pkg)
		r.failedPackages = append(r.failedPackages, pkg)
	}
	r.summary()
	return len(r.failedPackages) == 0, nil
}

func (r *reporter) take(e event) {
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
		return
	case "build-fail":
		return // its package's fail follows
	}
	current := r.runs[e.Package]
	if current == nil {
		current = &run{tests: map[string][]string{}}
		r.runs[e.Package] = current
	}
	switch {
	case e.Action == "output" && e.Test == "":
		current.own = append(current.own, e.Output)
	case e.Action == "output":
		current.add(e.Test, e.Output)
	case e.Test == "":
		r.endPackage(e, current)
	default:
		r.endTest(e, current)
	}
}

func (r *reporter) endTest(e event, current *run) {
	switch e.Action {
	case "fail":
		r.fails++
		r.tests++
		r.print(current.take(e.Test))
	case "skip":
		r.skip(e.Package, e.Test, reason(current.take(e.Test)))
	case "pass":
		r.tests++
		current.take(e.Test)
	}
}

func (r *reporter) endPackage(e event, current *run) {
	switch e.Action {
	case "pass":
		r.packages++
		for _, line := range current.own {
			if strings.HasPrefix(line, "ok ") {
				fmt.Fprint(r.out, line)
			}
		}
	case "fail":
		r.packages++
		r.failedPackages = append(r.failedPackages, e.Package)
		r.print(current.rest())
	case "skip": // no test files
	default:
		return
	}
	delete(r.runs, e.Package)
}

func (r *reporter) skip(pkg, test, reason string) {
	for _, s := range r.skips {
		if s.reason == reason {
			s.count++
			return
		}
	}
	r.skips = append(r.skips, &skipped{pkg, test, reason, 1})
}

func (r *reporter) print(lines []string) {
	for _, line := range lines {
		fmt.Fprint(r.out, line)
	}
}

func (r *reporter) summary() {
	total := 0
	for _, s := range r.skips {
		total += s.count
		more := ""
		if s.count > 1 {
			more = fmt.Sprintf(" and %d more", s.count-1)
		}
		fmt.Fprintf(r.out, "skipped\t%s %s%s: %s\n", s.pkg, s.test, more, s.reason)
	}
	verdict := "PASS"
	if len(r.failedPackages) > 0 {
		slices.Sort(r.failedPackages)
		verdict = "FAIL in " + strings.Join(r.failedPackages, ", ")
	}
	fmt.Fprintf(r.out, "%d tests in %d packages ran, %d failed, %d skipped: %s\n", r.tests, r.packages, r.fails, total, verdict)
}

func (r *run) add(test, output string) {
	if _, ok := r.tests[test]; !ok {
		r.order = append(r.order, test)
	}
	r.tests[test] = append(r.tests[test], output)
}

func (r *run) take(test string) []string {
	lines := r.tests[test]
	delete(r.tests, test)
	r.order = slices.DeleteFunc(r.order, func(name string) bool { return name == test })
	return lines
}

// rest returns what tests printed that never ended, then the package's own.
func (r *run) rest() []string {
	var lines []string
	for _, test := range slices.Clone(r.order) {
		lines = append(lines, r.take(test)...)
	}
	return append(lines, r.own...)
}

var (
	frame    = regexp.MustCompile(`^\s*(===|---) `)
	position = regexp.MustCompile(`^\s*[\w.-]+\.go:\d+: `)
	named    = regexp.MustCompile(`^\S+ did not run: `)
)

// reason returns what a skipped test said, without its position and name, so
// that equal reasons count together.
func reason(lines []string) string {
	var said []string
	for _, line := range lines {
		if !frame.MatchString(line) {
			line = position.ReplaceAllString(strings.TrimSpace(line), "")
			said = append(said, named.ReplaceAllString(line, ""))
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}
