package lease

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// fileFormat is the version of the state file.
const fileFormat = 1

// fileState is what the state file holds, as JSON.
type fileState struct {
	Format    int    `json:"format"`
	Namespace string `json:"namespace"`
	Layout    string `json:"layout"`
	Worker    int64  `json:"worker"`
	Term      int64  `json:"term"`
	Owner     string `json:"owner"`
	HighWater int64  `json:"high_water"`
	Checksum  string `json:"checksum"` // of all the others
}

// sum returns the checksum, which a torn or edited file does not match.
func (s fileState) sum() string {
	s.Checksum = ""
	text, _ := json.Marshal(s) // strings and integers: never fails
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:8])
}

// read returns the state, or an error that matches fs.ErrNotExist when there
// is no file.
func (f *file) read() (fileState, error) {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return fileState{}, fmt.Errorf("lease: file: %w", err)
	}
	var state fileState
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	switch err := decoder.Decode(&state); {
	case err != nil:
		return fileState{}, f.damaged(err.Error())
	case state.Format != fileFormat:
		return fileState{}, f.damaged(fmt.Sprintf("want format %d, got %d", fileFormat, state.Format))
	case state.Checksum != state.sum():
		return fileState{}, f.damaged("the checksum does not match the content")
	case state.Worker != f.worker:
		return fileState{}, fmt.Errorf("%w: file %s belongs to worker %d, got %d; give each worker id a file", ErrInvalid, f.path, state.Worker, f.worker)
	}
	return state, nil
}

// damaged says how to go on by hand, since no program can know what is lost.
func (f *file) damaged(why string) error {
	return fmt.Errorf("%w: state file %s is damaged: %s; make sure that the clock is right, then remove the file",
		ErrInvalid, f.path, why)
}

func (f *file) store(state fileState) error {
	state.Format = fileFormat
	state.Checksum = state.sum()
	content, err := json.Marshal(state)
	if err == nil {
		err = f.write(f.path, append(content, '\n'))
	}
	if err != nil {
		return fmt.Errorf("lease: file: write %s: %w", f.path, err)
	}
	return nil
}

// writeDurably replaces a file: after an error either the old content or the
// new one is there, after success the new one, whatever the machine does.
func writeDurably(path string, content []byte) error {
	temporary := path + ".new"
	out, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// writeHolder leaves the process id in a lock file, for people and for errors.
func writeHolder(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// readHolder returns the process id in a lock file, 0 when there is none.
func readHolder(path string) int {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0
	}
	return pid
}
