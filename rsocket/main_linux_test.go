// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"verbena/internal/stats"
	"verbena/internal/sys/rundir"
	"verbena/verbs"
)

// childEnv makes the test program another process of a test instead.
const childEnv = "VERBENA_TEST_CHILD"

// bySockets is a child that runs tests without shared memory.
const bySockets = "by sockets"

// TestMain makes an NTB link of shared memory, over which the process reaches itself.
func TestMain(m *testing.M) {
	switch child := os.Getenv(childEnv); child {
	case "":
	case bySockets:
		os.Exit(runBySockets(m))
	default:
		os.Exit(runChild(child))
	}
	dir, err := os.MkdirTemp("", "rsocket")
	if err == nil {
		err = verbs.UseLinks("10.99.0.1+10.99.0.2=shm:" + filepath.Join(dir, "link"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	kinds = append(kinds, "iwarp", "ntb")
	hosts["ntb"] = "10.99.0.1"
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// runBySockets runs the tests that its caller names. All packets go through sockets.
func runBySockets(m *testing.M) int {
	devices, err := verbs.Devices()
	if err == nil {
		i := slices.IndexFunc(devices, func(d verbs.DeviceInfo) bool { return d.NetDev == "lo" })
		_, err = verbs.Open(devices[i].Name, verbs.WithoutLocalPath()) // whose options are those of the process
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// TestReadAndWriteDoNotAllocate and its twin of datagrams, where packets go through UDP sockets.
func TestReadAndWriteDoNotAllocateBySockets(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	names := []string{"TestReadAndWriteDoNotAllocate/roce", "TestDatagramsDoNotAllocate", "TestWayOfStreams"}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^(TestReadAndWriteDoNotAllocate|TestDatagramsDoNotAllocate|TestWayOfStreams)$/^roce$")
	cmd.Env = append(os.Environ(), childEnv+"="+bySockets)
	out, err := cmd.CombinedOutput()
	for _, name := range names {
		if !bytes.Contains(out, []byte("--- PASS: "+name+" ")) {
			err = errors.Join(err, fmt.Errorf("%s has not passed", name))
		}
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Packets of a stream within the host go through shared memory, and in the child through sockets.
func TestWayOfStreams(t *testing.T) {
	a, _ := ends(t, "roce")
	want := "shared-memory"
	if os.Getenv(childEnv) == bySockets {
		want = "udp"
	}
	dir, _ := rundir.Dir()
	all, err := stats.Collect(t.Context(), dir)
	check(t, err)
	for _, s := range all {
		for _, d := range s.Devices {
			for _, q := range d.QueuePairs {
				if s.PID == os.Getpid() && q.QPN == uint32(a.qp.QPN()) && q.Via == want {
					return
				}
			}
		}
	}
	t.Errorf("the stream does not go by %s: %+v", want, all)
}
