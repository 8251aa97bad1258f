// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/sys/packet"
	"verbena/internal/testkit/netns"
	"verbena/verbs"
)

// aWire returns a namespace with the interfaces a and b, the ends of one wire; nil outside of it.
func aWire(t *testing.T) *netns.Network {
	n := netns.New(t)
	if n == nil {
		return nil
	}
	n.AddWire("a", "b")
	n.Add("a", "192.0.2.1/24")
	n.Add("b", "198.51.100.1/24")
	n.Up("lo", "a", "b")
	return n
}

// newRaw returns a raw packet queue pair in RTS.
func newRaw(t *testing.T, device string, change ...func(*verbs.QPInitAttr)) *end {
	t.Helper()
	e := newEndOn(t, device, ib.QPTypeRawPacket, 1<<17, change...)
	e.ready()
	return e
}

// ready takes a raw packet queue pair to RTS.
func (e *end) ready() {
	e.t.Helper()
	check(e.t, e.qp.Modify(&ib.QPAttr{State: ib.QPInit, PortNum: 1}, ib.QPStateAttr|ib.QPPort))
	check(e.t, e.qp.Modify(&ib.QPAttr{State: ib.QPRTR}, ib.QPStateAttr))
	check(e.t, e.qp.Modify(&ib.QPAttr{State: ib.QPRTS}, ib.QPStateAttr))
}

// sendFrame sends a frame, and returns its completion.
func (e *end) sendFrame(frame []byte) ib.WC {
	e.t.Helper()
	copy(e.buf, frame)
	return e.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{e.mr.SGE(0, len(frame))}})
}

// aFrame returns a frame of n bytes with an EtherType that the kernel has no use for.
func aFrame(n int, mark byte) []byte {
	f := bytes.Repeat([]byte{mark}, n)
	copy(f, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5})
	return f
}

// receiver returns a socket that gets the frames which come by an interface.
func receiver(t *testing.T, name string) *packet.Receiver {
	t.Helper()
	l, err := netlink.LinkByName(name)
	check(t, err)
	r, err := packet.OpenReceiver(l.Attrs().Index)
	check(t, err)
	t.Cleanup(func() { check(t, r.Close()) })
	return r
}

// nextFrame returns the next frame with aFrame's addresses.
func nextFrame(t *testing.T, r *packet.Receiver) []byte {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		f, err := r.Read()
		check(t, err)
		if len(f) >= 12 && bytes.Equal(f[:12], aFrame(14, 0)[:12]) {
			return f
		}
	}
	t.Fatal("no frame has come")
	return nil
}

// A raw packet queue pair sends frames as they are, from a list of pieces and inline.
func TestRawPacketsAreSent(t *testing.T) {
	n := aWire(t)
	if n == nil {
		return
	}
	r := receiver(t, "b")
	e := newRaw(t, "roce_a")
	for _, size := range []int{14, 60, 1514} {
		f := aFrame(size, byte(size))
		wantStatus(t, e.sendFrame(f).Status, ib.WCSuccess)
		if got := nextFrame(t, r); !bytes.Equal(got, f) {
			t.Errorf("%x of %d bytes arrived", got[:14], len(got))
		}
	}
	f := aFrame(100, 3)
	copy(e.buf[50:], f[:20])
	copy(e.buf[500:], f[20:])
	wantStatus(t, e.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{e.mr.SGE(50, 20), e.mr.SGE(500, 80)}}).Status, ib.WCSuccess)
	if got := nextFrame(t, r); !bytes.Equal(got, f) {
		t.Errorf("from pieces: %x", got)
	}
	f = aFrame(60, 4)
	wantStatus(t, e.post(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, Inline: f}).Status, ib.WCSuccess)
	if got := nextFrame(t, r); !bytes.Equal(got, f) {
		t.Errorf("inline: %x", got)
	}
	if a := e.ctx.Query(); a.MaxRawEthyQP == 0 || a.PacketPacing.Types>>ib.QPTypeRawPacket&1 == 0 {
		t.Errorf("%+v", a)
	}
}

