// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// createRecord makes the file of a record and maps it. A process may be in a sandbox later where it
// opens and writes no files: it needs neither for the memory.
func createRecord(path string) (*record, error) {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CREAT|syscall.O_EXCL|syscall.O_CLOEXEC,
		0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	// A write to memory for which the disk has no room would end the process.
	err = syscall.Fallocate(fd, 0, 0, recordBytes)
	var mem []byte
	if err == nil {
		mem, err = unix.Mmap(fd, 0, recordBytes, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED)
	}
	if err != nil {
		os.Remove(path)
		return nil, &os.PathError{Op: "map", Path: path, Err: err}
	}
	return &record{mem: mem}, nil
}

func (r *record) close() { unix.Munmap(r.mem) }
