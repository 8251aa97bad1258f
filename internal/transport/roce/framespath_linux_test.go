// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/xdp"
	"verbena/internal/testkit/netns"
	"verbena/internal/testkit/rig"
	"verbena/internal/testkit/xdpwire"
)

// apart has a node with frames here and one with sockets in a namespace of its own. The kernel's
// tables lead from one to the other.
type apart struct {
	t         *testing.T
	net, far  *netns.Network
	near      *node
	other     *node // in far
	iface     *net.Interface
	nearAddr  string
	otherAddr string
}

// newApart makes them at the ends of a wire: xa here, and xb in far. between lays the way there.
func newApart(t *testing.T, nearAddr, otherAddr string, mtu int, between func(a *apart)) *apart {
	t.Helper()
	xdpwire.Skip(t, "it makes frames itself, in make unit too")
	n := netns.New(t)
	if n == nil {
		return nil
	}
	dir := framesDir(t)
	a := &apart{t: t, net: n, far: n.Far(), nearAddr: nearAddr, otherAddr: otherAddr}
	n.AddWire("xa", "xb")
	a.check(n.LinkSetMTU(n.Link("xa"), mtu))
	a.check(n.LinkSetMTU(n.Link("xb"), mtu))
	between(a)
	n.Up("lo")
	a.far.Up("lo")
	var err error
	if a.iface, err = net.InterfaceByName("xa"); err != nil {
		t.Fatal(err)
	}
	a.near = startNodeAt(t, policy.Nap, how{Dir: dir, NoLocal: true, Attach: xdp.Attach,
		Frames: []portshare.Interface{{Name: "xa", Queues: 1}}}, netip.MustParsePrefix(nearAddr).Addr())
	a.far.Do(func() {
		a.other = startNodeAt(t, policy.Nap, how{Solo: true, NoLocal: true}, netip.MustParsePrefix(otherAddr).Addr())
	})
	return a
}

func (a *apart) check(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *apart) near6() bool { return netip.MustParsePrefix(a.nearAddr).Addr().Is6() }

// address gives an interface an address that can be used at once.
func (a *apart) address(n *netns.Network, name, prefix string) {
	a.t.Helper()
	p, err := netlink.ParseAddr(prefix)
	a.check(err)
	if a.near6() {
		p.Flags = unix.IFA_F_NODAD
	}
	a.check(n.AddrAdd(n.Link(name), p))
}

// wire is the way of nodes that are neighbours.
func (a *apart) wire() {
	a.net.Move("xb", a.far)
	a.address(a.net, "xa", a.nearAddr)
	a.address(a.far, "xb", a.otherAddr)
	a.net.Set("ipv4/neigh/xa/locktime", "0") // it believes the second of two answers in a second
	a.far.Set("ipv4/neigh/xb/locktime", "0")
	a.net.Set("ipv4/conf/xa/arp_notify", "1")
	a.far.Set("ipv4/conf/xb/arp_notify", "1")
	up(a.net, "xa", a.far, "xb")
}

// up takes both ends of a wire up: neither runs before.
func up(n *netns.Network, name string, far *netns.Network, other string) {
	_ = n.LinkSetUp(n.Link(name))
	far.Up(other)
	n.Up(name)
}

// wired has two hosts at the ends of a wire, and queue pairs that frames carry messages of. It
// returns nil where the test is done elsewhere.
func wired(t *testing.T, timeout, retries uint8) (a *apart, near, far *endpoint) {
	t.Helper()
	if a = newApart(t, "10.9.0.1/24", "10.9.0.2/24", 1500, (*apart).wire); a == nil {
		return nil, nil, nil
	}
	near, far = a.couple(ib.MTU1024, timeout, retries)
	a.byFrames(near, far, 1000)
	return a, near, far
}

// couple connects two queue pairs.
func (a *apart) couple(mtu ib.MTU, timeout, retries uint8) (near, far *endpoint) {
	a.t.Helper()
	near = newEndpoint(a.near, 1<<20)
	a.far.Do(func() {
		far = newEndpoint(a.other, 1<<20)
		connectBy(far, near.QPN(), near.Node.Addr, mtu, timeout, retries)
	})
	connectBy(near, far.QPN(), far.Node.Addr, mtu, timeout, retries)
	a.t.Cleanup(near.Close)
	a.t.Cleanup(far.Close)
	return near, far
}

