// SPDX-License-Identifier: BSD-2-Clause

package timeline

import "slices"

// request takes a request of a flow: its row, its number and how many it takes.
type request struct {
	row         uint32
	from, n     int64
	bytes       uint32 // payload, or bytes that a READ asks for
	payload     uint32 // of it in this packet
	op          Operation
	first, last bool
}

// sendRequest puts a request in its space and its operation, and fills its row.
func (b *builder) sendRequest(f *flow, r request) {
	p := &b.t.Packets
	k, earlier := f.space.send(r.from, r.n, b.at, r.row, r.bytes)
	p.Kind[r.row] = k
	p.InFlight[r.row] = clip(int64(f.space.bytes))
	if earlier != None {
		p.Flags[earlier] |= GivenUp
	}
	switch k {
	case Repeated:
		f.h.Repeated++
		if !f.space.lastRep {
			f.h.Resent++
			if !f.space.asked {
				f.h.TimedOut++
			}
		}
		f.space.lastRep, f.space.asked = true, false
	case Late:
		f.h.Late++
		f.space.lastRep = false
	default:
		f.space.lastRep = false
	}
	if k != Repeated {
		p.Payload[r.row] = r.payload
		f.h.Bytes += uint64(r.payload)
	}
	b.joinOp(f, r, k)
}

// joinOp finds the operation of a request, or begins one.
func (b *builder) joinOp(f *flow, r request, k Kind) {
	s := &f.space
	to := r.from + r.n
	i := s.op(b.t.Ops, r.from)
	switch {
	case i >= 0:
	case k == Late:
		i = b.lateOp(f, r)
	case k == Sent && !r.first && f.cur != None && !b.t.Ops[f.cur].complete:
		i = len(s.ops) - 1
	case k == Sent:
		i = b.beginOp(f, r, len(s.ops))
	}
	if i < 0 {
		return
	}
	n := s.ops[i]
	o := &b.t.Ops[n]
	b.t.Packets.Op[r.row] = n
	o.Packets++
	if o.Status == Open {
		o.End = max(o.End, b.at)
	}
	if k == Repeated {
		o.Repeated++
		return
	}
	o.Bytes += uint64(r.payload)
	if r.op == OpRead {
		o.Bytes = uint64(r.bytes)
	}
	if o.end <= to {
		o.end = to
		o.complete = o.complete || r.last
	}
}

// maxBehind bounds the operations before which one is put that comes late.
const maxBehind = 1 << 12

// lateOp finds the operation of a request that comes behind later ones: it continues the one before
// it, or begins the one behind it, or is one of its own. It returns -1 if that is too far back.
func (b *builder) lateOp(f *flow, r request) int {
	s := &f.space
	at := s.after(b.t.Ops, r.from)
	if at > 0 {
		o := &b.t.Ops[s.ops[at-1]]
		if !r.first && !o.complete {
			o.end = r.from + r.n
			return at - 1
		}
	}
	if at < len(s.ops) && !r.last && b.t.Ops[s.ops[at]].first == r.from+r.n {
		b.t.Ops[s.ops[at]].first = r.from
		return at
	}
	if len(s.ops)-at > maxBehind {
		return -1
	}
	cur := f.cur
	i := b.beginOp(f, r, at)
	if at < len(s.ops)-1 {
		f.cur = cur
	}
	return i
}

// beginOp begins an operation, at a place among those of its space.
func (b *builder) beginOp(f *flow, r request, at int) int {
	if len(b.t.Ops) >= maxOps {
		return -1
	}
	f.ops++
	f.h.Operations++
	n := uint32(len(b.t.Ops))
	if len(b.t.Ops) == cap(b.t.Ops) {
		b.t.Ops = double(b.t.Ops)
	}
	b.t.Ops = append(b.t.Ops, Op{Operation: r.op, Number: f.ops, Start: b.at, End: b.at,
		Posted: None, Completed: None, first: r.from, end: r.from + r.n, respNext: r.from,
		flow: f.index})
	b.opFlow = append(b.opFlow, f.index)
	f.space.ops = slices.Insert(f.space.ops, at, n)
	f.space.pending = min(f.space.pending, at)
	f.cur = n
	return at
}

// acknowledge takes an acknowledgement of all numbers of f's requests before n, in a row of the
// peer.
func (b *builder) acknowledge(f *flow, n int64, row uint32) {
	rtt, ok := f.space.ack(n, b.at)
	rtt = max(rtt, 0)
	if ok {
		b.t.Packets.RTT[row] = clip(max(rtt, 1))
		if f.h.RTTs == 0 || rtt < f.h.RTTMin {
			f.h.RTTMin = rtt
		}
		f.h.RTTMax = max(f.h.RTTMax, rtt)
		f.h.RTTs++
		f.h.RTTSum += rtt
	}
	b.t.Packets.InFlight[row] = clip(int64(f.space.bytes))
	s := &f.space
	for s.pending < len(s.ops) {
		o := &b.t.Ops[s.ops[s.pending]]
		if o.Status == Open {
			// Packets that the capture lacks may have ended it.
			whole := o.complete || s.pending+1 < len(s.ops) &&
				b.t.Ops[s.ops[s.pending+1]].first <= n
			if o.Operation.answered() || o.end > n || !whole {
				break
			}
			b.end(f, o, Done, "")
		}
		if f.protocol != protoIWARP && f.protocol != protoTRP {
			b.setOp(row, s.ops[s.pending])
		}
		s.pending++
	}
}

func (b *builder) setOp(row, op uint32) { b.t.Packets.Op[row] = op }

func (b *builder) end(f *flow, o *Op, status Status, reason string) {
	if o.Status != Open {
		return
	}
	o.Status, o.Reason, o.End = status, reason, max(o.Start, b.at)
	if status == Done {
		f.h.Done++
	} else {
		f.h.Failed++
	}
}

// nak counts a negative acknowledgement that names number n of f's requests.
func (b *builder) nak(f *flow, n int64, name string, k Kind, row uint32) {
	if k == RNR {
		f.h.RNRs++
	} else {
		if f.h.NAKs == nil {
			f.h.NAKs = map[string]uint64{}
		}
		f.h.NAKs[name]++
	}
	f.space.asked = true
	if i := f.space.op(b.t.Ops, n); i >= 0 {
		o := &b.t.Ops[f.space.ops[i]]
		b.setOp(row, f.space.ops[i])
		switch k {
		case Refusal:
			b.end(f, o, Failed, name)
		case RNR:
			o.Waited++
		}
	}
}
