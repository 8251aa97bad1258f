// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"verbena/internal/sys/rundir"
)

const (
	// portSuffix ends the name of a file with the counts that processes left to a port.
	portSuffix = ".port"
	// portTimeout bounds the wait for all processes that have a port open: perfquery waits a
	// second.
	portTimeout = 500 * time.Millisecond
	// portTries bounds how often Port reads again because a process has ended meanwhile.
	portTries = 4
)

// noNamespace stands for the network namespace of processes that share no device: only Totals
// counts theirs.
const noNamespace = "0"

// portFile returns the file of a device in the network namespace of a process, which is the first
// part of its name.
func portFile(dir, name, device string) string {
	namespace, _, ok := strings.Cut(name, "-")
	if !ok {
		namespace = noNamespace
	}
	return filepath.Join(dir, namespace+"-"+device+portSuffix)
}

// Retire adds the counts of a process that ends to those of its ports. Its socket is withdrawn
// before. Those of a process that is killed are added by another one that finds its record.
func Retire(dir, name string, devices []Device) error {
	var errs []error
	for _, d := range devices {
		if name == "" || !used([]Device{d}) {
			continue
		}
		if strings.Contains(d.Name, "/") { // which leads out of dir
			errs = append(errs, fmt.Errorf("stats: %q cannot be a device's name", d.Name))
			continue
		}
		errs = append(errs, addTo(portFile(dir, name, d.Name), d.Counters))
	}
	return errors.Join(errs...)
}

// addTo adds counts to those of a file.
func addTo(path string, counts []Counter) error {
	f, err := openRegular(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer f.Close()                     // which unlocks it
	if err := lockFile(f); err != nil { // two processes may end at once
		return err
	}
	b, err := readBounded(f)
	if err != nil {
		return err
	}
	sum := parseCounts(b)
	add(sum, counts)
	text, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	// One write, which a kill does not cut. The text becomes shorter only where the file was
	// damaged.
	if _, err = f.WriteAt(text, 0); err == nil && len(text) < len(b) {
		err = f.Truncate(int64(len(text)))
	}
	return err
}

func add(sum map[string]uint64, counts []Counter) {
	for _, c := range counts {
		sum[c.Name] += c.Value
	}
}

// parseCounts returns the counts of a file; there are none in one that is empty or damaged.
func parseCounts(b []byte) map[string]uint64 {
	sum := map[string]uint64{}
	if json.Unmarshal(b, &sum) != nil {
		clear(sum)
	}
	return sum
}

// Port returns the counts of a device in the network namespace of the process of that name: those
// of processes that serve in dir, empty for rundir.Dir's, and those that others left. A process
// that does not answer in time, as one that is stopped, is left out.
func Port(dir, name, device string) map[string]uint64 {
	if dir == "" {
		dir, _ = rundir.Dir() // Serve's
	}
	namespace, _, _ := strings.Cut(name, "-")
	return Ports(dir, namespace, []string{device})[device]
}

// Ports returns the counts of devices in a network namespace, as Port does for one. It returns none
// if others may write in dir.
func Ports(dir, namespace string, devices []string) map[string]map[string]uint64 {
	ctx, cancel := context.WithTimeout(context.Background(), portTimeout)
	defer cancel()
	if bury(dir) != nil {
		return nil
	}
	left := readLeft(dir, namespace, devices)
	var sum map[string]map[string]uint64
	for range portTries {
		sum = map[string]map[string]uint64{}
		for device, counts := range left {
			sum[device] = maps.Clone(counts)
		}
		all, _, err := collect(ctx, dir, namespace+"-")
		for _, s := range all {
			for _, d := range s.Devices {
				if counts := sum[d.Name]; counts != nil {
					add(counts, d.Counters)
				}
			}
		}
		now := readLeft(dir, namespace, devices)
		if err != nil || maps.EqualFunc(left, now, maps.Equal[map[string]uint64]) {
			break
		}
		left = now // a process that was asked may have left its counts
	}
	return sum
}

// readLeft returns the counts that processes left to the ports of devices.
func readLeft(dir, namespace string, devices []string) map[string]map[string]uint64 {
	left := make(map[string]map[string]uint64, len(devices))
	for _, device := range devices {
		left[device] = readCounts(portFile(dir, namespace+"-", device))
	}
	return left
}

func readCounts(path string) map[string]uint64 {
	b, err := readRegular(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return map[string]uint64{}
	}
	return parseCounts(b)
}
