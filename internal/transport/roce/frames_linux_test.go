// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/udp"
	"verbena/internal/sys/xdp"
	"verbena/internal/sys/xsk"
	"verbena/internal/testkit/netns"
	"verbena/internal/testkit/rig"
	"verbena/internal/testkit/xdpwire"
)

// A frameEnd is an interface at one end of a wire, with an address.
type frameEnd struct {
	iface  *net.Interface
	addr   netip.Addr
	queues int
}

// frameWire makes a wire in a network namespace, and returns its ends, nil where the test has run.
func frameWire(t *testing.T, mtu int, addrs ...string) (n *netns.Network, ends []frameEnd) {
	t.Helper()
	xdpwire.Skip(t, "it makes frames itself, in make unit too")
	if n = netns.New(t); n == nil {
		return nil, nil
	}
	return n, addFrameWire(t, n, 1, mtu, addrs...)
}

// addFrameWire makes the wire.
func addFrameWire(t *testing.T, n *netns.Network, queues, mtu int, addrs ...string) (ends []frameEnd) {
	t.Helper()
	n.AddWideWire("xa", "xb", queues)
	names := []string{"xa", "xb"}
	for i, name := range names {
		if err := n.LinkSetMTU(n.Link(name), mtu); err != nil {
			t.Fatal(err)
		}
		p, err := netlink.ParseAddr(addrs[i])
		if err != nil {
			t.Fatal(err)
		}
		if p.IP.To4() == nil {
			p.Flags = unix.IFA_F_NODAD // to be used at once
		}
		if err := n.AddrAdd(n.Link(name), p); err != nil {
			t.Fatal(err)
		}
	}
	n.Up("lo", "xa", "xb")
	for i, name := range names {
		is, err := net.InterfaceByName(name)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, frameEnd{is, netip.MustParsePrefix(addrs[i]).Addr(), queues})
	}
	return ends
}

// framesDir returns the directory of processes whose keeper may steer frames, and can.
func framesDir(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and a kernel with AF_XDP: %v", err)
	}
	unix.Close(fd)
	dir, err := os.MkdirTemp("", "frames")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// frameHow has a node use an end of a wire. Both ends are in one namespace, whose tables lead from
// one address to the other by the loopback interface: LookUp has them send by the wire.
func frameHow(dir string, ends []frameEnd, i int) how {
	lookUp := func(iface int, src, _ netip.Addr) (w xsk.Way, ok bool) {
		from, to := ends[0], ends[1]
		if src == to.addr {
			from, to = to, from
		}
		return xsk.Way{Own: [6]byte(from.iface.HardwareAddr), Neighbour: [6]byte(to.iface.HardwareAddr), MTU: from.iface.MTU},
			iface == from.iface.Index
	}
	return how{Dir: dir, NoLocal: true, Frames: []portshare.Interface{{Name: ends[i].iface.Name, Queues: ends[i].queues}}, Attach: xdp.Attach, LookUp: lookUp}
}

// frameNodes starts a process at each end.
func frameNodes(t *testing.T, ends []frameEnd) (nodes []*node) {
	t.Helper()
	dir := framesDir(t)
	for i, e := range ends {
		n := startNodeAt(t, policy.Nap, frameHow(dir, ends, i), e.addr)
		n.Dir = dir
		nodes = append(nodes, n)
	}
	return nodes
}

// framesOf returns a node's counts at its interface.
func framesOf(n *node, e frameEnd) xsk.Counters {
	return Of(n.Eng).seats.Sockets()[e.iface.Index].Counters()
}

// Messages of all sizes go by frames in both directions, over both versions of IP.
func TestTransfersByFrames(t *testing.T) {
	for _, c := range []struct {
		name  string
		mtu   int
		addrs []string
	}{
		{"IPv4", 1500, []string{"10.9.0.1/24", "10.9.0.2/24"}},
		{"IPv6", 1500, []string{"fd09::1/64", "fd09::2/64"}},
		{"jumbo", 9000, []string{"10.9.0.1/24", "10.9.0.2/24"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, ends := frameWire(t, c.mtu, c.addrs...)
			if ends == nil {
				return
			}
			nodes := frameNodes(t, ends)
			a, b := couple(t, nodes[0], nodes[1], rig.BigBuffer)
			for i, n := range rig.Sizes {
				rig.Transfer(t, a, b, n, byte(i))
				rig.Transfer(t, b, a, n, byte(i))
			}
			for i, e := range ends {
				c := framesOf(nodes[i], e)
				t.Logf("%v: %+v", e.addr, c)
				if c.Sent < 10_000 || c.Received < 10_000 || c.Elsewhere > c.Sent/100 || c.Bad > 0 {
					t.Errorf("end %d: %+v: most datagrams were to go by frames", i, c)
				}
			}
		})
	}
}

