//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// picture shows the fleet: redrawn in place on a terminal, and else a few
// lines in all.
type picture struct {
	out   io.Writer
	live  bool
	lines int // of the last drawing, to be drawn over
}

func newPicture(out *os.File) *picture {
	info, err := out.Stat()
	return &picture{out: out, live: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// say announces a scene above the picture.
func (p *picture) say(what string) {
	p.erase()
	fmt.Fprintf(p.out, "» %s\n", what)
}

// draw redraws the picture where it can be redrawn.
func (p *picture) draw(members []*member) {
	if p.live {
		p.erase()
		p.write(members)
	}
}

// last draws it for good.
func (p *picture) last(members []*member) {
	p.erase()
	fmt.Fprintln(p.out)
	p.write(members)
	p.lines = 0
}

func (p *picture) erase() {
	if p.lines > 0 {
		fmt.Fprintf(p.out, "\x1b[%dA\x1b[J", p.lines)
		p.lines = 0
	}
}

func (p *picture) write(members []*member) {
	most := 1
	for _, m := range members {
		_, _, n, _ := m.snapshot()
		most = max(most, n)
	}
	const width = 30
	for _, m := range members {
		last, fate, n, _ := m.snapshot()
		worker := " -"
		if last.Worker >= 0 {
			worker = fmt.Sprintf("%2d", last.Worker)
		}
		if fate != "" && fate != "woken" {
			last.State = fate
		}
		cells := n * width / most
		fmt.Fprintf(p.out, "  %-11s worker %s term %2d  %s%s %7d ids  %s\n",
			m.name, worker, last.Term, strings.Repeat("█", cells), strings.Repeat("·", width-cells), n, last.State)
	}
	p.lines = len(members)
}
