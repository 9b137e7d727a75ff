package migrate

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"gorm.io/gorm"
)

// guardedOrder has the tags that make GORM 1.31.2 alter an enum.
type guardedOrder struct {
	ID      int64
	Name    string `gorm:"size:40;index"`
	Plain   bool
	Tagged  bool  `gorm:"not null;default:true"`
	Typed   bool  `gorm:"type:enum('N','Y')"`
	Pointer *bool `gorm:"comment:said"`
	Bit     bool
	Letter  bool
	Today   bool
	Late    bool
}

func (guardedOrder) TableName() string { return "orders" }

const guardedTable = `CREATE TABLE %s (
	id BIGINT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20),
	plain ENUM('N','Y') NOT NULL DEFAULT 'N', tagged ENUM('N','Y') NOT NULL DEFAULT 'Y',
	typed ENUM('N','Y') NOT NULL DEFAULT 'N', pointer ENUM('false','true') DEFAULT 'false',
	bit BIT(1) NOT NULL DEFAULT b'0', letter CHAR(1) NOT NULL DEFAULT 'N', today TINYINT(4) NOT NULL DEFAULT 0)`

const guardedColumns = "SELECT CONCAT_WS(' ', COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, COLUMN_COMMENT) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '%s' AND COLUMN_NAME IN ('plain','tagged','typed','pointer','bit','letter') ORDER BY ORDINAL_POSITION"

// TestTrap19To23AutoMigrate: AutoMigrate leaves legacy columns alone, whatever their
// tags, and does the rest of its work.
func TestTrap19To23AutoMigrate(t *testing.T) {
	inModes(t, func(b *bench) {
		b.exec(strings.Replace(guardedTable, "%s", "orders", 1))
		b.exec("INSERT INTO orders (name, plain, tagged, typed, pointer, bit, letter) VALUES ('a','N','N','N','false',b'0','N'), ('b','Y','Y','Y','true',b'1','Y')")
		const values = "SELECT CONCAT_WS(' ', plain, tagged, typed, pointer, bit+0, letter) FROM orders ORDER BY id"
		columns := strings.Replace(guardedColumns, "%s", "orders", 1)
		single := func(column string) string {
			return b.stored(strings.Replace(columns, "('plain','tagged','typed','pointer','bit','letter')", "('"+column+"')", 1))
		}
		before, valuesBefore := map[string]string{}, b.stored(values)
		traps := map[string]string{
			"trap 19, a plain bool": "plain", "trap 20, not null and a default": "tagged", "trap 21, the enum's type": "typed",
			"trap 23, a quoted default": "pointer", "trap 16, a bit": "bit", "trap 15, a text": "letter",
		}
		for _, column := range traps {
			before[column] = single(column)
		}

		var log bytes.Buffer
		db := b.open(LegacyBools(&guardedOrder{}).Logger(slog.New(slog.NewTextHandler(&log, nil))), nil, "")
		for range 2 {
			if err := db.AutoMigrate(&guardedOrder{}); err != nil {
				b.Fatal(err)
			}
		}
		for trap, column := range traps {
			b.Run(trap, func(t *testing.T) {
				if after := single(column); after != before[column] || after == "" {
					t.Errorf("AutoMigrate altered a legacy column\nbefore %s\nafter  %s", before[column], after)
				}
			})
		}
		if after := b.stored(values); after != valuesBefore {
			b.Errorf("AutoMigrate changed values\nbefore %s\nafter  %s", valuesBefore, after)
		}
		if got := b.stored("SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'orders' AND (COLUMN_NAME = 'late' OR COLUMN_NAME = 'name' AND COLUMN_TYPE = 'varchar(40)')"); got != "2" {
			b.Errorf("AutoMigrate left its other work undone: %s of 2 columns", got)
		}
		if got := b.stored("SELECT COUNT(*) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'orders' AND COLUMN_NAME = 'name'"); got != "1" {
			b.Error("AutoMigrate didn't create the index")
		}
		for _, column := range []string{"plain", "tagged", "typed", "pointer", "bit", "letter"} {
			if n := strings.Count(log.String(), "column="+column+" "); n != 1 {
				b.Errorf("column %s is mentioned %d times in the log, expected once:\n%s", column, n, log.String())
			}
		}
	})
}

// TestTrap14Without shows that GORM without the guard does corrupt the table, so
// that the test above tests something.
func TestTrap14Without(t *testing.T) {
	onServers(t, func(b *bench) {
		type order struct {
			ID     int64
			Active bool
		}
		b.exec("CREATE TABLE orders (id BIGINT PRIMARY KEY AUTO_INCREMENT, active ENUM('N','Y') NOT NULL DEFAULT 'N')")
		b.exec("INSERT INTO orders (active) VALUES ('N'), ('Y')")
		if err := b.open(nil, nil, "").Table("orders").AutoMigrate(&order{}); err != nil {
			b.Fatal(err)
		}
		if got := b.stored("SELECT active FROM orders ORDER BY id"); got != "1 2" {
			b.Fatalf("GORM left %q; its AutoMigrate has changed, look at the guard again", got)
		}
	})
}

