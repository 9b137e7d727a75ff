package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
)

// AdoptStatement is one statement of a plan, or several that run in one
// transaction.
type AdoptStatement struct {
	// Step is "release", "widen", "unnumber" or "bind", for Rollback "narrow" or
	// "renumber", "note" for a comment of MySQL's, and for an online widening on Postgres, either way, "prepare",
	// "backfill", "validate", "index", "bind", "release", "swap" or "discard".
	Step  string
	Table string   // which table it changes
	SQL   []string // MySQL's without ALGORITHM and LOCK, which Ladder holds
	// Ladder are the endings that are tried in turn until the server grants one,
	// gentlest first; nil means the statements as they stand.
	Ladder []string
	Locks  string // what waits while it runs

	alone   bool    // Postgres: outside a transaction
	several bool    // Postgres: locks more than one table
	gentle  bool    // Postgres: holds nobody up, and so may wait for its lock as long as it takes
	fill    *pgFill // Postgres: SQL is one batch of this

	comments [2]string // MySQL: for the step note, what the table's comment was and will be

	still func(context.Context) error // Postgres: asked behind the first of SQL, which locks
}

// AdoptPlan moves one table to snowflake keys. Whether a statement is still
// needed is read from the schema each time, so every method may be called again
// after a failure, by another process too.
type AdoptPlan struct {
	Report     *AdoptReport // the table as it was before the adoption began
	Refusals   []Refusal    // empty when the plan can be carried out
	Statements []AdoptStatement
	Begun      bool // an adoption of this table is under way or done

	db   *gorm.DB
	spec AdoptSpec
	now  *AdoptReport               // the table as it is
	hook func(AdoptStatement) error // tests only: called before each statement

	// Tests only, on Postgres: after is called once the server has confirmed
	// something, inside when a transaction begins, and again before it is committed.
	after  func(sql string)
	inside func(s AdoptStatement, tx *sql.Tx, done bool) error
}

// InspectAdopt reports the key of a table, every column that holds its keys, and
// what stands in the way of snowflake keys. It changes nothing. Errors are those
// of the database, and a table that doesn't exist.
func InspectAdopt(ctx context.Context, db *gorm.DB, spec AdoptSpec) (*AdoptReport, error) {
	spec, err := spec.resolve(db, time.Now())
	if err != nil {
		return nil, err
	}
	a, err := openAdopter(ctx, db, spec)
	if err != nil {
		return nil, err
	}
	defer a.close()
	p := &AdoptPlan{db: db, spec: spec}
	now, err := p.readNow(ctx, a)
	if now != nil && errors.Is(err, ErrOutOfOrder) { // what stands in the way is reported
		now.hazard("out-of-order", "%v", err)
		return now, nil
	}
	if err != nil {
		return nil, err
	}
	return now, nil
}

// survey reads the table as it was, nil if nothing has begun, and as it is.
func survey(ctx context.Context, a adopter, spec AdoptSpec) (was, now *AdoptReport, err error) {
	was, err = readRecord(ctx, a, spec.Table)
	if err != nil {
		return nil, nil, err
	}
	var earlier int64
	if was != nil {
		earlier = was.EarlierFirstID
	}
	if was != nil && was.RolledBack {
		was, earlier = nil, was.firstSnowflake()
	}
	if was != nil { // columns that lost their foreign key for the time of the move are among them
		spec.FirstID = was.FirstID
		for _, c := range was.References {
			if !slices.Contains(spec.References, c.reference()) {
				spec.References = append(spec.References, c.reference())
			}
		}
	}
	now, err = a.inspect(ctx, spec)
	if err != nil {
		return nil, nil, err
	}
	now.EarlierFirstID = earlier
	fits := true
	if now.Key.Bits > 0 {
		if now.MaxID, fits, err = maxOf(ctx, a, now.Key.reference(), 0); err != nil {
			return nil, nil, err
		}
	}
	judgeAdoption(now, spec, fits, was != nil)
	return was, now, nil
}

// PlanAdopt makes the plan for a table, changing nothing. A plan that can't be
// carried out is no error: see Refusals and Err.
func PlanAdopt(ctx context.Context, db *gorm.DB, spec AdoptSpec) (*AdoptPlan, error) {
	spec, err := spec.resolve(db, time.Now())
	if err != nil {
		return nil, err
	}
	a, err := openAdopter(ctx, db, spec)
	if err != nil {
		return nil, err
	}
	defer a.close()
	p := &AdoptPlan{db: db, spec: spec}
	return p, p.read(ctx, a)
}

