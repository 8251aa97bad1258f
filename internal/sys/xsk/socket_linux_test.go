// SPDX-License-Identifier: BSD-2-Clause

package xsk_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"verbena/internal/sys/portshare"
	"verbena/internal/sys/udp"
)

// Datagrams of all lengths, alone and in bursts, over IPv4 and IPv6, come as they were sent.
func TestDatagramsOverAWire(t *testing.T) {
	for _, mtu := range []int{1500, 3498, 9000} {
		t.Run("", func(t *testing.T) { testDatagrams(t, mtu) })
	}
}

func testDatagrams(t *testing.T, mtu int) {
	_, a, b := wire(t, mtu)
	if a == nil {
		return
	}
	from, to := a.open(3), b.open(5)
	for _, addr := range [][2]netip.Addr{{v4a, v4b}, {v6a, v6b}} {
		src := newSender(t, a, b, addr[0], from)
		header := 28
		if addr[0].Is6() {
			header = 48
		}
		for _, size := range []int{8, 9, 64, 1023, 1024, mtu - header} {
			payload := bytes.Repeat([]byte{0xa5, byte(size)}, size)[:size]
			binary.BigEndian.PutUint32(payload[4:], 5<<portshare.SlotShift|9)
			d := udp.Datagrams{Dst: netip.AddrPortFrom(addr[1], testPort), Iov: [][]byte{payload[:3], nil, payload[3:]}, TOS: 0x6a}
			send(t, src, 1, d)
			m := read(t, to.Queues()[0])
			if !bytes.Equal(m.Data, payload) || m.Src != src.LocalAddr() || m.Dst != addr[1] || m.TOS != 0x6a || m.ID != 0 || m.Segments() != 1 {
				t.Fatalf("MTU %d, %d bytes to %v: %d bytes from %v to %v, TOS %#x, ID %d", mtu, size, addr[1], len(m.Data), m.Src, m.Dst, m.TOS, m.ID)
			}
		}
		burst := bytes.Repeat([]byte{9, 9, 9, 9, 0, 1, 0x40, 9}, 8*64) // slot 5
		d := udp.Datagrams{Dst: netip.AddrPortFrom(addr[1], testPort), Iov: [][]byte{burst}, SegmentSize: 64}
		send(t, src, 1, d)
		batch := udp.NewRxBatch()
		for i := 0; i < 64; {
			n, err := to.Queues()[0].ReadBatch(batch)
			if err != nil {
				t.Fatal(err)
			}
			for j := range n {
				m := batch.Message(j)
				if want := uint16(i); len(m.Data) != 64 || addr[0].Is4() && m.ID != want {
					t.Fatalf("datagram %d of a burst has %d bytes, ID %d", i, len(m.Data), m.ID)
				}
				i++
			}
		}
	}
	if c := to.Counters(); c.Bad != 0 || c.KernelDropped != 0 {
		t.Errorf("%+v", c)
	}
}
