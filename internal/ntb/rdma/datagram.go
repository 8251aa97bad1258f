// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"math/bits"

	"verbena/internal/monotime"
	"verbena/internal/ntb/channel"
	wire "verbena/internal/wire/ntb"
)

// datagrams is one kind of them: a ring in our window, which the peer fills, and one in its window,
// which we fill. Frames without room there are dropped; MADs wait for it. Sequence and bounds hold,
// delivery does not: datagrams on the way are lost when the link goes down.
//
//	   taken ........ posted       in our window: the peer's word says posted
//	[  free  | records | free ]
//
// Our progress in taking them is written into the peer's window, without a signal: senders look
// there.
type datagrams struct {
	counts  int    // the first of the three counters of the kind
	backlog uint32 // how many bytes may wait beyond the room in the peer's ring

	// ours
	in    wire.DatagramRing
	taken wire.Index
	told  wire.Index // taken, as the peer knows it

	// the peer's
	out     wire.DatagramRing
	posted  wire.Index
	freed   wire.Index // by the peer, as last seen
	waiting []byte     // records to be written at posted
}

// Counters of a kind of datagrams, from its first on.
const (
	countSent = iota
	countRcvd
	countDropped
)

// ringFor lays out a ring in a window, from at on, and returns the position behind it.
func (d *datagrams) ringFor(at uint64, capacity, longest uint32) (end uint64) {
	d.in = wire.DatagramRing{At: at, Cap: capacity,
		Max: min(longest, capacity/2-wire.RecordHeaderBytes)}
	d.taken, d.told = 0, 0
	return roundUp(at + d.in.Size())
}

// Capacities go by the length of the window.
const (
	minMADRing   = 1 << 12 // 13 MADs
	maxMADRing   = 1 << 16
	minFrameRing = 1 << 13 // frames of an MTU of 1500 and more
	maxFrameRing = 1 << 20
)

// layOutDatagrams gives the rings their places in a window of n bytes.
func (n *Node) layOutDatagrams(at, size uint64) (end uint64) {
	part := func(share, least, most uint64) uint32 {
		return uint32(1) << (bits.Len64(min(max(size/share, least), most)) - 1)
	}
	at = n.mads.ringFor(at, part(64, minMADRing, maxMADRing), wire.ManagementBytes)
	return n.frames.ringFor(at, part(16, minFrameRing, maxFrameRing), wire.MaxFrameBytes)
}

// checkDatagrams judges a ring of the peer's, which is to take datagrams of so
// many bytes at least.
func checkDatagrams(ch *channel.Channel, r *wire.DatagramRing, least uint32) bool {
	return r.Valid() && r.Max >= least && ch.PeerContains(r.At, r.Size())
}

// begin takes the peer's ring.
func (d *datagrams) begin(out wire.DatagramRing) {
	d.out, d.posted, d.freed, d.waiting = out, 0, 0, d.waiting[:0]
}

const (
	// madBacklog bounds the MADs that wait for room, some 3,400: the peer of a lost one asks again
	// only seconds later. Each link has its own, so that a stopped peer holds up no other.
	madBacklog = 1 << 20
	// roomPause is the time after which the peer's progress is looked at again while MADs wait.
	roomPause = monotime.Millisecond
)

// SendMAD has a management datagram sent, a wire.Management, as soon as the peer has room. It is
// lost, and the result false, if the link is down or too many wait.
func (n *Node) SendMAD(now monotime.Time, p []byte) bool { return n.put(now, &n.mads, p) }

// PollMAD copies the oldest management datagram that has come into buf, and returns
// its length; false if there is none.
func (n *Node) PollMAD(now monotime.Time, buf []byte) (size int, ok bool) {
	if n.MADWaits() && !n.ch.Quiet() { // the peer's addresses came before it, if they came
		n.Handle(now)
	}
	return n.take(now, &n.mads, buf)
}

// SendFrame has an Ethernet frame sent; false if the link is down, or if the peer has no room: then
// it is lost.
func (n *Node) SendFrame(now monotime.Time, p []byte) bool { return n.put(now, &n.frames, p) }

// PollFrame copies the oldest frame that has come into buf, as PollMAD does with
// a MAD. One that is longer than buf is dropped.
func (n *Node) PollFrame(now monotime.Time, buf []byte) (size int, ok bool) {
	return n.take(now, &n.frames, buf)
}

// MaxFrame returns the length of the longest frame that the peer takes, 0 while
// the link is down.
func (n *Node) MaxFrame() int {
	if !n.Up() {
		return 0
	}
	return int(n.frames.out.Max)
}

// MADWaits reports whether PollMAD has something.
func (n *Node) MADWaits() bool { return n.Up() && n.arrived(&n.mads) != 0 }

// FrameFits reports whether the peer has room for a frame of so many bytes.
func (n *Node) FrameFits(size int) bool {
	if !n.Up() {
		return false
	}
	free, ok := n.frames.free(n)
	return ok && n.frames.fits(size, free)
}

// FrameWaits reports whether PollFrame has something.
func (n *Node) FrameWaits() bool { return n.Up() && n.arrived(&n.frames) != 0 }

