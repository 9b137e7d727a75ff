package pictures

// Lease draws two owners of one worker id, one after the other: why a paused
// process can't make an id twice.
func Lease() string {
	c := newCanvas(840, 360, "Grants of one worker id never overlap")
	c.text(30, 34, 17, "start", ink, "Worker id 7: each grant begins at or above the high water of the one before")
	const axis = 290
	at := func(seconds int) int { return 120 + seconds*6 }

	c.line(120, axis, 815, axis, faint, false)
	c.text(815, axis+36, 12, "end", ink, "id time")
	for s := 0; s <= 110; s += 10 {
		c.line(at(s), axis, at(s), axis+5, faint, false)
		c.text(at(s), axis+19, 11, "middle", ink, seconds(s))
	}

	c.text(30, 92, 14, "start", time_, "process A")
	c.text(30, 109, 12, "start", time_, "term 4")
	grant(c, at(0), at(30), 76, time_, "acquire")
	grant(c, at(30), at(40), 76, time_, "extend")
	grant(c, at(40), at(50), 76, time_, "extend")
	c.line(at(50), 66, at(50), axis, time_, true)
	c.text(at(50)+6, 70, 12, "start", time_, "high water H = 50 s")

	c.rect(at(22), 132, at(84)-at(22), 22, dead, 0.15)
	c.text((at(50)+at(84))/2, 147, 12, "middle", dead, "A is paused and can't know")

	c.text(30, 200, 14, "start", work, "process B")
	c.text(30, 217, 12, "start", work, "term 5")
	grant(c, at(68), at(98), 184, work, "acquire: from max(H, now)")
	grant(c, at(98), at(108), 184, work, "extend")
	c.line(at(68), 176, at(68), axis, work, true)
	c.text(at(68)-6, 202, 12, "end", work, "A's row expired,")
	c.text(at(68)-6, 218, 12, "end", work, "B takes it")

	c.text(at(84)+6, 92, 12, "start", dead, "A wakes: its grant ends at 50 s,")
	c.text(at(84)+6, 108, 12, "start", dead, "so it seals and takes another row")
	c.text(30, 345, 12, "start", ink, "Expiry decides who may take the row, never which ids are safe: that is the high water's task, and it only rises.")
	return c.String()
}

func grant(c *canvas, from, to, y int, colour, label string) {
	c.rect(from+1, y, to-from-2, 34, colour, 0.2)
	c.outline(from+1, y, to-from-2, 34, colour)
	c.text((from+to)/2, y+22, 12, "middle", ink, label)
}
