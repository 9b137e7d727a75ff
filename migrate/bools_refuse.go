package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Refusal is one reason why a plan won't run, and what to do about it.
type Refusal struct {
	Code   string // what kind of reason: an Object's Code, or "null-values", "empty-values", "unmapped-values", "out-of-range", "default", "not-a-boolean", "already-done", "character-set", "no-integer-key", "engine", "name-taken", "rehearsal"; of an adoption "no-key", "composite-key", "not-an-integer", "reference-type", "unsigned", "max-id", "foreign-key", "view", "partition", "default"
	Column string // "" when it is about the table
	Name   string // the object's name, for Accept
	Reason string
	Remedy string
}

// String is one line.
func (r Refusal) String() string {
	where := r.Code
	if r.Column != "" {
		where += " (" + r.Column + ")"
	}
	return where + ": " + r.Reason + "; " + r.Remedy
}

// judge collects the refusals of one plan.
type judge struct {
	report    *BoolReport
	target    Encoding
	overrides []Override
	refusals  []Refusal
}

func (j *judge) refuse(code, column, name, reason, remedy string) {
	j.refusals = append(j.refusals, Refusal{Code: code, Column: column, Name: name, Reason: reason, Remedy: remedy})
}

// override finds the overrides of one kind for a column.
func (j *judge) override(kind, column string) (found []Override) {
	for _, o := range j.overrides {
		if o.kind == kind && strings.EqualFold(o.column, column) {
			found = append(found, o)
		}
	}
	return found
}

func (j *judge) accepted(o Object) bool {
	return slices.ContainsFunc(j.override(overrideAccept, o.Code), func(a Override) bool { return a.text == o.Name })
}

// acceptable are the codes of objects that Accept may name.
var acceptable = []string{"view", "trigger", "routine", "event"}

// checkOverrides reports an override that has nothing to decide, since that is a
// misunderstanding of what the table holds.
func (j *judge) checkOverrides() error {
	for i, o := range j.overrides {
		if o.kind == overrideAccept {
			if !slices.Contains(acceptable, o.column) {
				return fmt.Errorf("migrate: %s: expected the kind view, trigger, routine or event; nothing else can be accepted", o)
			}
			continue
		}
		at := slices.IndexFunc(j.report.Columns, func(c BoolColumn) bool { return strings.EqualFold(c.Name, o.column) })
		if at < 0 {
			if len(j.report.Columns) == 0 {
				return fmt.Errorf("migrate: %s: the plan has no column to move, as the table holds no legacy boolean; it never did, or was moved and cleaned up", o)
			}
			var names []string
			for _, c := range j.report.Columns {
				names = append(names, c.Name)
			}
			return fmt.Errorf("migrate: %s: expected one of the plan's columns (%s), met %s", o, strings.Join(names, ", "), o.column)
		}
		c := j.report.Columns[at]
		switch {
		case (o.kind == overrideNull || o.kind == overrideKeepNull) && !c.Nullable:
			return fmt.Errorf("migrate: %s: expected a column that may be NULL, met %s", o, c.Definition)
		case (o.kind == overrideEmpty || o.kind == overrideLabel || o.kind == overrideLabels) && c.Charset == "":
			return fmt.Errorf("migrate: %s: expected a column of text, met %s", o, c.Definition)
		case o.kind == overrideNumber && c.Charset != "":
			return fmt.Errorf("migrate: %s: expected a column of numbers, met %s", o, c.Definition)
		}
		for _, other := range j.overrides[:i] {
			nulls := (o.kind == overrideNull || o.kind == overrideKeepNull) && (other.kind == overrideNull || other.kind == overrideKeepNull)
			same := other.kind == o.kind && (other.text == o.text || o.kind == overrideLabels)
			if strings.EqualFold(other.column, o.column) && (nulls || same) {
				return fmt.Errorf("migrate: %s contradicts or repeats %s", o, other)
			}
		}
	}
	return nil
}

