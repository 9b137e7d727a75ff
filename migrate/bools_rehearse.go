package migrate

import (
	"context"
	"fmt"
	"strings"
)

// algorithm is how this server carries out an ALTER, as it told on a rehearsal.
type algorithm struct {
	Algorithm string // INSTANT, INPLACE
	Lock      string // NONE
}

// clause is the end of the ALTER: the server fails rather than do worse.
func (a algorithm) clause() string {
	if a.Algorithm == "" {
		return ""
	}
	return ", ALGORITHM=" + a.Algorithm + ", LOCK=" + a.Lock
}

// The steps whose algorithm is rehearsed.
const (
	alterAdd      = "add"
	alterIndex    = "index"
	alterSwap     = "swap"
	alterSwapBack = "swap back"
	alterUndo     = "undo"
	alterClean    = "clean"
)

// algorithms are tried from the gentlest on; one that blocks writes is no choice.
var algorithms = []algorithm{{"INSTANT", "NONE"}, {"INPLACE", "NONE"}}

// rehearse plays the whole migration on an empty copy of the table, then its
// values on a copy of the columns alone. The server itself tells which algorithm
// it uses and whether the table comes out of a rollback as it was. What it can't
// do comes back as a refusal, and the copies are dropped in any case.
func (s *boolSession) rehearse(ctx context.Context, r *planRecord) (refusal string, err error) {
	copyName := "_gormflake_rehearsal_" + shortHash(s.schema+"."+r.Table)
	drop := "DROP TABLE IF EXISTS " + quoteName(copyName)
	if _, err := s.conn.ExecContext(ctx, drop); err != nil {
		return "", fmt.Errorf("migrate: the rehearsal: %w", err)
	}
	defer func() { _, _ = s.conn.ExecContext(context.WithoutCancel(ctx), drop) }()
	if refusal, err = s.rehearseSchema(ctx, r, copyName); refusal != "" || err != nil {
		return refusal, err
	}
	for _, c := range r.Columns {
		if _, err := s.conn.ExecContext(ctx, drop); err != nil {
			return "", fmt.Errorf("migrate: the rehearsal: %w", err)
		}
		if refusal, err = s.rehearseValues(ctx, r, c, copyName); refusal != "" || err != nil {
			return refusal, err
		}
	}
	return "", nil
}

// rehearsal runs statements one by one and remembers the first that failed.
type rehearsal struct {
	s       *boolSession
	ctx     context.Context
	refusal string
	err     error
}

func (p *rehearsal) run(statement string) {
	if p.refusal != "" || p.err != nil {
		return
	}
	if _, err := p.s.conn.ExecContext(p.ctx, statement); err != nil {
		if mysqlError(err) == 0 {
			p.err = fmt.Errorf("migrate: the rehearsal: %w", err)
			return
		}
		p.refusal = fmt.Sprintf("%v (in: %s)", err, statement)
	}
}

// try runs an ALTER with the gentlest algorithm that the server takes.
func (p *rehearsal) try(into map[string]algorithm, step, statement string) {
	var last string
	for _, a := range algorithms {
		if p.refusal != "" || p.err != nil {
			return
		}
		p.run(statement + a.clause())
		if p.refusal == "" {
			into[step] = a
			return
		}
		last, p.refusal = p.refusal, ""
	}
	p.refusal = last
}

func (s *boolSession) rehearseSchema(ctx context.Context, r *planRecord, name string) (string, error) {
	p := &rehearsal{s: s, ctx: ctx}
	p.run("CREATE TABLE " + quoteName(name) + " LIKE " + quoteName(r.Table))
	if p.refusal != "" || p.err != nil {
		return p.refusal, p.err
	}
	before, err := s.showCreate(ctx, name)
	if err != nil {
		return "", err
	}
	found := map[string]algorithm{}
	p.try(found, alterAdd, addColumns(name, r.Columns))
	for _, event := range triggerEvents {
		p.run(createTrigger(triggerName(name, event), name, event, r.Triggers[event]))
	}
	if len(r.Indexes) > 0 {
		p.try(found, alterIndex, r.addIndexes(name))
	}
	p.try(found, alterSwap, swapColumns(name, r.Columns))
	p.try(found, alterSwapBack, swapBack(name, r.Columns))
	for _, event := range triggerEvents {
		p.run("DROP TRIGGER " + quoteName(triggerName(name, event)))
	}
	p.try(found, alterUndo, r.undo(name))
	if p.refusal != "" || p.err != nil {
		return p.refusal, p.err
	}
	after, err := s.showCreate(ctx, name)
	if err != nil {
		return "", err
	}
	if before.comparable() != after.comparable() {
		return fmt.Sprintf("after a rollback the table would not be what it was; expected\n%s\nmet\n%s", before.text, after.text), nil
	}
	p.run(addColumns(name, r.Columns) + found[alterAdd].clause())
	if len(r.Indexes) > 0 {
		p.run(r.addIndexes(name) + found[alterIndex].clause())
	}
	p.run(swapColumns(name, r.Columns) + found[alterSwap].clause())
	p.try(found, alterClean, r.clean(name))
	if p.refusal == "" && p.err == nil {
		r.Algorithms = found
	}
	return p.refusal, p.err
}

