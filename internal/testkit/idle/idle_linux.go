// SPDX-License-Identifier: BSD-2-Clause

package idle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// In one of so many windows of this length no thread may wake up. Earlier timers may fall into the
// first ones.
const (
	window  = 2 * time.Second
	windows = 5
)

// Wait returns when no thread of a process has woken up for a while. The count is the kernel's of
// the times that a thread went to sleep, so other processes' load does not matter. The process has
// a network of its own: datagrams of others would wake it while it keeps their port.
func Wait(t *testing.T, pid int) {
	t.Helper()
	before, left := sleeps(t, pid), ""
	for range windows {
		time.Sleep(window)
		now := sleeps(t, pid)
		left = ""
		for task, n := range now {
			if n != before[task] {
				left += fmt.Sprintf(" %s from %s to %s", filepath.Base(task), before[task], n)
			}
		}
		if left == "" {
			return
		}
		before = now
	}
	t.Errorf("in each of %d windows of %v threads of the idle process woke up:%s", windows, window,
		left)
}

// sleeps returns the voluntary switches of each thread.
func sleeps(t *testing.T, pid int) map[string]string {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("process %d has no threads: %v", pid, err)
	}
	out := map[string]string{}
	for _, task := range tasks {
		b, err := os.ReadFile(task + "/status")
		if err != nil {
			continue // the thread has ended
		}
		for line := range strings.Lines(string(b)) {
			if n, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				out[task] = strings.TrimSpace(n)
			}
		}
	}
	return out
}
