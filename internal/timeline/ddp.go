// SPDX-License-Identifier: BSD-2-Clause

package timeline

import "verbena/internal/wire/iwarp"

// ready is the state of a ready-to-receive message, which no work request has asked for.
//
// Spec: RFC 6581, 9.1.
type ready uint8

const (
	readyNone    ready = iota // there is none, or all of it has passed
	readyDue                  // the initiator's first FPDU is one
	readyPending              // it was a READ, whose answer comes first
)

// ddp takes a DDP segment that has come to its end in a row. Segments come in the order of their
// stream; end is the number behind it.
func (b *builder) ddp(f *flow, row uint32, end int64, ulpdu []byte, length int) {
	due := f.ready == readyDue
	if due {
		f.ready = readyNone
	}
	h, payload, ok := iwarp.ParseHeader(ulpdu)
	if !ok || f.peer == nil {
		return
	}
	n := uint32(max(length-h.HeaderBytes(), 0))
	if due && n == 0 && h.Opcode == iwarp.RDMAWrite {
		b.t.Packets.Kind[row] = SetUp
		return
	}
	if r, _, ok := iwarp.ParseReadReq(payload); due && ok && h.Opcode == iwarp.ReadRequest &&
		r.Size == 0 {
		b.t.Packets.Kind[row], f.ready = SetUp, readyPending
		return
	}
	if h.Opcode == iwarp.ReadResponse && f.peer.ready == readyPending {
		b.t.Packets.Kind[row], f.peer.ready = SetUp, readyNone
		return
	}
	switch h.Opcode {
	case iwarp.ReadResponse, iwarp.AtomicResponse:
		b.ddpAnswer(f.peer, row, h, n)
	case iwarp.Terminate:
		b.t.Packets.Kind[row] = Refusal
		reason := "Terminate"
		if m, _, ok := iwarp.ParseTermMsg(payload); ok {
			reason = m.TermError.String()
		}
		b.terminate(f.peer, row, reason)
	default:
		b.ddpRequest(f, row, end, h, payload, n)
	}
	b.adopt(f, row)
}

// maxPartial bounds the rows of an FPDU that is not complete: it has at most 64 KiB.
const maxPartial = 1 << 10

// adopt gives the rows before, which have the beginning of an FPDU, to the operation of the row
// with its end.
func (b *builder) adopt(f *flow, row uint32) {
	p := &b.t.Packets
	if p.Op[row] == None {
		return
	}
	o := &b.t.Ops[p.Op[row]]
	for _, r := range f.partial {
		if r == row || p.Op[r] != None {
			continue
		}
		b.setOp(r, p.Op[row])
		o.Packets++
		switch {
		case p.Kind[r] == Repeated:
			o.Repeated++
		case p.Kind[row] == Response:
			p.Kind[r] = Response
		default:
			o.Start = min(o.Start, p.Time[r])
		}
	}
}

func (b *builder) ddpRequest(f *flow, row uint32, end int64, h iwarp.Header, payload []byte,
	n uint32) {
	op, bytes := OpSend, uint64(n)
	switch h.Opcode {
	case iwarp.RDMAWrite:
		op = OpWrite
	case iwarp.ReadRequest:
		op, bytes = OpRead, 0
		if r, _, ok := iwarp.ParseReadReq(payload); ok {
			bytes = uint64(r.Size)
		}
	case iwarp.AtomicRequest:
		op, bytes = OpAtomic, 8
	}
	switch {
	case f.cur != None && !f.hole && immediate(h.Opcode) && b.t.Ops[f.cur].Operation == OpWrite:
		bytes = 0 // it ends the WRITE before it
	case f.cur == None || f.hole || b.t.Ops[f.cur].complete || b.t.Ops[f.cur].Operation != op:
		if b.beginOp(f, request{row: row, from: end, op: op}, len(f.space.ops)) < 0 {
			return
		}
		b.t.Ops[f.cur].hole, f.hole = f.hole, false
	}
	o := &b.t.Ops[f.cur]
	if b.t.Packets.Op[row] != f.cur {
		o.Packets++
	}
	b.setOp(row, f.cur)
	o.Bytes += bytes
	o.end = end
	o.End = max(o.End, b.at)
	o.complete = h.Last
}

func immediate(o iwarp.Opcode) bool { return o == iwarp.Immediate || o == iwarp.ImmediateSE }

// ddpAnswer takes a response to the oldest READ or atomic of f that is not answered.
func (b *builder) ddpAnswer(f *flow, row uint32, h iwarp.Header, n uint32) {
	if b.t.Packets.Kind[row] == Sent {
		b.t.Packets.Kind[row] = Response
	}
	want := OpRead
	if h.Opcode == iwarp.AtomicResponse {
		want = OpAtomic
	}
	for i := f.answers; i < len(f.space.ops); i++ {
		o := &b.t.Ops[f.space.ops[i]]
		if !o.Operation.answered() || o.Status != Open {
			if i == f.answers {
				f.answers++
			}
			continue
		}
		if o.Operation != want {
			return
		}
		o.Packets++
		b.setOp(row, f.space.ops[i])
		if h.Last {
			b.end(f, o, Done, "")
			f.answers = i + 1
		}
		return
	}
}

// terminate ends the last operation of f that is open. Only the first Terminate of a stream does:
// it ends the stream.
func (b *builder) terminate(f *flow, row uint32, reason string) {
	if f.h.NAKs != nil {
		f.h.NAKs[reason]++
		return
	}
	f.h.NAKs = map[string]uint64{reason: 1}
	for i := len(f.space.ops) - 1; i >= 0; i-- {
		if o := &b.t.Ops[f.space.ops[i]]; o.Status == Open {
			b.setOp(row, f.space.ops[i])
			b.end(f, o, Failed, reason)
			return
		}
	}
}
