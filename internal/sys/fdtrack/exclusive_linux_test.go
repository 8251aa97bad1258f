// SPDX-License-Identifier: BSD-2-Clause

package fdtrack

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestExclusiveTakesNoFileThatIsThere: not even an empty one, a link that leads nowhere
// or a FIFO, at which to open would hang.
func TestExclusiveTakesNoFileThatIsThere(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.WriteFile(at("file"), []byte("theirs"), 0o644),
		os.Symlink(at("file"), at("link")),
		os.Symlink(at("nothing"), at("dangling")),
		syscall.Mkfifo(at("fifo"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "link", "dangling", "fifo"} {
		if _, err := (&Exclusive{Path: at(name)}).Open(); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v, want that it exists", name, err)
		}
	}
	if got, err := os.ReadFile(at("file")); err != nil || string(got) != "theirs" {
		t.Errorf("the file is %q now: %v", got, err)
	}
	if _, err := os.Lstat(at("nothing")); err == nil {
		t.Error("the link was followed")
	}
}

func TestExclusiveAppendsToItsOwn(t *testing.T) {
	e := &Exclusive{Path: filepath.Join(t.TempDir(), "own")}
	write := func(words string) error {
		f, err := e.Open()
		if err != nil {
			return err
		}
		_, err = f.Write([]byte(words))
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(write("one "), write("two")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(e.Path); err != nil || string(got) != "one two" {
		t.Errorf("the file is %q: %v", got, err)
	}
	// Removed meanwhile, it is made again; put in its place, another's is left alone.
	if err := errors.Join(os.Remove(e.Path), write("three")); err != nil {
		t.Fatal(err)
	}
	other := e.Path + ".other"
	if err := errors.Join(os.WriteFile(other, []byte("theirs"), 0o644), os.Rename(other, e.Path)); err != nil {
		t.Fatal(err)
	}
	if err := write("four"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another's file: %v", err)
	}
	if err := errors.Join(os.Remove(e.Path), os.Symlink(e.Path+".elsewhere", e.Path)); err != nil {
		t.Fatal(err)
	}
	if err := write("five"); err == nil {
		t.Error("a link was followed")
	}
}
