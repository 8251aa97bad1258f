// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"verbena/internal/wire/pcap"
)

// ringOf returns a ring with n packets.
func ringOf(t *testing.T, n int) *pcap.Ring {
	t.Helper()
	r := pcap.NewRing(0, "test")
	for range n {
		err := r.Write(&pcap.Datagram{Time: time.Now(), Src: netip.MustParseAddrPort("10.0.0.1:1"), Dst: netip.MustParseAddrPort("10.0.0.2:4791")}, make([]byte, 4000))
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func serveRing(t *testing.T, dir, name string, pid int, r *pcap.Ring) {
	t.Helper()
	s, err := Serve(dir, name, func() Snapshot { return Snapshot{PID: pid, Ring: r.Bytes()} }, r.Hold)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
}

// The packets come as a whole file, again and again, and questions without a request beside them.
func TestDump(t *testing.T) {
	dir := filepath.Join(shortDir(t), "run")
	r := ringOf(t, 1000) // more than it holds
	serveRing(t, dir, "77-1", 4711, r)
	c := r.Hold()
	var want bytes.Buffer
	c.WriteTo(&want)
	count := c.Packets
	c.Release()
	for range 2 {
		var got bytes.Buffer
		err := Dump(t.Context(), dir, 4711, func(p Packets, in *io.LimitedReader) error {
			if p.Count != count || p.Bytes != want.Len() || p.Span <= 0 {
				t.Errorf("%+v", p)
			}
			_, err := io.Copy(&got, in)
			return err
		})
		if err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%d bytes of %d: %v", got.Len(), want.Len(), err)
		}
		if all, err := Collect(t.Context(), dir); err != nil || len(all) != 1 || all[0].Ring != pcap.MinRing {
			t.Errorf("%+v, %v", all, err)
		}
	}
}

// A process that is not there, that keeps nothing, or is two in two containers.
func TestDumpOfNone(t *testing.T) {
	dir := filepath.Join(shortDir(t), "run")
	never := func(Packets, *io.LimitedReader) error { t.Error("packets came"); return nil }
	if err := Dump(t.Context(), dir, 1, never); err == nil || !strings.Contains(err.Error(), "there is none of this user") {
		t.Errorf("no directory: %v", err)
	}
	s, err := Serve(dir, "77-1", func() Snapshot { return Snapshot{PID: 1} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := Dump(t.Context(), dir, 1, never); !errors.Is(err, ErrNoRing) {
		t.Errorf("no ring: %v", err)
	}
	serveRing(t, dir, "78-1", 1, ringOf(t, 1))
	if err := Dump(t.Context(), dir, 1, func(p Packets, _ *io.LimitedReader) error { return nil }); err != nil {
		t.Errorf("a ring in another container: %v", err)
	}
	serveRing(t, dir, "77-2", 2, ringOf(t, 1))
	serveRing(t, dir, "78-2", 2, ringOf(t, 1))
	if err := Dump(t.Context(), dir, 2, never); err == nil || !strings.Contains(err.Error(), "several containers") {
		t.Errorf("two: %v", err)
	}
}

// A client that asks for something else, or says nothing, gets the snapshot only. One that reads
// nothing does not keep the ring.
func TestStrangeClients(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), "run")
	r := ringOf(t, 300)
	serveRing(t, dir, "77-1", 1, r)
	connect := func() net.Conn {
		t.Helper()
		c, err := net.Dial("unix", filepath.Join(dir, "77-1"+suffix))
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(20 * time.Second))
		return c
	}
	for _, request := range []string{"", "nothing\n", "p"} {
		c := connect()
		io.WriteString(c, request)
		if request == "p" {
			c.(*net.UnixConn).CloseWrite()
		}
		got, err := io.ReadAll(c)
		// Its end resets a connection with a request that the server has not read.
		if err != nil && !strings.Contains(err.Error(), "reset") || bytes.Count(got, []byte("\n")) != 1 {
			t.Errorf("%q: %q, %v", request, got, err)
		}
		c.Close()
	}
	c := connect()
	defer c.Close()
	io.WriteString(c, packetsRequest)
	in := bufio.NewReader(c)
	for range 2 { // the snapshot, and what comes behind: the ring is being sent
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	h := r.Hold() // it ends with replyTimeout
	h.Release()
}

// A client that reads slowly does not keep the process from its end.
func TestSlowDumpEndsWithTheServer(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), "run")
	r := ringOf(t, 300)
	s, err := Serve(dir, "77-1", func() Snapshot { return Snapshot{PID: 1} }, r.Hold)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", filepath.Join(dir, "77-1"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, packetsRequest)
	in := bufio.NewReader(c)
	for range 2 { // the snapshot, and what comes behind
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	closed := make(chan struct{})
	go func() {
		s.Close()
		close(closed)
	}()
	tick := time.NewTicker(replyTimeout / 5)
	defer tick.Stop()
	for range 8 { // and much of the ring is left
		select {
		case <-closed:
			return
		case <-tick.C:
			io.CopyN(io.Discard, in, 80<<10)
		}
	}
	t.Error("Close waits for the client")
}

// A server that ends in the middle leaves a short file, which the client knows.
func TestDumpCutShort(t *testing.T) {
	dir := shortDir(t)
	l, err := net.Listen("unix", filepath.Join(dir, "77-1"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for _, answer := range []string{`{"pid":9,"pcap_ring_bytes":1}` + "\n", `{"pid":9}` + "\n" + `{"packets":2,"bytes":100}` + "\nshort", strings.Repeat("x", maxHeadBytes) + "\n" + strings.Repeat("x", 2*maxHeadBytes)} {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, answer)
			c.Close()
		}
	}()
	left := int64(0)
	err = Dump(t.Context(), dir, 9, func(p Packets, in *io.LimitedReader) error {
		_, err := io.Copy(io.Discard, in)
		left = in.N
		return err
	})
	// The request that the server does not read may reset the connection.
	if err == nil && left != 95 {
		t.Errorf("%d bytes left, and no error", left)
	}
	if err := fetch(t.Context(), filepath.Join(dir, "77-1"+suffix), nil); err == nil {
		t.Error("a line without end is no error")
	}
}
