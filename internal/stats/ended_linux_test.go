// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A half that was cut while it was written leaves the other one; no bytes are a panic.
func TestRecordHasTheLastWholeSnapshot(t *testing.T) {
	r := &record{mem: make([]byte, recordBytes)}
	if _, err := parseRecord(r.mem); err == nil {
		t.Error("an empty record has a snapshot")
	}
	for i := range 3 {
		if err := r.write(Snapshot{PID: i + 1, Devices: sent("roce_a", uint64(i))}); err != nil {
			t.Fatal(err)
		}
		if s, err := parseRecord(r.mem); err != nil || s.PID != i+1 || s.Devices[0].Counters[0].Value != uint64(i) {
			t.Errorf("%+v, %v", s, err)
		}
	}
	newest := r.mem[r.sequence%2*halfBytes:]
	newest[headBytes+5] ^= 1
	if s, err := parseRecord(r.mem); err != nil || s.PID != 2 {
		t.Errorf("beside a damaged half: %+v, %v", s, err)
	}
	newest[8], newest[9], newest[10], newest[11] = 0xff, 0xff, 0xff, 0xff
	for _, b := range [][]byte{nil, r.mem[:7], r.mem[:halfBytes], bytes.Repeat([]byte{0xff}, recordBytes)} {
		_, _ = parseRecord(b)
	}
}

func TestRecordLeavesOutQueuePairsWithoutRoom(t *testing.T) {
	r := &record{mem: make([]byte, recordBytes)}
	s := Snapshot{PID: 1, Devices: sent("roce_a", 4)}
	s.Devices[0].QueuePairs = make([]QueuePair, 4096)
	if err := r.write(s); err != nil {
		t.Fatal(err)
	}
	got, err := parseRecord(r.mem)
	if err != nil || got.Devices[0].Count(sent("", 1)[0].Counters[0].Name) != 4 || len(got.Devices[0].QueuePairs) < 16 {
		t.Errorf("%d queue pairs, %v", len(got.Devices[0].QueuePairs), err)
	}
}

const killedVariable = "VERBENA_TEST_KILLED"

// A process that is killed leaves its counters to ended processes and to its ports, once.
func TestKilledProcessLeavesItsCounters(t *testing.T) {
	if dir := os.Getenv(killedVariable); dir != "" {
		if _, err := Serve(dir, "77-1", func() Snapshot {
			return Snapshot{PID: os.Getpid(), Command: "killed", Time: time.Now(), Devices: sent("roce_a", 5)}
		}, nil); err != nil {
			panic(err)
		}
		fmt.Println("serves")
		select {}
	}
	dir := shortDir(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestKilledProcessLeavesItsCounters$")
	cmd.Env = append(os.Environ(), killedVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "77-1"+recordSuffix)
	for deadline := time.Now().Add(patience); ; { // until the process has kept a snapshot
		if b, err := os.ReadFile(path); err == nil {
			if _, err := parseRecord(b); err == nil {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("no snapshot is kept")
		}
		time.Sleep(10 * time.Millisecond) // between two looks
	}
	if ended := Ended(dir); len(ended) != 0 {
		t.Errorf("while it lives: %+v", ended)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for range 2 {
		ended := Ended(dir)
		if len(ended) != 1 || ended[0].Command != "killed" || ended[0].Ended.IsZero() {
			t.Errorf("%+v", ended)
		}
		name := sent("", 1)[0].Counters[0].Name
		if got := Port(dir, "77-2", "roce_a")[name]; got != 5 {
			t.Errorf("the port has %d, want 5", got)
		}
	}
}

// A process that ends by itself leaves its last snapshot, one that counted nothing leaves none.
func TestEndedProcessLeavesItsCounters(t *testing.T) {
	dir := shortDir(t)
	for i := range 3 {
		s, err := Serve(dir, fmt.Sprintf("77-%d", i), func() Snapshot { return Snapshot{} }, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if err := s.Retire(Snapshot{PID: i, Time: time.Now(), Devices: sent("roce_a", uint64(i))}); err != nil {
			t.Fatal(err)
		}
	}
	ended := Ended(dir)
	if len(ended) != 2 || ended[0].PID != 1 || ended[1].PID != 2 {
		t.Errorf("%+v", ended)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*"+recordSuffix)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestEndedProcessesAreBounded(t *testing.T) {
	dir := shortDir(t)
	for i := range mostEnded + 5 {
		r := &record{mem: make([]byte, recordBytes)}
		if err := r.write(Snapshot{PID: i + 1}); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-time.Duration(i) * time.Second)
		if i < 3 {
			at = at.Add(-2 * EndedAge)
		}
		path := filepath.Join(dir, fmt.Sprintf("77-1.%d%s", at.UnixNano(), endedSuffix))
		if err := os.WriteFile(path, r.mem, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ended := Ended(dir)
	if left := names(dir, -1); len(left) != mostEnded {
		t.Errorf("%d files are left", len(left))
	}
	if len(ended) != mostEnded || ended[mostEnded-1].PID != 4 {
		t.Errorf("%d", len(ended))
	}
}
