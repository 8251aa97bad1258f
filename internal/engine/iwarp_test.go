// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"bytes"
	"fmt"
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/queue"
)

// sizes of messages: none, around what is inline in headers and where copying
// ends, around a segment of loopback, and the largest that is asked for.
var sizes = []int{0, 1, 2, 511, 513, 4096, 8191, 65000, 65483, 65536, 200000, 1 << 20, 8 << 20}

const bigBuffer = 8 << 20

// pattern writes a pattern to the first n bytes. It takes the lock for the race
// detector, which knows nothing of the order that the network makes.
func (e *endpoint) pattern(n int, seed byte) {
	e.Lock()
	defer e.Unlock()
	p := e.buf[:n]
	for i := range min(n, 1021) { // no divisor of any segment's size
		p[i] = byte(i*31) + byte(i>>8) + seed
	}
	for k := 1021; k < n; k *= 2 {
		copy(p[k:], p[:k])
	}
}

// TestIWARPTransfers moves every size by every operation, both ways round, with
// and without CRCs and in both address families.
func TestIWARPTransfers(t *testing.T) {
	for _, o := range []iwarpOptions{{}, {crc: true}, {rtr: mpa.RTRs(mpa.RTRRead), v6: true}, {crc: true, rtr: mpa.RTRs(mpa.RTRWrite)}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			a, b := iwarpPair(t, defaultBackoff, bigBuffer, o)
			for i, n := range sizes {
				if o.rtr == 0 && i == 0 { // client-server: the initiator speaks first
					b.recv()
					a.send(0)
					a.want(ib.WCSend, ib.WCSuccess)
					b.want(ib.WCRecv, ib.WCSuccess)
				}
				for j, from := range []*endpoint{a, b} {
					to := []*endpoint{b, a}[j]
					transfer(t, from, to, n, byte(2*i+j))
				}
			}
			if o.crc {
				return
			}
			placed, got := b.node.counter("placed_direct_bytes"), b.node.counter("rcvd_bytes")
			if placed*10 < got*9 {
				t.Errorf("%d of %d bytes were read straight to their place", placed, got)
			}
		})
	}
}

func transfer(t *testing.T, from, to *endpoint, n int, seed byte) {
	t.Helper()
	check := func(what string) {
		t.Helper()
		from.Lock()
		defer from.Unlock()
		to.Lock()
		defer to.Unlock()
		if !bytes.Equal(from.buf[:n], to.buf[:n]) {
			t.Fatalf("%s of %d bytes: memory differs", what, n)
		}
	}
	from.pattern(n, seed)
	to.recv()
	from.send(n)
	from.want(ib.WCSend, ib.WCSuccess)
	if wc := to.want(ib.WCRecv, ib.WCSuccess); int(wc.ByteLen) != n {
		t.Fatalf("%d bytes arrived of %d", wc.ByteLen, n)
	}
	check("SEND")

	from.pattern(n, seed+1)
	from.request(queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: uint32(n), RKey: to.region.RKey()})
	from.want(ib.WCRDMAWrite, ib.WCSuccess)
	to.recv()
	from.send(0) // orders the WRITE
	from.want(ib.WCSend, ib.WCSuccess)
	to.want(ib.WCRecv, ib.WCSuccess)
	check("WRITE")

	to.pattern(n, seed+2)
	from.request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: uint32(n), RKey: to.region.RKey()})
	from.want(ib.WCRDMARead, ib.WCSuccess)
	check("READ")
}

// TestIWARPInvalidates has a SEND take a key away.
func TestIWARPInvalidates(t *testing.T) {
	a, b := iwarpPair(t, defaultBackoff, 1<<16, iwarpOptions{})
	fast := b.fastKey()
	b.recv()
	a.request(queue.SendWQE{Opcode: ib.WRSendWithInv, Length: 10, InvalidateKey: fast})
	a.want(ib.WCSend, ib.WCSuccess)
	if wc := b.want(ib.WCRecv, ib.WCSuccess); wc.InvalidatedRKey != fast {
		t.Errorf("%#x was invalidated, want %#x", wc.InvalidatedRKey, fast)
	}
	a.request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: 8, RKey: fast})
	a.want(ib.WCRDMARead, ib.WCRemAccessErr)
}

