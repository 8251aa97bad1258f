// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/internal/testkit/loopback"
)

// terminal returns both ends of a pseudo-terminal. Text written to slave is read from master.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals: mount /dev/pts: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// TestLongRunsShowProgress: on a terminal, whether they are to last a number of
// messages or a time.
func TestLongRunsShowProgress(t *testing.T) {
	for _, test := range []test{{op: "write", metric: "bw"}, {op: "send", metric: "lat"}} {
		var shown string
		for try := 0; try < 8 && !strings.Contains(shown, "%"); try++ {
			shown = shownOf(t, test)
		}
		if !strings.Contains(shown, "%") {
			t.Errorf("%s %s: %q", test.op, test.metric, shown)
		}
	}
}

// shownOf returns the text that a run of two seconds leaves on a terminal. On a loaded machine it
// may have no processor when it would draw.
func shownOf(t *testing.T, test test) string {
	t.Helper()
	master, slave := terminal(t)
	defer slave.Close()
	_, serverErr, clientErr := bothTo(t, slave, loopback.Device(t), test, test, "", "-D 2")
	if serverErr != nil || clientErr != nil {
		t.Fatalf("server: %v; client: %v", serverErr, clientErr)
	}
	if _, err := slave.WriteString("that was all"); err != nil { // there is something to read
		t.Fatal(err)
	}
	shown := make([]byte, 4096)
	n, err := master.Read(shown) // before the other end is closed, which may take it away
	if err != nil {
		t.Fatal(err)
	}
	return string(shown[:n])
}