// An interface that is made anew under the name of one that has gone gets a socket of its own.
func TestRawPacketsOfNewInterface(t *testing.T) {
	n := aWire(t)
	if n == nil {
		return
	}
	old := newRaw(t, "roce_a")
	a, err := netlink.LinkByName("a")
	check(t, err)
	check(t, netlink.LinkDel(a))
	n.AddWire("a", "b")
	n.Add("a", "192.0.2.1/24")
	n.Add("b", "198.51.100.1/24")
	n.Up("a", "b")
	r := receiver(t, "b")
	e, f := newRaw(t, "roce_a"), aFrame(60, 7)
	wantStatus(t, e.sendFrame(f).Status, ib.WCSuccess)
	if got := nextFrame(t, r); !bytes.Equal(got, f) {
		t.Errorf("%x", got)
	}
	// The end of the old queue pair leaves the new one its socket.
	check(t, old.qp.Destroy())
	third := newRaw(t, "roce_a")
	wantStatus(t, third.sendFrame(f).Status, ib.WCSuccess)
	nextFrame(t, r)
	wantStatus(t, e.sendFrame(f).Status, ib.WCSuccess)
	nextFrame(t, r)
}

// The interface of a context has another name when a queue pair is made, and another interface has
// its name. Frames go by the interface of the context, and flows take those that arrive there.
func TestRawPacketsOfRenamedInterface(t *testing.T) {
	n := aWire(t)
	if n == nil {
		return
	}
	r := receiver(t, "b")
	e := newRaw(t, "roce_a", func(*verbs.QPInitAttr) {
		n.Down("a")
		check(t, netlink.LinkSetName(n.Link("a"), "was-a"))
		n.AddWire("a", "c")
		n.Up("was-a", "b", "a", "c") // b had no carrier either
	})
	f := aFrame(1514, 8)
	wantStatus(t, e.sendFrame(f).Status, ib.WCSuccess)
	if got := nextFrame(t, r); !bytes.Equal(got, f) {
		t.Errorf("%x", got)
	}
	defer e.flow(ib.FlowAttr{Specs: to()}).Destroy()
	e.recvFrame(1, 4096)
	back := newRaw(t, "roce_b")
	wantStatus(t, back.sendFrame(f).Status, ib.WCSuccess)
	e.wantFrame(1, 4096, f)
}

// A frame that is too short or too long stops the send queue, until it is taken to RTS again. The
// longest is that of the interface's MTU, as of the last change of state, with a VLAN tag.
func TestRawPacketLengths(t *testing.T) {
	n := aWire(t)
	if n == nil {
		return
	}
	e := newRaw(t, "roce_a")
	again := func() { check(t, e.qp.Modify(&ib.QPAttr{State: ib.QPRTS}, ib.QPStateAttr)) }
	for _, size := range []int{0, 13, 1519} {
		wantStatus(t, e.sendFrame(aFrame(max(size, 14), 1)[:size]).Status, ib.WCLocLenErr)
		wantStatus(t, e.sendFrame(aFrame(60, 1)).Status, ib.WCWRFlushErr)
		again()
	}
	check(t, n.LinkSetMTU(n.Link("a"), 9000))
	again()
	wantStatus(t, e.sendFrame(aFrame(9014, 1)).Status, ib.WCSuccess)
	if e.counter("raw_not_sent") == 0 {
		t.Error("the other end has another MTU, and the frame was not counted as lost")
	}
	wantStatus(t, e.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{{Addr: e.mr.Addr(), Length: 60, LKey: e.mr.LKey() + 1}}}).Status, ib.WCLocProtErr)
}

