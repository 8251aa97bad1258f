// SPDX-License-Identifier: BSD-2-Clause

//go:build unix

package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// directory makes one of a mode, and of another user if that is asked for.
func directory(t *testing.T, mode os.FileMode, uid int) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, uid, -1); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ours wants a directory of mode 700.
func ours(t *testing.T, dir string) {
	t.Helper()
	if fi, err := os.Lstat(dir); err != nil || !fi.IsDir() || fi.Mode().Perm() != 0o700 || !owned(fi) {
		t.Errorf("%s: %v, %v", dir, fi, err)
	}
}

func TestDirIsInTheSessionsDirectory(t *testing.T) {
	me := os.Geteuid()
	ownUID := fmt.Sprintf("verbena-%d", me)
	for name, c := range map[string]struct{ base, want string }{
		"ours alone":               {directory(t, 0o700, me), "verbena"},
		"ours, all may look":       {directory(t, 0o755, me), "verbena"},
		"ours, all may write":      {directory(t, 0o777, me), ownUID}, // Kubernetes' emptyDir
		"ours, the group may":      {directory(t, 0o770, me), ownUID},
		"ours, as /tmp":            {directory(t, 0o777|os.ModeSticky, me), ownUID},
		"another's, all may write": {"", ownUID},
	} {
		t.Run(name, func(t *testing.T) {
			if c.base == "" {
				if me != 0 {
					t.Skip("only root can give a directory to another user: run as root")
				}
				c.base = directory(t, 0o777, 65534)
			}
			t.Setenv(variable, c.base)
			for range 2 { // it is there the second time
				dir, err := Dir()
				if err != nil || dir != filepath.Join(c.base, c.want) {
					t.Fatalf("Dir() = %s, %v", dir, err)
				}
				if err := Make(dir); err != nil {
					t.Fatal(err)
				}
				ours(t, dir)
			}
		})
	}
}

func TestDirSaysWhyTheSessionsIsNotUsed(t *testing.T) {
	t.Setenv(variable, "")
	without, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	file := filepath.Join(base, "file")
	taken := directory(t, 0o777, os.Geteuid())
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(taken, fmt.Sprintf("verbena-%d", os.Geteuid())), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for value, why := range map[string]string{
		"run":                       "not an absolute path",
		filepath.Join(base, "gone"): "no such file or directory",
		file:                        "not a directory",
		taken:                       "is not a directory of user",
	} {
		t.Setenv(variable, value)
		dir, err := Dir()
		if dir != without || err == nil {
			t.Fatalf("%s: %s, %v; want %s and an error", value, dir, err, without)
		}
		for _, want := range []string{variable + "=" + value, why, dir + " is instead", "set it to"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q has no %q", value, err, want)
			}
		}
	}
}

func TestMakeRefusesWhatOthersMayWriteIn(t *testing.T) {
	open := directory(t, 0o777, os.Geteuid())
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		open:                                   "may be written by others: chmod 700 it",
		link:                                   "is not a directory of user",
		filepath.Join(open, "gone", "verbena"): "no such file",
	} {
		if err := Make(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
}

func TestCheckMakesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "verbena")
	if err := Check(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := Make(dir); err != nil {
		t.Fatal(err)
	}
	if err := Check(dir); err != nil {
		t.Error(err)
	}
}
