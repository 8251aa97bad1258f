// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ownTmp puts a directory of this run's own in the place of /tmp, where perftest has files of fixed
// names: another user's would be in the way. Our own folders stay there: the tree, the prefix and
// the directory for temporary files.
func ownTmp() error {
	if os.Getenv(insideVariable) == "" {
		return nil
	}
	dir, err := os.MkdirTemp("/tmp", "va")
	if err != nil {
		return err
	}
	machines, err := syscall.Open("/tmp", syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(machines)
	if err := mount("tmpfs", dir, "tmpfs", 0); err != nil {
		return err
	}
	tree, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	for _, path := range []string{tree, filepath.Dir(filepath.Dir(verbena)), os.TempDir()} {
		name, below := strings.CutPrefix(filepath.Clean(path), "/tmp/")
		if !below {
			continue
		}
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(at, 0o700); err != nil {
			return err
		}
		if err := mount(path, at, "", syscall.MS_BIND|syscall.MS_REC); err != nil {
			return err
		}
	}
	if err := mount(dir, "/tmp", "", syscall.MS_MOVE); err != nil {
		return err
	}
	if err := syscall.Fchdir(machines); err != nil {
		return err
	}
	err = syscall.Rmdir(filepath.Base(dir))
	if back := os.Chdir(filepath.Join(tree, "apps")); err == nil {
		err = back
	}
	return err
}

func mount(source, target, kind string, flags uintptr) error {
	if err := syscall.Mount(source, target, kind, flags, ""); err != nil {
		return fmt.Errorf("cannot mount %s at %s: %w", source, target, err)
	}
	return nil
}

// number tells one directory from another.
func number(dir string) string {
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

func TestTmpIsOurOwn(t *testing.T) {
	switch os.Getenv(insideVariable) {
	case "":
		t.Skip("this kernel makes no namespaces: run as root, or allow user namespaces")
	case number("/tmp"):
		t.Error("/tmp is the machine's: what another user has left there is in the way of perftest")
	}
}