// While an interface is down its frames are lost and counted, as an adapter without a link loses
// them.
func TestRawPacketsOfInterfaceThatIsDown(t *testing.T) {
	n := aWire(t)
	if n == nil {
		return
	}
	e := newRaw(t, "roce_a")
	n.Down("a")
	wantStatus(t, e.sendFrame(aFrame(60, 1)).Status, ib.WCSuccess)
	if e.counter("raw_not_sent") != 1 {
		t.Error("no frame was counted as lost")
	}
}

func TestRawPacketsAreRefused(t *testing.T) {
	n := aWire(t)
	if n == nil {
		return
	}
	e := newEndOn(t, "roce_a", ib.QPTypeUD, 64)
	attr := verbs.QPInitAttr{Type: ib.QPTypeRawPacket, SendCQ: e.cq, RecvCQ: e.cq, Cap: ib.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}
	q, err := e.pd.CreateQP(&attr)
	check(t, err)
	wantError(t, q.Modify(&ib.QPAttr{State: ib.QPInit}, ib.QPStateAttr), syscall.EINVAL, "mask")
	check(t, q.Modify(&ib.QPAttr{State: ib.QPInit, PortNum: 1}, ib.QPStateAttr|ib.QPPort))
	check(t, q.Modify(&ib.QPAttr{State: ib.QPRTR}, ib.QPStateAttr))
	check(t, q.Modify(&ib.QPAttr{State: ib.QPRTS}, ib.QPStateAttr))
	_, err = q.PostSend(verbs.SendWR{Opcode: ib.WRSendWithImm})
	wantError(t, err, syscall.EINVAL, "Opcode")
	wantError(t, q.AttachMulticast(ib.GID{0: 0xff}), syscall.EINVAL, "QP")
	check(t, q.Destroy())

	iwarp := newEndOn(t, "iwarp_a", ib.QPTypeRC, 64)
	_, err = iwarp.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRawPacket, SendCQ: iwarp.cq, RecvCQ: iwarp.cq})
	wantError(t, err, syscall.EOPNOTSUPP, "attr.Type")

	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	check(t, unix.Capget(&header, &data[0]))
	data[0].Effective &^= 1 << unix.CAP_NET_RAW
	check(t, unix.Capset(&header, &data[0]))
	_, err = e.pd.CreateQP(&attr)
	wantError(t, err, syscall.EPERM, "attr.Type")
}

// recvFrame posts a receive of 2048 bytes at an offset of the end's buffer.
func (e *end) recvFrame(id uint64, offset int) {
	e.t.Helper()
	_, err := e.qp.PostRecv(verbs.RecvWR{ID: id, SGList: []ib.SGE{e.mr.SGE(offset, 2048)}})
	check(e.t, err)
}

// wantFrame has the next completion be of a receive with a frame in it.
func (e *end) wantFrame(id uint64, offset int, want []byte) {
	e.t.Helper()
	wc := e.one()
	if wc.WRID != id || wc.Opcode != ib.WCRecv || int(wc.ByteLen) != len(want) || wc.QPN != e.qp.QPN() {
		e.t.Fatalf("%+v: want a frame of %d bytes", wc, len(want))
	}
	if got := e.buf[offset : offset+len(want)]; !bytes.Equal(got, want) {
		e.t.Fatalf("received %x, want %x", got, want)
	}
}

// flow makes a flow of a port.
func (e *end) flow(a ib.FlowAttr) *verbs.Flow {
	e.t.Helper()
	a.Port = 1
	f, err := e.qp.CreateFlow(&a)
	check(e.t, err)
	return f
}

var allOfMAC = [6]byte{255, 255, 255, 255, 255, 255}

// to selects the frames of aFrame.
func to() []ib.FlowSpec {
	return []ib.FlowSpec{ib.FlowSpecEth{Val: ib.FlowEth{DstMAC: [6]byte{2, 5: 1}}, Mask: ib.FlowEth{DstMAC: allOfMAC}}}
}

