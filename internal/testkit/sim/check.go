// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"bytes"
	"encoding/binary"

	"verbena/ib"
	"verbena/internal/testkit/oracle"
)

const grhBytes = 40

// consult has the oracle run e's plan against the peer's memory.
func (e *endpoint) consult() {
	p := e.peer
	target := bytes.Clone(p.mem.start[p.target.off : p.target.off+p.target.n])
	r := oracle.Range{Addr: virtual + uint64(p.target.off), Bytes: target, Access: targetAccess}
	t := oracle.Target{Keys: map[ib.RKey]oracle.Range{p.target.mr.RKey(): r}}
	if p.window != nil {
		t.Keys[p.windowKey] = r
	}
	var queue []oracle.WR
	for _, it := range e.plan {
		it.wr.Signaled = it.flags&ib.SendSignaled != 0
		queue = append(queue, it.wr)
		if it.consumes() {
			t.Recvs = append(t.Recvs, uint32(p.pool.bytes))
		}
	}
	words := p.words
	p.history = make([][]uint64, atomicWords)
	for k := range p.history {
		p.history[k] = []uint64{binary.NativeEndian.Uint64(words.bytes()[8*k:])}
	}
	for i, o := range t.Run(queue) {
		it := e.plan[i]
		it.expect = o
		if it.wr.Opcode == ib.WRAtomicCmpAndSwp || it.wr.Opcode == ib.WRAtomicFetchAndAdd {
			if o.Status == ib.WCSuccess {
				k := int(it.wr.Addr-words.addr()) / 8
				p.history[k] = append(p.history[k], after(&it.wr, o.Got))
			}
		}
	}
	p.final = target
}

// after is the value that an atomic leaves.
func after(w *oracle.WR, got []byte) uint64 {
	v := binary.NativeEndian.Uint64(got)
	switch {
	case w.Opcode == ib.WRAtomicFetchAndAdd:
		return v + w.Add
	case v == w.Add:
		return w.Swap
	}
	return v
}

// poll takes all completions and holds them against the promises.
func (e *endpoint) poll() {
	var wc [8]ib.WC
	for n := e.scq.Poll(wc[:]); n > 0; n = e.scq.Poll(wc[:]) {
		for i := range wc[:n] {
			e.sendDone(&wc[i])
		}
	}
	for n := e.rcq.Poll(wc[:]); n > 0; n = e.rcq.Poll(wc[:]) {
		for i := range wc[:n] {
			e.recvDone(&wc[i])
		}
	}
	if e.scq.Overflowed() || e.rcq.Overflowed() {
		e.world.fail("a completion queue of QP %v overflowed", e.qpn)
	}
}

func (e *endpoint) note(wc *ib.WC) {
	e.world.net.Note(uint64(e.world.net.Now()), uint64(e.qpn), wc.WRID, uint64(wc.Status),
		uint64(wc.ByteLen))
}

// sendDone checks a send completion: in queue order, skipping silent ones only, with the oracle's
// status, and with the bytes in place.
func (e *endpoint) sendDone(wc *ib.WC) {
	w, k := e.world, int(wc.WRID)-1
	e.note(wc)
	w.Outcomes.Sends++
	if k < e.settled || k >= e.posted {
		w.fail("QP %v: WR %d completes out of order or twice: %d are settled, %d posted", e.qpn,
			wc.WRID, e.settled, e.posted)
		return
	}
	for _, it := range e.plan[e.settled:k] {
		if it.flags&ib.SendSignaled != 0 || e.failed {
			w.fail("QP %v: WR %d got no completion before WR %d", e.qpn, it.wr.ID, wc.WRID)
			return
		}
	}
	from, it := e.settled, e.plan[k]
	e.settled = k + 1
	if wc.Status != ib.WCSuccess {
		e.sendFailed(wc, it)
		k--
	} else if it.flags&ib.SendSignaled == 0 {
		w.fail("QP %v: WR %d is not signaled and completed", e.qpn, wc.WRID)
	} else if wc.Opcode != ib.WCOf(it.wr.Opcode) {
		w.fail("QP %v: WR %d completed as %v", e.qpn, wc.WRID, wc.Opcode)
	}
	if it.wr.Opcode == ib.WRBindMW {
		e.bound = true
	}
	if reliable(e.typ) {
		for _, it := range e.plan[from : k+1] {
			e.checkExecuted(it)
		}
	}
}

func (e *endpoint) sendFailed(wc *ib.WC, it *item) {
	w := e.world
	if wc.Status == ib.WCWRFlushErr {
		w.Outcomes.Flushed++
	} else {
		w.Outcomes.Errors++
		if e.failed {
			w.fail("QP %v: WR %d is the second to fail: %v", e.qpn, wc.WRID, wc.Status)
		}
		if w.lenient && wc.Status == ib.WCRetryExcErr {
			e.inexact()
		}
	}
	e.failed = true
	if e.exact && wc.Status != it.expect.Status {
		w.fail("QP %v: WR %d (%v) ended with %v (%v), the oracle says %v", e.qpn, wc.WRID,
			it.wr.Opcode, wc.Status, wc.VendorErr, it.expect.Status)
	}
	if !reliable(e.typ) && e.state != ib.QPErr {
		w.fail("QP %v: WR %d of an unreliable service failed: %v (%v)", e.qpn, wc.WRID, wc.Status,
			wc.VendorErr)
	}
}

