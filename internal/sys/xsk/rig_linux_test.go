// SPDX-License-Identifier: BSD-2-Clause

package xsk_test

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/udp"
	"verbena/internal/sys/xdp"
	"verbena/internal/sys/xsk"
	"verbena/internal/testkit/netns"
)

const testPort = 4791

// end is one end of a wire: an interface with its pool and program.
type end struct {
	t     *testing.T
	iface *net.Interface
	pool  *xsk.Pool
	prog  portshare.Steering
}

func newEnd(t *testing.T, name string) *end {
	t.Helper()
	e := &end{t: t}
	var err error
	if e.iface, err = net.InterfaceByName(name); err != nil {
		t.Fatal(err)
	}
	if e.pool, err = xsk.NewPool(e.iface.Index, 1, e.iface.MTU); err != nil {
		skipWithout(t, err)
		t.Fatal(err)
	}
	t.Cleanup(e.pool.Close)
	if e.prog, err = xdp.Attach(e.iface, 1); err != nil {
		skipWithout(t, err)
		t.Fatal(err)
	}
	t.Cleanup(e.prog.Close)
	return e
}

// skipWithout skips a test where the process may not, or the kernel cannot.
func skipWithout(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EAFNOSUPPORT) ||
		errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("needs CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and a kernel with AF_XDP: %v", err)
	}
}

// open makes a seat and opens it as its process would.
func (e *end) open(slot int) *xsk.Socket {
	e.t.Helper()
	s, _ := e.seat(slot)
	e.t.Cleanup(func() { s.Close() })
	return s
}

// seat is open, for a process that ends sooner.
func (e *end) seat(slot int) (s *xsk.Socket, place int) {
	e.t.Helper()
	seat, ok, err := e.pool.Seat()
	if err != nil || !ok {
		e.t.Fatal(ok, err)
	}
	if err := e.prog.Give(slot, seat.Sockets); err != nil {
		e.t.Fatal(err)
	}
	fds := make([]int, 0, 2)
	for _, fd := range append([]int{seat.Memory}, seat.Sockets...) {
		d, err := unix.Dup(fd)
		if err != nil {
			e.t.Fatal(err)
		}
		fds = append(fds, d)
	}
	s, err = xsk.Open(seat.Place, fds[0], fds[1:], testPort)
	if err != nil {
		e.t.Fatal(err)
	}
	return s, seat.Place
}

// wayTo is the LookUp of a peer on the wire.
func (e *end) wayTo(peer *end) xsk.LookUp {
	w := xsk.Way{Neighbour: [6]byte(peer.iface.HardwareAddr), Own: [6]byte(e.iface.HardwareAddr),
		MTU: e.iface.MTU}
	return func(int, netip.Addr, netip.Addr) (xsk.Way, bool) { return w, true }
}

// wire makes two ends, each with an address.
func wire(t *testing.T, mtu int) (n *netns.Network, a, b *end) {
	t.Helper()
	if n = netns.New(t); n == nil {
		return nil, nil, nil
	}
	n.AddWire("xa", "xb")
	for i, name := range []string{"xa", "xb"} {
		if err := n.LinkSetMTU(n.Link(name), mtu); err != nil {
			t.Fatal(err)
		}
		n.Add(name, []string{"10.9.0.1/24", "10.9.0.2/24"}[i])
		v6, err := netlink.ParseAddr([]string{"fd09::1/64", "fd09::2/64"}[i])
		if err != nil {
			t.Fatal(err)
		}
		v6.Flags = unix.IFA_F_NODAD // to be used at once
		if err := n.AddrAdd(n.Link(name), v6); err != nil {
			t.Fatal(err)
		}
	}
	n.Up("lo", "xa", "xb")
	a, b = newEnd(t, "xa"), newEnd(t, "xb")
	for e, own := range map[*end][]netip.Addr{a: {v4a, v6a}, b: {v4b, v6b}} {
		for _, addr := range own {
			if err := e.prog.Add(addr); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n, a, b
}

var (
	v4a, v4b = netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.2")
	v6a, v6b = netip.MustParseAddr("fd09::1"), netip.MustParseAddr("fd09::2")
)

// plain opens a socket of the kernel's, whose port a Source has.
func plain(t *testing.T, a netip.Addr) *udp.Socket {
	t.Helper()
	s, err := udp.Listen(a, 0, udp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// patience bounds the wait for a packet.
const patience = 10 * monotime.Second

// collect waits for n datagrams.
func collect(t *testing.T, s *xsk.Socket, n int) {
	t.Helper()
	b, got := udp.NewRxBatch(), 0
	for until := monotime.Now().Add(patience); got < n; {
		k, err := s.Queues()[0].ReadBatch(b)
		if got += k; err != nil || monotime.Now() > until {
			t.Fatalf("%d of %d datagrams came, %v; %+v", got, n, err, s.Counters())
		}
	}
}

// read waits for the next message, and copies it.
func read(t *testing.T, q *xsk.Queue) udp.Message {
	t.Helper()
	b := udp.NewRxBatch()
	for until := monotime.Now().Add(patience); monotime.Now() < until; {
		if n, err := q.ReadBatch(b); err != nil {
			t.Fatal(err)
		} else if n > 1 {
			t.Fatalf("%d messages at once", n)
		} else if n == 1 {
			m := *b.Message(0)
			m.Data = append([]byte{}, m.Data...)
			return m
		}
	}
	t.Fatal("no message came")
	return udp.Message{}
}

// receiving has two ends on a wire, with a ring of slot 5 at b, and returns a queue pair of that
// slot. The ends are nil where the test is done elsewhere.
func receiving(t *testing.T) (a, b *end, s *xsk.Socket, ours uint32) {
	t.Helper()
	if _, a, b = wire(t, 1500); a == nil {
		return nil, nil, nil, 0
	}
	const slot = 5
	return a, b, b.open(slot), slot<<portshare.SlotShift | 9
}
