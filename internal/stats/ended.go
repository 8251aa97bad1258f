// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	settled = 2 * longestPause
)

// Ended returns the last snapshots of the processes of dir that have ended in the last ten minutes,
// the newest 64, ordered by their ends.
func Ended(dir string) (all []Snapshot, err error) {
	bury(dir)
	for _, path := range endedFiles(dir) {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it was the oldest of too many
		}
		s, err := parseRecord(b)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil {
			continue
		}
		s.Ended = info.ModTime()
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Snapshot) int {
		return cmp.Or(a.Ended.Compare(b.Ended), cmp.Compare(a.PID, b.PID))
	})
	return all, nil
}

// endedFiles returns the records of ended processes and removes those that are too old or too many.
func endedFiles(dir string) (kept []string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*"+endedSuffix)) // only a bad pattern is an error
	age := func(path string) time.Duration {
		info, err := os.Stat(path)
		if err != nil {
			return EndedAge + 1 // another process has removed it
		}
		return time.Since(info.ModTime())
	}
	ages := make(map[string]time.Duration, len(files))
	for _, path := range files {
		ages[path] = age(path)
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Compare(ages[a], ages[b]) })
	for i, path := range files {
		if i < mostEnded && ages[path] <= EndedAge {
			kept = append(kept, path)
		} else {
			os.Remove(path)
		}
	}
	return kept
}

// bury makes records of ended processes of those that killed processes have left, and adds their
// counters to the ports. One process does so for each.
func bury(dir string) {
	records, _ := filepath.Glob(filepath.Join(dir, "*"+recordSuffix))
	for _, path := range records {
		name := strings.TrimSuffix(filepath.Base(path), recordSuffix)
		socket := filepath.Join(dir, name+suffix)
		removeDead(socket)
		if _, err := os.Lstat(socket); err == nil {
			continue // it lives
		}
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		s, err := parseRecord(b)
		if err != nil {
			s = Snapshot{Time: time.Now()}
			if info, err := os.Stat(path); err == nil {
				s.Time = info.ModTime()
			}
		}
		if (s.PID == 0 || lives(s.PID)) && time.Since(s.Time) < settled {
			continue // it may be about to end by itself
		}
		_ = end(dir, name, s) // counts that it cannot write are lost
	}
}

// buryFormer ends the record of a killed process whose name another one gets.
func buryFormer(dir, name string) {
	b, err := os.ReadFile(filepath.Join(dir, name+recordSuffix))
	if err != nil {
		return
	}
	s, _ := parseRecord(b) // without one there is nothing to keep
	_ = end(dir, name, s)
}

// end makes a living process's record one of an ended process, and adds its counters to the ports:
// the process itself does that, or another one that has found it dead. The first one to rename the
// record does.
func end(dir, name string, s Snapshot) error {
	if used(s.Devices) {
		// Slots are given again: a number tells records of a name apart.
		to := filepath.Join(dir, fmt.Sprintf("%s.%d%s", name, time.Now().UnixNano(), endedSuffix))
		if err := os.Rename(filepath.Join(dir, name+recordSuffix), to); err != nil {
			return err
		}
		_ = os.Chtimes(to, time.Time{}, time.Now()) // writes to memory may not have changed it
		endedFiles(dir)
	} else if err := os.Remove(filepath.Join(dir, name+recordSuffix)); err != nil {
		return err
	}
	return Retire(dir, name, s.Devices)
}

// used reports whether a counter of a device is not 0.
func used(devices []Device) bool {
	return slices.ContainsFunc(devices, func(d Device) bool {
		return slices.ContainsFunc(d.Counters, func(c Counter) bool { return c.Value != 0 })
	})
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
	err := end(dir, name, last)
	if errors.Is(err, os.ErrNotExist) {
		return nil // a process that could not reach this one has
	}
	return err
}
