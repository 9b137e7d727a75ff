package simulation

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"
	"time"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// The checks, by the names that violations carry.
const (
	CheckUnique   = "unique"     // no id twice over nodes, incarnations and backfills
	CheckGranted  = "granted"    // nothing issued outside a confirmed grant or block
	CheckDisjoint = "disjoint"   // confirmed grants of one worker never overlap
	CheckMonotone = "never down" // terms and high waters in the store
	CheckOrder    = "order"      // ids of a binding rise, bursts are contiguous
	CheckLead     = "lead"       // Next is never further ahead of the clock than MaxLead
	CheckErrors   = "errors"     // only documented errors, and nothing half-done
	CheckWait     = "wait"       // no call waits longer than MaxWait
	CheckLiveness = "liveness"   // with faults healed, every node issues again
	CheckClosed   = "closed"     // nothing runs on after Close
)

// Violation is what a check found.
type Violation struct {
	Check  string
	Detail string
	At     time.Duration // virtual time since the episode's start
}

// Error says what was found, and when.
func (v *Violation) Error() string {
	return fmt.Sprintf("simulation: check %q failed after %v: %s", v.Check, v.At, v.Detail)
}

// checker sees every grant that a process was told of and every id that a
// caller was given.
type checker struct {
	fleet  *fleet
	seen   idSet
	digest hash.Hash
	grants map[int64][]*record // by worker
	blocks map[*process][]lease.Block
	ids    int64
	past   int64 // of these, of backfills
}

// record is a confirmed grant: all that its holder may issue in.
type record struct {
	process       *process
	token         string
	worker, term  int64
	from, through int64
	attempts      []int64
}

func newChecker(f *fleet) *checker {
	return &checker{fleet: f, digest: sha256.New(), grants: map[int64][]*record{}, blocks: map[*process][]lease.Block{}}
}

func (c *checker) granted(p *process, g lease.Grant) {
	r := &record{process: p, token: g.Token, worker: g.Worker, term: g.Term, from: g.From, through: g.Through}
	c.grants[g.Worker] = append(c.grants[g.Worker], r)
	c.disjoint(r)
}

func (c *checker) find(p *process, worker int64, token string) *record {
	of := c.grants[worker]
	for i := len(of) - 1; i >= 0; i-- {
		if of[i].process == p && of[i].token == token {
			return of[i]
		}
	}
	return nil
}

func (c *checker) attempted(p *process, held lease.Grant, through int64) {
	if r := c.find(p, held.Worker, held.Token); r != nil {
		r.attempts = append(r.attempts, through)
	}
}

// tried reports whether an extension to through, of unknown outcome, is p's.
func (c *checker) tried(p *process, held lease.Grant, through int64) bool {
	r := c.find(p, held.Worker, held.Token)
	return r != nil && slices.Contains(r.attempts, through)
}

func (c *checker) extended(p *process, held lease.Grant, through int64) {
	r := c.find(p, held.Worker, held.Token)
	if r == nil {
		// A clone, which owns nothing of what its original was granted.
		r = &record{process: p, token: held.Token, worker: held.Worker, term: held.Term, from: held.Through}
		c.grants[held.Worker] = append(c.grants[held.Worker], r)
	}
	r.through, r.attempts = max(r.through, through), nil
	c.disjoint(r)
}

// looked confirms an extension whose reply was lost, by the keeper's rule.
func (c *checker) looked(p *process, row lease.Row) {
	r := c.find(p, row.Worker, row.Owner)
	if r != nil && r.term == row.Term && slices.Contains(r.attempts, row.HighWater) {
		r.through, r.attempts = max(r.through, row.HighWater), nil
		c.disjoint(r)
	}
}

func (c *checker) disjoint(r *record) {
	for _, o := range c.grants[r.worker] {
		if o != r && max(o.from, r.from) < min(o.through, r.through) {
			c.fleet.fail(CheckDisjoint, "worker %d: %v (term %d) may issue in [%d, %d), %v (term %d) in [%d, %d)",
				r.worker, o.process, o.term, o.from, o.through, r.process, r.term, r.from, r.through)
		}
	}
}

func (c *checker) reserved(p *process, b lease.Block) { c.blocks[p] = append(c.blocks[p], b) }

// issued checks an id of a live lease and returns its worker and its word.
func (c *checker) issued(p *process, id generator.ID) (worker, word int64) {
	layout := p.node.layout
	worker = int64(id) >> layout.SequenceBits & (1<<layout.WorkerBits - 1)
	tick := int64(id) >> (layout.SequenceBits + layout.WorkerBits)
	word = tick<<layout.SequenceBits | int64(id)&(1<<layout.SequenceBits-1)
	from := layout.Epoch.UnixMilli() + tick*layout.Tick.Milliseconds()
	if !c.inGrant(p, worker, from, from+layout.Tick.Milliseconds()) {
		c.fleet.fail(CheckGranted, "%v issued %d (worker %d, time %d) outside of its confirmed grants", p, id, worker, from)
	}
	c.add(p, id)
	p.node.issued++
	return worker, word
}

func (c *checker) inGrant(p *process, worker, from, through int64) bool {
	of := c.grants[worker]
	for i := len(of) - 1; i >= 0; i-- {
		if r := of[i]; r.process == p && r.from <= from && through <= r.through {
			return true
		}
	}
	return false
}

// backfilled checks an id for a row of the time t.
func (c *checker) backfilled(p *process, id generator.ID, t time.Time, precision time.Duration) {
	layout := p.node.layout
	parts := layout.Decompose(id)
	tick := int64(id) >> (layout.SequenceBits + layout.WorkerBits)
	if parts.Time.After(t.Add(precision-1)) || !parts.Time.Add(layout.Tick).After(t) {
		c.fleet.fail(CheckOrder, "%v backfilled %v with %d, whose time is %v", p, t, id, parts.Time)
	}
	in := func(b lease.Block) bool {
		return b.Worker == parts.Worker && b.FirstTick <= tick && tick <= b.LastTick &&
			b.FirstSequence <= parts.Sequence && parts.Sequence <= b.LastSequence
	}
	if !slices.ContainsFunc(c.blocks[p], in) {
		c.fleet.fail(CheckGranted, "%v backfilled %d outside of its blocks", p, id)
	}
	c.past++
	c.add(p, id)
}

func (c *checker) add(p *process, id generator.ID) {
	c.ids++
	var bytes [8]byte
	binary.BigEndian.PutUint64(bytes[:], uint64(id))
	c.digest.Write(bytes[:])
	if id <= 0 || !c.seen.add(int64(id)) {
		c.fleet.fail(CheckUnique, "%v was given %d, which was given out before; %s", p, id, c.holders(p, id))
	}
}

// holders names who else was granted that time of that worker.
func (c *checker) holders(p *process, id generator.ID) string {
	parts := p.node.layout.Decompose(id)
	ms := parts.Time.UnixMilli()
	text := fmt.Sprintf("worker %d, time %d, sequence %d; granted to", parts.Worker, ms, parts.Sequence)
	for _, r := range c.grants[parts.Worker] {
		if r.from <= ms+p.node.layout.Tick.Milliseconds() && ms < r.through {
			text += fmt.Sprintf(" %v in [%d, %d)", r.process, r.from, r.through)
		}
	}
	return text
}
