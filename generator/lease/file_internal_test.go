package lease

import (
	"errors"
	"path/filepath"
	"testing"
)

// A full disk fails an extension, and the next one succeeds from the same
// grant; a release drops the lock even when it can't write.
func TestFileWriteFails(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "state")
	f := newFile(path, 3)
	req := Request{Namespace: "files", Workers: Range{Lo: 0, Hi: 9}, Token: NewToken(), Now: 1_000_000, MaxAhead: 10_000}
	held, err := f.Acquire(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left on device")
	f.write = func(string, []byte) error { return full }
	if got, err := f.Extend(ctx, held, held.Through+1000); !errors.Is(err, full) || errors.Is(err, ErrLost) {
		t.Fatalf("Extend on a full disk = %+v, error %v; want the disk's error", got, err)
	}
	row, ok, err := f.Lookup(ctx, "files", 3)
	if err != nil || !ok || row.HighWater != held.Through || row.Owner != held.Token {
		t.Fatalf("Lookup = %+v, %v, error %v; want the row as it was", row, ok, err)
	}
	f.write = writeDurably
	if held, err = f.Extend(ctx, held, held.Through+1000); err != nil {
		t.Fatal(err)
	}
	f.write = func(string, []byte) error { return full }
	if err := f.Release(ctx, held, held.Through); !errors.Is(err, full) {
		t.Errorf("Release on a full disk: error %v; want the disk's", err)
	}
	req.Token = NewToken()
	if got, err := newFile(path, 3).Acquire(ctx, req); err != nil || got.From < held.Through {
		t.Errorf("Acquire after it = %+v, error %v; want a grant from the high water %d on", got, err, held.Through)
	}
}

// A file that was restored under a living owner is noticed at its next
// extension; the owner may begin anew, with the guard.
func TestFileRestoredUnderItsOwner(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "state")
	f := newFile(path, 3)
	req := Request{Namespace: "files", Workers: Range{Lo: 0, Hi: 9}, Token: NewToken(), Now: 1_000_000, MaxAhead: 10_000}
	held, err := f.Acquire(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	old := fileState{Namespace: "files", Layout: req.Layout.String(), Worker: 3, Term: 1, Owner: "former.1/0", HighWater: 900_000}
	if err := f.store(old); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Extend(ctx, held, held.Through+1000); !errors.Is(err, ErrLost) {
		t.Fatalf("Extend = %+v, error %v; want ErrLost", got, err)
	}
	req.Token = NewToken()
	if got, err := f.Acquire(ctx, req); err != nil || got.From < held.Through || got.NotBefore < held.Through {
		t.Errorf("Acquire after it = %+v, error %v; want a start after %d", got, err, held.Through)
	}
}