// TestIWARPExtensions has atomics and immediate data, where both ends know them.
func TestIWARPExtensions(t *testing.T) {
	a, b := iwarpPair(t, defaultBackoff, 1<<16, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
	b.Lock() // the atomic is executed under it
	b.buf[0] = 5
	b.Unlock()
	a.request(queue.SendWQE{Opcode: ib.WRAtomicFetchAndAdd, Length: 8, RKey: b.region.RKey(), CompareAdd: 3})
	a.want(ib.WCFetchAdd, ib.WCSuccess)
	b.Lock()
	left := b.buf[0]
	b.Unlock()
	if a.buf[0] != 5 || left != 8 {
		t.Errorf("found %d, left %d", a.buf[0], left)
	}
	b.recv()
	a.request(queue.SendWQE{Opcode: ib.WRRDMAWriteWithImm, Length: 100, RKey: b.region.RKey(), Imm: 77})
	a.want(ib.WCRDMAWrite, ib.WCSuccess)
	if wc := b.want(ib.WCRecvRDMAWithImm, ib.WCSuccess); wc.ImmData != 77 || wc.ByteLen != 100 {
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
			a.request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: 8, RKey: b.region.RKey() + 1})
		}, ib.WCRemAccessErr, ib.WCWRFlushErr, ib.WCRemAccessErr, ib.EventQPFatal, ib.EventQPAccessErr},
		{"READ out of bounds", func(a, b *endpoint) {
			a.request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: 8, RKey: b.region.RKey(), RemoteAddr: 1<<16 - 7})
		}, ib.WCRemAccessErr, ib.WCWRFlushErr, ib.WCRemAccessErr, ib.EventQPFatal, ib.EventQPAccessErr},
		// A WRITE or SEND is complete when the socket has it, if that is known before
		// the peer's word comes.
		{"WRITE with a bad STag", func(a, b *endpoint) {
			a.request(queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: 8, RKey: b.region.RKey() + 1})
		}, ib.WCSuccess, ib.WCWRFlushErr, ib.WCRemAccessErr, ib.EventQPFatal, ib.EventQPAccessErr},
		{"SEND longer than the receive", func(a, b *endpoint) {
			a.request(queue.SendWQE{Opcode: ib.WRSend, Length: 1 << 16})
		}, ib.WCSuccess, ib.WCLocLenErr, ib.WCRemInvReqErr, ib.EventQPFatal, ib.EventQPReqErr},
	} {
		t.Run(c.what, func(t *testing.T) {
			a, b := iwarpPair(t, defaultBackoff, 1<<16, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
			b.recvOf(1000)
			c.do(a, b)
			if wc := a.await(); wc.Status != c.atA && wc.Status != c.early {
				t.Errorf("the request: %v, want %v or %v", wc.Status, c.atA, c.early)
			}
			if wc := b.await(); wc.Status != c.atB {
				t.Errorf("the receive: %v, want %v", wc.Status, c.atB)
			}
			until(t, "both ends are done", func() bool { return a.ended.Load() == 1 && b.ended.Load() == 1 })
			if a.state() != ib.QPErr || b.state() != ib.QPErr {
				t.Errorf("states %v, %v", a.state(), b.state())
			}
			if !a.events.has(c.eventA) || !b.events.has(c.event) {
				t.Errorf("events %#x, %#x: want %v, %v", a.events.Load(), b.events.Load(), c.eventA, c.event)
			}
			if a.node.counter("rcvd_terminate") != 1 || b.node.counter("sent_terminate") != 1 {
				t.Errorf("%d Terminates sent, %d received", b.node.counter("sent_terminate"), a.node.counter("rcvd_terminate"))
			}
			a.send(1)
			a.want(ib.WCSend, ib.WCWRFlushErr)
		})
	}
}

