package migrate

import (
	"context"
	"strings"
	"sync"

	"gorm.io/gorm"
)

// planCache keeps the plans of recent statements.
type planCache struct {
	mu sync.RWMutex
	m  map[string]*plan
}

const (
	maxPlans   = 1024 // then the cache starts over
	maxPlanSQL = 4096 // longer statements, such as large batches, aren't kept

	maxAnalyses = 3 // of one statement, while other goroutines find changes
)

func (c *planCache) get(sql string) *plan {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.m[sql]
}

func (c *planCache) put(sql string, p *plan) {
	if len(sql) > maxPlanSQL {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxPlans {
		c.m = make(map[string]*plan, 64)
	}
	c.m[sql] = p
}

// plan yields the statement's plan, from memory while its tables are unchanged.
func (c *catalog) plan(ctx context.Context, pool gorm.ConnPool, sql string) (*plan, error) {
	if p := c.plans.get(sql); p != nil {
		for _, t := range p.tables {
			if _, err := c.lookup(ctx, pool, t.database, t.name); err != nil {
				return nil, err
			}
		}
		if p.generation == c.generation.Load() && p.declarations == c.bools.declarations.Load() {
			return p, nil
		}
	}
	if err := c.connect(ctx, pool); err != nil {
		return nil, err
	}
	covered := func(refs []tableRef) bool {
		for _, ref := range refs {
			if !ref.derived && c.bools.covers(ref.name) {
				return true
			}
		}
		return false
	}
	// A plan is good for the schema that it was made under. What is counted before
	// and after tells whether that was one and the same: the first attempt may load
	// tables itself, and other goroutines may find that one has changed.
	for attempt := 0; ; attempt++ {
		generation, declarations := c.generation.Load(), c.bools.declarations.Load()
		missing := false
		p, err := analyse(sql, c.ansiQuotes(), c.noBackslash(), covered, func(database, name string) (*table, error) {
			if systemSchemas[strings.ToLower(database)] || database == "" && systemSchemas[strings.ToLower(c.database)] {
				return nil, nil
			}
			t, err := c.lookup(ctx, pool, database, name)
			missing = missing || t != nil && !t.exists
			return t, err
		})
		if err != nil {
			return nil, err
		}
		if p == nil {
			p = &plan{}
		}
		p.generation, p.declarations = generation, declarations
		settled := generation == c.generation.Load() && declarations == c.bools.declarations.Load()
		if settled && !missing {
			c.plans.put(sql, p)
		}
		if settled || attempt == maxAnalyses {
			return p, nil
		}
	}
}

var systemSchemas = map[string]bool{"information_schema": true, "performance_schema": true, "mysql": true, "sys": true}
