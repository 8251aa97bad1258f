// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"bytes"
	"fmt"
	"testing"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/queue"
	"verbena/internal/testkit/rig"
)

// TestIWARPTransfers moves every size by every operation, both ways round, with
// and without CRCs and in both address families.
func TestIWARPTransfers(t *testing.T) {
	for _, o := range []iwarpOptions{{}, {crc: true}, {rtr: mpa.RTRs(mpa.RTRRead), v6: true}, {crc: true, rtr: mpa.RTRs(mpa.RTRWrite)}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			a, b := iwarpPair(t, policy.Nap, rig.BigBuffer, o)
			for i, n := range rig.Sizes {
				if o.rtr == 0 && i == 0 { // client-server: the initiator speaks first
					b.Recv()
					a.Send(0)
					a.Want(ib.WCSend, ib.WCSuccess)
					b.Want(ib.WCRecv, ib.WCSuccess)
				}
				for j, from := range []*endpoint{a, b} {
					to := []*endpoint{b, a}[j]
					rig.Transfer(t, from, to, n, byte(2*i+j))
				}
			}
			if o.crc {
				return
			}
			placed, got := b.Node.Counter("placed_direct_bytes"), b.Node.Counter("rcvd_bytes")
			if placed*10 < got*9 {
				t.Errorf("%d of %d bytes were read straight to their place", placed, got)
			}
		})
	}
}

// TestIWARPInvalidates has a SEND take a key away.
func TestIWARPInvalidates(t *testing.T) {
	a, b := iwarpPair(t, policy.Nap, 1<<16, iwarpOptions{})
	fast := b.FastKey()
	b.Recv()
	a.Request(queue.SendWQE{Opcode: ib.WRSendWithInv, Length: 10, InvalidateKey: fast})
	a.Want(ib.WCSend, ib.WCSuccess)
	if wc := b.Want(ib.WCRecv, ib.WCSuccess); wc.InvalidatedRKey != fast {
		t.Errorf("%#x was invalidated, want %#x", wc.InvalidatedRKey, fast)
	}
	a.Request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: 8, RKey: fast})
	a.Want(ib.WCRDMARead, ib.WCRemAccessErr)
}

// TestIWARPExtensions has atomics and immediate data, where both ends know them.
func TestIWARPExtensions(t *testing.T) {
	a, b := iwarpPair(t, policy.Nap, 1<<16, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
	b.Lock() // the atomic is executed under it
	b.Buf[0] = 5
	b.Unlock()
	a.Request(queue.SendWQE{Opcode: ib.WRAtomicFetchAndAdd, Length: 8, RKey: b.Region.RKey(), CompareAdd: 3})
	a.Want(ib.WCFetchAdd, ib.WCSuccess)
	b.Lock()
	left := b.Buf[0]
	b.Unlock()
	if a.Buf[0] != 5 || left != 8 {
		t.Errorf("found %d, left %d", a.Buf[0], left)
	}
	b.Recv()
	a.Request(queue.SendWQE{Opcode: ib.WRRDMAWriteWithImm, Length: 100, RKey: b.Region.RKey(), Imm: 77})
	a.Want(ib.WCRDMAWrite, ib.WCSuccess)
	if wc := b.Want(ib.WCRecvRDMAWithImm, ib.WCSuccess); wc.ImmData != 77 || wc.ByteLen != 100 {
		t.Errorf("%d bytes, immediate data %d", wc.ByteLen, wc.ImmData)
	}
}

// TestIWARPErrors sees each refusal at both ends, and the stream closed.
func TestIWARPErrors(t *testing.T) {
	for _, c := range []struct {
		what          string
		do            func(a, b *endpoint)
		atA, atB      ib.WCStatus // of the request, and of b's receive
		early         ib.WCStatus // of a request that the peer's word overtook; else 0
		eventA, event ib.EventType
	}{
		{"READ with a bad STag", func(a, b *endpoint) {
			a.Request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: 8, RKey: b.Region.RKey() + 1})
		}, ib.WCRemAccessErr, ib.WCWRFlushErr, ib.WCRemAccessErr, ib.EventQPFatal, ib.EventQPAccessErr},
		{"READ out of bounds", func(a, b *endpoint) {
			a.Request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: 8, RKey: b.Region.RKey(), RemoteAddr: 1<<16 - 7})
		}, ib.WCRemAccessErr, ib.WCWRFlushErr, ib.WCRemAccessErr, ib.EventQPFatal, ib.EventQPAccessErr},
		// A WRITE or SEND is complete when the socket has it, if that is known before
		// the peer's word comes.
		{"WRITE with a bad STag", func(a, b *endpoint) {
			a.Request(queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: 8, RKey: b.Region.RKey() + 1})
		}, ib.WCSuccess, ib.WCWRFlushErr, ib.WCRemAccessErr, ib.EventQPFatal, ib.EventQPAccessErr},
		{"SEND longer than the receive", func(a, b *endpoint) {
			a.Request(queue.SendWQE{Opcode: ib.WRSend, Length: 1 << 16})
		}, ib.WCSuccess, ib.WCLocLenErr, ib.WCRemInvReqErr, ib.EventQPFatal, ib.EventQPReqErr},
	} {
		t.Run(c.what, func(t *testing.T) {
			a, b := iwarpPair(t, policy.Nap, 1<<16, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
			b.RecvOf(1000)
			c.do(a, b)
			if wc := a.Await(); wc.Status != c.atA && wc.Status != c.early {
				t.Errorf("the request: %v, want %v or %v", wc.Status, c.atA, c.early)
			}
			if wc := b.Await(); wc.Status != c.atB {
				t.Errorf("the receive: %v, want %v", wc.Status, c.atB)
			}
			rig.Until(t, "both ends are done", func() bool { return a.Ended.Load() == 1 && b.Ended.Load() == 1 })
			if a.State() != ib.QPErr || b.State() != ib.QPErr {
				t.Errorf("states %v, %v", a.State(), b.State())
			}
			if !a.Events.Has(c.eventA) || !b.Events.Has(c.event) {
				t.Errorf("events %#x, %#x: want %v, %v", a.Events.Load(), b.Events.Load(), c.eventA, c.event)
			}
			if a.Node.Counter("rcvd_terminate") != 1 || b.Node.Counter("sent_terminate") != 1 {
				t.Errorf("%d Terminates sent, %d received", b.Node.Counter("sent_terminate"), a.Node.Counter("rcvd_terminate"))
			}
			a.Send(1)
			a.Want(ib.WCSend, ib.WCWRFlushErr)
		})
	}
}

