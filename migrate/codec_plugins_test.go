package migrate_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"gorm.io/plugin/dbresolver"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/internal/servers"
	"github.com/gormflake/gormflake/migrate"
)

type sale struct {
	ID   gormflake.ID `gorm:"primaryKey"`
	Paid bool         `gorm:"default:true"`
	Rows []saleRow    `gorm:"foreignKey:SaleID"`
}

type saleRow struct {
	ID     gormflake.ID `gorm:"primaryKey"`
	SaleID gormflake.ID
	Gift   *bool
}

// TestCodecBesidePlugins installs the codec beside the id plugin and dbresolver, in
// either order.
func TestCodecBesidePlugins(t *testing.T) {
	ctx := context.Background()
	for name, order := range map[string][2]bool{"codec first": {true, false}, "codec last": {false, true}} {
		t.Run(name, func(t *testing.T) {
			servers.Each(t, []servers.Kind{servers.MariaDB, servers.MySQL57, servers.MySQL56}, func(t *testing.T, srv *servers.Server) {
				dsn := srv.Database(t)
				setup := srv.OpenSQL(t, dsn)
				for _, s := range []string{
					"CREATE TABLE sales (id BIGINT PRIMARY KEY, paid ENUM('N','Y') NOT NULL DEFAULT 'Y')",
					"CREATE TABLE sale_rows (id BIGINT PRIMARY KEY, sale_id BIGINT NOT NULL, gift CHAR(1) NULL)",
				} {
					if _, err := setup.ExecContext(ctx, s); err != nil {
						t.Fatal(err)
					}
				}
				db := srv.OpenDSN(t, dsn, &gorm.Config{Logger: logger.Discard})
				g, err := generator.Open(ctx, generator.Config{Store: lease.Memory()})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = g.Close(ctx) })
				use := func(p gorm.Plugin) {
					if err := db.Use(p); err != nil {
						t.Fatal(err)
					}
				}
				if order[0] {
					use(migrate.LegacyBools(&sale{}, &saleRow{}))
				}
				use(gormflake.New(gormflake.Config{Generator: g}))
				use(dbresolver.Register(dbresolver.Config{Replicas: []gorm.Dialector{srv.Dialector(dsn)}}))
				if order[1] {
					use(migrate.LegacyBools(&sale{}, &saleRow{}))
				}
				yes := true
				all := []sale{{Paid: false, Rows: []saleRow{{Gift: &yes}, {}}}, {Paid: true}}
				if err := db.Create(&all).Error; err != nil {
					t.Fatal(err)
				}
				if all[0].ID == 0 || all[1].ID <= all[0].ID || all[0].Rows[0].ID == 0 {
					t.Fatalf("ids %+v", all)
				}
				var n int
				if err := setup.QueryRowContext(ctx, "SELECT COUNT(*) FROM sales s LEFT JOIN sale_rows r ON r.sale_id = s.id WHERE s.id = ? AND paid = 'N' AND gift = 'Y' OR s.id = ? AND paid = 'Y'", int64(all[0].ID), int64(all[1].ID)).Scan(&n); err != nil || n != 2 {
					t.Fatalf("%d rows are right, %v; expected 2", n, err)
				}
				var found []sale // from the replica
				if err := db.Preload("Rows", "gift = ?", true).Where("paid = ?", false).Find(&found).Error; err != nil {
					t.Fatal(err)
				}
				if len(found) != 1 || found[0].Paid || len(found[0].Rows) != 1 || !*found[0].Rows[0].Gift {
					t.Fatalf("found %+v", found)
				}
				if err := db.Clauses(dbresolver.Write).Model(&found[0]).Update("paid", true).Error; err != nil {
					t.Fatal(err)
				}
				if err := setup.QueryRowContext(ctx, "SELECT COUNT(*) FROM sales WHERE paid = 'Y'").Scan(&n); err != nil || n != 2 {
					t.Fatalf("%d sales are paid, %v; expected 2", n, err)
				}
			})
		})
	}
}

type metItem struct {
	ID     gormflake.ID `gorm:"primaryKey"`
	Name   string       `gorm:"size:40;uniqueIndex"`
	Active bool
}

// TestCodecBesideUpserts has an upsert meet a row that its transaction's snapshot
// doesn't show: the id plugin must see, through the codec, that it is in one.
func TestCodecBesideUpserts(t *testing.T) {
	for name, first := range map[string]bool{"codec first": true, "codec last": false} {
		t.Run(name, func(t *testing.T) {
			servers.Each(t, servers.MySQLKinds(), func(t *testing.T, srv *servers.Server) {
				db := srv.OpenDSN(t, srv.Database(t), &gorm.Config{Logger: logger.Discard})
				flake := gormflake.New(gormflake.Config{Store: lease.Memory()})
				plugins := []gorm.Plugin{flake, migrate.LegacyBools(&metItem{})}
				if first {
					slices.Reverse(plugins)
				}
				for _, p := range plugins {
					if err := db.Use(p); err != nil {
						t.Fatal(err)
					}
				}
				t.Cleanup(func() { _ = flake.Close(context.Background()) })
				if err := db.Exec("CREATE TABLE met_items (id bigint PRIMARY KEY, name varchar(40) UNIQUE, active enum('N','Y') NOT NULL)").Error; err != nil {
					t.Fatal(err)
				}
				if err := flake.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				err := db.Transaction(func(tx *gorm.DB) error {
					var n int64
					other, mine := metItem{Name: "x", Active: true}, metItem{Name: "x", Active: true}
					if err := errors.Join(tx.Model(&metItem{}).Count(&n).Error, db.Create(&other).Error); err != nil {
						return err
					}
					if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&mine).Error; err != nil {
						return err
					}
					if mine.ID != other.ID {
						t.Errorf("expected the id of the row that is there, %v, met %v", other.ID, mine.ID)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

type boolKeyed struct {
	ID     gormflake.ID `gorm:"primaryKey"`
	Name   string       `gorm:"size:40;uniqueIndex:u"`
	Active bool         `gorm:"uniqueIndex:u"`
}

// TestCodecBesideUniqueBools has an upsert meet rows by a legacy boolean.
func TestCodecBesideUniqueBools(t *testing.T) {
	for _, first := range []bool{true, false} {
		srv := servers.Shared(t, servers.MariaDB)
		db := srv.OpenDSN(t, srv.Database(t), &gorm.Config{Logger: logger.Discard})
		flake := gormflake.New(gormflake.Config{Store: lease.Memory()})
		if first {
			_ = db.Use(migrate.LegacyBools(&boolKeyed{}))
		}
		_ = db.Use(flake)
		if !first {
			_ = db.Use(migrate.LegacyBools(&boolKeyed{}))
		}
		t.Cleanup(func() { _ = flake.Close(context.Background()) })
		db.Exec("CREATE TABLE bool_keyeds (id bigint PRIMARY KEY, name varchar(40), active enum('N','Y') NOT NULL, UNIQUE u (name, active))")
		n, y := boolKeyed{Name: "x"}, boolKeyed{Name: "x", Active: true}
		if err := db.Create(&n).Error; err != nil {
			t.Fatal(err)
		}
		db.Create(&y)
		for _, v := range []bool{false, true} {
			mine := boolKeyed{Name: "x", Active: v}
			err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&mine).Error
			want := map[bool]gormflake.ID{false: n.ID, true: y.ID}[v]
			if err != nil || mine.ID != want {
				t.Errorf("codec first %v, active %v: expected %v, met %v, %v", first, v, want, mine.ID, err)
			}
		}
	}
}