// read fills in the plan from the schema as it is, and returns that.
func (p *AdoptPlan) read(ctx context.Context, a adopter) error {
	_, err := p.readNow(ctx, a)
	return err
}

func (p *AdoptPlan) readNow(ctx context.Context, a adopter) (*AdoptReport, error) {
	was, now, err := survey(ctx, a, p.spec)
	if err != nil {
		return nil, err
	}
	p.Begun, p.Report, p.now, p.Refusals, p.Statements = was != nil, now, now, now.Refusals, nil
	if was == nil && len(now.away) > 0 {
		p.Report = now.withoutJournal()
	}
	if was != nil {
		same := func(a, b AdoptColumn) bool { return a.same(b) }
		merged := *was
		merged.References = append(slices.Clone(was.References), missing(now.References, was.References, same)...)
		merged.ForeignKeys = append(slices.Clone(was.ForeignKeys), missing(now.ForeignKeys, was.ForeignKeys, AdoptForeignKey.same)...)
		merged.Widening = now.Widening
		p.Report = &merged
	}
	if len(p.Refusals) == 0 {
		p.Statements, err = a.forward(ctx, p.Report, now)
	}
	p.progress(was, now)
	p.Report.Hazards, p.Report.Progress, p.Report.Next = now.Hazards, now.Progress, now.Next
	return now, err
}

// Adopt plans and applies: the one call for those who have reviewed the plan. The
// error of a refused plan is a *RefusedError, that of a move which stopped half
// way a *PartialError; calling Adopt again goes on.
func Adopt(ctx context.Context, db *gorm.DB, spec AdoptSpec) (*AdoptPlan, error) {
	p, err := PlanAdopt(ctx, db, spec)
	if err != nil {
		return nil, err
	}
	return p, p.Apply(ctx)
}

// Err is the error of a plan with refusals, a *RefusedError, or nil.
func (p *AdoptPlan) Err() error {
	if len(p.Refusals) == 0 {
		return nil
	}
	return &RefusedError{Table: p.Report.Table, Refusals: p.Refusals}
}

// Empty reports that the schema needs no statement any more.
func (p *AdoptPlan) Empty() bool { return len(p.Statements) == 0 && len(p.Refusals) == 0 }

// SQL is the plan for reading: refusals, hazards and every statement that is
// still to run, with what waits meanwhile.
func (p *AdoptPlan) SQL() string {
	var b strings.Builder
	if text := p.Report.progressText(); text != "" {
		fmt.Fprintf(&b, "-- adoption %s\n", text)
	}
	fmt.Fprintf(&b, "-- table %s: keys up to %d stay, new ones start at %d\n", p.Report.Table, p.Report.MaxID, p.Report.FirstID)
	if text := p.now.Widening.text(p.spec.Widening); text != "" {
		fmt.Fprintf(&b, "-- widening %s: %s\n", p.now.Widening, text)
	}
	for _, r := range p.Refusals {
		fmt.Fprintf(&b, "-- refused: %s\n", r)
	}
	for _, h := range p.Report.Hazards {
		fmt.Fprintf(&b, "-- hazard: %s: %s\n", h.Code, h.Reason)
	}
	if p.Empty() {
		b.WriteString("-- nothing to do\n")
	}
	writeStatements(&b, p.Statements)
	return b.String()
}

func writeStatements(b *strings.Builder, all []AdoptStatement) {
	for i, s := range all {
		fmt.Fprintf(b, "\n-- %d. %s %s: %s\n", i+1, s.Step, s.Table, s.Locks)
		if len(s.Ladder) > 0 {
			fmt.Fprintf(b, "-- with the first of these that the server grants: %s\n", strings.Join(s.Ladder, " | "))
		}
		for _, q := range s.SQL {
			b.WriteString(q + ";\n")
		}
	}
}

// Apply carries the plan out under an advisory lock, one statement after the
// other, each of its own. Once it returns nil, the database numbers the table no
// more: programs must bring keys of their own, as the plugin does. The errors
// are ErrRefused, ErrLocked, ErrBusy, ErrOutOfOrder where somebody has altered a
// column that an online widening was about to swap, ErrNotAdopted for rows that lost their
// parent on MySQL while a foreign key was away, those of the database, and *PartialError
// around them once a statement has been tried.
func (p *AdoptPlan) Apply(ctx context.Context) error {
	return p.locked(ctx, func(a adopter) error {
		if err := p.read(ctx, a); err != nil {
			return err
		}
		if err := p.Err(); err != nil {
			return err
		}
		if p.Empty() {
			return nil
		}
		if err := writeAdoption(ctx, a, p.spec.Table, p.Report); err != nil {
			return err
		}
		return p.runAll(ctx, a, "Apply", p.Statements)
	})
}

