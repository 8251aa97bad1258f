// SPDX-License-Identifier: BSD-2-Clause

package xsk_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/udp"
	"verbena/internal/sys/xsk"
)

// stranger is the address of frames that the test makes itself: the kernel drops those from an
// address of its own.
var stranger = netip.MustParseAddr("10.9.0.77")

// rawSocket sends frames as they are.
func rawSocket(t *testing.T, e *end) func([]byte) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return func(b []byte) {
		t.Helper()
		if err := unix.Sendto(fd, b, 0, &unix.SockaddrLinklayer{Ifindex: e.iface.Index}); err != nil {
			t.Fatal(err)
		}
	}
}

// frame makes the frame of a datagram from the stranger to b, for a queue pair number.
func frame(a, b *end, qpn uint32, mark byte) []byte {
	p := make([]byte, 14+20+8+16)
	copy(p, b.iface.HardwareAddr)
	copy(p[6:], a.iface.HardwareAddr)
	binary.BigEndian.PutUint16(p[12:], 0x0800)
	ip := p[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	copy(ip[12:], stranger.AsSlice())
	copy(ip[16:], v4b.AsSlice())
	u := ip[20:]
	binary.BigEndian.PutUint16(u, 50000)
	binary.BigEndian.PutUint16(u[2:], testPort)
	binary.BigEndian.PutUint16(u[4:], uint16(len(u)))
	binary.BigEndian.PutUint32(u[12:], qpn)
	u[23] = mark
	seal(p)
	return p
}

// frame6 makes a frame one of IPv6, from an address beside those of the ends.
func frame6(p []byte) []byte {
	udp := p[34:]
	q := append(bytes.Clone(p[:12]), 0x86, 0xdd, 0x60, 0, 0, 0, 0, byte(len(udp)), 17, 64)
	q = append(q, netip.MustParseAddr("fd09::77").AsSlice()...)
	return append(append(q, v6b.AsSlice()...), udp...)
}

// seal computes the IPv4 header's checksum.
func seal(p []byte) {
	ip := p[14:34]
	ip[10], ip[11] = 0, 0
	s := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		s += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	s = s&0xffff + s>>16
	binary.BigEndian.PutUint16(ip[10:], ^uint16(s+s>>16))
}

// The program leaves to the kernel every frame that no process's ring is for. The interface stays
// an ordinary one.
func TestProgramPassesAllElse(t *testing.T) {
	a, b, s, ours := receiving(t)
	if a == nil {
		return
	}
	other, err := udp.Listen(v4b, 4790, udp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	kernel, err := udp.Listen(v4b, testPort, udp.Options{NoJoin: true})
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.Close()
	put := rawSocket(t, a)
	batch := udp.NewRxBatch()
	await := func(sock *udp.Socket) byte {
		t.Helper()
		for until := monotime.Now().Add(patience); monotime.Now() < until; {
			if n, _ := sock.ReadBatch(batch); n > 0 {
				d := batch.Message(0).Data
				return d[len(d)-1]
			}
		}
		t.Fatal("the kernel's socket gets nothing")
		return 0
	}
	nothing := func(name string) {
		t.Helper()
		put(frame(a, b, ours, 0xff)) // comes after the others
		if m := read(t, s.Queues()[0]); m.Data[15] != 0xff {
			t.Errorf("%s: the ring gets datagram %#x", name, m.Data[15])
		}
	}
	passed := byte(0)
	for _, c := range []struct {
		name   string
		change func(p []byte) []byte
		sock   *udp.Socket // gets it; nil: the kernel drops or keeps it
	}{
		{"QP1", func(p []byte) []byte { copy(p[46:], []byte{0, 0, 0, 1}); return p }, kernel},
		{"multicast", func(p []byte) []byte { copy(p[46:], []byte{0, 0xff, 0xff, 0xff}); return p }, kernel},
		{"a slot without a ring", func(p []byte) []byte { binary.BigEndian.PutUint32(p[46:], 6<<portshare.SlotShift|9); return p }, kernel},
		{"IP options", func(p []byte) []byte {
			q := append(bytes.Clone(p[:34]), 1, 1, 1, 0) // three no-operations and the end
			q = append(q, p[34:]...)
			q[14] = 0x46
			binary.BigEndian.PutUint16(q[16:], uint16(len(q)-14))
			q[24], q[25] = 0, 0
			sum := uint32(0)
			for i := 14; i < 38; i += 2 {
				sum += uint32(binary.BigEndian.Uint16(q[i:]))
			}
			sum = sum&0xffff + sum>>16
			binary.BigEndian.PutUint16(q[24:], ^uint16(sum+sum>>16))
			return q
		}, kernel},
		{"another port", func(p []byte) []byte { binary.BigEndian.PutUint16(p[36:], 4790); return p }, other},
		{"another address", func(p []byte) []byte { p[33] = 99; return p }, nil},
		{"another MAC", func(p []byte) []byte { p[5] ^= 1; return p }, nil},
		{"a first fragment", func(p []byte) []byte { p[20] = 0x20; return p }, nil},
		{"a later fragment", func(p []byte) []byte { p[21] = 5; return p }, nil},
		{"TCP", func(p []byte) []byte { p[23] = 6; return p }, nil},
		{"a VLAN tag", func(p []byte) []byte {
			return append(append(bytes.Clone(p[:12]), 0x81, 0, 0, 7), p[12:]...)
		}, nil},
		{"a tag without a VLAN", func(p []byte) []byte {
			return append(append(bytes.Clone(p[:12]), 0x81, 0, 0xe0, 0), p[12:]...)
		}, kernel},
		{"two VLAN tags", func(p []byte) []byte {
			return append(append(bytes.Clone(p[:12]), 0x88, 0xa8, 0, 7, 0x81, 0, 0, 7), p[12:]...)
		}, nil},
		{"ARP", func(p []byte) []byte { p[13] = 6; return p }, nil},
		{"127.0.0.1", func(p []byte) []byte { copy(p[30:], []byte{127, 0, 0, 1}); return p }, nil},
		{"an IPv6 extension header", func(p []byte) []byte {
			q := frame6(p)
			q[20] = 0 // hop-by-hop options
			return append(append(bytes.Clone(q[:54]), 17, 0, 1, 4, 0, 0, 0, 0), q[54:]...)
		}, nil},
		{"::1", func(p []byte) []byte {
			q := frame6(p)
			copy(q[38:], netip.IPv6Loopback().AsSlice())
			return q
		}, nil},
		{"too short", func(p []byte) []byte { return p[:40] }, nil},
	} {
		passed++
		p := c.change(frame(a, b, ours, passed))
		if c.name != "IP options" && !strings.Contains(c.name, " tag") && len(p) >= 34 && p[12] != 0x86 {
			seal(p)
		}
		put(p)
		if c.sock != nil {
			if got := await(c.sock); got != passed {
				t.Errorf("%s: the kernel's socket gets datagram %d, want %d", c.name, got, passed)
			}
		}
		nothing(c.name)
	}
	if c := s.Counters(); c.Bad != 0 || c.Received != uint64(passed) {
		t.Errorf("%+v, want %d received", c, passed)
	}
}

// Frames that pass the program with lengths or a checksum that are wrong are counted and go no
// further.
func TestHostileFrames(t *testing.T) {
	a, b, s, ours := receiving(t)
	if a == nil {
		return
	}
	put := rawSocket(t, a)
	bad := uint64(0)
	from := func(a string) func(p []byte) {
		return func(p []byte) { copy(p[26:], netip.MustParseAddr(a).AsSlice()); seal(p) }
	}
	for _, change := range []func(p []byte){
		from("127.0.0.1"), from("0.0.0.0"), from("224.0.0.1"), from("255.255.255.255"), from(v4b.String()),
		func(p []byte) { p[24]++ }, // the checksum
		func(p []byte) { binary.BigEndian.PutUint16(p[16:], 0xffff); seal(p) },     // IP longer than the frame
		func(p []byte) { binary.BigEndian.PutUint16(p[16:], 27); seal(p) },         // shorter than its headers
		func(p []byte) { binary.BigEndian.PutUint16(p[38:], 0xffff) },              // UDP longer than IP
		func(p []byte) { binary.BigEndian.PutUint16(p[38:], 7) },                   // shorter than its header
		func(p []byte) { binary.BigEndian.PutUint16(p[16:], 28+16+1); seal(p) },    // by a byte
		func(p []byte) { binary.BigEndian.PutUint16(p[38:], uint16(len(p)-34)+1) }, // by a byte
	} {
		p := frame(a, b, ours, 1)
		change(p)
		put(p)
		bad++
		put(frame(a, b, ours, 0xff))
		if m := read(t, s.Queues()[0]); m.Data[15] != 0xff || len(m.Data) != 16 || m.Src != netip.AddrPortFrom(stranger, 50000) {
			t.Errorf("case %d: datagram %#x from %v", bad, m.Data[15], m.Src)
		}
	}
	from6 := []string{"::1", "::", "ff02::1", "::ffff:10.9.0.77", v6b.String()}
	for _, src := range from6 {
		p := frame6(frame(a, b, ours, 1))
		copy(p[22:], netip.MustParseAddr(src).AsSlice())
		put(p)
		bad++
		put(frame(a, b, ours, 0xff))
		if m := read(t, s.Queues()[0]); m.Data[15] != 0xff {
			t.Errorf("a datagram from %s comes: %v", src, m.Src)
		}
	}
	put(frame6(frame(a, b, ours, 2)))
	if m := read(t, s.Queues()[0]); m.Data[15] != 2 || m.Src.Addr() != netip.MustParseAddr("fd09::77") {
		t.Errorf("datagram %#x from %v", m.Data[15], m.Src)
	}
	if c := s.Counters(); c.Bad != bad {
		t.Errorf("%d bad frames, want %d", c.Bad, bad)
	}
}

// Parse keeps within the frame, whatever the bytes are.
func FuzzParse(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 2))
	v4 := make([]byte, 14+20+8+4)
	copy(v4[12:], []byte{8, 0, 0x45, 0, 0, 32})
	v4[23] = 17
	v4[29], v4[33] = 1, 2 // 0.0.0.1 to 0.0.0.2
	binary.BigEndian.PutUint16(v4[38:], 12)
	seal(v4)
	v6 := make([]byte, 14+40+8+4)
	copy(v6[12:], []byte{0x86, 0xdd, 0x60, 0, 0, 0, 0, 12, 17})
	v6[22], v6[38] = 1, 2
	binary.BigEndian.PutUint16(v6[58:], 12)
	for _, seed := range [][]byte{v4, v6} {
		if m, _, ok := xsk.Parse(seed); !ok || len(m.Data) != 4 {
			f.Fatalf("%x is a datagram of 4 bytes: %v, %d", seed, ok, len(m.Data))
		}
		for range 64 {
			c := bytes.Clone(seed)
			c[rnd.IntN(len(c))] = byte(rnd.Uint32())
			f.Add(c[:rnd.IntN(len(c)+1)])
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, _, ok := xsk.Parse(b)
		if !ok {
			return
		}
		if m.Segments() != 1 || cap(m.Data) != len(m.Data) || len(m.Data) > len(b)-14-20-8 || !m.Src.IsValid() || m.Src.Addr().Is4() != m.Dst.Is4() {
			t.Errorf("%+v of a frame of %d bytes", m, len(b))
		}
	})
}