// A frame goes to the flow that it matches: from another interface, with its VLAN tag, and from
// another queue pair of the interface. After the flow it goes nowhere.
func TestFramesAreSteered(t *testing.T) {
	n := aWire(t)
	if n == nil {
		return
	}
	a, b, other := newRaw(t, "roce_a"), newRaw(t, "roce_b"), newRaw(t, "roce_b")
	flow := b.flow(ib.FlowAttr{Specs: to()})
	rest := other.flow(ib.FlowAttr{Type: ib.FlowAllDefault})
	defer rest.Destroy()
	tagged := append(append(aFrame(12, 0), 0x81, 0, 0x20, 5), aFrame(60, 7)[12:]...)
	for i, f := range [][]byte{aFrame(60, 1), aFrame(1514, 2), tagged} {
		b.recvFrame(uint64(i), 4096)
		wantStatus(t, a.sendFrame(f).Status, ib.WCSuccess)
		b.wantFrame(uint64(i), 4096, f)
	}
	b.recvFrame(7, 4096)
	wantStatus(t, other.sendFrame(aFrame(99, 3)).Status, ib.WCSuccess)
	b.wantFrame(7, 4096, aFrame(99, 3))

	wantError(t, b.qp.Destroy(), syscall.EBUSY, "QP")
	check(t, flow.Destroy())
	wantError(t, flow.Destroy(), syscall.EINVAL, "Flow")
	b.recvFrame(8, 4096)
	other.recvFrame(9, 4096)
	wantStatus(t, a.sendFrame(aFrame(64, 4)).Status, ib.WCSuccess)
	other.wantFrame(9, 4096, aFrame(64, 4))
	if got, err := b.cq.Poll(make([]ib.WC, 1)); got != 0 || err != nil {
		t.Error("a frame has come without a flow")
	}
	check(t, b.qp.Destroy())
}

// Loopback's frames arrive once.
func TestFramesOfLoopbackArriveOnce(t *testing.T) {
	n := aWire(t)
	if n == nil {
		return
	}
	a, b := newRaw(t, "roce_lo"), newRaw(t, "roce_lo")
	flow := b.flow(ib.FlowAttr{Specs: to()})
	defer flow.Destroy()
	b.recvFrame(1, 4096)
	b.recvFrame(2, 8192)
	wantStatus(t, a.sendFrame(aFrame(60, 1)).Status, ib.WCSuccess)
	b.wantFrame(1, 4096, aFrame(60, 1))
	wantStatus(t, a.sendFrame(aFrame(61, 2)).Status, ib.WCSuccess)
	b.wantFrame(2, 8192, aFrame(61, 2))
}

// The kernel's datagrams are steered, with checksums as they are on a wire. It gets them as well.
func TestDatagramsOfTheKernelAreSteered(t *testing.T) {
	n := aWire(t)
	if n == nil {
		return
	}
	b := newRaw(t, "roce_b")
	flow := b.flow(ib.FlowAttr{Specs: []ib.FlowSpec{
		ib.FlowSpecIPv4{Val: ib.FlowIPv4{DstIP: [4]byte{192, 0, 2, 9}}, Mask: ib.FlowIPv4{DstIP: [4]byte{255, 255, 255, 255}}},
		ib.FlowSpecUDP{Val: ib.FlowPorts{DstPort: 999}, Mask: ib.FlowPorts{DstPort: 0xffff}}}})
	defer flow.Destroy()
	check(t, n.NeighAdd(&netlink.Neigh{LinkIndex: n.Link("a").Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.IPv4(192, 0, 2, 9), HardwareAddr: n.Link("b").Attrs().HardwareAddr}))
	c, err := net.Dial("udp", "192.0.2.9:999")
	check(t, err)
	defer c.Close()
	b.recvFrame(1, 0)
	_, err = c.Write([]byte("hello"))
	check(t, err)
	wc := b.one()
	f := b.buf[:wc.ByteLen]
	if len(f) != 14+20+8+5 || string(f[42:]) != "hello" {
		t.Fatalf("received %x", f)
	}
	// The sum over the pseudo header, the header with its checksum and the data is 0xffff.
	sum := uint32(17 + 13)
	for at := 26; at < len(f); at += 2 {
		sum += uint32(f[at]) << 8
		if at+1 < len(f) {
			sum += uint32(f[at+1])
		}
	}
	if sum = sum>>16 + sum&0xffff; sum>>16+sum&0xffff != 0xffff {
		t.Errorf("the checksum %x is wrong: sum %#x", f[40:42], sum)
	}
}