// checkExecuted checks the effects of an RC work request that succeeded.
func (e *endpoint) checkExecuted(it *item) {
	w := e.world
	if it.expect.Status != ib.WCSuccess {
		w.fail("QP %v: WR %d (%v) succeeded, the oracle says %v", e.qpn, it.wr.ID, it.wr.Opcode,
			it.expect.Status)
	}
	if it.target.area != nil && !bytes.Equal(it.target.bytes(), it.wr.Data) {
		w.fail("QP %v: the bytes of WR %d (%v) are not in place", e.qpn, it.wr.ID, it.wr.Opcode)
	}
	if it.result.area != nil && !bytes.Equal(it.result.bytes(), it.expect.Got) {
		w.fail("QP %v: WR %d (%v) brought %x, the oracle says %x", e.qpn, it.wr.ID, it.wr.Opcode,
			it.result.bytes(), it.expect.Got)
	}
}

// recvDone checks a receive completion.
func (e *endpoint) recvDone(wc *ib.WC) {
	w, k := e.world, int(wc.WRID)
	e.note(wc)
	w.Outcomes.Recvs++
	if e.typ == ib.QPTypeXRCRecv {
		w.Outcomes.XRC++
	}
	if k >= e.pool.posted || e.pool.used[k] {
		w.fail("QP %v: receive %d completes twice, or was not posted", e.qpn, k)
		return
	}
	e.pool.used[k] = true
	if e.pool.srq == nil {
		if k != e.pool.done {
			w.fail("QP %v: receive %d completes before receive %d", e.qpn, k, e.pool.done)
		}
		e.pool.done++
	}
	if wc.Status != ib.WCSuccess {
		if wc.Status != ib.WCWRFlushErr || e.state != ib.QPErr {
			w.fail("QP %v: receive %d ended with %v (%v)", e.qpn, k, wc.Status, wc.VendorErr)
		}
		return
	}
	buf := e.pool.pieces[k]
	it := e.received(wc, buf)
	if it == nil {
		w.fail("QP %v: receive %d holds what nobody sent: %+v", e.qpn, k, *wc)
		return
	}
	n := int(wc.ByteLen)
	if wc.Opcode == ib.WCRecvRDMAWithImm {
		n = 0
	}
	// A receive of UC may have held more of a message that broke off.
	if (e.typ != ib.QPTypeUC || e.world.calm) && !buf.part(n, buf.n).unchanged() {
		w.fail("QP %v: receive %d was written beyond its %d bytes", e.qpn, k, n)
	}
}

// received finds the message of a receive completion, and checks its bytes.
func (e *endpoint) received(wc *ib.WC, buf piece) *item {
	if e.typ == ib.QPTypeUD {
		for _, from := range e.world.datagrams {
			for _, it := range from.plan {
				if from.qpn == wc.SrcQP && it.to == e && it.fits(wc, buf.part(grhBytes, buf.n)) {
					return it
				}
			}
		}
		return nil
	}
	if e.typ == ib.QPTypeUC && !e.world.calm {
		e.seen = 0 // a packet that the network repeats arrives again
	}
	for i := e.seen; i < len(e.peer.plan); i++ {
		it := e.peer.plan[i]
		if reliable(e.typ) {
			e.peer.checkExecuted(it.sent()) // of a SEND's predecessors the bytes are in place
		}
		if !it.consumes() {
			continue
		}
		if it.fits(wc, buf) {
			e.seen = i + 1
			return it
		}
		if reliable(e.typ) {
			return nil // RC loses nothing
		}
	}
	return nil
}

// sent is the item without the effects that only its own completion promises.
func (i *item) sent() *item { return &item{wr: i.wr, target: i.target, expect: i.expect} }

// fits reports whether a receive completion and its buffer are of this message.
func (i *item) fits(wc *ib.WC, buf piece) bool {
	n := len(i.wr.Data)
	length, flags := wc.ByteLen, wc.Flags
	if i.to.typ == ib.QPTypeUD {
		if flags&ib.WCGRH == 0 || length < grhBytes {
			return false
		}
		length, flags = length-grhBytes, flags&^ib.WCGRH
	}
	wantFlags, op := ib.WCFlags(0), ib.WCRecv
	switch i.wr.Opcode {
	case ib.WRSendWithImm:
		wantFlags = ib.WCWithImm
	case ib.WRRDMAWriteWithImm:
		wantFlags, op = ib.WCWithImm, ib.WCRecvRDMAWithImm
	case ib.WRSendWithInv:
		wantFlags = ib.WCWithInv
	}
	switch {
	case int(length) != n, flags != wantFlags, wc.Opcode != op,
		flags&ib.WCWithImm != 0 && wc.ImmData != i.wr.Imm,
		flags&ib.WCWithInv != 0 && wc.InvalidatedRKey != i.wr.InvKey:
		return false
	case op == ib.WCRecvRDMAWithImm:
		return bytes.Equal(i.target.bytes(), i.wr.Data) || reliable(i.to.typ)
	}
	return bytes.Equal(buf.part(0, n).bytes(), i.wr.Data)
}
