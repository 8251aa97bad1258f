// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Totals returns the counts of each device over all processes of dir, those that have ended
// included, and the snapshots of the living ones. Devices of one name in several network namespaces
// are one. A process that does not answer counts with its last record: it is stopped, or was killed
// and cannot be told from one that is about to end.
func Totals(ctx context.Context, dir string) (sum map[string]map[string]uint64, all []Snapshot,
	err error) {
	for range portTries {
		if err := bury(dir); err != nil {
			return nil, nil, err
		}
		left := allLeft(dir)
		sum = map[string]map[string]uint64{}
		for file, counts := range left {
			into(sum, deviceOf(file), counts)
		}
		var answered map[string]bool
		if all, answered, err = collect(ctx, dir, ""); err != nil {
			return nil, nil, err
		}
		for _, s := range slices.Concat(all, silent(dir, answered)) {
			for _, d := range s.Devices {
				counts := map[string]uint64{}
				add(counts, d.Counters)
				into(sum, d.Name, counts)
			}
		}
		if maps.EqualFunc(left, allLeft(dir), maps.Equal[map[string]uint64]) {
			break
		} // else a process that was asked may have left its counts
	}
	return sum, all, nil
}

// silent returns the last records of the processes that have not answered.
func silent(dir string, answered map[string]bool) (all []Snapshot) {
	for _, file := range names(dir, -1) {
		name, ok := strings.CutSuffix(file, recordSuffix)
		if !ok || answered[name] {
			continue
		}
		b, err := readRegular(filepath.Join(dir, file))
		if err != nil {
			continue // it has ended by now
		}
		if s, err := parseRecord(b); err == nil {
			all = append(all, s)
		}
	}
	return all
}

// into adds counts to those of a device.
func into(sum map[string]map[string]uint64, device string, counts map[string]uint64) {
	if sum[device] == nil {
		sum[device] = map[string]uint64{}
	}
	for name, v := range counts {
		sum[device][name] += v
	}
}

// allLeft returns the counts that processes left, by the name of the file.
func allLeft(dir string) map[string]map[string]uint64 {
	left := map[string]map[string]uint64{}
	for _, name := range names(dir, -1) {
		if strings.HasSuffix(name, portSuffix) && strings.Contains(name, "-") {
			left[name] = readCounts(filepath.Join(dir, name))
		}
	}
	return left
}

// deviceOf returns the device in a name of portFile.
func deviceOf(file string) string {
	_, device, _ := strings.Cut(strings.TrimSuffix(file, portSuffix), "-")
	return device
}
