package gormflake

import (
	"errors"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormflake/gormflake/generator"
)

// Names of the callbacks, in the order in which they run.
const (
	readyCallback  = "gormflake:ready"
	assignCallback = "gormflake:assign"
	hooksCallback  = "gormflake:assign_after_hooks"
	insertCallback = "gormflake:insert"
	settleCallback = "gormflake:settle"
)

// register puts the callbacks into the create pipeline:
//
//	ready                waits for the lease and the clock, and fills ids
//	                     (GORM begins its transaction)
//	assign               fills ids that were set to zero since
//	                     (hooks BeforeSave and BeforeCreate)
//	assign_after_hooks   fills what hooks have set to zero
//	                     (belongs-to associations)
//	insert               makes ids of the row's columns, keeps keys selected
//	                     (the INSERT)
//	settle               replaces ids that an upsert didn't insert
//	                     (other associations)
//
// Where the application has no default transaction, ready must not name it:
// GORM puts a callback that is anchored on a missing name after the INSERT.
func (p *Plugin) register(db *gorm.DB) error {
	create := db.Callback().Create()
	if create.Get(readyCallback) != nil {
		return nil
	}
	if create.Get("gorm:create") == nil {
		return fmt.Errorf("%w: the database has no gorm:create callback to stand before", ErrInvalidConfig)
	}
	first := "gorm:begin_transaction"
	if create.Get(first) == nil {
		first = "gorm:before_create"
	}
	err := create.Before(first).Register(readyCallback, p.ready)
	if !p.config.AfterHooks {
		err = errors.Join(err, create.Before("gorm:before_create").Register(assignCallback, p.assignMissing))
	}
	// What settle looks up may be by a legacy boolean, which the codec has to encode
	// still. Installed later, the codec ends behind settle by itself.
	last := "gorm:save_after_associations"
	if create.Get(codecCallback) != nil {
		last = codecCallback
	}
	return errors.Join(err,
		create.Before("gorm:save_before_associations").Register(hooksCallback, p.assignMissing),
		create.Before("gorm:create").Register(insertCallback, p.beforeInsert),
		create.Before(last).Register(settleCallback, p.afterInsert),
	)
}

// ready refuses what can't be filled and waits for what ids need, before a
// transaction is open.
func (p *Plugin) ready(db *gorm.DB) {
	if db.Error != nil || p.drawOnly(db) {
		return
	}
	plan := p.planOf(db)
	if plan == nil {
		if err := p.refuseUnmodelled(db); err != nil {
			_ = db.AddError(err)
		}
		return
	}
	if plan.idle() {
		return
	}
	if plan.err != nil {
		_ = db.AddError(plan.err)
		return
	}
	if plan.sets() && !settable(db.Statement.ReflectValue) {
		_ = db.AddError(fmt.Errorf("%w: want a pointer to %s or a slice, got a %s by value; pass &value",
			ErrNotAddressable, plan.schema.Name, db.Statement.ReflectValue.Kind()))
		return
	}
	plan.warnOnce(p.config.Logger)
	n := p.missing(db, plan)
	if n == 0 {
		if plan.reaches && plan.hasRelated(db) {
			// Its rows say for themselves when there is no id for them.
			if g, err := p.await(db.Statement.Context, p.holds(db)); err == nil {
				_ = g.Ready(p.patient(db, g))
			}
		}
		return
	}
	g, err := p.await(db.Statement.Context, p.holds(db))
	switch {
	case err != nil:
		err = noID(plan, err)
	case p.config.AfterHooks:
		if err = g.Ready(p.patient(db, g)); err != nil {
			err = noID(plan, err)
		}
	default:
		// To know that an id can be had is not to have it: while the clock is
		// waited for, others take it, and the transaction would be open by then.
		err = p.assign(db, plan, g, n)
	}
	if err != nil && !db.DryRun {
		_ = db.AddError(err)
	}
}

// drawOnly gives an only row its id, and reports whether there is nothing left
// to do: not where there is a lease or a connection to think of.
func (p *Plugin) drawOnly(db *gorm.DB) bool {
	plan, id := p.only(db.Statement)
	if id == nil {
		return false
	}
	if *id != 0 {
		return !plan.reaches
	}
	g := p.generator.Load()
	if g == nil || !onPool(db) {
		return false
	}
	next, err := g.Next(db.Statement.Context)
	if err != nil && !db.DryRun {
		_ = db.AddError(noID(plan, err))
	}
	*id = int64(next)
	return true
}

// assignMissing fills the ids that are zero. A dry run for which there is no
// lease leaves them so.
func (p *Plugin) assignMissing(db *gorm.DB) {
	if db.Error != nil {
		return
	}
	if _, id := p.only(db.Statement); id != nil && *id != 0 {
		return
	}
	plan := p.planOf(db)
	if plan == nil || len(plan.targets) == 0 || plan.err != nil {
		return
	}
	n := p.missing(db, plan)
	if n == 0 {
		return
	}
	var g *generator.Generator
	if db.DryRun {
		if g = p.generator.Load(); g == nil {
			return
		}
	} else {
		var err error
		if g, err = p.await(db.Statement.Context, p.holds(db)); err != nil {
			_ = db.AddError(noID(plan, err))
			return
		}
	}
	if err := p.assign(db, plan, g, n); err != nil {
		_ = db.AddError(err)
	}
}

func (p *Plugin) missing(db *gorm.DB, plan *plan) int {
	rows := db.Statement.ReflectValue
	if c, ok := plan.cells(rows); ok {
		return plan.missingCells(c)
	}
	if maps, ok := mapsOf(db.Statement.Dest); ok {
		return plan.missingInMaps(maps)
	}
	return plan.missing(rows)
}

// beforeInsert sees to it that the INSERT carries the ids.
func (p *Plugin) beforeInsert(db *gorm.DB) {
	if db.Error != nil {
		return
	}
	stmt := db.Statement
	if _, id := p.only(stmt); id != nil && len(stmt.Selects)+len(stmt.Omits)+len(stmt.Clauses) == 0 {
		return // nothing was asked for that a row with an id doesn't bring with it
	}
	plan := p.planOf(db)
	if plan == nil || plan.err != nil || len(plan.targets)+len(plan.composed) == 0 {
		return
	}
	if err := p.compose(db, plan); err != nil {
		_ = db.AddError(err)
		return
	}
	if err := plan.keepSelected(stmt); err != nil {
		_ = db.AddError(err)
		return
	}
	stmt.Schema = plan.insert
	plan.prepareUpsert(db)
}

// afterInsert undoes what beforeInsert has changed, and replaces the ids of
// rows that an upsert has not inserted.
func (p *Plugin) afterInsert(db *gorm.DB) {
	stmt := db.Statement
	if _, id := p.only(stmt); id != nil && len(stmt.Clauses) <= 2 {
		return // INSERT and VALUES, which GORM always adds; an upsert has a third
	}
	plan := p.planOf(db)
	if plan == nil {
		return
	}
	stmt.Schema = plan.schema
	if db.Error != nil || db.DryRun {
		return
	}
	if _, ok := stmt.Clauses["ON CONFLICT"]; !ok {
		return
	}
	if conflict, ok := db.InstanceGet(upsertKey); ok {
		if err := plan.settle(db, conflict.(clause.OnConflict)); err != nil {
			_ = db.AddError(err)
		}
	}
}

// codecCallback is where migrate.LegacyBools ends.
const codecCallback = "gormflake:legacy-bools:out"