// byFrames transfers messages until frames have carried one from here: the kernel may have to look
// for the neighbour first.
func (a *apart) byFrames(near, far *endpoint, bytes int) {
	a.t.Helper()
	rig.Until(a.t, "frames carry a message", func() bool {
		before := framesOf(a.near, frameEnd{iface: a.iface})
		rig.Transfer(a.t, near, far, bytes, 1)
		rig.Transfer(a.t, far, near, bytes, 2)
		c := framesOf(a.near, frameEnd{iface: a.iface})
		return c.Sent > before.Sent && c.Received > before.Received
	})
}

// A neighbour changes its Ethernet address, and says so, while a queue pair works. The queue pair's
// time-outs are the usual ones.
func TestNeighbourChangesByFrames(t *testing.T) {
	a, near, far := wired(t, 14, 7)
	if a == nil {
		return
	}
	for _, mac := range []string{"02:00:00:00:00:09", "02:00:00:00:00:0a"} {
		a.far.SetMAC("xb", mac)
		for i := range 20 {
			rig.Transfer(t, near, far, 5000, byte(i))
			rig.Transfer(t, far, near, 5000, byte(i))
		}
		a.byFrames(near, far, 1000)
	}
	// The interface's own address changes: what is for the new one comes by sockets.
	a.net.SetMAC("xa", "02:00:00:00:00:0c")
	for i := range 20 {
		rig.Transfer(t, near, far, 5000, byte(i))
		rig.Transfer(t, far, near, 5000, byte(i))
	}
}

// A neighbour goes, and one that has its IP address comes, with another Ethernet address.
func TestNeighbourGoesAndComesByFrames(t *testing.T) {
	a, near, far := wired(t, 19, 7)
	if a == nil {
		return
	}
	a.far.Remove("xb", a.otherAddr)
	a.far.SetMAC("xb", "02:00:00:00:00:0b")
	a.check(a.net.NeighDel(&netlink.Neigh{LinkIndex: a.iface.Index, IP: net.ParseIP("10.9.0.2")}))
	before := framesOf(a.near, frameEnd{iface: a.iface})
	far.Recv()
	near.Send(1000)
	rig.Until(t, "the kernel looks for the neighbour", func() bool {
		return framesOf(a.near, frameEnd{iface: a.iface}).Elsewhere > before.Elsewhere
	})
	a.address(a.far, "xb", a.otherAddr)
	near.Want(ib.WCSend, ib.WCSuccess)
	far.Want(ib.WCRecv, ib.WCSuccess)
	a.byFrames(near, far, 1000)
}

// On a virtual pair bursts go by sockets, and all else by frames. All packets come in order, also
// where the receiver's kernel spreads flows over the processors.
func TestBurstsComeInOrderByFrames(t *testing.T) {
	for _, c := range []struct {
		name        string
		near, other string
		spread      bool
	}{
		{"IPv4", "10.9.0.1/24", "10.9.0.2/24", false},
		{"IPv4, RPS", "10.9.0.1/24", "10.9.0.2/24", true},
		{"IPv6, RPS", "fd09::1/64", "fd09::2/64", true},
	} {
		t.Run(c.name, func(t *testing.T) { burstsComeInOrder(t, c.near, c.other, c.spread) })
	}
}

func burstsComeInOrder(t *testing.T, nearAddr, otherAddr string, spread bool) {
	a := newApart(t, nearAddr, otherAddr, 1500, (*apart).wire)
	if a == nil {
		return
	}
	if spread {
		a.far.Spread("xb")
	}
	near, far := a.couple(ib.MTU1024, 14, 7)
	a.byFrames(near, far, 1000)
	before := framesOf(a.near, frameEnd{iface: a.iface})
	for i := range 200 {
		rig.Transfer(t, near, far, []int{8, 3000, 20_000, 100_000}[i%4], byte(i))
	}
	for range 100 { // short messages right behind long ones
		for range 4 {
			near.Post(far, ib.WRRDMAWrite, 20_000)
			near.Post(far, ib.WRRDMAWrite, 8)
		}
		for range 8 {
			near.Want(ib.WCRDMAWrite, ib.WCSuccess)
		}
	}
	c := framesOf(a.near, frameEnd{iface: a.iface})
	if c.Sent-before.Sent < 100 || c.Elsewhere-before.Elsewhere < 100 {
		t.Errorf("%+v, before %+v: short messages were to go by frames, long ones by the socket", c, before)
	}
	if n := a.other.Counter("out_of_seq_request"); n != 0 {
		t.Errorf("%d packets came out of order", n)
	}
}

