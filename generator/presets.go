package generator

import "time"

// Standard returns the default layout: 41 bits of milliseconds since
// 2015-01-01T00:00:00Z, 10 worker bits, 12 sequence bits. It has room for
// imported history and ends in 2084.
func Standard() Layout { return milliseconds(1420070400000, 10, 12) }

// Twitter returns the layout of Twitter's snowflake, which bwmarrin/snowflake
// has by default too: epoch 2010-11-04T01:42:54.657Z, 41/10/12 bits.
func Twitter() Layout { return milliseconds(1288834974657, 10, 12) }

// NewLife returns the layout of NewLife.Core's Snowflake with the Unix epoch:
// 41/10/12 bits, ends on 2039-09-07.
func NewLife() Layout { return milliseconds(0, 10, 12) }

// HeTu returns the layout of HeTu's snowflake: epoch 2025-12-17T19:33:20Z,
// 41/10/12 bits.
func HeTu() Layout { return milliseconds(1766000000000, 10, 12) }

// JavaScriptSafe returns a layout of 53 bits in all, whose ids a JavaScript
// number holds exactly: 41 bits of milliseconds since 2015-01-01T00:00:00Z, 5
// worker bits (32 workers, 4 of them kept for backfills), 7 sequence bits
// (128 ids per millisecond and worker).
func JavaScriptSafe() Layout { return milliseconds(1420070400000, 5, 7) }

func milliseconds(epoch int64, workerBits, sequenceBits int) Layout {
	return Layout{
		Epoch:        time.UnixMilli(epoch).UTC(),
		Tick:         time.Millisecond,
		TimeBits:     41,
		WorkerBits:   workerBits,
		SequenceBits: sequenceBits,
	}
}