// TestIWARPNoReceive is a SEND that finds none posted: there is no RNR.
func TestIWARPNoReceive(t *testing.T) {
	a, b := iwarpPair(t, defaultBackoff, 1<<16, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
	a.send(10)
	if wc := a.await(); wc.Status != ib.WCSuccess && wc.Status != ib.WCRemOpErr { // the peer's word may come first
		t.Errorf("the SEND: %v", wc.Status)
	}
	until(t, "both ends are done", func() bool { return a.ended.Load() == 1 && b.ended.Load() == 1 })
	if b.node.counter("sent_terminate") != 1 {
		t.Error("no Terminate was sent")
	}
}

// TestIWARPDisconnect closes gracefully behind what is posted, by either end.
func TestIWARPDisconnect(t *testing.T) {
	for _, first := range []int{0, 1} {
		a, b := iwarpPair(t, defaultBackoff, bigBuffer, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
		from, to := []*endpoint{a, b}[first], []*endpoint{b, a}[first]
		from.pattern(len(from.buf), 3)
		from.request(queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: bigBuffer, RKey: to.region.RKey()})
		from.Disconnect()
		from.want(ib.WCRDMAWrite, ib.WCSuccess)
		until(t, "both ends are done", func() bool { return a.ended.Load() == 1 && b.ended.Load() == 1 })
		to.Lock()
		if !bytes.Equal(from.buf, to.buf) {
			t.Error("the stream was closed before all of it had come")
		}
		to.Unlock()
		if a.node.counter("sent_terminate")+b.node.counter("sent_terminate") != 0 {
			t.Error("a Terminate was sent")
		}
		// A queue pair goes round: RESET, INIT, another stream.
		for _, e := range []*endpoint{a, b} {
			e.modify(&ib.QPAttr{State: ib.QPReset}, 0)
			e.modify(&ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPAccessFlags)
		}
		a.join(b, iwarpOptions{rtr: mpa.RTRs(mpa.RTRWrite)})
		for range 2 {
			transfer(t, a, b, 100000, 9)
		}
	}
}

// TestIWARPReset cuts the stream in mid-transfer: the other end learns of it, and
// a torn message completes nowhere.
func TestIWARPReset(t *testing.T) {
	a, b := iwarpPair(t, defaultBackoff, bigBuffer, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
	b.recv()
	for range 4 {
		a.request(queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: bigBuffer, RKey: b.region.RKey()})
	}
	a.send(bigBuffer)
	if err := a.modify(&ib.QPAttr{State: ib.QPReset}, 0); err != nil {
		t.Fatal(err)
	}
	if wc := b.await(); wc.Status != ib.WCWRFlushErr && wc.Status != ib.WCSuccess {
		t.Errorf("the receive: %v", wc.Status)
	}
	until(t, "both ends are done", func() bool { return a.ended.Load() == 1 && b.ended.Load() == 1 })
	if b.state() != ib.QPErr || a.state() != ib.QPReset {
		t.Errorf("states %v, %v", a.state(), b.state())
	}
}

// TestIWARPClosedUnderTraffic destroys one end while both send, many times.
func TestIWARPClosedUnderTraffic(t *testing.T) {
	for range 10 {
		a, b := iwarpPair(t, defaultBackoff, 1<<20, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
		for range 8 {
			a.request(queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: 1 << 20, RKey: b.region.RKey()})
			b.request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: 1 << 20, RKey: a.region.RKey()})
		}
		a.Close()
		until(t, "the other end is done", func() bool { return b.ended.Load() == 1 })
		if n := a.ended.Load(); n != 0 {
			t.Errorf("%d calls for a closed queue pair", n)
		}
		b.Close()
		for _, n := range []*node{a.node, b.node} {
			if len(n.eng.tcp.members)+len(n.eng.tcp.conns) != 0 {
				t.Error("a socket is watched still")
			}
		}
		if !a.region.Idle() || !b.region.Idle() {
			t.Error("memory is held still")
		}
	}
}
