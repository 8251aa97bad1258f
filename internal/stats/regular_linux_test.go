// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// keptRecord makes the record of a process.
func keptRecord(t *testing.T, path string, s Snapshot) {
	t.Helper()
	r := &record{mem: make([]byte, recordBytes)}
	if err := r.write(s); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, r.mem, 0o600); err != nil {
		t.Fatal(err)
	}
}

// In a directory that others may write in, as one in /tmp that another user made first, no file is
// read, written or removed.
func TestDirectoryOthersMayWriteIn(t *testing.T) {
	dir := shortDir(t)
	keptRecord(t, filepath.Join(dir, "77-1"+recordSuffix), Snapshot{PID: nobody, Devices: sent("roce_a", 5)})
	keptRecord(t, filepath.Join(dir, "77-2."+fmt.Sprint(time.Now().UnixNano())+endedSuffix), Snapshot{PID: 3, Devices: sent("roce_a", 5)})
	keptRecord(t, filepath.Join(dir, "77-2.1"+endedSuffix), Snapshot{PID: 2, Devices: sent("roce_a", 5)}) // old: it would be removed
	before := names(dir, -1)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if all, err := Collect(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("Collect: %v, %v", all, err)
	}
	if sum, _, err := Totals(t.Context(), dir); err == nil {
		t.Errorf("Totals: %v", sum)
	}
	if all := Ended(dir); len(all) != 0 {
		t.Errorf("Ended: %v", all)
	}
	if sum := Port(dir, "77-1", "roce_a"); len(sum) != 0 {
		t.Errorf("Port: %v", sum)
	}
	if after := names(dir, -1); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("%v are left of %v", after, before)
	}
}

// A link leads to no file outside of the directory, and neither does a device's name.
func TestCountsStayInTheDirectory(t *testing.T) {
	dir := shortDir(t)
	outside := filepath.Join(shortDir(t), "profile")
	if err := os.WriteFile(outside, []byte(`{"sent_pkts":9}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "77-roce_a"+portSuffix)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "77-"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, device := range []string{"roce_a", "/../../" + filepath.Base(dir) + "/x"} {
		if err := Retire(dir, "77-1", sent(device, 3)); err == nil {
			t.Errorf("%s: no error", device)
		}
	}
	if got := Port(dir, "77-1", "roce_a"); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != `{"sent_pkts":9}` {
		t.Errorf("%s, %v", b, err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
}

// Files that have no end, or wait for a writer, hold nobody up.
func TestFilesWithoutEnd(t *testing.T) {
	dir := shortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"77-1" + recordSuffix, "77-roce_a" + portSuffix} {
		if err := syscall.Mkfifo(at(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/dev/zero", at("77-roce_b"+portSuffix)); err != nil {
		t.Fatal(err)
	}
	keptRecord(t, at("77-2"+recordSuffix), Snapshot{PID: nobody, Devices: sent("roce_c", 5)})
	if err := os.Truncate(at("77-2"+recordSuffix), 1<<40); err != nil { // a sparse file
		t.Fatal(err)
	}
	done := make(chan map[string]uint64, 1)
	go func() {
		Ended(dir)
		for _, device := range []string{"roce_a", "roce_b"} {
			if err := Retire(dir, "77-1", sent(device, 1)); err == nil {
				t.Errorf("%s: no error", device)
			}
			Port(dir, "77-1", device)
		}
		done <- Port(dir, "77-1", "roce_c")
	}()
	select {
	case got := <-done:
		if got["sent_pkts"] != 5 {
			t.Errorf("%v", got)
		}
	case <-time.After(patience):
		t.Fatal("it waits")
	}
}

// patience is for a machine that does much else.
const patience = 30 * time.Second

// opened returns how many descriptors this process has of a file.
func opened(path string) (n int) {
	list, _ := os.ReadDir("/proc/self/fd")
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && to == path {
			n++
		}
	}
	return n
}

// Of two processes that find a dead one's record, the second takes no new process's of that name.
func TestRecordOfANewProcessStays(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "77-1"+recordSuffix)
	keptRecord(t, path, Snapshot{PID: nobody, Devices: sent("roce_a", 5)})
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil { // the first
		t.Fatal(err)
	}
	second := make(chan []Snapshot, 1)
	go func() { second <- Ended(dir) }()
	for end := time.Now().Add(lockTries * lockPause / 2); opened(path) < 2 && time.Now().Before(end); {
		runtime.Gosched()
	}
	if err := os.Rename(path, filepath.Join(dir, endedName("77-1"))); err != nil {
		t.Fatal(err)
	}
	keptRecord(t, path, Snapshot{PID: os.Getpid(), Time: time.Now(), Devices: sent("roce_a", 1)})
	f.Close()
	<-second
	b, err := os.ReadFile(path)
	if s, parseErr := parseRecord(b); err != nil || parseErr != nil || s.PID != os.Getpid() {
		t.Errorf("the new process's record: %+v, %v, %v", s, err, parseErr)
	}
	if left := readCounts(portFile(dir, "77-1", "roce_a")); len(left) != 0 {
		t.Errorf("the second has added %v", left)
	}
}