// TestIWARPNoReceive is a SEND that finds none posted: there is no RNR.
func TestIWARPNoReceive(t *testing.T) {
	a, b := iwarpPair(t, policy.Nap, 1<<16, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
	a.Send(10)
	if wc := a.Await(); wc.Status != ib.WCSuccess && wc.Status != ib.WCRemOpErr { // the peer's word may come first
		t.Errorf("the SEND: %v", wc.Status)
	}
	rig.Until(t, "both ends are done", func() bool { return a.Ended.Load() == 1 && b.Ended.Load() == 1 })
	if b.Node.Counter("sent_terminate") != 1 {
		t.Error("no Terminate was sent")
	}
}

// TestIWARPDisconnect closes gracefully behind posted work, from either end.
func TestIWARPDisconnect(t *testing.T) {
	for _, first := range []int{0, 1} {
		a, b := iwarpPair(t, policy.Nap, rig.BigBuffer, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
		from, to := []*endpoint{a, b}[first], []*endpoint{b, a}[first]
		from.Pattern(len(from.Buf), 3)
		from.Request(queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: rig.BigBuffer, RKey: to.Region.RKey()})
		connOf(from).Disconnect()
		from.Want(ib.WCRDMAWrite, ib.WCSuccess)
		rig.Until(t, "both ends are done", func() bool { return a.Ended.Load() == 1 && b.Ended.Load() == 1 })
		to.Lock()
		if !bytes.Equal(from.Buf, to.Buf) {
			t.Error("the stream was closed before all of it had come")
		}
		to.Unlock()
		if a.Node.Counter("sent_terminate")+b.Node.Counter("sent_terminate") != 0 {
			t.Error("a Terminate was sent")
		}
		// A queue pair goes round: RESET, INIT, another stream.
		for _, e := range []*endpoint{a, b} {
			e.ModifyTo(&ib.QPAttr{State: ib.QPReset}, 0)
			e.ModifyTo(&ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPAccessFlags)
		}
		join(a, b, iwarpOptions{rtr: mpa.RTRs(mpa.RTRWrite)})
		for range 2 {
			rig.Transfer(t, a, b, 100000, 9)
		}
	}
}

// TestIWARPReset cuts the stream in mid-transfer: the other end learns of it, and
// a torn message completes nowhere.
func TestIWARPReset(t *testing.T) {
	a, b := iwarpPair(t, policy.Nap, rig.BigBuffer, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
	b.Recv()
	for range 4 {
		a.Request(queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: rig.BigBuffer, RKey: b.Region.RKey()})
	}
	a.Send(rig.BigBuffer)
	if err := a.ModifyTo(&ib.QPAttr{State: ib.QPReset}, 0); err != nil {
		t.Fatal(err)
	}
	if wc := b.Await(); wc.Status != ib.WCWRFlushErr && wc.Status != ib.WCSuccess {
		t.Errorf("the receive: %v", wc.Status)
	}
	rig.Until(t, "both ends are done", func() bool { return a.Ended.Load() == 1 && b.Ended.Load() == 1 })
	if b.State() != ib.QPErr || a.State() != ib.QPReset {
		t.Errorf("states %v, %v", a.State(), b.State())
	}
}

// TestIWARPClosedUnderTraffic destroys one end while both send, many times.
func TestIWARPClosedUnderTraffic(t *testing.T) {
	for range 10 {
		a, b := iwarpPair(t, policy.Nap, 1<<20, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
		for range 8 {
			a.Request(queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: 1 << 20, RKey: b.Region.RKey()})
			b.Request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: 1 << 20, RKey: a.Region.RKey()})
		}
		a.Close()
		rig.Until(t, "the other end is done", func() bool { return b.Ended.Load() == 1 })
		if n := a.Ended.Load(); n != 0 {
			t.Errorf("%d calls for a closed queue pair", n)
		}
		b.Close()
		for _, n := range []*node{a.Node, b.Node} {
			if len(Of(n.Eng).in.members)+len(Of(n.Eng).in.conns) != 0 {
				t.Error("a socket is watched still")
			}
		}
		if !a.Region.Idle() || !b.Region.Idle() {
			t.Error("memory is held still")
		}
	}
}
