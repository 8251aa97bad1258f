// SPDX-License-Identifier: BSD-2-Clause

package xsk

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"verbena/internal/sys/udp"
)

// The checksum of a datagram holds whatever follows it in the IP payload, and no other one does.
func TestChecksumOfDatagramInLongerPayload(t *testing.T) {
	for _, addrs := range [][2]string{{"10.9.0.1", "10.9.0.2"}, {"fd09::1", "fd09::2"}} {
		var h header
		h.init(&Way{}, netip.AddrPortFrom(netip.MustParseAddr(addrs[0]), 7),
			&udp.Datagrams{Dst: netip.AddrPortFrom(netip.MustParseAddr(addrs[1]), 8)})
		const size, behind = 20, 5
		h.set(size+behind, 0)
		frame := append(h.b[:h.n:h.n], make([]byte, size+behind)...)
		for i := range frame[h.n:] {
			frame[h.n+i] = byte(i + 1)
		}
		u := frame[h.n-udpBytes:][:udpBytes+size]
		binary.BigEndian.PutUint16(u[4:], uint16(len(u)))
		var pseudo []byte // RFC 768: with the length of the datagram
		for _, a := range addrs {
			pseudo = append(pseudo, netip.MustParseAddr(a).AsSlice()...)
		}
		pseudo = append(pseudo, 0, protocolUDP, 0, byte(len(u)))
		putChecksum(u[6:], add(add(0, pseudo), u))
		if m, _, ok := Parse(frame); !ok || len(m.Data) != size {
			t.Fatalf("%v: %d bytes, %v", addrs, len(m.Data), ok)
		}
		if !checksumHolds(frame) {
			t.Errorf("%v: the right checksum is refused", addrs)
		}
		frame[h.n]++
		if checksumHolds(frame) {
			t.Errorf("%v: a wrong checksum holds", addrs)
		}
	}
}
