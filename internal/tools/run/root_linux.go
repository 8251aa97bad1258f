// SPDX-License-Identifier: BSD-2-Clause

package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"verbena/internal/device"
	"verbena/internal/stats"
	"verbena/internal/sys/rundir"
)

// makeRoot makes the directory below base that holds t, and returns its name.
// There is one for each network namespace, which has devices of its own, and
// for each selection of them. Each run brings it up to date; programs that are
// running meanwhile see each file as it was or as it is.
func makeRoot(base string, selection device.Selection, t tree) (string, error) {
	if err := rundir.Make(base); err != nil {
		return "", err
	}
	var ns unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &ns); err != nil {
		return "", fmt.Errorf("network namespace: %w", err)
	}
	root := filepath.Join(base, stats.RootName(ns.Ino, strings.Join(selection, "-")))
	for name, content := range t {
		if err := put(filepath.Join(root, name), strings.HasSuffix(name, "/"),
			content); err != nil {
			return "", err
		}
	}
	return root, removeOthers(root, t)
}

// put makes a directory, link or file as it should be.
func put(path string, isDir bool, content string) error {
	if isDir {
		return os.MkdirAll(path, 0o700)
	}
	if content == counterFile {
		if _, err := os.Lstat(path); err == nil {
			return nil
		}
		content = "0\n"
	}
	target, isLink := strings.CutPrefix(content, linkTo)
	if isLink {
		if old, err := os.Readlink(path); err == nil && old == target {
			return nil
		}
	} else if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, []byte(content)) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	next := fmt.Sprintf("%s.%d", path, os.Getpid())
	_ = os.Remove(next) // of a process of this number that was killed
	if isLink {
		if err := os.Symlink(target, next); err != nil {
			return err
		}
	} else if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// removeOthers removes files that are not in t: those of devices and addresses that are gone.
func removeOthers(root string, t tree) error {
	wanted := map[string]bool{}
	for name := range t {
		for name = strings.TrimSuffix(name, "/"); name != "."; name = filepath.Dir(name) {
			wanted[name] = true
		}
	}
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another run's work
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || name == "." || wanted[name] || beingPut(name, wanted) {
			return err
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

// beingPut reports whether name is a file that another run is about to put.
func beingPut(name string, wanted map[string]bool) bool {
	ext := filepath.Ext(name)
	return ext != "" && wanted[strings.TrimSuffix(name, ext)]
}
