// SPDX-License-Identifier: BSD-2-Clause

package recorder

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"verbena/internal/monotime"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
)

// told keeps the lines of a Recorder.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (l *told) tell(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *told) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

// start returns a Recorder of one packet, with a clock that the test sets.
func start(t *testing.T, file string, o Options) (*Recorder, *told, *monotime.Time) {
	t.Helper()
	var l told
	now := new(monotime.Time)
	o.Bytes, o.File, o.Tell, o.Now = MinBytes, file, l.tell, func() monotime.Time { return *now }
	r := New(o)
	t.Cleanup(func() { r.Close() })
	err := r.Write(&pcap.Datagram{Time: time.Now(), Src: netip.MustParseAddrPort("10.0.0.1:1"), Dst: netip.MustParseAddrPort("10.0.0.2:4791")}, make([]byte, 20))
	if err != nil {
		t.Fatal(err)
	}
	return r, &l, now
}

func packets(t *testing.T, file string) int {
	t.Helper()
	in, err := pcapread.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	n := 0
	for ; ; n++ {
		if _, err := in.Next(); err != nil {
			return n
		}
	}
}

// A burst of failures writes one file, a later one the next; a file that is there stays as it is.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x.pcapng")
	if err := os.WriteFile(Name(file, 2), []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, l, now := start(t, file, Options{})
	asked := 0
	fail := func(after monotime.Duration) {
		*now = now.Add(after)
		r.Failed(true, func() string { asked++; return fmt.Sprintf("failure %d", asked) })
		r.Flush()
	}
	for range 3 { // each less than a burst after the last one
		fail(burst - 1)
	}
	if got := l.take(); len(got) != 1 || !strings.Contains(got[0], "wrote 1 packets of ") || !strings.HasSuffix(got[0], "to "+file+" (failure 1)") {
		t.Errorf("%q", got)
	}
	fail(burst)
	if got := l.take(); len(got) != 1 || !strings.HasSuffix(got[0], "to "+filepath.Join(dir, "x-3.pcapng")+" (failure 2)") {
		t.Errorf("%q", got)
	}
	if b, err := os.ReadFile(Name(file, 2)); err != nil || string(b) != "theirs" {
		t.Errorf("%q, %v", b, err)
	}
	if n := packets(t, file); n != 1 {
		t.Errorf("%d packets", n)
	}
	for range 2 * mostBursts {
		fail(burst)
	}
	if got := l.take(); len(got) != mostBursts-2 || !strings.Contains(got[len(got)-1], "failure 16 is the last") {
		t.Errorf("%d lines: %q", len(got), got)
	}
	r.Ask("asked")
	r.Flush()
	if got := l.take(); len(got) != 1 {
		t.Errorf("after failures: %q", got)
	}
}

// The first failed completion after an event gets its packets: it waits anew, or writes another
// file.
func TestCompletionAfterEvent(t *testing.T) {
	r, l, now := start(t, filepath.Join(t.TempDir(), "x.pcapng"), Options{})
	fail := func(completion bool, what string) {
		*now = now.Add(burst - 1)
		r.Failed(completion, func() string { return what })
	}
	until := func() time.Time {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.until
	}
	fail(false, "event")
	r.Flush()
	fail(false, "event 2")
	fail(true, "completion")
	first := until()
	fail(true, "completion 2")
	fail(false, "event 3")
	if until() != first {
		t.Error("a second completion makes the first one wait")
	}
	r.Flush()
	if got := l.take(); len(got) != 2 || !strings.HasSuffix(got[0], "(event)") || !strings.HasSuffix(got[1], "(completion)") {
		t.Errorf("%q", got)
	}
	*now = now.Add(burst)
	before := time.Now()
	r.mu.Lock()
	r.reason, r.until, r.failed, r.lastFail, r.complete = "event 4", before, true, *now, false // settling
	r.mu.Unlock()
	fail(true, "completion 3")
	if got := until(); got.Before(before.Add(settle)) {
		t.Errorf("the completion waits for %v", got.Sub(before))
	}
	r.wake <- struct{}{}
	r.Flush()
	if got := l.take(); len(got) != 1 || !strings.HasSuffix(got[0], "(event 4)") {
		t.Errorf("%q", got)
	}
}

// A file has its name when it is whole. Its writer tells the progress.
func TestFileIsWhole(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x.pcapng")
	var during []string
	r, _, _ := start(t, file, Options{Wrote: func() {
		all, _ := filepath.Glob(filepath.Join(dir, "*"))
		during = append(during, all...)
	}})
	r.Ask("asked")
	r.Flush()
	if len(during) == 0 {
		t.Error("no progress")
	}
	for _, name := range during {
		if name != file+partSuffix {
			t.Errorf("%s is there before it is whole", name)
		}
	}
	if all, _ := filepath.Glob(filepath.Join(dir, "*")); len(all) != 1 || packets(t, file) != 1 {
		t.Errorf("%q", all)
	}
}

// A file that was asked for before Close is written, and none later.
func TestClose(t *testing.T) {
	file := filepath.Join(t.TempDir(), "noext")
	var signal func()
	stopped := false
	r, l, _ := start(t, file, Options{Signal: func(f func()) func() { signal = f; return func() { stopped = true } }})
	signal()
	if err := r.Close(); err != nil || !stopped {
		t.Errorf("stopped %v, %v", stopped, err)
	}
	signal()
	r.Failed(true, func() string { return "late" })
	r.Flush()
	if got := l.take(); len(got) != 1 || !strings.HasSuffix(got[0], "to "+file+" (SIGUSR1)") {
		t.Errorf("%q", got)
	}
}

// A file that cannot be written is said.
func TestCannotWrite(t *testing.T) {
	r, l, _ := start(t, filepath.Join(t.TempDir(), "nowhere", "x.pcapng"), Options{})
	r.Ask("asked")
	r.Flush()
	if got := l.take(); len(got) != 1 || !strings.HasPrefix(got[0], "--pcap-ring: cannot write 1 packets (asked): ") || !strings.Contains(got[0], "no such file") {
		t.Errorf("%q", got)
	}
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int{"64M": 64 << 20, "1M": 1 << 20, "1G": 1 << 30, "2048K": 2 << 20, "1048576": 1 << 20,
		"": 0, "64": 0, "1023K": 0, "2G": 0, "64m": 0, "64MM": 0, "M": 0, "-1M": 0, "1.5G": 0, "99999999999999999999": 0, "2147483647G": 0} {
		if n, err := ParseSize(s); n != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v", s, n, err)
		}
	}
}

func TestRound(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 999: "999ns", 12345678: "12.3ms", 2*time.Second + 104*time.Millisecond: "2.1s", time.Hour + time.Minute + time.Second: "1h1m0s"} {
		if got := Round(d).String(); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