// Rollback lets the database number the table again, and gives the columns their
// old types where every value in them still fits; once one holds a snowflake id
// all stay 64 bits wide, since no row is dropped or renumbered. On MySQL and
// SQLite new numbers then follow the largest id of the table, on Postgres the
// largest old one; see RollbackHazards. On a table that the database numbers already
// it does nothing. It needs the journal that Apply wrote; without it, and on a table
// that was changed since, the error is ErrOutOfOrder. An online widening of Postgres is
// taken back online: before the swap by dropping the second columns, which needs no
// journal, after it by the same move to the old types, which may be refused.
func (p *AdoptPlan) Rollback(ctx context.Context) error {
	return p.locked(ctx, func(a adopter) error {
		statements, err := p.backward(ctx, a)
		if err != nil || p.Restored() {
			return err
		}
		if err := p.runAll(ctx, a, "Rollback", statements); err != nil {
			return err
		}
		return forgetAdoption(ctx, a, p.spec.Table, p.Report)
	})
}

// RollbackSQL is what Rollback would do now, for reading, like SQL. It changes
// nothing; its errors are Rollback's.
func (p *AdoptPlan) RollbackSQL(ctx context.Context) (string, error) {
	a, err := openAdopter(ctx, p.db, p.spec)
	if err != nil {
		return "", err
	}
	defer a.close()
	statements, err := p.backward(ctx, a)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if p.Restored() {
		return fmt.Sprintf("-- table %s: the database numbers it already; nothing to do\n", p.Report.Table), nil
	}
	fmt.Fprintf(&b, "-- table %s: back to numbers of the database\n", p.Report.Table)
	for _, h := range p.RollbackHazards() {
		fmt.Fprintf(&b, "-- hazard: %s: %s\n", h.Code, h.Reason)
	}
	writeStatements(&b, statements)
	return b.String(), nil
}

// backward lists Rollback's statements.
func (p *AdoptPlan) backward(ctx context.Context, a adopter) ([]AdoptStatement, error) {
	now, err := p.readNow(ctx, a)
	if err != nil {
		return nil, err
	}
	if p.Restored() {
		return nil, nil
	}
	if online := now.state != nil && now.state.begun(now); !p.Begun && !online {
		return nil, fmt.Errorf("%w: expected a row of table %s in %s, which Apply writes; without it nobody can tell what the table was like before", ErrOutOfOrder, p.spec.Table, adoptJournal)
	}
	narrow, err := narrowable(ctx, a, p.Report)
	if err != nil {
		return nil, err
	}
	last, _, err := maxOf(ctx, a, p.Report.Key.reference(), p.Report.firstSnowflake())
	if err != nil {
		return nil, err
	}
	return a.backward(ctx, p.Report, now, narrow, last+1)
}

// narrowable are the columns that can have their old types again: all or none,
// since MySQL wants both ends of a foreign key alike.
func narrowable(ctx context.Context, a adopter, was *AdoptReport) ([]AdoptColumn, error) {
	for _, c := range was.columns() {
		largest, fits, err := maxOf(ctx, a, c.reference(), 0)
		if err != nil {
			return nil, err
		}
		bits := c.Bits
		if !c.Unsigned {
			bits--
		}
		if !fits || (bits < 63 && largest>>bits > 0) {
			return nil, nil
		}
	}
	return was.columns(), nil
}

func (p *AdoptPlan) runAll(ctx context.Context, a adopter, step string, all []AdoptStatement) error {
	var applied []string
	for _, s := range all {
		err := ctx.Err()
		if err == nil && p.hook != nil {
			err = p.hook(s)
		}
		if err == nil { // somebody may have dropped the journal meanwhile
			err = p.keep(ctx, a)
		}
		if err == nil {
			err = a.run(ctx, s)
		}
		if err != nil {
			return &PartialError{Step: step, Applied: applied, Failed: strings.Join(s.SQL, "; "), Err: err}
		}
		applied = append(applied, s.SQL...)
	}
	return nil
}

// keep enters the table as it was again, should the journal have lost it.
func (p *AdoptPlan) keep(ctx context.Context, a adopter) error {
	was, err := readAdoption(ctx, a, p.spec.Table)
	if err != nil || was != nil {
		return err
	}
	return writeAdoption(ctx, a, p.spec.Table, p.Report)
}

