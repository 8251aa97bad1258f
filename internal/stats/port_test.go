// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// sent is a device that has sent packets.
func sent(device string, packets uint64) []Device {
	return []Device{{Name: device, Counters: []Counter{{Name: "sent_pkts", Value: packets}}}}
}

// The counts of a port are those of processes that live, and of those that ended.
func TestPortSumsProcesses(t *testing.T) {
	dir := shortDir(t)
	serveAs := func(name, device string, packets uint64) *Server {
		s, err := Serve(dir, name, func() Snapshot { return Snapshot{Devices: sent(device, packets)} }, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	want := func(n uint64) {
		t.Helper()
		if got := Port(dir, "77-5", "roce_a")["sent_pkts"]; got != n {
			t.Errorf("sent_pkts is %d, want %d", got, n)
		}
	}
	want(0)
	first := serveAs("77-1", "roce_a", 100)
	serveAs("77-2", "roce_a", 20)
	serveAs("77-3", "roce_b", 1000)
	serveAs("78-1", "roce_a", 1000) // of another network namespace
	want(120)
	first.Withdraw()
	if err := first.Retire(Snapshot{Devices: sent("roce_a", 100)}); err != nil {
		t.Fatal(err)
	}
	want(120)
	if err := Retire(dir, "77-9", sent("roce_a", 3)); err != nil {
		t.Fatal(err)
	}
	want(123)
}

// Processes that end at once lose no counts.
func TestRetireTogether(t *testing.T) {
	dir := shortDir(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				if err := Retire(dir, "77-1", sent("roce_a", 1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := Port(dir, "77-1", "roce_a")["sent_pkts"]; got != 200 {
		t.Errorf("sent_pkts is %d, want 200", got)
	}
}

func TestRetireLeavesNothingOfNoCounts(t *testing.T) {
	dir := shortDir(t)
	for name, s := range map[string][]Device{"77-1": sent("roce_a", 0), "": sent("roce_a", 5)} {
		if err := Retire(dir, name, s); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("%v are left, %v", list, err)
	}
}

// A file that is damaged, as by a full disk, counts from nothing.
func TestDamagedCounts(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "77-roce_a.port")
	if err := os.WriteFile(path, []byte(`{"sent_pkts":12`+strings.Repeat("x", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint64{0, 4} {
		if got := Port(dir, "77-1", "roce_a")["sent_pkts"]; got != n {
			t.Errorf("sent_pkts is %d, want %d", got, n)
		}
		if err := Retire(dir, "77-1", sent("roce_a", 4)); err != nil {
			t.Fatal(err)
		}
	}
}

// A process that does not answer, as one that is stopped, hides no others.
func TestPortWithoutTheStopped(t *testing.T) {
	dir := shortDir(t)
	for _, stopped := range []string{"77-0", "77-3"} {
		l, err := net.Listen("unix", filepath.Join(dir, stopped+suffix))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	s, err := Serve(dir, "77-1", func() Snapshot { return Snapshot{Devices: sent("roce_a", 100)} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := uint64(0)
	for try := 0; try < 20 && got != 100; try++ { // the living may be late, too
		got = Port(dir, "77-9", "roce_a")["sent_pkts"]
	}
	if got != 100 {
		t.Errorf("sent_pkts is %d, want 100", got)
	}
}

// Processes that end again and again hide none of those that live.
func TestPortWhileProcessesEnd(t *testing.T) {
	dir := shortDir(t)
	s, err := Serve(dir, "77-1", func() Snapshot {
		if err := Retire(dir, "77-2", sent("roce_a", 1)); err != nil {
			t.Error(err)
		}
		return Snapshot{Devices: sent("roce_a", 1000)}
	}, nil)

	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := uint64(0)
	for try := 0; try < 20 && got < 1000; try++ { // the answer may be late
		got = Port(dir, "77-9", "roce_a")["sent_pkts"]
	}
	if got < 1000 {
		t.Errorf("sent_pkts is %d, want 1000 and those of the ended", got)
	}
}
