package lease

import "fmt"

// Validate returns ErrInvalid with what no store can serve, or nil: a
// namespace that CheckNamespace refuses, or a token that is empty or longer
// than 64 bytes. An empty range of workers is no fault of the request but
// ErrNoWorker.
func (r Request) Validate() error {
	if err := CheckNamespace(r.Namespace); err != nil {
		return err
	}
	if r.Token == "" || len(r.Token) > tokenLength {
		return fmt.Errorf("%w: want a token of 1 to %d bytes, got %d; use NewToken", ErrInvalid, tokenLength, len(r.Token))
	}
	if r.MaxAhead < 0 || r.MaxLead < 0 {
		return fmt.Errorf("%w: want MaxAhead and MaxLead of 0 or more milliseconds, got %d and %d", ErrInvalid, r.MaxAhead, r.MaxLead)
	}
	return nil
}

// namespaceLength is what the namespace column of every store has room for.
const namespaceLength = 64

// CheckNamespace returns ErrInvalid unless the name is 1 to 64 printable ASCII
// characters without spaces and braces, which every store can keep apart: a
// space at the end may be trimmed, and braces end a Redis hash tag.
func CheckNamespace(name string) error {
	if name == "" || len(name) > namespaceLength {
		return fmt.Errorf("%w: want a namespace of 1 to %d characters, got %d", ErrInvalid, namespaceLength, len(name))
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c > '~' || c == '{' || c == '}' {
			return fmt.Errorf("%w: want a namespace of printable ASCII without spaces and braces, got %q", ErrInvalid, name)
		}
	}
	return nil
}

// Validate returns ErrInvalid with what no store can reserve, or nil.
func (r BlockRequest) Validate() error {
	if err := CheckNamespace(r.Namespace); err != nil {
		return err
	}
	l := r.Layout
	if l.TimeBits < 1 || l.TimeBits > 62 || l.WorkerBits < 0 || l.WorkerBits > 31 || l.SequenceBits < 0 || l.SequenceBits > 31 {
		return fmt.Errorf("%w: want the layout of a generator, got %v", ErrInvalid, l)
	}
	last := int64(1)<<l.TimeBits - 1
	if r.FirstTick < 0 || r.LastTick < r.FirstTick || r.LastTick > last {
		return fmt.Errorf("%w: want 0 <= first tick <= last tick <= %d, got %d and %d", ErrInvalid, last, r.FirstTick, r.LastTick)
	}
	if r.Sequences < 1 {
		return fmt.Errorf("%w: want at least 1 sequence, got %d", ErrInvalid, r.Sequences)
	}
	if r.Workers.Len() == 0 || r.Workers.Lo < 0 || r.Workers.Hi > int64(1)<<l.WorkerBits-1 {
		return fmt.Errorf("%w: want worker ids for backfills between 0 and %d, got %v; a layout of fewer than 16 workers keeps none, and lease.Workers may leave none",
			ErrInvalid, int64(1)<<l.WorkerBits-1, r.Workers)
	}
	return nil
}

// LastSequence returns the layout's last sequence.
func (l Layout) LastSequence() int64 { return int64(1)<<l.SequenceBits - 1 }
