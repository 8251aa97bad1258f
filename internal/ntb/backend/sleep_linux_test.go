// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sleepVar is the endpoint of TestSleepers, if it is not to start its own server.
const sleepVar = "VERBENA_BRIDGE_SLEEPERS"

// TestSleepers has two processes that sleep when there is nothing to do: a READ
// wakes the one, and its answer the other, long before a heartbeat would, and
// doing nothing costs nothing.
func TestSleepers(t *testing.T) {
	where := os.Getenv(sleepVar)
	if where == "" {
		path := filepath.Join(t.TempDir(), "link")
		server := startServer(t, "shm:s:"+path, 0)
		defer func() {
			server.Process.Kill()
			server.Wait()
		}()
		where = "shm:c:" + path
	}
	c := newClient(t, where, 1)
	defer c.back.close()
	c.quiet = true
	if c.hello(); c.rkey == 0 {
		t.Fatal("no server")
	}
	idle := func(d time.Duration) {
		from := time.Now()
		c.sleep = d
		c.turns("a while", func() bool { return time.Since(from) >= d })
		c.sleep = time.Minute
	}
	var took []time.Duration
	for range 100 {
		idle(5 * time.Millisecond)
		from := time.Now()
		if !c.read(8, 8) {
			t.Fatal("the connection has ended")
		}
		took = append(took, time.Since(from))
	}
	slices.Sort(took)
	const while = 3 * time.Second
	before := processorTime(t)
	idle(while)
	share := (processorTime(t) - before).Seconds() / while.Seconds()
	fmt.Printf("READs of sleepers: median %v, the slowest %v; idle: %.1f %% of a processor\n", took[len(took)/2], took[len(took)-1], 100*share)
	if b, err := os.ReadFile("/proc/interrupts"); err == nil { // in a guest: how often it was interrupted
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, "vfio") {
				fmt.Print(line)
			}
		}
	}
	if took[len(took)/2] > 40*time.Millisecond { // heartbeats come every 100 ms
		t.Error("nobody is woken")
	}
	if share > 0.25 {
		t.Error("idling takes a processor")
	}
}

func processorTime(t *testing.T) time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