func TestGuardSharded(t *testing.T) {
	onServers(t, func(b *bench) {
		b.exec(strings.Replace(guardedTable, "%s", "orders_2024", 1))
		columns := strings.Replace(guardedColumns, "%s", "orders_2024", 1)
		before := b.stored(columns)
		db := b.open(LegacyBools(&guardedOrder{}).Logger(quiet), nil, "")
		if err := db.Table("orders_2024").AutoMigrate(&guardedOrder{}); err != nil {
			b.Fatal(err)
		}
		if after := b.stored(columns); after != before {
			b.Fatalf("AutoMigrate altered a legacy column\nbefore %s\nafter  %s", before, after)
		}
	})
}

// TestTrap18StaleTag: a model that still has the enum's tag must not turn a migrated
// column back, which 5.6 and 5.7 do by index without an error.
func TestTrap18StaleTag(t *testing.T) {
	onServers(t, func(b *bench) {
		type order struct {
			ID     int64
			Active bool `gorm:"type:enum('N','Y')"`
		}
		b.exec("CREATE TABLE orders (id BIGINT PRIMARY KEY AUTO_INCREMENT, active TINYINT(1) NOT NULL)")
		b.exec("INSERT INTO orders (active) VALUES (0), (1)")
		db := b.open(LegacyBools(&order{}).Logger(quiet), nil, "")
		if err := db.AutoMigrate(&order{}); err != nil {
			b.Fatal(err)
		}
		if got := b.stored("SELECT CONCAT(active, (SELECT DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'orders' AND COLUMN_NAME = 'active')) FROM orders ORDER BY id"); got != "0tinyint 1tinyint" {
			b.Fatalf("left %q", got)
		}
	})
}

func TestGuardRefuses(t *testing.T) {
	onServers(t, func(b *bench) {
		b.exec(strings.Replace(guardedTable, "%s", "orders", 1))
		db := b.open(LegacyBools(), nil, "")
		for name, err := range map[string]error{
			"AlterColumn":  db.Migrator().AlterColumn(&guardedOrder{}, "Plain"),
			"typed":        db.Migrator().AlterColumn(&guardedOrder{}, "typed"),
			"RenameColumn": db.Migrator().RenameColumn(&guardedOrder{}, "Letter", "late"),
		} {
			if !errors.Is(err, ErrLegacyColumn) || !strings.Contains(err.Error(), "PlanBools") {
				b.Errorf("%s: %v, expected ErrLegacyColumn", name, err)
			}
		}
		if err := db.Migrator().AlterColumn(&guardedOrder{}, "Name"); err != nil {
			b.Errorf("a column that is no boolean: %v", err)
		}
		if err := db.Migrator().AlterColumn(&guardedOrder{}, "Today"); err != nil {
			b.Errorf("a column in today's form: %v", err)
		}
	})
}

// TestGuardOthers: models that the codec isn't for are GORM's own business.
func TestGuardOthers(t *testing.T) {
	onServers(t, func(b *bench) {
		type other struct {
			ID    int64
			Label bool
		}
		b.exec("CREATE TABLE others (id BIGINT PRIMARY KEY AUTO_INCREMENT, label VARCHAR(9))")
		db := b.open(LegacyBools(&guardedOrder{}).Logger(quiet), nil, "")
		if err := db.AutoMigrate(&other{}); err != nil {
			b.Fatal(err)
		}
		if got := b.stored("SELECT DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'others' AND COLUMN_NAME = 'label'"); got != "tinyint" {
			b.Fatalf("the column is %s", got)
		}
	})
}

// TestGuardKeepsInterfaces: nested transactions and translated errors go on.
func TestGuardKeepsInterfaces(t *testing.T) {
	onServers(t, func(b *bench) {
		b.exec("CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(20), active ENUM('N','Y') NOT NULL, maybe ENUM('N','Y'))")
		db := b.open(LegacyBools(&Order{}), &gorm.Config{TranslateError: true, Logger: silent}, "")
		err := db.Transaction(func(tx *gorm.DB) error {
			b.must(tx.Create(&Order{ID: 1, Active: true}))
			inner := tx.Transaction(func(tx *gorm.DB) error {
				b.must(tx.Create(&Order{ID: 2}))
				return errors.New("undo")
			})
			if inner == nil {
				return errors.New("the inner transaction succeeded")
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		if got := b.stored("SELECT CONCAT(id, active) FROM orders"); got != "1Y" {
			b.Fatalf("stored %q", got)
		}
		if err := db.Create(&Order{ID: 1}).Error; !errors.Is(err, gorm.ErrDuplicatedKey) {
			b.Fatalf("error %v, expected gorm.ErrDuplicatedKey", err)
		}
	})
}
