// Package plot draws small bar charts for a terminal.
package plot

import (
	"fmt"
	"io"
	"strings"
)

// Bar is one line of a chart.
type Bar struct {
	Label string
	Value int64
}

// width is how many cells the longest bar takes.
const width = 48

// Bars draws one line for each bar, all to one scale. A value above 0 is
// always visible.
func Bars(out io.Writer, bars []Bar) {
	var most int64
	label := 0
	for _, b := range bars {
		most, label = max(most, b.Value), max(label, len(b.Label))
	}
	for _, b := range bars {
		cells := 0
		if b.Value > 0 {
			cells = max(1, int(b.Value*width/most))
		}
		fmt.Fprintf(out, "  %-*s %s%s %d\n", label, b.Label, strings.Repeat("█", cells), strings.Repeat("·", width-cells), b.Value)
	}
}