// column resolves one column, or refuses it. ok is false when no plan can be made.
func (j *judge) column(c BoolColumn) (p columnPlan, ok bool) {
	p = columnPlan{Name: c.Name, Helper: HelperColumn(c.Name), Source: c.Encoding, Target: j.target, Nullable: c.Nullable, SourceDefinition: c.Definition}
	known := c.Known
	if labels := j.override(overrideLabels, c.Name); len(labels) > 0 {
		p.Source, known = ParseMapped(c.dataType, c.Type, labels[0].other, labels[0].text)
	}
	switch {
	case !known:
		j.refuse("not-a-boolean", c.Name, "", fmt.Sprintf("%s is no type that speaks for itself as a boolean", c.Type),
			"declare its two labels with "+overrideLabels+", or leave the column out")
		return p, false
	case c.Charset == "binary":
		j.refuse("character-set", c.Name, "", "its character set is binary, so that triggers can't tell it from a number", "change its character set first")
		return p, false
	case j.target.Kind == Integer && p.Source.Kind == Integer:
		j.refuse("already-done", c.Name, "", "it is "+c.Type+" already"+outOfRange(c),
			"leave it out; should it hold numbers other than 0 and 1, correct them with an UPDATE: a changed display width would keep them")
		return p, false
	case j.target.Kind == Enum && p.Source.Kind != Integer:
		j.refuse("already-done", c.Name, "", "only a tinyint can become "+j.target.ColumnType+", this is "+c.Type, "leave it out")
		return p, false
	}
	p.Map = []mapping{{p.Source.True, true}, {p.Source.False, false}}
	for _, kind := range []string{overrideLabel, overrideNumber, overrideEmpty} {
		for _, o := range j.override(kind, c.Name) {
			if v, mapped := p.mapped(o.text); mapped && v != o.value {
				j.refuse("unmapped-values", c.Name, "", fmt.Sprintf("%s contradicts its type", o), "leave that override out")
			} else if !mapped {
				p.Map = append(p.Map, mapping{o.text, o.value})
			}
		}
	}
	sortMap(p.Map, p.Source.Kind)
	for _, o := range j.override(overrideNull, c.Name) {
		p.Null = &o.value
	}
	j.labels(c, p)
	j.values(c, p)
	j.definitions(c, &p)
	return p, true
}

func outOfRange(c BoolColumn) string {
	var odd []string
	for _, v := range c.Values {
		if v.Meaning == MeansNothing {
			odd = append(odd, fmt.Sprintf("%s in %d rows", v.Text, v.Rows))
		}
	}
	if len(odd) == 0 {
		return ""
	}
	return ", and holds " + strings.Join(odd, ", ")
}

func (p columnPlan) mapped(text string) (v, ok bool) {
	for _, m := range p.Map {
		if m.Text == text {
			return m.Value, true
		}
	}
	return false, false
}

// labels refuses a further label of an enum that could be stored at any moment.
func (j *judge) labels(c BoolColumn, p columnPlan) {
	if p.Source.Kind != Enum {
		return
	}
	all, _ := EnumLabels(c.Type)
	for _, label := range all {
		if _, ok := p.mapped(label); !ok && label != "" {
			j.refuse("unmapped-values", c.Name, "", fmt.Sprintf("nobody has said what its label %q means", label),
				fmt.Sprintf("decide with MapLabel(%q, %q, ...)", c.Name, label))
		}
	}
}

// values refuses every stored value that has no meaning yet.
func (j *judge) values(c BoolColumn, p columnPlan) {
	for _, v := range c.Values {
		_, mapped := p.mapped(v.Text)
		rows := fmt.Sprintf("%d rows hold ", v.Rows)
		switch {
		case v.Null && p.Null == nil && len(j.override(overrideKeepNull, c.Name)) == 0:
			j.refuse("null-values", c.Name, "", rows+"NULL, which a Go bool reads as false and v <> 'Y' leaves out",
				fmt.Sprintf("decide with MapNull(%q, ...) or KeepNull(%q)", c.Name, c.Name))
		case v.Null || mapped:
		case v.Text == "":
			j.refuse("empty-values", c.Name, "", rows+"the empty text, which non-strict servers store for anything that isn't a label",
				fmt.Sprintf("decide with MapEmpty(%q, ...)", c.Name))
		case p.Source.Kind == Integer:
			j.refuse("out-of-range", c.Name, "", rows+v.Text, fmt.Sprintf("decide with MapNumber(%q, %s, ...)", c.Name, v.Text))
		case p.Source.Kind == Enum && slices.ContainsFunc(j.refusals, func(r Refusal) bool { return r.Column == c.Name && r.Code == "unmapped-values" }):
		default:
			j.refuse("unmapped-values", c.Name, "", rows+strconv.Quote(v.Text), fmt.Sprintf("decide with MapLabel(%q, %q, ...)", c.Name, v.Text))
		}
	}
	if c.More {
		j.refuse("unmapped-values", c.Name, "", fmt.Sprintf("it holds more than %d distinct values", maxHistogram), "make sure that it is a boolean at all")
	}
}

