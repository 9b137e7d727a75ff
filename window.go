package gormflake

import (
	"errors"
	"fmt"
	"math"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormflake/gormflake/generator"
)

// Errors of windows and cursors, wrapped with detail and added to the
// statement, which then isn't run. Match them with errors.Is.
var (
	// ErrWindow says that a window's times make no range: a zero time, a from
	// after its to, a negative duration, or a Window that no constructor made.
	ErrWindow = errors.New("gormflake: no time range")
	// ErrNoLayout says that a statement's database has no gormflake plugin,
	// and the window or cursor no layout of its own.
	ErrNoLayout = errors.New("gormflake: no layout")
)

// Window is a half-open range of time, [from, to), that selects rows by their
// snowflake primary key alone:
//
//	db.Where(gormflake.Last(time.Hour)).Find(&orders)
//	db.Not(gormflake.On(day)).Find(&orders)
//	gorm.G[Order](db).Where(gormflake.Between(from, to)).Find(ctx)
//
// It becomes id >= lo AND id < hi with bound parameters, which the database
// answers from the primary key's index and which prunes partitions. Both
// bounds are rounded up to whole ticks, so a window selects exactly the rows
// whose decoded time lies in it, and neighbouring windows tile. A from before
// the layout's epoch starts at the first id; a to past the layout's end adds
// no bound.
//
// The layout is the one of the plugin on the statement's database, or the one
// given by In. The column is the model's primary key, or the one given by
// Column. What can't be resolved is an error of the statement (ErrWindow,
// ErrNoKey, ErrNoLayout): it never runs against a wrong column.
//
// A Window is a value: it may be kept, copied and used by many goroutines.
// The zero Window is ErrWindow.
type Window struct {
	kind      windowKind
	from, to  time.Time
	last      time.Duration
	column    string
	layout    generator.Layout
	hasLayout bool
	noLegacy  bool
}

type windowKind uint8

const (
	windowNone windowKind = iota
	windowBetween
	windowSince
	windowUntil
	windowLast
)

// Between is the window [from, to). The same time twice is the empty window.
// A zero time, or a from after to, is ErrWindow when the statement is built.
func Between(from, to time.Time) Window {
	return Window{kind: windowBetween, from: from, to: to}
}

// Since is the window from a time on, without an end. A zero time is ErrWindow
// when the statement is built.
func Since(from time.Time) Window { return Window{kind: windowSince, from: from} }

// Until is the window of all that lies before a time. A zero time is ErrWindow
// when the statement is built.
func Until(to time.Time) Window { return Window{kind: windowUntil, to: to} }

// Last is the window that begins d before now and has no end, so that rows
// whose ids run a little ahead of the clock are in it. Now is read from the
// plugin's clock each time that the statement is built. A negative d is
// ErrWindow.
func Last(d time.Duration) Window { return Window{kind: windowLast, last: d} }

// Column returns the window over another snowflake column: a foreign key, the
// key of a joined table, or the only way to say which column is meant where
// there is no model.
//
// A plain name is a field or column of the statement's model, if it has one,
// else a column of its table. "table.column" is taken as it stands, where
// table is a table, an alias or the name of a GORM association in Joins.
func (w Window) Column(name string) Window { w.column = name; return w }

// In returns the window over ids of a layout other than the plugin's: ids
// that someone else made, or a database without the plugin.
func (w Window) In(layout generator.Layout) Window {
	w.layout, w.hasLayout = layout, true
	return w
}

// ExcludeLegacy returns the window without the ids that are no larger than an
// AUTO_INCREMENT's, below 2^22 in the Standard layout. All of them decode to
// the epoch's first tick, whatever their age, and would else be in every
// window that reaches back that far.
func (w Window) ExcludeLegacy() Window { w.noLegacy = true; return w }

// Scope adds the window to a statement: db.Scopes(w.Scope).
func (w Window) Scope(db *gorm.DB) *gorm.DB { return db.Where(w) }

// Statement adds the window to a statement: gorm.G[T](db).Scopes(w.Statement).
func (w Window) Statement(stmt *gorm.Statement) {
	stmt.AddClause(clause.Where{Exprs: []clause.Expression{w}})
}

// Build writes the condition, in its own parentheses. It implements
// clause.Expression.
func (w Window) Build(builder clause.Builder) {
	stmt, ok := statementOf(builder)
	if !ok {
		return
	}
	source, err := w.source(stmt.DB)
	if err != nil {
		refuse(stmt, err)
		return
	}
	column, nullable, err := keyColumn(stmt, w.column, w.hasLayout)
	if err != nil {
		refuse(stmt, err)
		return
	}
	r, err := w.resolve(source)
	if err != nil {
		refuse(stmt, err)
		return
	}
	r.build(stmt, column, nullable)
}

// idRange is a window resolved: lo <= id < hi, each bound if it is there.
type idRange struct {
	lo, hi       ID
	hasLo, hasHi bool
	empty        bool
}

