package main

import (
	"bufio"
	"fmt"
	"html"
	"io"

	"github.com/gormflake/gormflake"
)

// The drawing's measures, in pixels.
const (
	barStep   = 4
	barWidth  = 3
	plotLeft  = 40
	plotTop   = 40
	plotDepth = 200
)

// drawSVG draws a bar for each bucket, a line for each quarter of the scale,
// and the date at each midnight. It is readable on light and on dark pages.
func drawSVG(out io.Writer, title string, buckets []gormflake.Bucket) error {
	var most int64 = 1
	for _, b := range buckets {
		most = max(most, b.Count)
	}
	width, bottom := plotLeft+barStep*len(buckets)+20, plotTop+plotDepth
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", width, bottom+40)
	fmt.Fprintln(w, `<style>text{fill:#333}.bar{fill:#2a78b8}.line{stroke:#999;stroke-opacity:.4}`+
		`@media(prefers-color-scheme:dark){text{fill:#ddd}.bar{fill:#62a8e0}}</style>`)
	fmt.Fprintf(w, `<title>%s</title><text x="%d" y="20" font-size="14">%s</text>`+"\n", html.EscapeString(title), plotLeft, html.EscapeString(title))
	for quarter := range int64(5) {
		y := bottom - int(quarter)*plotDepth/4
		fmt.Fprintf(w, `<line class="line" x1="%d" x2="%d" y1="%d" y2="%d"/><text x="%d" y="%d" text-anchor="end">%d</text>`+"\n",
			plotLeft, width-20, y, y, plotLeft-6, y+4, most*quarter/4)
	}
	for i, b := range buckets {
		x := plotLeft + barStep*i
		if b.From.Hour() == 0 && b.From.Minute() == 0 {
			fmt.Fprintf(w, `<line class="line" x1="%d" x2="%d" y1="%d" y2="%d"/><text x="%d" y="%d">%s</text>`+"\n",
				x, x, bottom, bottom+8, x+2, bottom+20, b.From.Format("2 Jan"))
		}
		height := int(b.Count * plotDepth / most)
		fmt.Fprintf(w, `<rect class="bar" x="%d" y="%d" width="%d" height="%d"><title>%s: %d</title></rect>`+"\n",
			x, bottom-height, barWidth, height, b.From.Format("2 Jan 15:04"), b.Count)
	}
	fmt.Fprintln(w, `</svg>`)
	return w.Flush()
}
