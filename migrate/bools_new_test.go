package migrate

import (
	"errors"
	"fmt"
)

// writeNew is the new program.
func (w *program) writeNew(f *fixture) func(campaignRow, bool) (int64, error) {
	pool, err := f.db.DB()
	if err != nil {
		f.Fatal(err)
	}
	enum := true
	bind := func(v *bool) any {
		switch {
		case v == nil:
			return nil
		case enum:
			return label(*v)
		}
		return map[bool]string{true: "1.0", false: "0.0"}[*v]
	}
	return func(r campaignRow, insert bool) (id int64, err error) {
		for range 5 {
			if insert {
				res, e := pool.Exec("INSERT INTO t (owner, v, w, n) VALUES (?, ?, ?, ?)", r.Owner, bind(&r.V), bind(r.W), r.N)
				if err = e; err == nil {
					return res.LastInsertId()
				}
			} else {
				_, err = pool.Exec("UPDATE t SET v = ?, w = ?, n = ? WHERE id = ?", bind(&r.V), bind(r.W), r.N, r.ID)
			}
			switch mysqlError(err) {
			case 1265, 1292, 1366, 1406:
				enum = !enum
				continue
			}
			return 0, err
		}
		return 0, errors.Join(errors.New("five times"), fmt.Errorf("%v", err))
	}
}
