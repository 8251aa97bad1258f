// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"runtime"
	"syscall"
	"testing"
	"time"

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
	r, err := packet.OpenReceiver("b")
	check(t, err)
	defer r.Close()
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
