// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package capture

import (
	"bytes"
	"flag"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var keep = flag.String("keep", "", "folder to leave the captures of all tests in")

// Capture is a recording of an interface in a pcap file.
type Capture struct {
	t       testing.TB
	file    string
	tcpdump *exec.Cmd
	log     lockedBuffer // tcpdump's stderr
	stopped bool
}

// Packets wait in a ring while tcpdump does not run, because the programs keep all CPUs busy. It
// has room for some 60,000 packets of snapBytes, which is more than an Ethernet frame of 1,500
// bytes has.
const (
	snapBytes = 1600
	bufferKiB = 128 << 10
)

// settle bounds the waits for tcpdump to begin and to have written everything.
const settle = 10 * time.Second

// Start begins to record an interface. With the -keep flag the file outlives
// the test.
func Start(t testing.TB, netInterface string) *Capture {
	t.Helper()
	dir := *keep
	if dir == "" {
		dir = t.TempDir()
	} else if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	c := &Capture{t: t, file: filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "-")+".pcap")}
	// Without --immediate-mode packets wait in the kernel, without -U in tcpdump,
	// whose SIGUSR2 harms the file; -Z root lets it write where we say.
	c.tcpdump = exec.Command("tcpdump", "--immediate-mode", "-U", "-n", "-Z", "root",
		"-B", strconv.Itoa(bufferKiB), "-s", strconv.Itoa(snapBytes), "-i", netInterface,
		"-w", c.file)
	c.tcpdump.Stderr = &c.log
	if err := c.tcpdump.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !c.stopped {
			c.interrupt() // the test failed before it looked at the capture
		}
	})
	c.await("tcpdump to listen", func() bool {
		return strings.Contains(c.log.String(), "listening on")
	})
	return c
}

// Stop ends the recording and returns its file. Everything that was sent
// before is in it: Stop sends a datagram towards peer, an address behind the
// interface, and waits until that is in the file.
func (c *Capture) Stop(peer netip.Addr) string {
	t := c.t
	t.Helper()
	mark := []byte("end of capture " + t.Name())
	conn, err := net.Dial("udp", netip.AddrPortFrom(peer, discardPort).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(mark); err != nil {
		t.Fatal(err)
	}
	c.await("the last packet to be captured", func() bool {
		return bytes.Contains(c.lastBytes(), mark)
	})
	c.interrupt()
	if !regexp.MustCompile(`(?m)^0 packets dropped by kernel`).MatchString(c.log.String()) {
		t.Fatalf("the capture is not whole: %s", c.log.String())
	}
	return c.file
}

// interrupt has tcpdump write the rest and end.
func (c *Capture) interrupt() {
	_ = c.tcpdump.Process.Signal(os.Interrupt)
	defer time.AfterFunc(settle, func() { _ = c.tcpdump.Process.Kill() }).Stop()
	_ = c.tcpdump.Wait() // tcpdump's report counts
	c.stopped = true
}

const (
	discardPort = 9
	tailBytes   = 64 << 10 // in which the mark stands, other packets after it
)

// lastBytes returns the end of tcpdump's file.
func (c *Capture) lastBytes() []byte {
	file, err := os.Open(c.file)
	if err != nil {
		return nil // not written yet
	}
	defer file.Close()
	if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil {
		file.Seek(0, io.SeekStart) // the file is shorter
	}
	last, _ := io.ReadAll(file) // bytes that could not be read are read again
	return last
}

// await polls until done or fails the test.
func (c *Capture) await(what string, done func() bool) {
	t := c.t
	t.Helper()
	for deadline := time.Now().Add(settle); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s: %s", settle, what, c.log.String())
		}
	}
}

// lockedBuffer takes the output of a program that still runs.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
