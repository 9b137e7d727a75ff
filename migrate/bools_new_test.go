package migrate

import "log/slog"

// writeNew is the new program: GORM with Go bools, and the codec. It has its own
// pool, as another process would, and knows nothing of the migration.
func (w *program) writeNew(f *fixture) func(campaignRow, bool) (int64, error) {
	db := f.srv.OpenDSN(f.TB, f.dsn, nil)
	if err := db.Use(LegacyBools(&campaignRow{}).Logger(slog.New(slog.DiscardHandler))); err != nil {
		f.Fatal(err)
	}
	updates := 0
	return func(r campaignRow, insert bool) (int64, error) {
		if insert {
			r.ID = 0
			err := db.Create(&r).Error
			return r.ID, err
		}
		if updates++; updates%2 == 0 {
			return r.ID, db.Save(&r).Error
		}
		return r.ID, db.Model(&campaignRow{}).Where("id = ?", r.ID).Updates(map[string]any{"v": r.V, "w": r.W, "n": r.N}).Error
	}
}
