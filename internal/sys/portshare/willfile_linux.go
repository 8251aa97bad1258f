// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// willFile is this process's wills. The file exists only while there are any.
type willFile struct {
	path string // immutable

	mu   sync.Mutex
	f    *os.File       // guarded by mu; nil before the first will
	at   map[uint64]int // guarded by mu: record of each will
	free []int          // guarded by mu: records to use again
	next int            // guarded by mu: records in the file
}

func (w *willFile) set(id uint64, will Will) error {
	if err := will.check(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if fdtrack.Check() {
		return fmt.Errorf("portshare: will: %w", unix.EBADF)
	}
	if w.f == nil {
		f, err := openFile(w.path, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
		if err != nil {
			return fmt.Errorf("portshare: will: %w", err)
		}
		fdtrack.AddConn(f)
		w.f, w.at = f, map[uint64]int{}
	}
	rec, ok := w.at[id]
	switch {
	case ok:
	case len(w.free) > 0:
		rec = w.free[len(w.free)-1]
		w.free = w.free[:len(w.free)-1]
	case w.next == maxWills:
		return errors.New("portshare: too many wills")
	default:
		rec = w.next
		w.next++
	}
	w.at[id] = rec
	var b [willRecordBytes]byte
	encodeWill(&b, id, will)
	if _, err := w.f.WriteAt(b[:], int64(rec)*willRecordBytes); err != nil {
		return fmt.Errorf("portshare: will: %w", err)
	}
	return nil
}

func (w *willFile) clear(id uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rec, ok := w.at[id]
	if !ok || fdtrack.Check() {
		return
	}
	delete(w.at, id)
	w.free = append(w.free, rec)
	// The length alone: the CRC does not match any more either way.
	w.f.WriteAt([]byte{0, 0}, int64(rec)*willRecordBytes+46)
}

// withdraw removes all wills.
func (w *willFile) withdraw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f != nil {
		os.Remove(w.path)
		fdtrack.CloseConn(w.f)
		w.f = nil
	}
}

// takeWills reads and removes the wills in a file. The caller owns the slot.
func takeWills(path string) []Will {
	st, err := os.Stat(path)
	if err != nil {
		return nil // the usual case: no will was left
	}
	var wills []Will
	if st.ModTime().After(bootTime()) && st.Size() <= maxWills*willRecordBytes {
		b, _ := readFile(path)
		for ; len(b) >= willRecordBytes; b = b[willRecordBytes:] {
			if _, w, ok := parseWill(b); ok {
				wills = append(wills, w)
			}
		}
	}
	os.Remove(path)
	return wills
}

// bootTime returns the time at which the system started: a file from before is about connections
// that no process remembers.
func bootTime() time.Time {
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(si.Uptime+1) * time.Second)
}
