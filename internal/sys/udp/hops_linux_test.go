// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// hops returns the TTL of a datagram that arrives.
func hops(t *testing.T, s *Socket) int {
	t.Helper()
	oob, buf := make([]byte, 128), make([]byte, 16)
	p := poller(t, s)
	waitReady(t, p)
	_, n, _, _, err := unix.Recvmsg(s.FD(), buf, oob, 0)
	if err != nil {
		t.Fatal(err)
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range msgs {
		if m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_TTL || m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_HOPLIMIT {
			return int(nativeInt(m.Data))
		}
	}
	t.Fatal("no hop limit came with the datagram")
	return 0
}

func TestHopLimit(t *testing.T) {
	for _, c := range []struct{ from, to string }{{"127.0.0.1", "127.0.0.1"}, {"::1", "::1"}, {"127.0.0.1", "239.255.47.92"}} {
		from, to := netip.MustParseAddr(c.from), netip.MustParseAddr(c.to)
		tx := listen(t, from, Options{})
		o := Options{}
		if to.IsMulticast() {
			o.Interface = loopback(t)
		}
		rx := listen(t, to, o)
		level, opt := unix.IPPROTO_IP, unix.IP_RECVTTL
		if to.Is6() {
			level, opt = unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT
		}
		if err := unix.SetsockoptInt(rx.FD(), level, opt, 1); err != nil {
			t.Fatal(err)
		}
		for ttl, want := range map[uint8]int{0: 64, 64: 64, 7: 7, 255: 255} {
			if ttl == 0 && to.IsMulticast() {
				want = 1
			}
			writeAll(t, tx, Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{[]byte("x")}, TTL: ttl})
			if got := hops(t, rx); got != want {
				t.Errorf("%v to %v with TTL %d: arrives with %d, want %d", from, to, ttl, got, want)
			}
		}
	}
}
