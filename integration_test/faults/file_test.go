package faults

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
)

// TestFileOfTwoProcesses gives two processes one state file. The second is
// refused until the first is killed.
func TestFileOfTwoProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "worker")
	f := newFleet(t)
	monotone(t, lease.File(path, 7))
	config := childConfig{File: path, Lo: 7}
	first := f.spawn("first", config)
	f.awaitIssue("the first works", first.member)
	second := f.spawn("second", config)
	f.awaitError(generator.ErrWorkerInUse)
	f.awaitIssue("the first goes on", first.member)
	if n := second.issued.Load(); n != 0 {
		t.Errorf("the second issued %d ids beside the first; want none", n)
	}
	first.kill()
	f.awaitIssue("the second has it once the first is dead", second.member)
	second.close()
	<-second.ended
	f.check()
}

// TestFileRestored puts an older copy of the state file back, after its owner
// has ended and under a live owner.
func TestFileRestored(t *testing.T) {
	tests := []struct {
		name string
		live bool
	}{
		{"after its owner ended", false},
		{"under a live owner", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "worker")
			f := newFleet(t)
			read := func() string {
				t.Helper()
				content, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				return string(content)
			}
			var older string
			restore := func() {
				t.Helper()
				if err := os.WriteFile(path+".restored", []byte(older), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(path+".restored", path); err != nil {
					t.Fatal(err)
				}
			}
			if tt.live {
				members := f.add(lease.File(path, 9))
				f.awaitIssue("the owner starts")
				older = read()
				awaitExtends(t, members, 2)
				f.awaitLosses(members, restore)
				f.awaitIssue("the owner begins anew")
			} else {
				config := childConfig{File: path, Lo: 9}
				first := f.spawn("first", config)
				f.awaitIssue("the first owner starts")
				older = read()
				eventually(t, "the file has changed", func() bool { return read() != older })
				first.close()
				<-first.ended
				restore()
				second := f.spawn("second", config)
				f.awaitIssue("the next owner starts", second.member)
			}
			f.check()
		})
	}
}
