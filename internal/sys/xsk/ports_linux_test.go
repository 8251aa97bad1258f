// SPDX-License-Identifier: BSD-2-Clause

package xsk_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
)

// Datagrams to a port of AddPort have UDP checksums, which the kernel's sockets accept. A wrong one
// is refused.
func TestPortsOverAWire(t *testing.T) {
	for _, mtu := range []int{1500, 9000} {
		t.Run("", func(t *testing.T) { testPorts(t, mtu) })
	}
}

func testPorts(t *testing.T, mtu int) {
	_, a, b := wire(t, mtu)
	if a == nil {
		return
	}
	// Both ends are in one namespace.
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/xb/accept_local", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	from, s := a.open(3), b.open(5)
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, addr := range [][2]netip.Addr{{v4a, v4b}, {v6a, v6b}} {
		kernel := plain(t, addr[1])
		dst := kernel.LocalAddr()
		src := sender{from.Source(plain(t, addr[0]), a.wayTo(b), true), from}
		header := 28
		if addr[0].Is6() {
			header = 48
		}
		for i, size := range []int{0, 1, 2, 3, 9, 777, 1021, mtu - header} {
			payload := make([]byte, size)
			for i := range payload {
				payload[i] = byte(rnd.Uint32())
			}
			d := udp.Datagrams{Dst: dst, Iov: [][]byte{payload[:size/3], payload[size/3:]}}
			b.prog.RemovePort(dst)
			send(t, src, 1, d)
			if m := await(t, kernel); !bytes.Equal(m.Data, payload) {
				t.Errorf("case %d: the kernel's socket has %d bytes of %d", i, len(m.Data), size)
			}
			if size < 4 {
				continue // the program leaves frames without a BTH to the kernel
			}
			if err := b.prog.AddPort(dst, 5); err != nil {
				t.Fatal(err)
			}
			send(t, src, 1, d)
			if m := read(t, s.Queues()[0]); !bytes.Equal(m.Data, payload) || m.Port != dst.Port() {
				t.Errorf("case %d: %d bytes of %d to port %d", i, len(m.Data), size, m.Port)
			}
		}
	}
	if c := s.Counters(); c.Bad != 0 {
		t.Fatalf("%+v", c)
	}
	const port = 40000
	at := netip.AddrPortFrom(v4b, port)
	if err := b.prog.AddPort(at, 5); err != nil {
		t.Fatal(err)
	}
	put := rawSocket(t, a)
	p := frame(a, b, 0, 1)
	binary.BigEndian.PutUint16(p[36:], port)
	put(p) // without a checksum, which IPv4 allows
	if m := read(t, s.Queues()[0]); m.Port != port || m.Data[15] != 1 {
		t.Errorf("datagram %#x to port %d", m.Data[15], m.Port)
	}
	p[40], p[41] = 0x14, 0x8a // the sum of the pseudo header, for an adapter to complete
	put(p)
	if m := read(t, s.Queues()[0]); m.Data[15] != 1 {
		t.Errorf("datagram %#x", m.Data[15])
	}
	p[41] = 0x77 // a wrong checksum
	put(p)
	p[40], p[41] = 0, 0
	p[49] = 0xff
	put(p)
	if m := read(t, s.Queues()[0]); m.Data[15-8] != 0xff {
		t.Errorf("datagram %x comes, with a wrong checksum", m.Data)
	}
	if c := s.Counters(); c.Bad != 1 {
		t.Errorf("%+v, want one bad frame", c)
	}
}

// await waits for a message of the kernel's.
func await(t *testing.T, s *udp.Socket) *udp.Message {
	t.Helper()
	b := udp.NewRxBatch()
	for until := monotime.Now().Add(patience); monotime.Now() < until; {
		if n, _ := s.ReadBatch(b); n > 0 {
			return b.Message(0)
		}
	}
	t.Fatal("the kernel's socket gets nothing")
	return nil
}
