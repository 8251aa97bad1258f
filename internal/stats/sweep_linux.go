// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"os"
	"syscall"
)

// names returns at most n names of a directory.
func names(dir string, n int) []string {
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), dir) // one that blocks is not polled
	defer f.Close()
	list, _ := f.Readdirnames(n) // none at the end
	return list
}

// lives reports whether there is a process of that number here.
func lives(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }

// removeDead removes a socket on which nobody listens.
func removeDead(path string) {
	fd, err := syscall.Socket(syscall.AF_UNIX,
		syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer syscall.Close(fd)
	if syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}) == syscall.ECONNREFUSED {
		os.Remove(path)
	}
}