// Frames that no receive takes are dropped and counted. A queue pair that is not ready gets none.
func TestFramesWithoutReceive(t *testing.T) {
	n := aWire(t)
	if n == nil {
		return
	}
	a, b := newRaw(t, "roce_a"), newRaw(t, "roce_b")
	sniffer := newRaw(t, "roce_b")
	defer b.flow(ib.FlowAttr{Specs: to()}).Destroy()
	defer sniffer.flow(ib.FlowAttr{Type: ib.FlowSniffer}).Destroy()
	sniffer.recvFrame(1, 4096)
	wantStatus(t, a.sendFrame(aFrame(60, 1)).Status, ib.WCSuccess)
	sniffer.wantFrame(1, 4096, aFrame(60, 1))
	if b.counter("dropped_no_recv") == 0 {
		t.Error("the frame was not counted")
	}
	_, err := b.qp.PostRecv(verbs.RecvWR{ID: 2, SGList: []ib.SGE{b.mr.SGE(0, 59)}})
	check(t, err)
	sniffer.recvFrame(3, 4096)
	wantStatus(t, a.sendFrame(aFrame(60, 2)).Status, ib.WCSuccess)
	sniffer.wantFrame(3, 4096, aFrame(60, 2))
	if b.counter("dropped_message") == 0 {
		t.Error("the long frame was not counted")
	}
	wantStatus(t, a.sendFrame(aFrame(59, 3)).Status, ib.WCSuccess)
	b.wantFrame(2, 0, aFrame(59, 3))
}

func TestFlowsAreRefused(t *testing.T) {
	n := aWire(t)
	if n == nil {
		return
	}
	b, ud := newRaw(t, "roce_b"), newEndOn(t, "roce_b", ib.QPTypeUD, 64)
	for _, c := range []struct {
		errno syscall.Errno
		arg   string
		qp    *verbs.QP
		attr  *ib.FlowAttr
	}{
		{syscall.EINVAL, "attr", b.qp, nil},
		{syscall.EINVAL, "QP", ud.qp, &ib.FlowAttr{Port: 1}},
		{syscall.EINVAL, "attr.Port", b.qp, &ib.FlowAttr{Port: 2}},
		{syscall.EINVAL, "attr", b.qp, &ib.FlowAttr{Port: 1, Type: 9}},
		{syscall.EOPNOTSUPP, "attr", b.qp, &ib.FlowAttr{Port: 1, Flags: 4}},
	} {
		_, err := c.qp.CreateFlow(c.attr)
		wantError(t, err, c.errno, c.arg)
	}
	if b.ctx.Query().DeviceCapFlags&ib.CapManagedFlowSteering == 0 {
		t.Error("the device does not say that it has flows")
	}
	_ = b.flow(ib.FlowAttr{Type: ib.FlowMCDefault}) // closing the context ends it
}

