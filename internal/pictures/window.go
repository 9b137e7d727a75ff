package pictures

import "strconv"

// Window draws how a time range becomes a range of the primary key.
func Window() string {
	c := newCanvas(840, 190, "A time window is a range of the primary key")
	c.text(30, 34, 17, "start", ink, "Between(from, to): id >= first id of from AND id < first id of to")
	const y, h = 78, 34
	for i := range 39 {
		fill := faint
		if i >= 13 && i < 26 {
			fill = time_
		}
		c.rect(30+i*20, y, 18, h, fill, 0.75)
	}
	for _, edge := range []struct {
		cell int
		name string
	}{{13, "from"}, {26, "to"}} {
		x := 29 + edge.cell*20
		c.line(x, y-14, x, y+h+14, time_, false)
		c.text(x, y-20, 13, "middle", time_, edge.name)
	}
	c.text(29+13*20, y+h+32, 12, "middle", ink, "first tick at or after from")
	c.text(29+26*20, y+h+32, 12, "middle", ink, "first tick at or after to")
	c.text(30, 174, 12, "start", ink, "Rows lie in key order, so the window is one stretch of the table: no created_at, no index on it. Neighbouring windows tile.")
	return c.String()
}

func seconds(s int) string { return strconv.Itoa(s) + " s" }
