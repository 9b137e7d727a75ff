package lease

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Memory returns a store that lives in this process: for an in-memory SQLite
// database and for tests. Its rows, its layout records and its reserved
// blocks end with it, so ids are unique among the generators that share this
// very value, for as long as it lives. Each call returns a store of its own.
//
// It takes the options of this package. Its window is 30 s, as for SQL.
func Memory(options ...Option) Store {
	return newMemory(time.Now, options)
}

func newMemory(clock func() time.Time, options []Option) *memory {
	defaults := Settings{Timing: Timing{
		Window: 30 * time.Second, Interval: 10 * time.Second, Expiry: 45 * time.Second, Slack: 5 * time.Second,
	}}
	return &memory{
		settings:   defaults.Apply(options),
		clock:      clock,
		namespaces: map[string]*memoryNamespace{},
	}
}

type memory struct {
	settings Settings
	clock    func() time.Time

	mu         sync.Mutex
	namespaces map[string]*memoryNamespace
}

type memoryNamespace struct {
	layout Layout
	rows   map[int64]*Row
	blocks map[int64][]Block
}

func (m *memory) Key() any { return m }

func (m *memory) Timing() Timing { return m.settings.Timing }

// Describe says that nothing outlives the process.
func (m *memory) Describe() string {
	return "memory: unique within this process, for as long as the store lives"
}

func (m *memory) Acquire(ctx context.Context, req Request) (Grant, error) {
	if err := m.ready(ctx); err != nil {
		return Grant{}, err
	}
	if err := req.Validate(); err != nil {
		return Grant{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ns, err := m.namespace(req.Namespace, req.Layout)
	if err != nil {
		return Grant{}, err
	}
	now := m.clock().UnixMilli()
	if err := m.checkCap(req.Now+m.settings.Timing.Window.Milliseconds(), now); err != nil {
		return Grant{}, err
	}
	workers := req.Workers.Intersect(m.settings.Workers)
	worker, ok := m.pick(ns, workers, req, now)
	if !ok {
		return Grant{}, &NoWorkerError{Namespace: req.Namespace, Workers: workers, Rows: ns.list(workers, now)}
	}
	row := ns.rows[worker]
	if row == nil {
		row = &Row{Worker: worker}
		ns.rows[worker] = row
	}
	from := max(row.HighWater, req.Now)
	row.Term++
	row.Owner = req.Token
	row.HighWater = max(row.HighWater, req.Now+m.settings.Timing.Window.Milliseconds())
	row.ExpiresAt = now + m.settings.Timing.Expiry.Milliseconds()
	return Grant{
		Namespace: req.Namespace, Worker: worker, Term: row.Term, Token: req.Token,
		From: from, Through: row.HighWater, StoreNow: now,
	}, nil
}

// pick looks from a random worker on, wrapping, for a row that may be taken.
// It ends after as many misses as there are rows, however wide the range is.
func (m *memory) pick(ns *memoryNamespace, workers Range, req Request, now int64) (worker int64, ok bool) {
	free := func(w int64) bool {
		row := ns.rows[w]
		return row == nil || row.ExpiresAt <= now && row.HighWater <= req.Now+req.MaxAhead &&
			m.checkCap(row.HighWater, now) == nil
	}
	n := workers.Len()
	if n == 0 {
		return 0, false
	}
	start := rand.Int64N(n)
	for i := range n {
		w := workers.Lo + (start+i)%n
		if w != req.Avoid && free(w) {
			return w, true
		}
	}
	return req.Avoid, workers.Contains(req.Avoid) && free(req.Avoid)
}

func (m *memory) Extend(ctx context.Context, held Grant, through int64) (Grant, error) {
	if err := m.ready(ctx); err != nil {
		return Grant{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock().UnixMilli()
	row := m.row(held.Namespace, held.Worker)
	if row == nil || row.Owner != held.Token || row.Owner == "" || row.Term != held.Term || row.HighWater != held.Through {
		return Grant{}, LostError(held)
	}
	through = max(through, held.Through)
	if through > held.Through {
		if err := m.checkCap(through, now); err != nil {
			return Grant{}, err
		}
	}
	row.HighWater = through
	row.ExpiresAt = now + m.settings.Timing.Expiry.Milliseconds()
	held.Through = through
	held.StoreNow = now
	return held, nil
}

func (m *memory) Release(ctx context.Context, held Grant, _ int64) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if row := m.row(held.Namespace, held.Worker); row != nil && row.Owner == held.Token && row.Term == held.Term {
		row.Owner = ""
		row.ExpiresAt = row.HighWater
	}
	return nil
}

func (m *memory) Lookup(ctx context.Context, namespace string, worker int64) (Row, bool, error) {
	if err := m.ready(ctx); err != nil {
		return Row{}, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.row(namespace, worker)
	if row == nil {
		return Row{}, false, nil
	}
	found := *row
	found.Held = found.ExpiresAt > m.clock().UnixMilli()
	return found, true, nil
}

// List returns the rows of a namespace, by worker id.
func (m *memory) List(ctx context.Context, namespace string) ([]Row, error) {
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ns := m.namespaces[namespace]
	if ns == nil {
		return nil, nil
	}
	return ns.list(Range{Lo: 0, Hi: math.MaxInt64}, m.clock().UnixMilli()), nil
}

// ReserveBlock reserves a block on the worker with the most sequences left.
func (m *memory) ReserveBlock(ctx context.Context, req BlockRequest) (Block, error) {
	if err := m.ready(ctx); err != nil {
		return Block{}, err
	}
	req.Workers = req.Workers.Intersect(m.settings.Workers)
	if err := req.Validate(); err != nil {
		return Block{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ns, err := m.namespace(req.Namespace, req.Layout)
	if err != nil {
		return Block{}, err
	}
	worker, first := int64(-1), req.Layout.LastSequence()+1
	for w := req.Workers.Lo; w <= req.Workers.Hi && first > 0; w++ {
		if next := NextFree(ns.blocks[w], req.FirstTick, req.LastTick); next < first {
			worker, first = w, next
		}
	}
	if worker < 0 {
		return Block{}, ExhaustedError(req)
	}
	block := req.Block(worker, first)
	ns.blocks[worker] = append(ns.blocks[worker], block)
	return block, nil
}

// ready returns the fault of the options or of the context.
func (m *memory) ready(ctx context.Context) error {
	if m.settings.Err != nil {
		return m.settings.Err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("lease: memory: %w", err)
	}
	return nil
}

// namespace returns the namespace, which its first user's layout begins.
func (m *memory) namespace(name string, layout Layout) (*memoryNamespace, error) {
	ns := m.namespaces[name]
	if ns == nil {
		ns = &memoryNamespace{layout: layout, rows: map[int64]*Row{}, blocks: map[int64][]Block{}}
		m.namespaces[name] = ns
	}
	if ns.layout != layout {
		return nil, &LayoutMismatchError{Namespace: name, Recorded: ns.layout.String(), Requested: layout.String()}
	}
	return ns, nil
}

func (m *memory) row(namespace string, worker int64) *Row {
	if ns := m.namespaces[namespace]; ns != nil {
		return ns.rows[worker]
	}
	return nil
}

func (m *memory) checkCap(highWater, now int64) error {
	return m.settings.Timing.CheckCap(highWater, now)
}

func (ns *memoryNamespace) list(workers Range, now int64) []Row {
	var rows []Row
	for w, row := range ns.rows {
		if workers.Contains(w) {
			found := *row
			found.Held = found.ExpiresAt > now
			rows = append(rows, found)
		}
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Worker, b.Worker) })
	return rows
}