// Frames of a queue pair that spreads them go to its work queues by their addresses, always to the
// same one.
func TestFramesAreSpread(t *testing.T) {
	n := aWire(t)
	if n == nil {
		return
	}
	a, b := newRaw(t, "roce_a"), newEndOn(t, "roce_b", ib.QPTypeUD, 256*256)
	var queues []*verbs.WQ
	posted := 0
	for range 4 {
		w, err := b.pd.CreateWQ(&verbs.WQInitAttr{CQ: b.cq, MaxWR: 64, MaxSGE: 1})
		check(t, err)
		_, err = w.PostRecv(verbs.RecvWR{SGList: []ib.SGE{b.mr.SGE(0, 2048)}})
		wantError(t, err, syscall.EINVAL, "QP")
		check(t, w.Modify(ib.WQReady))
		for range 64 { // memory of its own: the next frame may come while this one is looked at
			at := 256 * posted
			_, err := w.PostRecv(verbs.RecvWR{ID: uint64(at), SGList: []ib.SGE{b.mr.SGE(at, 256)}})
			posted++
			check(t, err)
		}
		queues = append(queues, w)
	}
	_, err := b.ctx.CreateRWQTable(queues[:3]...)
	wantError(t, err, syscall.EINVAL, "wqs")
	table, err := b.ctx.CreateRWQTable(queues...)
	check(t, err)
	_, err = b.pd.CreateRSSQP(&verbs.RSSInitAttr{Table: table, Key: make([]byte, 39)})
	wantError(t, err, syscall.EINVAL, "attr.Key")
	_, err = b.pd.CreateRSSQP(&verbs.RSSInitAttr{Table: table, Key: make([]byte, 40), Fields: ib.RXHashSrcIPv4 | ib.RXHashSrcIPv6})
	wantError(t, err, syscall.EINVAL, "attr.Fields")
	q, err := b.pd.CreateRSSQP(&verbs.RSSInitAttr{Table: table, Key: bytes.Repeat([]byte{0x6d, 0x5a, 0x3b, 0x11, 0x83}, 8), Fields: ib.RXHashSrcIPv4 | ib.RXHashDstIPv4})
	check(t, err)
	wantError(t, q.Modify(&ib.QPAttr{State: ib.QPInit, PortNum: 1}, ib.QPStateAttr|ib.QPPort), syscall.EOPNOTSUPP, "QP")
	flow, err := q.CreateFlow(&ib.FlowAttr{Port: 1, Specs: to()})
	check(t, err)
	f := append(aFrame(12, 0), 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2)
	f = append(f, make([]byte, 26)...)
	first := map[byte]ib.QPN{}
	used := map[ib.QPN]bool{}
	for i := range byte(64) {
		f[29] = i % 32
		wantStatus(t, a.sendFrame(f).Status, ib.WCSuccess)
		wc := b.one()
		if got := b.buf[wc.WRID:][:len(f)]; int(wc.ByteLen) != len(f) || !bytes.Equal(got, f) {
			t.Fatalf("%+v: %x", wc, got)
		}
		if was, ok := first[i%32]; ok && was != wc.QPN {
			t.Errorf("frames of one address went to %v and %v", was, wc.QPN)
		}
		first[i%32], used[wc.QPN] = wc.QPN, true
	}
	if len(used) < 2 {
		t.Errorf("32 addresses went to %d work queues", len(used))
	}
	wantError(t, queues[0].Destroy(), syscall.EBUSY, "WQ")
	wantError(t, table.Destroy(), syscall.EBUSY, "RWQTable")
	check(t, flow.Destroy())
	check(t, q.Destroy())
	check(t, table.Destroy())
	check(t, queues[0].Modify(ib.WQErr))
	wantError(t, queues[0].Modify(ib.WQReady), syscall.EINVAL, "state")
	check(t, queues[0].Modify(ib.WQReset))
	check(t, queues[0].Destroy())
}