// definitions writes the definitions that the columns have on their way.
func (j *judge) definitions(c BoolColumn, p *columnPlan) {
	null := " NOT NULL"
	if c.Nullable && p.Null == nil {
		null = " NULL"
	}
	p.HiddenDefinition = c.Definition
	if c.Default.Kind == NoDefault {
		p.HiddenDefinition = withDefault(c.Definition, p.Source.Literal(false))
	}
	p.FillDefinition = j.target.ColumnType + null + " DEFAULT " + unmapped
	if j.target.Kind == Enum {
		p.FillDefinition = j.target.ColumnType + null + " DEFAULT " + j.target.Literal(false)
	}
	p.FinalDefinition = j.target.ColumnType + null
	switch c.Default.Kind {
	case NullDefault:
		if p.Null == nil {
			p.FinalDefinition += " DEFAULT NULL"
		} else {
			p.FinalDefinition += " DEFAULT " + j.target.Literal(*p.Null)
		}
	case LiteralDefault:
		v, ok := p.mapped(c.Default.Text)
		if !ok {
			j.refuse("default", c.Name, "", fmt.Sprintf("nobody has said what its default %q means", c.Default.Text),
				"map that value as if it were stored, or change the default first")
		}
		p.FinalDefinition += " DEFAULT " + j.target.Literal(v)
	case ExpressionDefault:
		j.refuse("default", c.Name, "", "its default is the expression "+c.Default.Text, "change it to a literal first")
	}
	if c.Comment != "" {
		p.FinalDefinition += " COMMENT " + quoteComment(c.Comment)
	}
}

// quoteComment writes a comment for our own sql_mode, in which a backslash escapes.
func quoteComment(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''", "\n", `\n`, "\r", `\r`, "\x00", `\0`).Replace(s) + "'"
}

// table refuses what makes the whole table unfit.
func (j *judge) table() {
	r := j.report
	if len(r.Columns) == 0 {
		j.refuse("not-a-boolean", "", "", "it has no column whose type speaks for itself as a legacy boolean", "name the columns")
	}
	if !strings.EqualFold(r.Engine, "InnoDB") {
		j.refuse("engine", "", "", "its engine is "+r.Engine+", which locks the whole table for every batch and can't roll one back", "change it to InnoDB first")
	}
	if r.Key.Name == "" {
		j.refuse("no-integer-key", "", "", fmt.Sprintf("the backfill walks a primary key of one integer column, this one is %v", r.Key.Columns), "give it such a key first")
	}
	for _, c := range r.Columns {
		for name := range r.create.columns {
			if !strings.EqualFold(name, HelperColumn(c.Name)) {
				continue
			}
			j.refuse("name-taken", c.Name, "", "a column "+name+" exists, but no migration is under way",
				"if it is the rest of one whose journal was lost, restore "+journalTable+"; otherwise rename the column")
		}
	}
}

// objects refuses what would break or change its meaning with the swap.
func (j *judge) objects(manyTriggers bool) {
	for _, o := range j.report.Objects {
		accept := fmt.Sprintf("or, once it is ready for both types, spell out Accept(%q, %q)", o.Code, o.Name)
		refuse := func(reason, remedy string) { j.refuse(o.Code, o.Column, o.Name, reason, remedy) }
		switch o.Code {
		case "index":
			if !strings.Contains(o.Detail, "`") {
				refuse("the index "+o.Name+" can't be built again", "drop it first")
			}
		case "unique-key":
			refuse("the unique key "+o.Name+" holds it, and would compare values that are still being filled", "drop it for the time of the migration")
		case "primary-key":
			refuse("it is part of the primary key", "give the table another key first")
		case "foreign-key":
			refuse("the foreign key "+o.Name+" holds it, and a cascade fires no triggers", "drop the foreign key first")
		case "check":
			refuse("the constraint "+o.Name+" speaks of its labels: "+o.Detail, "drop the constraint first")
		case "generated":
			refuse("the generated column or index "+o.Name+" is computed from it", "drop it first")
		case "partition":
			refuse("the table is partitioned by it", "partition the table otherwise first")
		case "view":
			if !j.accepted(o) {
				refuse("the view "+o.Name+" mentions it: a comparison with a label would silently select the wrong rows after the swap", "drop the view first, "+accept)
			}
		case "routine", "event":
			if !j.accepted(o) {
				refuse("the "+o.Code+" "+o.Name+" mentions it: a comparison with a label would silently select the wrong rows after the swap", "drop it first, "+accept)
			}
		case "trigger":
			before := o.Detail == "BEFORE INSERT" || o.Detail == "BEFORE UPDATE"
			switch {
			case before && !manyTriggers:
				refuse(fmt.Sprintf("the table has the trigger %s, and %s allows one %s trigger", o.Name, j.report.Server, o.Detail), "drop that trigger first")
			case j.accepted(o):
			case o.Column != "":
				refuse("the trigger "+o.Name+" mentions it", "drop the trigger first, "+accept)
			case strings.HasSuffix(o.Detail, "UPDATE"):
				refuse("the trigger "+o.Name+" would fire for every row of the backfill", "drop the trigger first, "+accept)
			}
		}
	}
}
