// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"path/filepath"
	"strconv"
	"strings"
)

// sweepMost bounds the names that a process looks at before it serves: some
// milliseconds, if all are of dead processes. More of them take more processes.
const sweepMost = 1024

// sweep removes sockets of processes that were killed.
func sweep(dir string) {
	for _, name := range names(dir, sweepMost) {
		number, ok := strings.CutSuffix(strings.TrimSuffix(name, unready), suffix)
		if pid, err := strconv.Atoi(number); !ok || err != nil || lives(pid) {
			continue
		}
		// It may live in another container, under a number that means nothing here.
		removeDead(filepath.Join(dir, name))
	}
}