func (p *AdoptPlan) locked(ctx context.Context, do func(adopter) error) error {
	a, err := openAdopter(ctx, p.db, p.spec)
	if err != nil {
		return err
	}
	defer a.close()
	if pg, ok := a.(*postgresAdopter); ok {
		pg.after, pg.inside = p.after, p.inside
	}
	if err := a.lock(ctx, p.spec.Table); err != nil {
		return err
	}
	if a, ok := a.(*postgresAdopter); ok {
		// Two online widenings of one table, of a join table's two keys perhaps, would
		// take each other's indexes for their own, and each refuse the other's trigger.
		_, now, err := survey(ctx, a, p.spec)
		if err != nil {
			return err
		}
		for _, table := range now.tables() {
			if table != p.spec.Table {
				if err := a.lock(ctx, table); err != nil {
					return err
				}
			}
		}
	}
	return do(a)
}

// AdoptVerification is what Verify finds.
type AdoptVerification struct {
	Table     string
	Legacy    int64    // rows with keys below the first snowflake id of the table's first adoption
	New       int64    // rows with keys from it on
	MaxLegacy int64    // the largest old key
	ToDo      []string // the steps still to run, such as "backfill orders"; the plan has their statements
	Problems  []string // what else is amiss, and that steps are to do; empty when the table is adopted
}

// OK reports that nothing is missing.
func (v *AdoptVerification) OK() bool { return len(v.Problems) == 0 }

// Verify looks whether every column is 64 bits wide, nothing numbers the key any
// more (unless the spec keeps the numbering), every foreign key stands, and none
// of its rows lacks its parent. It reads the tables but locks nothing. With
// problems the error matches ErrNotAdopted, beside the verification.
func (p *AdoptPlan) Verify(ctx context.Context) (*AdoptVerification, error) {
	a, err := openAdopter(ctx, p.db, p.spec)
	if err != nil {
		return nil, err
	}
	defer a.close()
	now, err := p.readNow(ctx, a)
	if err != nil {
		return nil, err
	}
	v := &AdoptVerification{Table: p.Report.Table}
	for _, r := range p.Refusals {
		v.Problems = append(v.Problems, r.String())
	}
	if v.ToDo = adoptStepNames(p.Statements); len(v.ToDo) > 0 {
		v.Problems = append(v.Problems, "still to do: "+strings.Join(v.ToDo, ", ")+" (the plan has the statements: gormflake adopt plan)")
	}
	for _, k := range now.ForeignKeys {
		n, err := orphans(ctx, a, k)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			v.Problems = append(v.Problems, fmt.Sprintf("%d rows of %s.%s have no row in %s", n, k.Table, k.Column, k.ToTable))
		}
	}
	if now.Key.Bits > 0 {
		key, table := a.quote(now.Key.Column), a.quote(now.Table)
		query := fmt.Sprintf("SELECT COALESCE(SUM(CASE WHEN %s < %d THEN 1 ELSE 0 END), 0), COUNT(*) FROM %s", key, p.Report.firstSnowflake(), table)
		if err := a.db().QueryRowContext(ctx, query).Scan(&v.Legacy, &v.New); err != nil {
			return nil, fmt.Errorf("migrate: counting the rows of %s: %w", now.Table, err)
		}
		v.New -= v.Legacy
		if v.MaxLegacy, _, err = maxOf(ctx, a, now.Key.reference(), p.Report.firstSnowflake()); err != nil {
			return nil, err
		}
	}
	if !v.OK() {
		return v, fmt.Errorf("%w: %s: %s", ErrNotAdopted, v.Table, strings.Join(v.Problems, "; "))
	}
	return v, nil
}

func orphans(ctx context.Context, a adopter, k AdoptForeignKey) (n int64, err error) {
	query := fmt.Sprintf("SELECT COUNT(*) FROM %s c LEFT JOIN %s p ON c.%s = p.%s WHERE c.%s IS NOT NULL AND p.%s IS NULL",
		a.quote(k.Table), a.quote(k.ToTable), a.quote(k.Column), a.quote(k.ToColumn), a.quote(k.Column), a.quote(k.ToColumn))
	if err := a.db().QueryRowContext(ctx, query).Scan(&n); err != nil {
		return 0, fmt.Errorf("migrate: looking for rows of %s without a parent: %w", k.Table, err)
	}
	return n, nil
}
