package pictures

import (
	"fmt"
	"time"

	"github.com/gormflake/gormflake/generator"
)

// ID draws the bits of an id of the Standard layout, with a real one taken
// apart beneath.
func ID() string {
	l := generator.Standard()
	c := newCanvas(840, 230, "The bits of an id")
	const left, top, height = 30, 60, 46
	unit := 12
	x := left
	c.text(left, 34, 17, "start", ink, "One int64: sorted by time, unique by worker id, counted by sequence")
	for _, part := range []struct {
		bits       int
		fill, name string
	}{
		{1, faint, ""},
		{l.TimeBits, time_, fmt.Sprintf("%d bits: milliseconds since %s", l.TimeBits, l.Epoch.Format(time.DateOnly))},
		{l.WorkerBits, work, fmt.Sprintf("%d: worker id", l.WorkerBits)},
		{l.SequenceBits, seq, fmt.Sprintf("%d: sequence", l.SequenceBits)},
	} {
		w := part.bits * unit
		c.rect(x+1, top, w-2, height, part.fill, 1)
		c.text(x+w/2, top+29, 14, "middle", paper, part.name)
		x += w
	}
	bit := func(n int) int { return left + (63-n)*unit + unit/2 }
	for _, n := range []int{62, 21, 11, 0} {
		c.text(bit(n), top-7, 11, "middle", ink, fmt.Sprint(n))
	}

	at := time.Date(2024, 2, 29, 12, 0, 0, 123e6, time.UTC)
	id, err := l.Compose(at, 391, 42)
	if err != nil {
		panic(err) // a constant of this file is wrong
	}
	c.text(left, 144, 16, "start", ink, fmt.Sprintf("%d", id))
	c.text(left, 168, 13, "start", time_, at.Format("2006-01-02T15:04:05.000Z"))
	c.text(bit(21), 168, 13, "start", work, "391")
	c.text(bit(11), 168, 13, "start", seq, "42")
	c.text(left, 204, 12, "start", ink, fmt.Sprintf("4,096 ids per millisecond and worker, %d workers, until %s",
		l.LiveWorkers().Len(), l.End().Format(time.DateOnly)))
	return c.String()
}