// Processes share an interface: each has the packets of its own queue pairs, of all queues. They
// send by a queue each, in turns.
func TestProcessesShareAnInterface(t *testing.T) {
	for _, queues := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d queues", queues), func(t *testing.T) { shareInterface(t, queues) })
	}
}

func shareInterface(t *testing.T, queues int) {
	xdpwire.Skip(t, "it makes frames itself, in make unit too")
	net := netns.New(t)
	if net == nil {
		return
	}
	ends := addFrameWire(t, net, queues, 1500, "10.9.0.1/24", "10.9.0.2/24")
	nodes := frameNodes(t, ends)
	far := nodes[:1:1]
	for range 3 {
		far = append(far, startNodeAt(t, policy.Nap, frameHow(nodes[0].Dir, ends, 0), ends[0].addr))
	}
	var from, to []*endpoint
	for _, n := range far {
		a, b := couple(t, n, nodes[1], 1<<20)
		from, to = append(from, a), append(to, b)
	}
	for i := range 20 {
		for k := range from {
			rig.Transfer(t, from[k], to[k], 10_000*i, byte(i+k))
			rig.Transfer(t, to[k], from[k], 10_000*i, byte(i-k))
		}
	}
	for i, n := range far {
		c := framesOf(n, ends[0])
		if c.Received < 1000 || c.Elsewhere > c.Sent/100 {
			t.Errorf("process %d: %+v: most datagrams were to go by frames", i, c)
		}
		if got := n.Counter("unknown_qp"); got != 0 {
			t.Errorf("process %d gets %d packets for others", i, got)
		}
	}
}

// Where an interface goes down work goes on when it is up again. Where it is deleted its frames go
// with it, and the process lives. Later processes have frames of an interface with the same name.
func TestInterfaceGoesDown(t *testing.T) {
	net, ends := frameWire(t, 1500, "10.9.0.1/24", "10.9.0.2/24")
	if ends == nil {
		return
	}
	nodes := frameNodes(t, ends)
	a, b := newEndpoint(nodes[0], 1<<20), newEndpoint(nodes[1], 1<<20)
	const patient, brief = 19, 10 // time-outs of 2 s and 4 ms
	connectAt(a, b.QPN(), b.Node.Addr, patient, 7)
	connectAt(b, a.QPN(), a.Node.Addr, patient, 7)
	defer a.Close()
	defer b.Close()
	rig.Transfer(t, a, b, 100_000, 1)
	net.Down("xb")
	b.Recv()
	a.Send(100_000)
	net.Up("xb")
	a.Want(ib.WCSend, ib.WCSuccess)
	b.Want(ib.WCRecv, ib.WCSuccess)
	rig.Transfer(t, b, a, 100_000, 2)
	before := framesOf(nodes[0], ends[0])
	rig.Transfer(t, a, b, 100_000, 3)
	// Packets of a SEND and a WRITE, an empty SEND, and one request or more of a READ.
	const least = 98 + 98 + 1 + 1
	if c := framesOf(nodes[0], ends[0]); c.Sent-before.Sent < least {
		t.Errorf("%+v, before %+v: datagrams were to go by frames again", c, before)
	}
	c := newEndpoint(nodes[0], 64)
	defer c.Close()
	connectAt(c, b.QPN(), b.Node.Addr, brief, 1)
	net.Delete("xa") // and xb with it
	c.Send(8)
	c.Want(ib.WCSend, ib.WCRetryExcErr)
	ends = addFrameWire(t, net, 1, 1500, "10.9.0.1/24", "10.9.0.2/24")
	var later []*node
	for i, e := range ends {
		later = append(later, startNodeAt(t, policy.Nap, frameHow(nodes[0].Dir, ends, i), e.addr))
	}
	d, e := couple(t, later[0], later[1], 1<<20)
	rig.Transfer(t, d, e, 1_000_000, 4)
	for i := range ends {
		if c := framesOf(later[i], ends[i]); c.Sent == 0 || c.Received == 0 {
			t.Errorf("end %d of the new wire: %+v: most datagrams were to go by frames", i, c)
		}
	}
}

// A frame from an address of this process, or for one that is not, goes no further.
func TestFramesOfStrangers(t *testing.T) {
	own, other := netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.3")
	peer := netip.MustParseAddr("10.9.0.2")
	p := &Port{roce: &Transport{}}
	p.roce.ours.Store(&map[netip.Addr]bool{own: true, other: true})
	for _, c := range []struct {
		src, dst netip.Addr
		want     bool
	}{
		{peer, own, true}, {other, own, false}, {own, own, false}, {own, peer, false}, {peer, peer, false},
	} {
		f := &flow{src: netip.AddrPortFrom(c.src, 9), dst: c.dst}
		if got := p.receives(f); got != c.want {
			t.Errorf("from %v to %v: %v", c.src, c.dst, got)
		}
	}
	f := &flow{src: netip.AddrPortFrom(peer, 9), dst: own}
	for _, ours := range []map[netip.Addr]bool{{own: true}, {own: true, peer: false}, {own: true}, {}} {
		p.roce.ours.Store(&ours)
		_, mine := ours[peer]
		if want := ours[own] && !mine; p.receives(f) != want {
			t.Errorf("with the addresses %v: %v", ours, !want)
		}
	}
}

