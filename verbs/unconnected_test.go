// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

const testQKey = 0x11111111

// datagrams returns a UD queue pair that is ready to send and receive.
func datagrams(t testing.TB, size int, change ...func(*verbs.QPInitAttr)) *end {
	t.Helper()
	e := newEnd(t, ib.QPTypeUD, size, change...)
	toUD(t, e)
	return e
}

func toUD(t testing.TB, e *end) {
	t.Helper()
	check(t, e.qp.Modify(&ib.QPAttr{State: ib.QPInit, PortNum: 1, QKey: testQKey}, ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPQKey))
	check(t, e.qp.Modify(&ib.QPAttr{State: ib.QPRTR}, ib.QPStateAttr))
	check(t, e.qp.Modify(&ib.QPAttr{State: ib.QPRTS, SQPSN: 9}, ib.QPStateAttr|ib.QPSQPSN))
}

// handle makes an address handle from entry index of e's GID table to a GID.
func (e *end) handle(index int, gid ib.GID) *verbs.AH {
	e.t.Helper()
	ah, err := e.pd.CreateAH(&ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: gid, SGIDIndex: uint8(index), TrafficClass: 0x20}})
	check(e.t, err)
	return ah
}

// gidOf returns the index and GID of an address, -1 if the device lacks it.
func (e *end) gidOf(a string) (int, ib.GID) {
	e.t.Helper()
	table, err := e.ctx.GIDTable(1)
	check(e.t, err)
	want := ib.GIDFromAddr(netip.MustParseAddr(a))
	for _, g := range table {
		if g.GID == want {
			return g.Index, want
		}
	}
	return -1, want
}

// recv posts receives of n bytes each, one after the other in the buffer.
func (e *end) recv(count, n int) {
	e.t.Helper()
	for i := range count {
		_, err := e.qp.PostRecv(verbs.RecvWR{ID: uint64(i), SGList: []ib.SGE{e.mr.SGE(i*n, n)}})
		check(e.t, err)
	}
}

// counter returns a counter of e's device.
func (e *end) counter(name string) uint64 {
	e.t.Helper()
	for _, c := range e.ctx.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	e.t.Fatalf("no counter %q", name)
	return 0
}

// raised polls until a counter exceeds its earlier value.
func (e *end) raised(name string, was uint64) {
	e.t.Helper()
	for range 1 << 20 {
		if e.counter(name) > was {
			return
		}
		if n, _ := e.cq.Poll(make([]ib.WC, 1)); n > 0 {
			e.t.Fatalf("a completion came instead of %s", name)
		}
	}
	e.t.Fatalf("%s was not raised", name)
}

func TestUC(t *testing.T) { onBothPaths(t, ucOperations) }

func ucOperations(t *testing.T) {
	a, b := newEnd(t, ib.QPTypeUC, 16<<10), newEnd(t, ib.QPTypeUC, 16<<10)
	connect(t, a, b, ib.MTU1024)
	pattern(a.buf, 1)
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.mr.SGE(0, 3000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}).Status, ib.WCSuccess)
	b.recv(1, 16<<10)
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRRDMAWriteWithImm, ImmData: 5, SGList: []ib.SGE{a.mr.SGE(0, 5000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}).Status, ib.WCSuccess)
	if wc := b.one(); wc.Opcode != ib.WCRecvRDMAWithImm || wc.ByteLen != 5000 || wc.ImmData != 5 || !bytes.Equal(b.buf[:5000], a.buf[:5000]) {
		t.Fatalf("completion %+v", wc)
	}
	for _, n := range []int{0, 1, 1024, 1025, 10000} {
		clear(b.buf)
		b.recv(1, 16<<10)
		wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, n)}}).Status, ib.WCSuccess)
		if wc := b.one(); wc.ByteLen != uint32(n) || !bytes.Equal(b.buf[:n], a.buf[:n]) {
			t.Fatalf("%d bytes: %+v", n, wc)
		}
	}

	// Without a receive a message is dropped; with a wrong key a WRITE is. The sender is not
	// notified, and later messages arrive.
	was := b.counter("dropped_no_recv")
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 8)}}).Status, ib.WCSuccess)
	b.raised("dropped_no_recv", was)
	was = b.counter("dropped_message")
	wantStatus(t, a.write(8, b.mr.Addr(), b.mr.RKey()^9), ib.WCSuccess)
	b.raised("dropped_message", was)
	b.recv(1, 64)
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 8)}}).Status, ib.WCSuccess)
	b.one()

	// A send that fails stops the send queue alone: the state is SQE, and Modify leads out of it.
	b.recv(1, 64)
	bad := a.mr.SGE(0, 8)
	bad.LKey++
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{bad}}).Status, ib.WCLocProtErr)
	if s := a.qp.State(); s != ib.QPSQE {
		t.Fatalf("state %v", s)
	}
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 8)}}).Status, ib.WCWRFlushErr)
	check(t, a.qp.Modify(&ib.QPAttr{State: ib.QPRTS, CurState: ib.QPSQE}, ib.QPStateAttr|ib.QPCurState))
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 8)}}).Status, ib.WCSuccess)
	b.one()
}