// fits reports whether a datagram may wait, where so much of the peer's ring is free.
func (d *datagrams) fits(size int, free uint32) bool {
	return size <= int(d.out.Max) &&
		len(d.waiting)+int(wire.RecordBytes(uint32(size))) <= int(free+d.backlog)
}

// put has a datagram wait for PollOutput, if there will be room for it.
func (n *Node) put(now monotime.Time, d *datagrams, p []byte) bool {
	if !n.Up() || len(p) == 0 {
		return false
	}
	free, ok := d.free(n)
	if !ok {
		n.violated(now)
		return false
	}
	if !d.fits(len(p), free) {
		n.Count[d.counts+countDropped]++
		return false
	}
	h := wire.RecordHeader{Bytes: uint32(len(p)), Index: d.posted + wire.Index(len(d.waiting))}
	d.waiting = append(h.Append(d.waiting), p...)
	for len(d.waiting)%wire.DatagramGrain != 0 {
		d.waiting = append(d.waiting, 0)
	}
	n.Count[d.counts+countSent]++
	return true
}

// free returns how much of the peer's ring is free, as it says; false if that
// cannot be.
func (d *datagrams) free(n *Node) (bytes uint32, ok bool) {
	freed := wire.Index(n.ch.Own().Load4(d.in.TakenAt()))
	if freed.Since(d.freed) > d.posted.Since(d.freed) {
		return 0, false
	}
	d.freed = freed
	return d.out.Cap - d.posted.Since(freed), true
}

// pollDatagrams writes waiting datagrams of one kind and how much was taken. It returns true with
// the link down where the peer's index was wrong.
func (n *Node) pollDatagrams(now monotime.Time, b *channel.Batch) bool {
	return n.mads.output(now, n, b) || n.frames.output(now, n, b)
}

// maxDatagramBatch bounds the bytes of one turn, but for its last record.
const maxDatagramBatch = 64 << 10

func (d *datagrams) output(now monotime.Time, n *Node, b *channel.Batch) bool {
	size, free, ok := 0, uint32(0), true
	if len(d.waiting) > 0 {
		if free, ok = d.free(n); !ok {
			n.violated(now)
			return true // the other kind must not write into the session that begins
		}
	}
	for size < len(d.waiting) && size < maxDatagramBatch {
		h, _, _ := wire.ParseRecordHeader(d.waiting[size:])
		end := size + int(wire.RecordBytes(h.Bytes))
		if end > int(free) {
			n.wake = min(n.wake, now.Add(roomPause))
			break
		}
		size = end
	}
	credit := d.taken != d.told && (size > 0 || d.taken.Since(d.told) >= d.in.Cap/8)
	if credit {
		d.told = d.taken
		b.Word4(d.out.TakenAt(), uint32(d.told))
	}
	if size == 0 {
		return credit
	}
	slot := d.posted.Slot(d.out.Cap)
	p := d.waiting[:size]
	row := min(uint32(size), d.out.Cap-slot)
	b.Copy(d.out.BytesAt()+uint64(slot), p[:row])
	if row < uint32(size) {
		b.Copy(d.out.BytesAt(), p[row:])
	}
	d.posted += wire.Index(size)
	d.waiting = d.waiting[:copy(d.waiting, d.waiting[size:])]
	b.Word4(d.out.PostedAt(), uint32(d.posted))
	n.ch.Ring(b)
	return true
}

// arrived returns how much of our ring is filled, as the peer says.
func (n *Node) arrived(d *datagrams) uint32 {
	return wire.Index(n.ch.Own().Load4(d.in.PostedAt())).Since(d.taken)
}

// take copies the oldest datagram of a kind that fits buf out of our ring.
func (n *Node) take(now monotime.Time, d *datagrams, buf []byte) (size int, ok bool) {
	for n.Up() {
		filled := n.arrived(d)
		if filled == 0 {
			return 0, false
		}
		var room [wire.RecordHeaderBytes]byte // a copy: the peer may change the original
		n.copyOut(d, d.taken, room[:])
		h, _, _ := wire.ParseRecordHeader(room[:])
		if filled > d.in.Cap || h.Index != d.taken || h.Bytes == 0 || h.Bytes > d.in.Max ||
			wire.RecordBytes(h.Bytes) > filled {
			n.violated(now)
			return 0, false
		}
		whole := int(h.Bytes) <= len(buf) &&
			n.copyOut(d, d.taken+wire.RecordHeaderBytes, buf[:h.Bytes])
		d.taken += wire.Index(wire.RecordBytes(h.Bytes))
		if whole {
			n.Count[d.counts+countRcvd]++
			return int(h.Bytes), true
		}
		n.Count[d.counts+countDropped]++
	}
	return 0, false
}

// copyOut copies bytes of our ring from a position on.
func (n *Node) copyOut(d *datagrams, from wire.Index, dst []byte) bool {
	w, slot := n.ch.Own(), from.Slot(d.in.Cap)
	row := min(uint32(len(dst)), d.in.Cap-slot)
	return w.CopyOut(d.in.BytesAt()+uint64(slot), dst[:row]) && w.CopyOut(d.in.BytesAt(), dst[row:])
}
