// Package pictures draws the documentation's pictures as SVG, so that they
// follow the code: go run ./internal/pictures/cmd writes them into docs/img.
package pictures

import (
	"fmt"
	"html"
	"strings"
)

// Pictures returns every picture by its file name.
func Pictures() map[string]string {
	return map[string]string{"id.svg": ID(), "lease.svg": Lease(), "window.svg": Window()}
}

// Colours that keep their contrast on light and on dark pages.
const (
	ink   = "#1f2933"
	faint = "#9aa5b1"
	time_ = "#2f6fb7"
	work  = "#2c8a5b"
	seq   = "#b7652f"
	dead  = "#b02a37"
	paper = "#ffffff"
)

// canvas collects the elements of one picture.
type canvas struct {
	width, height int
	title         string
	body          strings.Builder
}

func newCanvas(width, height int, title string) *canvas {
	return &canvas{width: width, height: height, title: title}
}

func (c *canvas) rect(x, y, w, h int, fill string, opacity float64) {
	fmt.Fprintf(&c.body, `<rect x="%d" y="%d" width="%d" height="%d" rx="4" fill="%s" fill-opacity="%g"/>`+"\n", x, y, w, h, fill, opacity)
}

func (c *canvas) outline(x, y, w, h int, stroke string) {
	fmt.Fprintf(&c.body, `<rect x="%d" y="%d" width="%d" height="%d" rx="4" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", x, y, w, h, stroke)
}

func (c *canvas) line(x1, y1, x2, y2 int, stroke string, dashed bool) {
	dash := ""
	if dashed {
		dash = ` stroke-dasharray="4 4"`
	}
	fmt.Fprintf(&c.body, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="1.5"%s/>`+"\n", x1, y1, x2, y2, stroke, dash)
}

// text writes a line; anchor is start, middle or end.
func (c *canvas) text(x, y, size int, anchor, fill, text string) {
	fmt.Fprintf(&c.body, `<text x="%d" y="%d" font-size="%d" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, size, anchor, fill, html.EscapeString(text))
}

func (c *canvas) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="Helvetica, Arial, sans-serif">
<title>%s</title>
<rect width="%d" height="%d" rx="8" fill="%s"/>
%s</svg>
`, c.width, c.height, c.width, c.height, html.EscapeString(c.title), c.width, c.height, paper, c.body.String())
}