// TestUD sends both ways over each family, the answer to an address handle
// made from the completion.
func TestUD(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "::1"} {
		t.Run(addr, func(t *testing.T) {
			a, b := datagrams(t, 8192), datagrams(t, 8192)
			index, gid := a.gidOf(addr)
			if index < 0 {
				t.Skipf("the loopback interface has no %s: enable IPv6 to test it", addr)
			}
			pattern(a.buf, 1)
			b.recv(1, 4096)
			wr := verbs.SendWR{Opcode: ib.WRSendWithImm, ImmData: 77, SGList: []ib.SGE{a.mr.SGE(0, 1000)}, AH: a.handle(index, gid), RemoteQPN: b.qp.QPN(), RemoteQKey: testQKey}
			wantStatus(t, a.post(wr).Status, ib.WCSuccess)
			wc := b.one()
			if wc.ByteLen != 1040 || wc.ImmData != 77 || wc.Flags != ib.WCGRH|ib.WCWithImm || wc.SrcQP != a.qp.QPN() || !bytes.Equal(b.buf[40:1040], a.buf[:1000]) {
				t.Fatalf("completion %+v", wc)
			}
			if b.buf[0]>>4 == 6 {
				if b.buf[0]<<4|b.buf[1]>>4 != 0x20 || !bytes.Equal(b.buf[8:24], gid[:]) || !bytes.Equal(b.buf[24:40], gid[:]) {
					t.Errorf("GRH % x", b.buf[:40])
				}
			} else if b.buf[20] != 0x45 || b.buf[21] != 0x20 || !bytes.Equal(b.buf[32:36], gid[12:]) || !bytes.Equal(b.buf[36:40], gid[12:]) {
				t.Errorf("GRH % x", b.buf[:40])
			}
			ah, err := b.pd.CreateAHFromWC(&wc, b.buf[:40], 1)
			check(t, err)
			a.recv(1, 4096)
			wantStatus(t, b.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{b.mr.SGE(40, 1000)}, AH: ah, RemoteQPN: wc.SrcQP, RemoteQKey: testQKey}).Status, ib.WCSuccess)
			if wc := a.one(); wc.ByteLen != 1040 || wc.SrcQP != b.qp.QPN() || !bytes.Equal(a.buf[40:1040], b.buf[40:1040]) {
				t.Fatalf("the answer: %+v", wc)
			}
			check(t, ah.Destroy())
			wantError(t, ah.Destroy(), syscall.EINVAL, "AH")
		})
	}
}