// routed is the way by a router, to whose far side only short packets fit.
func (a *apart) routed(router *netns.Network, inner, outer [2]string, narrow int) {
	n := a.net
	n.Move("xb", router)
	router.AddWire("ra", "rb")
	a.check(router.LinkSetMTU(router.Link("ra"), narrow))
	a.check(router.LinkSetMTU(router.Link("rb"), narrow))
	router.Move("rb", a.far)
	a.address(n, "xa", a.nearAddr)
	a.address(router, "xb", inner[0])
	a.address(router, "ra", outer[0])
	if a.near6() {
		for _, name := range []string{"xb", "ra"} { // a router looks for neighbours from such an address
			a.address(router, name, "fe80::1/64")
		}
	}
	a.address(a.far, "rb", a.otherAddr)
	up(n, "xa", router, "xb")
	up(router, "ra", a.far, "rb")
	router.Set("ipv4/ip_forward", "1")
	router.Set("ipv6/conf/all/forwarding", "1")
	route := func(n *netns.Network, name, dst, via string) {
		_, to, err := net.ParseCIDR(dst)
		a.check(err)
		a.check(n.RouteAdd(&netlink.Route{LinkIndex: n.Link(name).Attrs().Index, Dst: to, Gw: net.ParseIP(via)}))
	}
	route(n, "xa", outer[1], netip.MustParsePrefix(inner[0]).Addr().String())
	route(a.far, "rb", inner[1], netip.MustParsePrefix(outer[0]).Addr().String())
}

// A link behind a router is narrower than the queue pair's path MTU. The router says so, the kernel
// notes it, and the packets are lost: the path MTU of a queue pair is agreed when it connects. The
// work request ends with an error, and the packets are counted. A queue pair with a path MTU that
// fits works by frames.
func TestNarrowPathByFrames(t *testing.T) {
	for _, c := range []struct {
		name         string
		near, other  string
		inner, outer [2]string
		wide, narrow int
		big, fits    ib.MTU
	}{
		{"IPv4", "10.9.0.1/24", "10.8.0.2/24", [2]string{"10.9.0.254/24", "10.9.0.0/24"}, [2]string{"10.8.0.254/24", "10.8.0.0/24"},
			1500, 1000, ib.MTU1024, ib.MTU512},
		{"IPv6", "fd09::1/64", "fd08::2/64", [2]string{"fd09::fe/64", "fd09::/64"}, [2]string{"fd08::fe/64", "fd08::/64"},
			3498, 1500, ib.MTU2048, ib.MTU1024},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newApart(t, c.near, c.other, c.wide, func(a *apart) {
				a.routed(a.net.Far(), c.inner, c.outer, c.narrow)
			})
			if a == nil {
				return
			}
			big, far := a.couple(c.big, 12, 7)
			a.byFrames(big, far, 64)
			far.Recv()
			big.Send(c.big.Bytes())
			big.Want(ib.WCSend, ib.WCRetryExcErr)
			if got := a.near.Counter("over_mtu"); got == 0 {
				t.Error("no packet is counted as too long")
			}
			fits, far := a.couple(c.fits, 14, 7)
			a.byFrames(fits, far, 100_000)
		})
	}
}

// Where no process has the port any more the network says so. A queue pair goes on until its
// retries are spent, as an adapter's does: the process may be about to come back.
func TestUnreachablePortByFrames(t *testing.T) {
	a, near, _ := wired(t, 10, 3)
	if a == nil {
		return
	}
	a.other.Eng.Close()
	before := framesOf(a.near, frameEnd{iface: a.iface})
	for range 2 {
		near.Send(8)
	}
	near.Want(ib.WCSend, ib.WCRetryExcErr)
	near.Want(ib.WCSend, ib.WCWRFlushErr)
	if c := framesOf(a.near, frameEnd{iface: a.iface}); c.Sent < before.Sent+4 {
		t.Errorf("%+v, before %+v: a packet and 3 repetitions were to go by frames", c, before)
	}
}
