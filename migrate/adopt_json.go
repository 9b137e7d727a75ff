package migrate

import "encoding/json"

// The objects of --json, with keys in snake_case, and ids as strings since
// JavaScript's numbers end at 2^53. The journal keeps the names of Go, and doesn't
// use them.

type adoptReportJSON struct {
	Progress       string                `json:"progress"` // "not begun", "under way" or "done"
	Next           []string              `json:"next"`
	Dialect        string                `json:"dialect"`
	Product        string                `json:"product"`
	Server         string                `json:"server"`
	Table          string                `json:"table"`
	Key            adoptColumnJSON       `json:"key"`
	References     []adoptColumnJSON     `json:"references"`
	ForeignKeys    []adoptForeignKeyJSON `json:"foreign_keys"`
	Sequence       *adoptSequenceJSON    `json:"sequence,omitempty"`
	Create         string                `json:"create,omitempty"`
	MaxID          int64                 `json:"max_id,string"`
	FirstID        int64                 `json:"first_id,string"`
	EarlierFirstID int64                 `json:"earlier_first_id,string,omitempty"`
	Widening       Widening              `json:"widening,omitempty"`
	Hazards        []adoptHazardJSON     `json:"hazards"`
	Refusals       []refusalJSON         `json:"refusals"`
}

type adoptColumnJSON struct {
	Table      string `json:"table"`
	Column     string `json:"column"`
	Type       string `json:"type"`
	Definition string `json:"definition,omitempty"`
	Bits       int    `json:"bits"`
	Unsigned   bool   `json:"unsigned"`
	Numbering  string `json:"numbering,omitempty"`
	Declared   bool   `json:"declared"`
	Rows       *int64 `json:"rows"` // null when the server has no estimate
}

type adoptForeignKeyJSON struct {
	Table      string `json:"table"`
	Column     string `json:"column"`
	Name       string `json:"name"`
	Definition string `json:"definition,omitempty"`
	ToTable    string `json:"to_table"`
	ToColumn   string `json:"to_column"`
}

type adoptSequenceJSON struct {
	Schema    string `json:"schema"`
	Name      string `json:"name"`
	Type      string `json:"type"`
	Start     int64  `json:"start,string"`
	Increment int64  `json:"increment,string"`
	Min       int64  `json:"min,string"`
	Max       int64  `json:"max,string"`
	Cache     int64  `json:"cache,string"`
	Cycle     bool   `json:"cycle"`
	Owned     bool   `json:"owned"`
	Last      int64  `json:"last,string"`
	Shared    bool   `json:"shared"`
}

type adoptHazardJSON struct {
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

type refusalJSON struct {
	Code   string `json:"code"`
	Column string `json:"column,omitempty"`
	Name   string `json:"name,omitempty"`
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
}

type adoptStatementJSON struct {
	Step   string   `json:"step"`
	Table  string   `json:"table"`
	SQL    []string `json:"sql"`
	Ladder []string `json:"ladder,omitempty"`
	Locks  string   `json:"locks"`
}

// MarshalJSON is the object of gormflake adopt inspect --json: keys in snake_case,
// ids as strings. It isn't meant to be read back into a report.
func (r AdoptReport) MarshalJSON() ([]byte, error) {
	j := adoptReportJSON{Progress: string(r.Progress), Next: textsJSON(r.Next), Dialect: r.Dialect, Product: r.product(), Server: r.Server, Table: r.Table, Key: columnJSON(r.Key),
		References:  objects(r.References, columnJSON),
		ForeignKeys: objects(r.ForeignKeys, func(k AdoptForeignKey) adoptForeignKeyJSON { return adoptForeignKeyJSON(k) }),
		Create:      r.Create, MaxID: r.MaxID, FirstID: r.FirstID, EarlierFirstID: r.EarlierFirstID, Widening: r.Widening,
		Hazards:  hazardsJSON(r.Hazards),
		Refusals: refusalsJSON(r.Refusals)}
	if r.Progress == AdoptNotBegun {
		j.Progress = "not begun"
	}
	if q := r.Sequence; q != nil {
		j.Sequence = &adoptSequenceJSON{q.Schema, q.Name, q.Type, q.Start, q.Increment, q.Min, q.Max, q.Cache, q.Cycle, q.Owned, q.Last, q.Shared}
	}
	return json.Marshal(j)
}

// MarshalJSON is the object of gormflake adopt plan --json.
func (p *AdoptPlan) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Report     *AdoptReport         `json:"report"`
		Begun      bool                 `json:"begun"`
		Refusals   []refusalJSON        `json:"refusals"`
		Statements []adoptStatementJSON `json:"statements"`
	}{p.Report, p.Begun, refusalsJSON(p.Refusals), objects(p.Statements, func(s AdoptStatement) adoptStatementJSON {
		return adoptStatementJSON{s.Step, s.Table, s.SQL, s.Ladder, s.Locks}
	})})
}

// MarshalJSON is the object of gormflake adopt verify --json.
func (v AdoptVerification) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Table     string   `json:"table"`
		OK        bool     `json:"ok"`
		Legacy    int64    `json:"legacy"`
		New       int64    `json:"new"`
		MaxLegacy int64    `json:"max_legacy,string"`
		ToDo      []string `json:"to_do"`
		Problems  []string `json:"problems"`
	}{v.Table, v.OK(), v.Legacy, v.New, v.MaxLegacy, textsJSON(v.ToDo), textsJSON(v.Problems)})
}

func columnJSON(c AdoptColumn) adoptColumnJSON {
	j := adoptColumnJSON{c.Table, c.Column, c.Type, c.Definition, c.Bits, c.Unsigned, c.Numbering, c.Declared, nil}
	if c.Rows >= 0 {
		j.Rows = &c.Rows
	}
	return j
}

func hazardsJSON(all []AdoptHazard) []adoptHazardJSON {
	return objects(all, func(h AdoptHazard) adoptHazardJSON { return adoptHazardJSON(h) })
}

func refusalsJSON(all []Refusal) []refusalJSON {
	return objects(all, func(r Refusal) refusalJSON { return refusalJSON(r) })
}

// objects is an array, never null.
func objects[T, U any](all []T, f func(T) U) []U {
	out := make([]U, 0, len(all))
	for _, v := range all {
		out = append(out, f(v))
	}
	return out
}

func textsJSON(all []string) []string { return objects(all, func(s string) string { return s }) }
