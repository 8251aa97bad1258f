// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"errors"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

const (
	// recordSuffix ends the name of a living process's record, endedSuffix of one that has ended.
	recordSuffix = ".last"
	endedSuffix  = ".ended"

	// EndedAge and mostEnded bound the records of ended processes that are kept, 2 MB.
	EndedAge  = 10 * time.Minute
	mostEnded = 64
	// settled is the age at which a record without a socket is a dead process's, where the process
	// id says nothing: of another container, or of another process by now.
	settled = 2 * time.Minute
)

// Ended returns the last snapshots of the processes of dir that have ended in the last ten minutes,
// the newest 64, ordered by their ends. There are none if others may write in dir.
func Ended(dir string) (all []Snapshot) {
	if bury(dir) != nil {
		return nil
	}
	for name, at := range endedFiles(dir) {
		b, err := readRegular(filepath.Join(dir, name))
		if err != nil {
			continue // it was the oldest of too many
		}
		if s, err := parseRecord(b); err == nil {
			s.Ended = at
			all = append(all, s)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Ended.Before(all[j].Ended) })
	return all
}

// endedFiles returns the records of ended processes and when these ended. It removes those that are
// too old or too many.
func endedFiles(dir string) map[string]time.Time {
	files := map[string]time.Time{}
	for _, name := range names(dir, -1) {
		if at, ok := endOf(name); ok {
			files[name] = at
		}
	}
	for name, at := range files {
		if time.Since(at) > EndedAge {
			os.Remove(filepath.Join(dir, name))
			delete(files, name)
		}
	}
	for len(files) > mostEnded {
		oldest := ""
		for name, at := range files {
			if oldest == "" || at.Before(files[oldest]) {
				oldest = name
			}
		}
		os.Remove(filepath.Join(dir, oldest))
		delete(files, oldest)
	}
	return files
}

// endedName returns the name of the record of a process that ends now. Slots are given again: the
// time tells records of one name apart.
func endedName(name string) string {
	return name + "." + strconv.FormatInt(time.Now().UnixNano(), 10) + endedSuffix
}

// endOf returns the time in a name of endedName; ok is false for other files.
func endOf(name string) (at time.Time, ok bool) {
	rest, ok := strings.CutSuffix(name, endedSuffix)
	if !ok {
		return at, false
	}
	ns, err := strconv.ParseInt(rest[strings.LastIndexByte(rest, '.')+1:], 10, 64)
	return time.Unix(0, ns), err == nil
}

// bury makes records of ended processes of those that killed processes have left, and adds their
// counters to the ports. One process does so for each. It fails if others may write in dir.
func bury(dir string) error {
	if err := trusted(dir); err != nil {
		return err
	}
	for _, file := range names(dir, -1) {
		name, ok := strings.CutSuffix(file, recordSuffix)
		if !ok {
			continue
		}
		socket := filepath.Join(dir, name+suffix)
		removeDead(socket)
		if _, err := os.Lstat(socket); err == nil {
			continue // it lives
		}
		_ = buryOne(dir, name, false) // counts that it cannot write are lost
	}
	return nil
}

// buryOne ends the record of a process that has no socket. If it is not known to be dead, its
// record is left alone while it may be about to end by itself.
func buryOne(dir, name string, dead bool) error {
	f, err := lockRecord(dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := readBounded(f)
	if err != nil {
		return err
	}
	s, err := parseRecord(b)
	if info, statErr := f.Stat(); err != nil && statErr == nil {
		s.Time = info.ModTime()
	}
	if !dead && (s.PID == 0 || lives(s.PID)) && time.Since(s.Time) < settled {
		return nil
	}
	return end(dir, name, s)
}

// lockRecord opens the record of a process that ends, and locks it until it is closed. Only the
// process with the lock renames or removes the record. It returns os.ErrNotExist if another one has
// done so: the file of that name is a new process's then.
func lockRecord(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, name+recordSuffix)
	f, err := openRegular(path, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	err = lockFile(f)
	if err == nil {
		err = named(f, path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// named returns os.ErrNotExist if a path is not an open file's any more.
func named(f *os.File, path string) error {
	opened, err := f.Stat()
	if err != nil {
		return err
	}
	now, err := os.Lstat(path)
	if err == nil && !os.SameFile(opened, now) {
		err = os.ErrNotExist
	}
	return err
}

// end makes a living process's record, which is locked, one of an ended process, and adds its
// counters to the ports: the process itself does that, or another one that has found it dead.
func end(dir, name string, s Snapshot) error {
	if used(s.Devices) {
		to := filepath.Join(dir, endedName(name))
		if err := os.Rename(filepath.Join(dir, name+recordSuffix), to); err != nil {
			return err
		}
		endedFiles(dir) // removes the oldest
	} else if err := os.Remove(filepath.Join(dir, name+recordSuffix)); err != nil {
		return err
	}
	return Retire(dir, name, s.Devices)
}

// used reports whether a counter of a device is not 0.
func used(devices []Device) bool {
	for _, d := range devices {
		for _, c := range d.Counters {
			if c.Value != 0 {
				return true
			}
		}
	}
	return false
}

// Retire leaves the last snapshot of a process that ends, after Withdraw or Close, and adds its
// counters to those of its ports.
func (s *Server) Retire(last Snapshot) error {
	dir, name := filepath.Split(s.path)
	name = strings.TrimSuffix(name, suffix)
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	if s.record == nil {
		return Retire(dir, name, last.Devices)
	}
	_ = s.record.write(last) // else it has an older one
	s.record.close()
	s.record = nil
	f, err := lockRecord(dir, name)
	if err == nil {
		defer f.Close()
		err = end(dir, name, last)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil // a process that could not reach this one has
	}
	return err
}