// rehearseValues lets every mapped value through the real triggers, before a
// swap, after it and after the swap back.
func (s *boolSession) rehearseValues(ctx context.Context, r *planRecord, c columnPlan, name string) (string, error) {
	p := &rehearsal{s: s, ctx: ctx}
	one := []columnPlan{c}
	table := quoteName(name)
	options := r.Original[strings.LastIndex(r.Original, "\n)")+2:]
	if i := strings.Index(options, "\n"); i >= 0 { // the partitions
		options = options[:i]
	}
	p.run(fmt.Sprintf("CREATE TABLE %s (`gf id` int NOT NULL PRIMARY KEY, %s %s) %s", table, quoteName(c.Name), c.SourceDefinition, options))
	p.run(addColumns(name, one))
	for _, event := range triggerEvents {
		p.run(createTrigger(triggerName(name, event), name, event, triggerBody(one, event)))
	}
	value := map[bool]string{true: "true", false: "false"}
	insert := func(id int, literal string) {
		p.run(fmt.Sprintf("INSERT INTO %s (`gf id`, %s) VALUES (%d, %s)", table, quoteName(c.Name), id, literal))
	}
	update := func(id int, literal string) {
		p.run(fmt.Sprintf("UPDATE %s SET %s = %s WHERE `gf id` = %d", table, quoteName(c.Name), literal, id))
	}
	expect := func(id int, source, target bool, swapped bool) {
		if p.refusal != "" || p.err != nil {
			return
		}
		s, t := quoteName(c.Name), quoteName(c.Helper)
		if swapped {
			s, t = t, s
		}
		var ok bool
		query := fmt.Sprintf("SELECT IFNULL(%s = %s AND %s = %s AND NOT (%s), 0) FROM %s WHERE `gf id` = %d",
			s, c.Source.Literal(source), t, c.Target.Literal(target), c.disagrees(swapped), table, id)
		err := p.s.conn.QueryRowContext(ctx, query).Scan(&ok)
		switch {
		case mysqlError(err) != 0:
			p.refusal = fmt.Sprintf("%v (in: %s)", err, query)
		case err != nil:
			p.err = fmt.Errorf("migrate: the rehearsal: %w", err)
		case !ok:
			p.refusal = fmt.Sprintf("the triggers don't carry %s of column %s (swapped: %t)", value[source], c.Name, swapped)
		}
	}
	for i, v := range []bool{false, true} {
		insert(i, c.Source.Literal(v))
		insert(10+i, c.Source.Literal(v))
		update(10+i, c.Source.Literal(!v))
		expect(i, v, v, false)
		expect(10+i, !v, !v, false)
	}
	p.run(swapColumns(name, one))
	for i, v := range []bool{false, true} {
		insert(20+i, c.Target.Literal(v))
		update(10+i, c.Target.Literal(v))
		expect(i, v, v, true)
		expect(20+i, v, v, true)
		expect(10+i, v, v, true)
	}
	p.run(swapBack(name, one))
	for i, v := range []bool{false, true} {
		insert(30+i, c.Source.Literal(v))
		update(20+i, c.Source.Literal(!v))
		expect(30+i, v, v, false)
		expect(20+i, !v, !v, false)
	}
	return p.refusal, p.err
}

func (r *planRecord) addIndexes(table string) string {
	return alter(table, nil, nil, each(r.Indexes, func(ix indexPlan) string {
		return "ADD INDEX " + quoteName(ix.Helper) + " " + ix.New
	})...)
}

// undo drops the new columns with the indexes on them.
func (r *planRecord) undo(table string) string {
	return dropColumns(table, r.Columns, each(r.Indexes, func(ix indexPlan) string {
		return "DROP INDEX " + quoteName(ix.Helper)
	})...)
}

// clean drops the old columns with the indexes on them. An index is built anew
// under its own name, since the oldest servers can't rename one.
func (r *planRecord) clean(table string) string {
	var more []string
	for _, ix := range r.Indexes {
		more = append(more, "DROP INDEX "+quoteName(ix.Name), "DROP INDEX "+quoteName(ix.Helper), "ADD INDEX "+quoteName(ix.Name)+" "+ix.Final)
	}
	return dropColumns(table, r.Columns, more...)
}

func each[T any](all []T, f func(T) string) (out []string) {
	for _, v := range all {
		out = append(out, f(v))
	}
	return out
}
