package migrate

import (
	"context"
	"fmt"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/migrator"
	"gorm.io/gorm/schema"
)

// guard puts a dialector in front of the database's own whose migrator leaves
// legacy boolean columns alone. GORM's AutoMigrate would otherwise MODIFY an enum
// to boolean, which MySQL does by label index: every 'N' becomes 1.
//
// The optional interfaces of the dialector are kept: save points and the
// translation of errors.
func (b *Bools) guard(db *gorm.DB) {
	plain := guardedDialector{Dialector: db.Config.Dialector, bools: b}
	points, hasPoints := db.Config.Dialector.(gorm.SavePointerDialectorInterface)
	translator, translates := db.Config.Dialector.(gorm.ErrorTranslator)
	switch {
	case hasPoints && translates:
		db.Config.Dialector = struct {
			guardedDialector
			gorm.SavePointerDialectorInterface
			gorm.ErrorTranslator
		}{plain, points, translator}
	case hasPoints:
		db.Config.Dialector = struct {
			guardedDialector
			gorm.SavePointerDialectorInterface
		}{plain, points}
	case translates:
		db.Config.Dialector = struct {
			guardedDialector
			gorm.ErrorTranslator
		}{plain, translator}
	default:
		db.Config.Dialector = plain
	}
}

// guardedDialector is a dialector whose migrator is guarded.
type guardedDialector struct {
	gorm.Dialector
	bools *Bools
}

// Migrator guards the dialector's migrator.
func (d guardedDialector) Migrator(db *gorm.DB) gorm.Migrator {
	return guardedMigrator{Migrator: d.Dialector.Migrator(db), bools: d.bools, db: db}
}

// guardedMigrator alters no legacy boolean column.
type guardedMigrator struct {
	gorm.Migrator
	bools *Bools
	db    *gorm.DB
}

// BuildIndexOptions is what GORM's migrator asks of the dialector's.
func (m guardedMigrator) BuildIndexOptions(options []schema.IndexOption, stmt *gorm.Statement) []any {
	if builder, ok := m.Migrator.(migrator.BuildIndexOptionsInterface); ok {
		return builder.BuildIndexOptions(options, stmt)
	}
	_ = stmt.AddError(fmt.Errorf("migrate: the dialector's migrator %T builds no index options", m.Migrator))
	return nil
}

// MigrateColumn is AutoMigrate's step for a column that exists. On a legacy boolean
// it looks after a unique constraint and alters nothing.
func (m guardedMigrator) MigrateColumn(value any, field *schema.Field, actual gorm.ColumnType) error {
	reason := m.protects(field, actual)
	if reason == "" {
		return m.Migrator.MigrateColumn(value, field, actual)
	}
	if !field.IgnoreMigration {
		m.tell(value, field, actual, reason)
	}
	return m.Migrator.MigrateColumnUnique(value, field, actual)
}

// AlterColumn refuses a legacy boolean with [ErrLegacyColumn].
func (m guardedMigrator) AlterColumn(value any, name string) error {
	if err := m.refuse(value, "AlterColumn", name); err != nil {
		return err
	}
	return m.Migrator.AlterColumn(value, name)
}

// RenameColumn refuses a legacy boolean with [ErrLegacyColumn]: where the server
// has no RENAME COLUMN, GORM writes a CHANGE with the model's type.
func (m guardedMigrator) RenameColumn(value any, oldName, newName string) error {
	if err := m.refuse(value, "RenameColumn", oldName, newName); err != nil {
		return err
	}
	return m.Migrator.RenameColumn(value, oldName, newName)
}

// protects says why the column must stay as it is; empty if it needn't.
func (m guardedMigrator) protects(field *schema.Field, actual gorm.ColumnType) string {
	if !isBoolField(field) || field.Schema == nil || !m.bools.covered(field.Schema) {
		return ""
	}
	if !integerType(actual.DatabaseTypeName()) {
		return "it holds booleans in a legacy form"
	}
	if wanted := m.FullDataTypeOf(field).SQL; !integerType(wanted) {
		return "the model's tag asks for a legacy form"
	}
	return ""
}

// integerType reports whether a type holds numbers, so that MySQL converts between
// it and a tinyint by value.
func integerType(name string) bool {
	word, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(name)), "(")
	word, _, _ = strings.Cut(word, " ")
	switch word {
	case "bool", "boolean", "tinyint", "smallint", "mediumint", "int", "integer", "bigint", "unsigned":
		return true
	}
	return false
}

// tell logs, once for each table and column, that the column is left alone.
func (m guardedMigrator) tell(value any, field *schema.Field, actual gorm.ColumnType, reason string) {
	name := m.tableName(value, field)
	columnType, ok := actual.ColumnType()
	if !ok {
		columnType = actual.DatabaseTypeName()
	}
	if _, told := m.bools.told.LoadOrStore([3]string{"guard", name, field.DBName}, true); told {
		return
	}
	ctx := context.Background()
	if m.db.Statement != nil && m.db.Statement.Context != nil {
		ctx = m.db.Statement.Context
	}
	m.bools.log().WarnContext(ctx, "migrate: AutoMigrate leaves a boolean column as it is; move it with migrate.PlanBools",
		"table", name, "column", field.DBName, "type", columnType, "reason", reason)
}

func (m guardedMigrator) tableName(value any, field *schema.Field) string {
	if name, ok := value.(string); ok {
		return name
	}
	if m.db.Statement != nil && m.db.Statement.Table != "" {
		return m.db.Statement.Table
	}
	return field.Schema.Table
}

// refuse returns an error if one of the names is a protected column.
func (m guardedMigrator) refuse(value any, method string, names ...string) error {
	if _, ok := value.(string); ok {
		return nil // GORM needs a model to know a type
	}
	stmt := &gorm.Statement{DB: m.db}
	if err := stmt.Parse(value); err != nil {
		return err
	}
	var fields []*schema.Field
	for _, name := range names {
		if f := stmt.Schema.LookUpField(name); f != nil && isBoolField(f) {
			fields = append(fields, f)
		}
	}
	if len(fields) == 0 {
		return nil
	}
	types, err := m.ColumnTypes(value)
	if err != nil {
		return err
	}
	for _, field := range fields {
		for _, actual := range types {
			named := strings.EqualFold(actual.Name(), field.DBName)
			for _, name := range names {
				named = named || strings.EqualFold(actual.Name(), name)
			}
			if !named {
				continue
			}
			if reason := m.protects(field, actual); reason != "" {
				columnType, _ := actual.ColumnType()
				return fmt.Errorf("%w: %s of %s.%s, which is %s: %s; move it with migrate.PlanBools, or write the ALTER TABLE yourself",
					ErrLegacyColumn, method, m.tableName(value, field), actual.Name(), columnType, reason)
			}
		}
	}
	return nil
}