func TestUDDropsAndRefuses(t *testing.T) {
	a, b := datagrams(t, 8192), datagrams(t, 8192)
	_, gid := a.gidOf("127.0.0.1")
	wr := verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 100)}, AH: a.handle(0, gid), RemoteQPN: b.qp.QPN(), RemoteQKey: testQKey}
	b.recv(2, 139)
	for counter, change := range map[string]func(*verbs.SendWR){
		"bad_qkey":        func(w *verbs.SendWR) { w.RemoteQKey++ },
		"dropped_message": func(w *verbs.SendWR) {}, // longer than the receive, which stays
		"unknown_qp":      func(w *verbs.SendWR) { w.RemoteQPN ^= 0x2000 },
	} {
		bad, was := wr, b.counter(counter)
		change(&bad)
		wantStatus(t, a.post(bad).Status, ib.WCSuccess)
		b.raised(counter, was)
	}
	if p, err := b.ctx.QueryPort(1); err != nil || p.QKeyViolCntr != 1 || p.BadPKeyCntr != 0 {
		t.Errorf("port %+v, %v", p, err)
	}
	// The top bit asks for the key of the queue pair itself.
	wr.SGList, wr.RemoteQKey = []ib.SGE{a.mr.SGE(0, 99)}, 1<<31
	wantStatus(t, a.post(wr).Status, ib.WCSuccess)
	b.one()
	// One byte more than a datagram can be.
	wr.SGList = []ib.SGE{a.mr.SGE(0, 4097)}
	wantStatus(t, a.post(wr).Status, ib.WCLocLenErr)
	if s := a.qp.State(); s != ib.QPSQE {
		t.Errorf("state %v", s)
	}
	for arg, change := range map[string]func(*verbs.SendWR){
		"AH":        func(w *verbs.SendWR) { w.AH = nil },
		"RemoteQPN": func(w *verbs.SendWR) { w.RemoteQPN = 1 << 24 },
		"Opcode":    func(w *verbs.SendWR) { w.Opcode = ib.WRRDMAWrite },
	} {
		bad := wr
		change(&bad)
		_, err := a.qp.PostSend(bad)
		wantError(t, err, syscall.EINVAL, arg)
	}
	wr.AH = b.handle(0, gid) // of another context
	_, err := a.qp.PostSend(wr)
	wantError(t, err, syscall.EINVAL, "AH")
	gone := a.handle(0, gid)
	check(t, gone.Destroy())
	wr.AH = gone
	_, err = a.qp.PostSend(wr)
	wantError(t, err, syscall.EINVAL, "AH")

	_, err = a.pd.CreateAH(nil)
	wantError(t, err, syscall.EINVAL, "attr")
	_, err = a.pd.CreateAH(&ib.AHAttr{})
	wantError(t, err, syscall.EINVAL, "AH.IsGlobal")
	_, err = a.pd.CreateAHFromWC(&ib.WC{}, make([]byte, 40), 1)
	wantError(t, err, syscall.EINVAL, "wc")
	_, err = a.pd.CreateAHFromWC(&ib.WC{Flags: ib.WCGRH}, make([]byte, 40), 1)
	wantError(t, err, syscall.EINVAL, "grh")
	_, err = a.pd.CreateAHFromWC(&ib.WC{Flags: ib.WCGRH}, nil, 1)
	wantError(t, err, syscall.EINVAL, "grh")
}

// multicaster returns a device that can send to groups of a family, and the
// index of one of its addresses of that family.
func multicaster(t *testing.T, v4 bool) (device string, index int) {
	t.Helper()
	list, err := verbs.Devices()
	check(t, err)
	for _, d := range list {
		i, err := net.InterfaceByName(d.NetDev)
		check(t, err)
		// Linux routes IPv4 groups out of the loopback interface, too.
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagMulticast == 0 && !(v4 && i.Flags&net.FlagLoopback != 0) {
			continue
		}
		gids, err := d.GIDs()
		check(t, err)
		for _, g := range gids {
			if a := g.GID.Addr(); a.Is4() == v4 {
				return d.Name, g.Index
			}
		}
	}
	t.Skip("no interface can send to a group of this family: add a multicast route to test it")
	return "", 0
}

