// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"bytes"
	"os"
	"strconv"
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
		master, slave := terminal(t)
		_, serverErr, clientErr := bothTo(t, slave, loopback.Device(t), test, test, "", "-D 2")
		if serverErr != nil || clientErr != nil {
			t.Fatalf("server: %v; client: %v", serverErr, clientErr)
		}
		_, err := slave.WriteString("that was all") // there is something to read
		if err != nil {
			t.Fatal(err)
		}
		shown := make([]byte, 4096)
		n, err := master.Read(shown) // before the other end is closed, which may take it away
		slave.Close()
		if err != nil || !bytes.Contains(shown[:n], []byte("%")) {
			t.Errorf("%s %s: %q, %v", test.op, test.metric, shown[:n], err)
		}
	}
}
