// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"encoding/binary"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/internal/testkit/netns"
)

// newNetwork is the calling test's own network. Its loopback interface has the given MTU and cuts
// every burst in software. So a packet socket sees datagrams as they would leave on a wire. It is
// false where the test has been done elsewhere.
func newNetwork(t *testing.T, mtu int) bool {
	t.Helper()
	n := netns.New(t)
	if n == nil {
		return false
	}
	if err := n.LinkSetMTU(n.Link("lo"), mtu); err != nil {
		t.Fatal(err)
	}
	n.Up("lo")
	if err := n.LinkSetGSOMaxSegs(n.Link("lo"), 1); err != nil {
		t.Skipf("this kernel cannot turn off segmentation of lo: run as root: %v", err)
	}
	return true
}

// sniffer returns a packet socket on lo that sees IPv4 packets from their IP
// header on.
func sniffer(t *testing.T) int {
	t.Helper()
	proto := binary.NativeEndian.Uint16([]byte{unix.ETH_P_IP >> 8, unix.ETH_P_IP & 0xff}) // network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(proto))
	if err != nil {
		t.Skipf("seeing IP headers needs CAP_NET_RAW: run as root: %v", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// sniff returns the next packet that came through lo.
func sniff(t *testing.T, fd int) []byte {
	t.Helper()
	buf := make([]byte, 70000)
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds())); n != 1 {
		t.Fatalf("no packet was seen: %v", err)
	}
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		t.Fatal(os.NewSyscallError("recvfrom", err))
	}
	return buf[:n]
}

func TestIdentificationIsSegmentIndex(t *testing.T) {
	if !newNetwork(t, 65536) {
		return
	}
	addr := netip.MustParseAddr("127.0.0.1")
	for _, o := range []Options{{}, {NoSegment: true}, {Portable: true}} {
		fd := sniffer(t)
		rx, tx := listen(t, addr, o), listen(t, addr, o)
		burst := Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{make([]byte, 5*1000)}, SegmentSize: 1000, TTL: 33, TOS: 2}
		single := Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{make([]byte, 10)}}
		writeAll(t, tx, single, burst, single, burst, single)
		want := []uint16{0, 0, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4, 0}
		if !tx.CutsBursts() {
			clear(want)
		}
		for i, w := range want {
			p := sniff(t, fd)
			id, fragment := binary.BigEndian.Uint16(p[4:]), binary.BigEndian.Uint16(p[6:])
			if id != w || fragment != 0x4000 {
				t.Errorf("%+v: datagram %d has identification %d and fragment field %#04x, want %d and DF alone", o, i, id, fragment, w)
			}
			if cut := len(p) > 1000; cut && !o.Portable && (p[8] != 33 || p[1] != 2) {
				t.Errorf("datagram %d has TTL %d and TOS %#x, want 33 and 2", i, p[8], p[1])
			}
		}
		unix.Close(fd)
		rx.Close()
		tx.Close()
	}
}

func TestLongerThanMTUIsDroppedAndCounted(t *testing.T) {
	if !newNetwork(t, 1500) {
		return
	}
	for _, o := range []Options{{}, {NoSegment: true}, {Portable: true}} {
		addr := netip.MustParseAddr("127.0.0.1")
		rx, tx := listen(t, addr, o), listen(t, addr, o)
		fits := Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{make([]byte, 3*1400)}, SegmentSize: 1400}
		long := Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{make([]byte, 4000)}}
		longBurst := Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{make([]byte, 8000)}, SegmentSize: 4000}
		cuts := tx.CutsBursts()
		writeAll(t, tx, fits, long, longBurst, fits)
		receive(t, rx, 6)
		if c := tx.Counters(); c.TooBig < 2 || tx.CutsBursts() != cuts {
			t.Errorf("%+v: %d items counted too big, bursts cut %v before and %v after", o, c.TooBig, cuts, tx.CutsBursts())
		}
		rx.Close()
		tx.Close()
	}
}
