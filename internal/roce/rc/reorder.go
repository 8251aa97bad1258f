// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// kept has the requests that arrived after a gap. They are executed, in the order of their
// PSNs, when the gap is filled: memory is written and receives complete as if all had come in
// order. A requester that goes back N finds by the acknowledgement that it need not repeat them.
//
// A request is checked when it is executed. So nothing that a peer sends beyond a gap has an
// effect before, but for the memory that holds it.
type kept struct {
	slots []*keptRequest // the slot of a PSN is at its low bits; a power of two
	count int            // slots in use
	bytes int            // taken from Config.Reorder
}

// keptRequest is a request packet with a payload of its own.
type keptRequest struct {
	packet  wire.Packet
	packets uint32 // that it stands for
	bytes   int    // that it counts for in kept.bytes
}

// maxKept bounds how many PSNs after the expected one a request may be kept: the packets of
// 1,024 bytes that 10 Gb/s carry in 50 ms.
const maxKept = 1 << 16

// keptBytes is the memory of one queue pair where Config.Reorder is nil.
const keptBytes = 64 << 20

// Bytes that a kept request and a slot count for, beside the payload.
const (
	requestBytes = 256
	slotBytes    = 8
)

// leastSlots is the length that slots start with.
const leastSlots = 64

func (k *kept) slot(psn ib.PSN) **keptRequest {
	return &k.slots[uint32(psn)&uint32(len(k.slots)-1)]
}

// at returns the request kept at a PSN that is less than len(slots) after the expected one,
// nil if there is none.
func (k *kept) at(psn ib.PSN) *keptRequest {
	if k.count == 0 {
		return nil
	}
	return *k.slot(psn)
}

// grow makes room for PSNs less than span after the expected one.
func (k *kept) grow(span int, b *mem.Budget) bool {
	size := max(leastSlots, len(k.slots))
	for size < span {
		size *= 2
	}
	if size == len(k.slots) {
		return true
	}
	more := (size - len(k.slots)) * slotBytes
	if !b.Take(k.bytes, more) {
		return false
	}
	k.bytes += more
	old := k.slots
	k.slots = make([]*keptRequest, size)
	for _, e := range old {
		if e != nil {
			*k.slot(e.packet.PSN) = e
		}
	}
	return true
}

// remove takes the request at psn out, nil if there is none. The last one leaves no memory.
func (k *kept) remove(psn ib.PSN, b *mem.Budget) *keptRequest {
	e := k.at(psn)
	if e == nil {
		return nil
	}
	*k.slot(psn) = nil
	k.count--
	k.bytes -= e.bytes
	b.Give(e.bytes)
	if k.count == 0 {
		k.discard(b)
	}
	return e
}

// discard forgets all requests.
func (k *kept) discard(b *mem.Budget) {
	b.Give(k.bytes)
	*k = kept{}
}

// keep keeps a request, which stands for n packets, until it is its turn. The first that came
// with a PSN counts.
func (q *QP) keep(p *wire.Packet, n uint32) {
	k, b := &q.resp.kept, q.Reorder
	if !p.Info.Valid || !q.mayKeep(p, n) {
		q.Count[roce.NotKept]++
		return
	}
	if p.PSN.Diff(q.resp.epsn) < int32(len(k.slots)) && k.at(p.PSN) != nil {
		return
	}
	bytes := requestBytes + len(p.Payload)
	if !k.grow(int(p.PSN.Diff(q.resp.epsn))+1, b) || !b.Take(k.bytes, bytes) {
		if k.count == 0 {
			k.discard(b)
		}
		q.Count[roce.NotKept]++
		return
	}
	e := &keptRequest{packet: *p, packets: n, bytes: bytes}
	e.packet.Raw = nil
	e.packet.Payload = append([]byte(nil), p.Payload...)
	*k.slot(p.PSN) = e
	k.count++
	k.bytes += bytes
	q.Count[roce.Kept]++
}

// mayKeep reports whether all PSNs that a request takes are few enough after the expected one.
func (q *QP) mayKeep(p *wire.Packet, n uint32) bool {
	if p.Info.Operation == wire.OpRDMARead {
		if p.RETH.DMALen > ib.MaxMessage {
			return false
		}
		n = q.Packets(p.RETH.DMALen)
	}
	return uint64(p.PSN.Diff(q.resp.epsn))+uint64(n) <= maxKept
}

// performKept executes the requests whose turn has come, after one at first was executed. A
// request within the PSNs of another is no part of any message and goes.
func (q *QP) performKept(first ib.PSN) {
	r := &q.resp
	k := &r.kept
	for k.count > 0 {
		if d := r.epsn.Diff(first); d < 0 || int(d) >= len(k.slots) { // a long READ
			k.discard(q.Reorder)
			return
		}
		for ; first != r.epsn; first = first.Add(1) {
			k.remove(first, q.Reorder)
		}
		e := k.remove(first, q.Reorder)
		if e == nil {
			return
		}
		r.naked = true // the gap is not over yet: all that it held up is acknowledged
		if !q.perform(&e.packet, e.packets) {
			return
		}
	}
}

// Discard gives back the memory that the queue pair has taken from Config.Reorder. The caller
// makes no other call afterwards.
func (q *QP) Discard() { q.resp.kept.discard(q.Reorder) }
