// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"slices"
	"sort"

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
	out   int            // likewise, by requests that remove returned
	gaps  []wire.Gap     // PSNs missing before end
	end   ib.PSN         // one past the newest PSN
	// Where the latest SACK could not tell of all gaps, the next one begins at told.
	partly bool
	told   ib.PSN
}

// keptRequest is a request packet with a payload of its own.
type keptRequest struct {
	packet   wire.Packet
	packets  uint32 // that it stands for
	bytes    int    // that it counts for in kept.bytes
	answered bool   // a READ that was answered before its turn
}

// maxKept bounds how many PSNs after the expected one a request may be kept: the packets of
// 1,024 bytes that 10 Gb/s carry in four round trips of 50 ms. A packet may be lost three times.
const maxKept = 1 << 18

// maxGaps bounds the gaps between the requests kept, and the holes of a requester: to add one takes
// time in proportion.
const maxGaps = 1 << 15

// ReorderBytes is the memory of a process for requests that arrive before their turn. One queue
// pair may use half: 10 Gb/s carry as much in four round trips of 50 ms, in packets of 1,024 bytes.
const ReorderBytes = 640 << 20

// performedAtOnce bounds the kept requests that one call carries out, as its caller holds the lock
// of the queue pair. The timer goes on with the others. At a microsecond each they take as long as
// some bursts that arrive.
const performedAtOnce = 1024

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
	if !b.Take(k.bytes+k.out, more) {
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

// remove takes the request at psn out, nil if there is none. The caller gives its memory back. The
// last one leaves no other.
func (k *kept) remove(psn ib.PSN, b *mem.Budget) *keptRequest {
	e := k.at(psn)
	if e == nil {
		return nil
	}
	*k.slot(psn) = nil
	k.count--
	k.bytes -= e.bytes
	k.out += e.bytes
	if k.count == 0 {
		k.discard(b)
	}
	return e
}

// give gives back the memory of a request that remove returned, if e is one.
func (k *kept) give(e *keptRequest, b *mem.Budget) {
	if e != nil {
		k.out -= e.bytes
		b.Give(e.bytes)
	}
}

// skip removes the requests from first to before end, which are within the PSNs of another. A peer
// that sends many of them lies: nothing of it stays, and skip reports false.
func (k *kept) skip(first, end ib.PSN, b *mem.Budget) bool {
	for n := 0; first != end; first = first.Add(1) {
		e := k.remove(first, b)
		if e == nil {
			continue
		}
		k.give(e, b)
		if n++; n == performedAtOnce {
			k.discard(b)
			return false
		}
	}
	return true
}

// discard forgets all requests but those that remove returned.
func (k *kept) discard(b *mem.Budget) {
	b.Give(k.bytes)
	*k = kept{out: k.out}
}

// arrived takes note of the PSNs from first to before end, while epsn is expected. It reports
// whether that opens a gap or fills one.
func (k *kept) arrived(epsn, first, end ib.PSN) bool {
	if k.count == 0 {
		k.end = epsn
	}
	if first.Before(k.end) {
		k.gaps = without(k.gaps, first, end)
		return true
	}
	opens := first != k.end
	if opens {
		k.gaps = append(k.gaps, wire.Gap{First: k.end, End: first})
	}
	k.end = end
	return opens
}

// addsGap reports whether the PSNs from first to before end make one more gap. None of them has
// arrived.
func (k *kept) addsGap(first, end ib.PSN) bool {
	if k.count == 0 || !first.Before(k.end) {
		return k.count == 0 || first != k.end
	}
	i := sort.Search(len(k.gaps), func(i int) bool { return k.gaps[i].End.After(first) })
	return i < len(k.gaps) && k.gaps[i].First.Before(first) && k.gaps[i].End.After(end)
}

// expect has the first gap begin with epsn. It does not where a kept request was refused, and is
// to come again.
func (k *kept) expect(epsn ib.PSN) {
	n := 0
	for n < len(k.gaps) && !k.gaps[n].End.After(epsn) {
		n++
	}
	k.gaps = slices.Delete(k.gaps, 0, n)
	if len(k.gaps) == 0 || k.gaps[0].First.After(epsn) {
		k.gaps = insert(k.gaps, 0, wire.Gap{First: epsn, End: epsn.Add(1)})
	}
	k.gaps[0].First = epsn
}

// keep keeps a request, which stands for n packets, until it is its turn. The first that came with
// a PSN counts. It reports whether the set of missing PSNs has changed.
func (q *QP) keep(p *wire.Packet, n uint32) (news bool) {
	k, b := &q.resp.kept, q.Reorder
	end, ok := q.keptEnd(p, n)
	if !ok {
		q.Count[roce.NotKept]++
		return false
	}
	if p.PSN.Diff(q.resp.epsn) < int32(len(k.slots)) && k.at(p.PSN) != nil {
		return false
	}
	bytes := requestBytes + len(p.Payload)
	if len(k.gaps) >= maxGaps && k.addsGap(p.PSN, end) ||
		!k.grow(int(p.PSN.Diff(q.resp.epsn))+1, b) ||
		!b.Take(k.bytes+k.out, bytes) {
		if k.count == 0 {
			k.discard(b)
		}
		q.Count[roce.NotKept]++
		return false
	}
	news = k.arrived(q.resp.epsn, p.PSN, end)
	e := &keptRequest{packet: *p, packets: n, bytes: bytes}
	e.packet.Raw = nil
	e.packet.Payload = append([]byte(nil), p.Payload...)
	*k.slot(p.PSN) = e
	k.count++
	k.bytes += bytes
	q.Count[roce.Kept]++
	return news
}

// keptEnd returns one past the last PSN that a request takes, and whether it may be kept: all are
// near enough to the expected one.
func (q *QP) keptEnd(p *wire.Packet, n uint32) (end ib.PSN, ok bool) {
	if p.Info.Operation == wire.OpRDMARead {
		if p.RETH.DMALen > ib.MaxMessage {
			return 0, false
		}
		n = q.Packets(p.RETH.DMALen)
	}
	return p.PSN.Add(n), p.Info.Valid && uint64(p.PSN.Diff(q.resp.epsn))+uint64(n) <= maxKept
}

// performKept executes the requests whose turn has come, after one at first was executed. A
// request within the PSNs of another is no part of any message and goes. A selective requester is
// told of the next gap. After performedAtOnce requests the next one stalls until the timer is due.
func (q *QP) performKept(first ib.PSN, selective bool) {
	r := &q.resp
	k := &r.kept
	for n := 0; k.count > 0; n++ {
		if d := r.epsn.Diff(first); d < 0 || int(d) >= len(k.slots) { // a long READ
			k.discard(q.Reorder)
			return
		}
		if !k.skip(first, r.epsn, q.Reorder) {
			return
		}
		first = r.epsn
		if n == performedAtOnce && k.at(first) != nil {
			q.away.stalled, q.away.due = true, q.now.Add(1) // others have their turn before
			return
		}
		e := k.remove(first, q.Reorder)
		if e == nil {
			switch {
			case q.away.cur != nil:
				q.away.gap = true
			case selective:
				q.oweSack()
			}
			return
		}
		r.naked = true // the gap is not over yet: all that it held up is acknowledged
		r.answered, q.away.from = e.answered, e
		done := q.perform(&e.packet, e.packets)
		q.giveBack(&q.away.from)
		if r.answered = false; !done {
			return
		}
	}
}

// giveBack gives back the memory of a request that was kept, and forgets it.
func (q *QP) giveBack(e **keptRequest) {
	q.resp.kept.give(*e, q.Reorder)
	*e = nil
}

// Discard gives back the memory that the queue pair has taken from Config.Reorder, and its message
// in progress. It leaves the processes that it has passed requests on to. The caller makes no other
// call afterwards.
func (q *QP) Discard() {
	q.resp.kept.discard(q.Reorder)
	q.loseTagged()
	q.leaveOthers()
}
