// SPDX-License-Identifier: BSD-2-Clause

package uc

import (
	"verbena/ib"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// responder is the receiving half.
type responder struct {
	epsn ib.PSN // expected; holds only within a message

	// the message in progress
	in    message
	got   uint32 // bytes placed so far
	total uint32 // WRITE: length announced
	va    uint64 // WRITE: where the next byte goes
	rkey  ib.RKey
}

// message is the kind of message in progress.
type message uint8

const (
	inNone  message = iota // between messages, or in the rest of a broken one
	inSend                 // after SEND First
	inWrite                // after RDMA WRITE First
)

// handleRequest takes a request packet.
//
// Spec: IBTA vol. 1, 9.8.2 (unreliable connection), 9.9 (responder errors).
func (q *QP) handleRequest(p *wire.Packet) {
	if !q.checkSequence(p) || !q.checkLength(p) {
		return
	}
	if roce.IsWrite(p.Opcode) {
		q.executeWrite(p)
	} else {
		q.executeSend(p)
	}
}

// checkSequence sorts out gaps and breaks off the message in progress where
// the packet does not continue it.
//
// Spec: IBTA vol. 1, 9.8.2 (PSN and opcode sequence).
func (q *QP) checkSequence(p *wire.Packet) bool {
	r, i := &q.resp, p.Info
	if !i.Valid {
		q.drop()
		return false
	}
	want := inSend
	if roce.IsWrite(p.Opcode) {
		want = inWrite
	}
	gap := p.PSN != r.epsn
	r.epsn = p.PSN.Add(1)
	if i.First || (!gap && r.in == want) {
		if i.First && r.in != inNone { // its last packet never came
			q.drop()
		}
		return true
	}
	if gap {
		q.Count[roce.OutOfSeqRequest]++
	}
	if r.in != inNone {
		q.drop()
	}
	return false
}

// drop gives the message in progress up. Its receive stays for the next one.
func (q *QP) drop() {
	q.Count[roce.DroppedMessage]++
	q.resp.in = inNone
}

// checkLength checks the payload against the path MTU and the length that a
// WRITE announced.
//
// Spec: IBTA vol. 1, 9.8.2 (lengths).
func (q *QP) checkLength(p *wire.Packet) bool {
	i, n := p.Info, len(p.Payload)
	if n > q.MTU || !i.Last && n != q.MTU || i.Last && !i.First && n == 0 {
		q.drop()
		return false
	}
	if !roce.IsWrite(p.Opcode) {
		return true
	}
	if !roce.IsWithinWrite(p, q.resp.got, q.resp.total) {
		q.drop()
		return false
	}
	return true
}

func (q *QP) executeSend(p *wire.Packet) {
	r, i := &q.resp, p.Info
	if i.First {
		if !q.TakeRecv() {
			q.Count[roce.DroppedNoRecv]++
			r.in = inNone
			return
		}
		r.got = 0
	}
	n := uint32(len(p.Payload))
	if uint64(r.got)+uint64(n) > uint64(q.Recv.Length) {
		q.drop()
		return
	}
	if s, v := q.ScatterRecv(int(r.got), p.Payload); s != ib.WCSuccess {
		r.in = inNone
		q.FailRecv(s, v)
		q.Stop(ib.EventQPFatal)
		return
	}
	r.in, r.got = inSend, r.got+n
	if i.Last {
		q.finish(p, ib.WCRecv, r.got)
	}
}

// executeWrite places one packet of a WRITE. A key that does not allow it drops the message without
// notice.
func (q *QP) executeWrite(p *wire.Packet) {
	r, i := &q.resp, p.Info
	if i.First && !q.openWrite(p) {
		q.drop()
		return
	}
	if i.HasImm && !q.TakeRecv() {
		q.Count[roce.DroppedNoRecv]++
		r.in = inNone
		return
	}
	if n := len(p.Payload); n > 0 { // Spec: IBTA C9-88: a WRITE of no bytes checks no key
		s, v := q.Mem.Remote(q.PD, q.QPN, r.rkey, r.va, uint32(n), ib.AccessRemoteWrite)
		if v != ib.VendorNone {
			q.drop()
			return
		}
		ok := s.CopyIn(0, p.Payload)
		if s.Release(); !ok {
			q.drop()
			return
		}
		r.va, r.got = r.va+uint64(n), r.got+uint32(n)
	}
	r.in = inWrite
	if i.Last {
		q.finish(p, ib.WCRecvRDMAWithImm, r.total)
	}
}

// openWrite notes the length in the first packet and checks the whole range at once, so that
// nothing is placed where not everything may be. Each packet checks again, as the key may go
// meanwhile.
func (q *QP) openWrite(p *wire.Packet) bool {
	r, h := &q.resp, p.RETH
	if !q.Attr.AccessFlags.Has(ib.AccessRemoteWrite) {
		return false
	}
	if h.DMALen > 0 {
		s, v := q.Mem.Remote(q.PD, q.QPN, h.RKey, h.VA, h.DMALen, ib.AccessRemoteWrite)
		if v != ib.VendorNone {
			return false
		}
		s.Release()
	}
	r.va, r.rkey, r.total, r.got = h.VA, h.RKey, h.DMALen, 0
	return true
}

// finish ends a message and reports the receive it took, if it took one.
func (q *QP) finish(p *wire.Packet, op ib.WCOpcode, n uint32) {
	q.resp.in = inNone
	q.Count[roce.RcvdMessages]++
	if !p.Info.ConsumesRecv {
		return
	}
	wc := ib.WC{Opcode: op, ByteLen: n, SrcQP: q.Attr.DestQPN}
	if p.Info.HasImm {
		wc.Flags, wc.ImmData = ib.WCWithImm, p.ImmDt.Data
	}
	q.CompleteRecv(&wc, p.Solicited)
}