// resolve computes the ids of the window, in a layout and at a time.
func (w Window) resolve(source idSource) (idRange, error) {
	from, to, err := w.times(source.now)
	if err != nil {
		return idRange{}, err
	}
	var r idRange
	if !from.IsZero() {
		if r.lo, _, err = source.layout.Bounds(from, from); err != nil {
			return idRange{}, fmt.Errorf("gormflake: window: %w", err)
		}
		r.hasLo = true
		// The largest int64 stands for a bound past the last id.
		r.empty = r.lo == math.MaxInt64
	}
	if !to.IsZero() {
		if r.hi, _, err = source.layout.Bounds(to, to); err != nil {
			return idRange{}, fmt.Errorf("gormflake: window: %w", err)
		}
		r.hasHi = r.hi != math.MaxInt64
		r.empty = r.empty || r.hi == 0
	}
	if w.noLegacy {
		first := legacyEnd(source.layout)
		if !r.hasLo || r.lo < first {
			r.lo, r.hasLo = first, true
		}
	}
	r.empty = r.empty || (r.hasLo && r.hasHi && r.lo >= r.hi)
	return r, nil
}

// times returns the window's ends; a zero time is an open end.
func (w Window) times(now func() time.Time) (from, to time.Time, err error) {
	zero := func(name string) error {
		return fmt.Errorf("%w: want a time, got a zero time.Time as %s; use Since or Until for an open end", ErrWindow, name)
	}
	switch w.kind {
	case windowBetween:
		switch {
		case w.from.IsZero():
			return from, to, zero("from")
		case w.to.IsZero():
			return from, to, zero("to")
		case w.from.After(w.to):
			return from, to, fmt.Errorf("%w: want from <= to, got from %s and to %s; swap them", ErrWindow,
				w.from.Format(time.RFC3339Nano), w.to.Format(time.RFC3339Nano))
		}
		return w.from, w.to, nil
	case windowSince:
		if w.from.IsZero() {
			return from, to, zero("from")
		}
		return w.from, to, nil
	case windowUntil:
		if w.to.IsZero() {
			return from, to, zero("to")
		}
		return from, w.to, nil
	case windowLast:
		if w.last < 0 {
			return from, to, fmt.Errorf("%w: Last wants a duration of 0 or more, got %v", ErrWindow, w.last)
		}
		return now().Add(-w.last), to, nil
	}
	return from, to, fmt.Errorf("%w: the Window is a zero value; make it with Between, Since, Until, Last, On, InHour, InWeek or InMonth", ErrWindow)
}

// build writes the range as a condition on column.
func (r idRange) build(stmt *gorm.Statement, column clause.Column, nullable bool) {
	r.write(stmt, stmt.Quote(column), nullable, func(id ID) { stmt.AddVar(stmt, int64(id)) })
}

// write writes the range as a condition on a quoted column; bind writes a
// bound parameter.
func (r idRange) write(sql clause.Writer, column string, nullable bool, bind func(ID)) {
	_, _ = sql.WriteString("(")
	defer func() { _, _ = sql.WriteString(")") }()
	switch {
	case r.empty && nullable:
		// Never true, but NULL for NULL, so that its negation leaves out the
		// rows without a value as every other window's negation does.
		r = idRange{hasLo: true, hasHi: true}
	case r.empty:
		_, _ = sql.WriteString("1 = 0")
		return
	case !r.hasLo && !r.hasHi && nullable:
		r = idRange{lo: math.MinInt64, hasLo: true} // likewise always true
	case !r.hasLo && !r.hasHi:
		_, _ = sql.WriteString(column + " IS NOT NULL")
		return
	}
	if r.hasLo {
		_, _ = sql.WriteString(column + " >= ")
		bind(r.lo)
	}
	if r.hasLo && r.hasHi {
		_, _ = sql.WriteString(" AND ")
	}
	if r.hasHi {
		_, _ = sql.WriteString(column + " < ")
		bind(r.hi)
	}
}

// legacyEnd returns the first id that is larger than any of the epoch's first
// tick.
func legacyEnd(layout generator.Layout) ID {
	return 1 << (layout.WorkerBits + layout.SequenceBits)
}

// idSource is what windows must know of the ids that they range over.
type idSource struct {
	layout generator.Layout
	now    func() time.Time
}

// source returns the window's layout and clock on a database.
func (w Window) source(db *gorm.DB) (idSource, error) {
	return sourceOf(db, w.layout, w.hasLayout)
}

// sourceOf returns the layout given, or that of the plugin on db, and the
// plugin's clock, or else the machine's.
func sourceOf(db *gorm.DB, layout generator.Layout, given bool) (idSource, error) {
	source, installed := statementSource(db)
	switch {
	case given:
		source.layout = layout
	case !installed:
		return source, fmt.Errorf("%w: the plugin is not installed on this database; install it with db.Use(gormflake.New(...)), or name the ids' layout with In(generator.Standard())", ErrNoLayout)
	}
	if err := source.layout.Validate(); err != nil {
		return source, fmt.Errorf("gormflake: window: %w", err)
	}
	return source, nil
}

// statementSource returns the layout and the clock of the plugin on db, and
// whether there is one.
func statementSource(db *gorm.DB) (idSource, bool) {
	if p, ok := From(db); ok {
		return idSource{layout: p.Layout(), now: p.Now}, true
	}
	return idSource{now: time.Now}, false
}
