package migrate

import (
	"context"
	"fmt"
	"strconv"
)

// rebuildSettings are the server's settings on which it depends how long writers
// wait while it rebuilds a table online. Sizes are in bytes; 0 is unknown.
type rebuildSettings struct {
	pool  int64 // innodb_buffer_pool_size
	redo  int64 // all files of the redo log together
	block int64 // innodb_sort_buffer_size, which is also the size of the row log's blocks
	hash  bool  // innodb_adaptive_hash_index
}

const (
	mebibyte = 1 << 20

	smallTable = 64 * mebibyte  // rebuilt within seconds, whatever the settings
	smallBlock = 128 * 1024     // some thousand rows, carried over in no time
	ampleRedo  = 256 * mebibyte // gives the page cleaners the time they need
)

// readRebuildSettings asks by SHOW, which leaves out what this server doesn't know.
func (s *boolSession) readRebuildSettings(ctx context.Context) (r rebuildSettings, err error) {
	rows, err := s.conn.QueryContext(ctx, `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_buffer_pool_size',
		'innodb_log_file_size', 'innodb_log_files_in_group', 'innodb_redo_log_capacity', 'innodb_sort_buffer_size', 'innodb_adaptive_hash_index')`)
	if err != nil {
		return r, fmt.Errorf("migrate: the server's settings: %w", err)
	}
	defer rows.Close()
	found := map[string]int64{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return r, err
		}
		if name == "innodb_adaptive_hash_index" {
			r.hash = value == "ON"
			continue
		}
		if found[name], err = strconv.ParseInt(value, 10, 64); err != nil {
			return r, fmt.Errorf("migrate: the server's settings: %s: %w", name, err)
		}
	}
	r.pool, r.block = found["innodb_buffer_pool_size"], found["innodb_sort_buffer_size"]
	r.redo = found["innodb_redo_log_capacity"]
	if r.redo == 0 {
		r.redo = found["innodb_log_file_size"] * max(found["innodb_log_files_in_group"], 1)
	}
	return r, rows.Err()
}

// rebuilds reports whether a step of the plan rebuilds the table on this server.
func (r *planRecord) rebuilds() bool {
	for _, step := range []string{alterAdd, alterUndo, alterClean} {
		if r.Algorithms[step].Algorithm == "INPLACE" {
			return true
		}
	}
	return false
}

// warnings say what would make writers wait while a table of so many bytes is
// rebuilt, beside the metadata lock, which BoolSpec.MaxBlock bounds.
//
// What is written during a rebuild goes to the row log, and is carried over to
// the new table block by block; but for the last block, that holds up nobody. The
// last one is carried over under an exclusive latch on the table's clustered
// index, and a row of it that isn't in memory is read from the disk, after another
// page was written there to make room. And the rebuild writes two to three times
// the table's size to the redo log: once that is full, every writer of the server
// waits for a checkpoint.
//
// When all is carried over, the old table is dropped under the metadata lock: its
// pages are looked for in the hash index, and its file is removed, which frees all
// of its blocks unless the file has a second name.
func (s rebuildSettings) warnings(table int64) (all []string) {
	if table < smallTable {
		return nil
	}
	if s.block > smallBlock || s.pool > 0 && s.pool < 2*table {
		reason := fmt.Sprintf("at the end of an online rebuild (Prepare, Cleanup, Rollback) writers of the table wait until the last block of what was written meanwhile is carried over, "+
			"up to innodb_sort_buffer_size = %s of changes", size(s.block))
		remedy := ""
		if s.pool > 0 && s.pool < 2*table {
			reason += fmt.Sprintf("; innodb_buffer_pool_size = %s doesn't hold the table of %s and its copy, so that each of these changes may wait for the disk, for many seconds in all",
				size(s.pool), size(table))
			remedy = "enlarge the pool"
		}
		if s.block > smallBlock {
			if remedy != "" {
				remedy += ", or "
			}
			remedy += "set innodb_sort_buffer_size = 64K for the time of the migration (it takes a restart)"
		}
		all = append(all, reason+": "+remedy)
	}
	if s.redo > 0 && s.redo < ampleRedo {
		all = append(all, fmt.Sprintf("an online rebuild writes two to three times the table's %s to the redo log of %s (innodb_log_file_size), and every writer of the server waits whenever that is full: enlarge it to %s at least",
			size(table), size(s.redo), size(ampleRedo)))
	}
	if s.hash {
		all = append(all, "at the end of an online rebuild the old table's pages are looked for in the adaptive hash index while writers wait: SET GLOBAL innodb_adaptive_hash_index = OFF for the time of the migration")
	}
	return append(all, fmt.Sprintf("at the end of an online rebuild the old table's file of %s is removed while writers wait, for up to a millisecond per megabyte, as the file system has it: "+
		"where you can reach the server's files, give the table's .ibd a second name outside of the data directory (ln) before each of Prepare, Cleanup and Rollback, and remove that afterwards", size(table)))
}

// size prints bytes as the server's options write them.
func size(n int64) string {
	switch {
	case n >= mebibyte:
		return fmt.Sprintf("%dM", n/mebibyte)
	case n >= 1024:
		return fmt.Sprintf("%dK", n/1024)
	}
	return strconv.FormatInt(n, 10)
}