// No poller waits for frames while threads poll. One that is about to sleep is woken by them.
func TestFramesWakeNoThreadThatPolls(t *testing.T) {
	_, ends := frameWire(t, 1500, "10.9.0.1/24", "10.9.0.2/24")
	if ends == nil {
		return
	}
	nodes := frameNodes(t, ends)
	a, b := couple(t, nodes[0], nodes[1], 1<<20)
	e := nodes[1].Eng
	lane, port := e.FirstLane(), Of(e).framePorts[0]
	isArmed := func() bool {
		port.armMu.Lock()
		defer port.armMu.Unlock()
		return port.armed
	}
	poll := func() {
		for range 4 * policy.FramePolls {
			lane.Poll()
		}
	}
	e.Probe().StopBackground() // it sleeps by the queue
	if poll(); isArmed() {
		t.Error("polls have not taken the queue from the poller")
	}
	b.Recv()
	if !e.BeginWait() {
		t.Fatal("something has come")
	}
	if poll(); !isArmed() {
		t.Error("polls have taken the queue from the poller of a thread that sleeps")
	}
	a.Send(8)
	_, sockets := e.ArrivalFDs()
	fds := []unix.PollFd{{Fd: int32(sockets), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 10_000); n != 1 {
		t.Errorf("the thread is not woken: %v", err)
	}
	e.EndWait()
	e.Collect(false)
	b.Want(ib.WCRecv, ib.WCSuccess)
	e.Settle()
	a.Want(ib.WCSend, ib.WCSuccess)
	if poll(); isArmed() {
		t.Error("polls have not taken the queue from the poller again")
	}
}

const (
	frameVictim = "VERBENA_FRAMES_VICTIM"
	frameKills  = 30
)

// Processes are killed at any moment in transfers by frames. The survivor's work ends, no byte
// changes that was not granted, and the next process has frames like the first.
func TestProcessWithFramesIsKilled(t *testing.T) {
	_, ends := frameWire(t, 1500, "10.9.0.1/24", "10.9.0.2/24")
	if ends == nil {
		return
	}
	dir := framesDir(t)
	t.Setenv(frameVictim, ends[1].addr.String())
	n := startNodeAt(t, policy.Nap, frameHow(dir, ends, 0), ends[0].addr)
	n.Dir = dir
	rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), 7))
	for range frameKills {
		p := startPeer(t, dir)
		e := newEndpoint(n, killBytes)
		grant(e, survivor)
		peer, err := p.meet(e)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(rnd.Int64N(int64(20*time.Millisecond))), func() { p.cmd.Process.Kill() })
		writeUntilError(e, peer, rnd)
		judge(e, survivor, victim)
		p.kill()
		e.Close()
	}
	if c := framesOf(n, ends[0]); c.Sent < 10*frameKills || c.Received < 10*frameKills || c.Elsewhere > c.Sent {
		t.Errorf("%+v: packets were to go by frames", c)
	}
}

// victimHow has servePeer use frames, if a test of frames started it.
func victimHow(t *testing.T, dir string) (o how, addr netip.Addr, ok bool) {
	t.Helper()
	text := os.Getenv(frameVictim)
	if text == "" {
		return o, addr, false
	}
	var ends []frameEnd
	for i, name := range []string{"xa", "xb"} {
		is, err := net.InterfaceByName(name)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, frameEnd{is, netip.MustParseAddr([]string{"10.9.0.1", text}[i]), 1})
	}
	return frameHow(dir, ends, 1), ends[1].addr, true
}

// noted notes the messages that it is given.
type noted []udp.Message

func (n *noted) Deliver(_ monotime.Time, _ int, m []udp.Message) bool {
	*n = append(*n, m...)
	return true
}

// Frames from an address of this process reach no other transport's port either.
func TestFramesOfStrangersToOtherPorts(t *testing.T) {
	own, other := netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.3")
	peer := netip.MustParseAddr("10.9.0.2")
	p := &Port{roce: &Transport{}}
	p.roce.ours.Store(&map[netip.Addr]bool{own: true, other: false})
	var m []udp.Message
	for _, src := range []netip.Addr{peer, other, other, peer, own} {
		m = append(m, udp.Message{Src: netip.AddrPortFrom(src, 9), Dst: own, Port: 4000})
	}
	var got noted
	for i := 0; i < len(m); {
		i += p.deliver(0, m[i:], &got)
	}
	if len(got) != 2 || got[0].Src.Addr() != peer || got[1].Src.Addr() != peer {
		t.Errorf("%v reach the port", got)
	}
	if n := p.roce.count.unknownQP.Load(); n != 3 {
		t.Errorf("%d are dropped, want 3", n)
	}
}
