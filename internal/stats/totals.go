// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"context"
	"maps"
	"path/filepath"
	"strings"
)

// Totals returns the counts of each device over all processes of dir, those that have ended
// included, and the snapshots of the living ones. Devices of one name in several network namespaces
// are one. No count falls when a process ends.
func Totals(ctx context.Context, dir string) (sum map[string]map[string]uint64, all []Snapshot,
	err error) {
	if err := bury(dir); err != nil {
		return nil, nil, err
	}
	left := allLeft(dir)
	for range portTries {
		sum = map[string]map[string]uint64{}
		for file, counts := range left {
			into(sum, deviceOf(file), counts)
		}
		if all, err = Collect(ctx, dir); err != nil {
			return nil, nil, err
		}
		for _, s := range all {
			for _, d := range s.Devices {
				counts := map[string]uint64{}
				add(counts, d.Counters)
				into(sum, d.Name, counts)
			}
		}
		now := allLeft(dir)
		if maps.EqualFunc(left, now, maps.Equal[map[string]uint64]) {
			break
		}
		left = now // a process that was asked may have left its counts
	}
	return sum, all, nil
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
