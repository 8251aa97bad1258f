// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// socket binds a name, and keeps it as long as the test runs if it listens.
func socket(t *testing.T, path string, listens bool) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if !listens {
		syscall.Close(fd)
		return
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Listen(fd, 1); err != nil {
		t.Fatal(err)
	}
}

// A number that no process has here: proc(5), pid_max is 4194304 at most.
const nobody = 5000000

func TestServeRemovesSocketsOfTheKilled(t *testing.T) {
	dir := shortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	for i := range 20 {
		socket(t, at(fmt.Sprintf("%d%s", nobody+i, suffix)), false)
	}
	socket(t, at(fmt.Sprintf("%d%s%s", nobody, suffix, unready)), false) // killed a moment before it listened
	kept := map[string]bool{fmt.Sprintf("%d%s", os.Getpid(), suffix): true, fmt.Sprintf("%d%s", os.Getpid(), recordSuffix): true}
	for name, listens := range map[string]bool{
		fmt.Sprintf("%d%s", nobody+100, suffix):   true,  // in another container
		fmt.Sprintf("%d%s", os.Getppid(), suffix): false, // it lives, and may be about to listen
		"slots-7":   false,
		"side.sock": false,
	} {
		socket(t, at(name), listens)
		kept[name] = true
	}
	defer serve(t, dir, 7).Close()
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != len(kept) {
		t.Errorf("%v are left, %v", list, err)
	}
	for _, e := range list {
		if !kept[e.Name()] {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// The sockets that half an hour of a busy host leaves are removed a few at a time.
func TestSweepIsBounded(t *testing.T) {
	dir := shortDir(t)
	for i := range sweepMost + 10 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d%s", nobody+i, suffix)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for left := sweepMost + 10; left > 0; {
		sweep(dir)
		list, err := os.ReadDir(dir)
		if err != nil || len(list) < left-sweepMost || len(list) == left {
			t.Fatalf("%d of %d are left, %v", len(list), left, err)
		}
		left = len(list)
	}
}