// TestMulticast has two queue pairs in a group; each message comes to both
// once, and to one that left no more.
func TestMulticast(t *testing.T) {
	pid := os.Getpid() // a group of our own: others may be testing, too
	for _, g := range []string{fmt.Sprintf("239.193.%d.%d", pid>>8&0xff, pid&0xff), fmt.Sprintf("ff12::%x", pid), fmt.Sprintf("ff15::%x", pid)} {
		t.Run(g, func(t *testing.T) {
			group := ib.GIDFromAddr(netip.MustParseAddr(g))
			device, index := multicaster(t, group.Addr().Is4())
			var ends [3]*end
			for i := range ends {
				ends[i] = newEndOn(t, device, ib.QPTypeUD, 4096)
				toUD(t, ends[i])
			}
			a, b, c := ends[0], ends[1], ends[2]
			for _, e := range []*end{b, c, c} { // twice is once
				check(t, e.qp.AttachMulticast(group))
			}
			wr := verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 100)}, AH: a.handle(index, group), RemoteQPN: ib.QPMulticast, RemoteQKey: testQKey}
			b.recv(2, 512)
			c.recv(2, 512)
			wantStatus(t, a.post(wr).Status, ib.WCSuccess)
			wc := b.one()
			if wc.ByteLen != 140 || wc.SrcQP != a.qp.QPN() || c.one().WRID != 0 {
				t.Errorf("completion %+v", wc)
			}
			ah, err := b.pd.CreateAHFromWC(&wc, b.buf[:40], 1)
			check(t, err)
			a.recv(1, 4096)
			wantStatus(t, b.post(verbs.SendWR{Opcode: ib.WRSend, AH: ah, RemoteQPN: wc.SrcQP, RemoteQKey: testQKey}).Status, ib.WCSuccess)
			a.one()

			wantError(t, c.qp.Destroy(), syscall.EBUSY, "QP")
			check(t, c.qp.DetachMulticast(group))
			wantError(t, c.qp.DetachMulticast(group), syscall.EINVAL, "gid")
			check(t, c.qp.Destroy())
			wantError(t, c.qp.AttachMulticast(group), syscall.EINVAL, "QP")
			wantStatus(t, a.post(wr).Status, ib.WCSuccess)
			if wc := b.one(); wc.WRID != 1 {
				t.Errorf("completion %+v", wc)
			}
			wantError(t, b.qp.AttachMulticast(ib.GIDFromAddr(netip.IPv6Loopback())), syscall.EINVAL, "gid")
		})
	}
	rc := newEnd(t, ib.QPTypeRC, 8)
	wantError(t, rc.qp.AttachMulticast(ib.GIDFromAddr(netip.MustParseAddr("239.1.1.1"))), syscall.EINVAL, "QP")
}

func TestRCOverIPv6(t *testing.T) { onBothPaths(t, rcOverIPv6) }

func rcOverIPv6(t *testing.T) {
	a, b := newEnd(t, ib.QPTypeRC, 100_000), newEnd(t, ib.QPTypeRC, 100_000)
	index, gid := a.gidOf("::1")
	if index < 0 {
		t.Skip("the loopback interface has no ::1: enable IPv6 to test it")
	}
	connect(t, a, b, ib.MTU4096, func(q *ib.QPAttr) { q.AH.GRH.SGIDIndex, q.AH.GRH.DGID = uint8(index), gid })
	pattern(a.buf, 9)
	wantStatus(t, a.write(len(a.buf), b.mr.Addr(), b.mr.RKey()), ib.WCSuccess)
	if !bytes.Equal(a.buf, b.buf) {
		t.Error("not written as sent")
	}
	clear(a.buf)
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRRDMARead, SGList: []ib.SGE{a.mr.SGE(0, len(a.buf))}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}).Status, ib.WCSuccess)
	if !bytes.Equal(a.buf, b.buf) {
		t.Error("not read as it is there")
	}
}