// Counters count frames and bytes of flows: of those that are made with them, and of others from
// then on. The counts of flows that are gone stay.
func TestFlowsAreCounted(t *testing.T) {
	n := aWire(t)
	if n == nil {
		return
	}
	a, b := newRaw(t, "roce_a"), newRaw(t, "roce_b")
	made, later := counters(t, b), counters(t, b)
	check(t, made.Attach(ib.CounterPackets, 0, nil))
	check(t, made.Attach(ib.CounterBytes, 1, nil))
	wantError(t, made.Attach(2, 0, nil), syscall.ENOTSUP, "what")
	wantError(t, made.Attach(ib.CounterBytes, 256, nil), syscall.EINVAL, "index")
	_, err := b.qp.CreateFlow(&ib.FlowAttr{Port: 1}, nil)
	wantError(t, err, syscall.EINVAL, "counters")
	flow, err := b.qp.CreateFlow(&ib.FlowAttr{Port: 1, Specs: to()}, made)
	check(t, err)
	wantError(t, made.Attach(ib.CounterBytes, 0, nil), syscall.EBUSY, "Counters")
	pass := func(size int) {
		b.recvFrame(1, 4096)
		wantStatus(t, a.sendFrame(aFrame(size, 1)).Status, ib.WCSuccess)
		b.wantFrame(1, 4096, aFrame(size, 1))
	}
	want := func(n *verbs.Counters, packets, bytes uint64) {
		t.Helper()
		var v [2]uint64
		check(t, n.Read(v[:]))
		if v != [2]uint64{packets, bytes} {
			t.Errorf("counted %d, want %d frames of %d bytes", v, packets, bytes)
		}
	}
	pass(60)
	check(t, later.Attach(ib.CounterBytes, 1, flow))
	pass(100)
	want(made, 2, 160)
	want(later, 0, 100)
	wantError(t, later.Destroy(), syscall.EBUSY, "Counters")
	check(t, flow.Destroy())
	want(made, 2, 160)
	want(later, 0, 100)
	wantError(t, later.Attach(ib.CounterBytes, 1, flow), syscall.EINVAL, "flow")
	wantError(t, made.Read(make([]uint64, 257)), syscall.EINVAL, "values")
	check(t, later.Destroy())
	check(t, made.Destroy())
}

// A flow tags the completions of its frames, and one that drops keeps them from flows behind it.
func TestFlowsTagAndDrop(t *testing.T) {
	n := aWire(t)
	if n == nil {
		return
	}
	a, b := newRaw(t, "roce_a"), newRaw(t, "roce_b")
	all := b.flow(ib.FlowAttr{Priority: 1, Specs: []ib.FlowSpec{ib.FlowActionTag{Tag: 0xfedcba98}}})
	pass := func(mark byte, tag uint32) {
		t.Helper()
		b.recvFrame(1, 4096)
		wantStatus(t, a.sendFrame(aFrame(60, mark)).Status, ib.WCSuccess)
		wc := b.poll(1)[0]
		if wc.Opcode != ib.WCRecv || wc.FlowTag() != tag || b.buf[4096+59] != mark {
			t.Errorf("%+v of frame %d, tag %#x", wc, b.buf[4096+59], wc.FlowTag())
		}
	}
	pass(1, 0xfedcba98)
	dropped := counters(t, b)
	check(t, dropped.Attach(ib.CounterPackets, 0, nil))
	drop, err := b.qp.CreateFlow(&ib.FlowAttr{Port: 1, Specs: append(to(), ib.FlowActionDrop{})}, dropped)
	check(t, err)
	other := aFrame(60, 2)
	other[5] = 9 // of the destination
	b.recvFrame(1, 4096)
	wantStatus(t, a.sendFrame(aFrame(60, 3)).Status, ib.WCSuccess)
	wantStatus(t, a.sendFrame(other).Status, ib.WCSuccess)
	if b.poll(1); !bytes.Equal(b.buf[4096:4096+60], other) {
		t.Errorf("%x passed the flow that drops", b.buf[4096:4096+60])
	}
	var count [1]uint64
	check(t, dropped.Read(count[:]))
	if count[0] != 1 {
		t.Errorf("%d frames were dropped", count[0])
	}
	check(t, drop.Destroy())
	pass(4, 0xfedcba98)
	check(t, all.Destroy())
	_ = b.flow(ib.FlowAttr{Specs: to()})
	pass(5, 0)
}

func counters(t *testing.T, e *end) *verbs.Counters {
	t.Helper()
	n, err := e.ctx.CreateCounters()
	check(t, err)
	return n
}
