// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/qp"
	wire "verbena/internal/wire/roce"
)

// Bounds of a burst: one UDP_SEGMENT send may carry as much on every kernel.
const (
	MaxSegments   = 64
	MaxBurstBytes = 65000 // below 65,507, the longest UDP payload over IPv4
)

// longPayload is the largest payload of a long packet: see Payload.
const longPayload = 32 << 10

// copyBelow is the payload size up to which a packet is copied into the burst
// instead of being pointed at: below it one contiguous write beats three
// entries of the scatter list.
const copyBelow = 512

const arenaBytes = MaxBurstBytes + 1024

// Burst holds datagrams to one queue pair: all of SegmentBytes but
// the last, which may be shorter, so that one UDP_SEGMENT send carries it.
// Machines fill it; the engine writes it and calls Reset. After NextTurn another machine, whose
// packets go the same way, adds datagrams of the same size.
//
// Payload is copied or pointed at in place; pointed-at regions are held until
// Reset, so that deregistering waits for the write and frees nothing under it.
type Burst struct {
	path     *Path
	segBytes int
	n        int  // complete datagrams
	limit    int  // datagrams at most
	cut      bool // see IsCut
	room     int  // bytes at most
	bytes    int
	turn     turn
	closed   bool // a shorter datagram ended the burst
	ack      AckPlace
	plain    bool // see Into
	stream   bool // see Into
	held     []mem.Span
	scratch  []mem.Span
	sums     []uint32 // of Run
	iov      [][]byte
	arena    []byte
	own      []byte // the arena but for Into
	mark     int    // arena bytes already in iov
	// the datagram being built
	open    int    // its size, 0 when none
	written int    // its bytes so far
	start   int    // arena offset not yet in the ICRC
	crc     uint32 // ICRC state
	more    uint32 // packets it stands for beside itself
	first   bool   // the BTH is still to be masked and summed
	undo    undo
}

// undo is the state of the burst when the open datagram was begun.
type undo struct{ arena, iov, held, mark int }

// turn is the part of a burst that one machine has filled.
type turn struct {
	path    *Path
	dst     ib.QPN
	from    int  // datagrams before it
	bytes   int  // of them
	packets int  // that the datagrams of the turn stand for
	message int  // bytes of the burst before the last message
	longest int  // see Longest
	refused bool // Begin refused a datagram
	noRuns  int  // that Run refused
}

// NewBurst returns an empty burst with its buffers allocated.
func NewBurst() *Burst {
	arena := make([]byte, 0, arenaBytes)
	return &Burst{limit: MaxSegments, room: MaxBurstBytes, arena: arena, own: arena,
		iov: make([][]byte, 0, 4*MaxSegments), held: make([]mem.Span, 0, MaxSegments),
		scratch: make([]mem.Span, 0, ib.MaxSGE), sums: make([]uint32, MaxSegments)}
}

// Reset releases the burst's memory and empties it.
func (b *Burst) Reset() {
	for i := range b.held {
		b.held[i].Release()
		b.held[i] = mem.Span{}
	}
	clear(b.iov)
	*b = Burst{limit: b.limit, cut: b.cut, room: MaxBurstBytes, held: b.held[:0],
		scratch: b.scratch, sums: b.sums, iov: b.iov[:0], arena: b.own, own: b.own}
}

// Limit sets how many datagrams a burst may have: 1 where the system does not
// cut bursts, as each datagram is then the first of its own send.
func (b *Burst) Limit(n int) { b.limit, b.cut = min(n, MaxSegments), n > 1 }

// AckPlace is the place of a lone acknowledgement when there are requests to send, too.
type AckPlace uint8

// Places of an acknowledgement.
const (
	AckBehind AckPlace = iota // at the end of their burst, where it costs no send of its own
	AckBefore                 // in a burst of its own before theirs, if the peer may wait for it
	AckAlone                  // likewise, in any case
	AckLater                  // not now: the engine asks for it later
)

// PlaceAck sets the place of a lone acknowledgement.
func (b *Burst) PlaceAck(p AckPlace) { b.ack = p }

// AckPlace returns the place that PlaceAck has set.
func (b *Burst) AckPlace() AckPlace { return b.ack }

// Into makes the burst be written to memory that another process shares, which is longer than any
// packet. All of it is copied there, and nothing happens on the way that the ICRC would find. The
// argument of StandsFor takes its place. With stream the payload of registered memory goes past the
// caches: see mem.Stream. Reset ends it.
func (b *Burst) Into(memory []byte, stream bool) {
	b.arena, b.room, b.plain, b.stream = memory[:0], len(memory), true, stream
}

// Payload returns how many bytes of payload a packet may have, a multiple of the path MTU. More
// than one MTU makes a long packet, which stands for so many packets and takes their PSNs: the
// sender joins packets as a receiver would. That needs a way where nothing is cut, and Into in
// force.
func (b *Burst) Payload(mtu int) int {
	if !b.plain {
		return mtu
	}
	return max(min(longPayload, b.room-wire.MaxHeaderBytes)/mtu*mtu, mtu)
}

// StandsFor sets the number of packets of the path MTU that the open datagram stands for, if not
// one.
func (b *Burst) StandsFor(n uint32) { b.more = n - 1 }

// IsCut reports whether the system is known to cut the burst, by Limit, so that a datagram of
// another size costs a send.
func (b *Burst) IsCut() bool { return b.cut && !b.plain }

// Scratch returns room for the spans of the datagram under construction.
func (b *Burst) Scratch() []mem.Span { return b.scratch[:0] }

// NextTurn has another machine add datagrams. Len, Packets and Bytes count those of its turn.
func (b *Burst) NextTurn() { b.turn = turn{from: b.n, bytes: b.bytes, message: b.bytes} }

// Refused reports whether Begin has refused a datagram in this turn: the machine has more to send.
func (b *Burst) Refused() bool { return b.turn.refused }

// IsBurst reports whether the datagrams of all turns are more than one.
func (b *Burst) IsBurst() bool { return b.n > 1 }

// Path returns the destination of the burst.
func (b *Burst) Path() *Path { return b.path }

// SegmentBytes returns the size of every datagram but the last.
func (b *Burst) SegmentBytes() int { return b.segBytes }

// Len returns the number of datagrams.
func (b *Burst) Len() int { return b.n - b.turn.from }

// Packets returns the number of packets of the path MTU that the datagrams stand for.
func (b *Burst) Packets() int { return b.turn.packets }

// Bytes returns the UDP payload bytes of all datagrams.
func (b *Burst) Bytes() int { return b.bytes - b.turn.bytes }

// Longest returns the most UDP payload bytes that one message has in this turn.
func (b *Burst) Longest() int { return b.turn.longest }

// Iov returns the bytes of the burst as a scatter list, valid until Reset.
func (b *Burst) Iov() [][]byte { return b.iov }

// Full reports whether no further datagram of any size fits.
func (b *Burst) Full() bool { return b.closed || b.n == b.limit }

// Begin opens a datagram of size UDP payload bytes (headers, payload, pad and
// ICRC), starting with bth. It reports false, and changes nothing, if the
// datagram does not fit this burst.
func (b *Burst) Begin(path *Path, size int, bth wire.BTH) bool {
	switch {
	case b.n == 0:
		b.path, b.segBytes = path, size
	case b.Full(), size > b.segBytes, b.bytes+size > b.room,
		b.Len() > 0 && (b.turn.path != path || b.turn.dst != bth.DestQP),
		// a shorter one would end the burst
		b.Len() == 0 && (size != b.segBytes || !path.isThatOf(b.path)):
		b.turn.refused = true
		return false
	}
	b.turn.path, b.turn.dst = path, bth.DestQP
	if bth.Opcode.Info().First {
		b.turn.message = b.bytes
	}
	b.undo = undo{len(b.arena), len(b.iov), len(b.held), b.mark}
	b.open, b.written, b.first, b.more = size, 0, true, 0
	b.start = len(b.arena)
	if !b.plain {
		b.crc = path.Pseudo.Start(size, uint16(b.n))
	}
	b.arena = bth.Append(b.arena)
	return true
}

// XRCETH adds an XRC extended transport header to the open datagram.
func (b *Burst) XRCETH(h wire.XRCETH) { b.arena = h.Append(b.arena) }

// RETH adds an RDMA extended transport header.
func (b *Burst) RETH(h wire.RETH) { b.arena = h.Append(b.arena) }

// AETH adds an ACK extended transport header.
func (b *Burst) AETH(h wire.AETH) { b.arena = h.Append(b.arena) }

// DETH adds a datagram extended transport header.
func (b *Burst) DETH(h wire.DETH) { b.arena = h.Append(b.arena) }

// AtomicETH adds an atomic extended transport header.
func (b *Burst) AtomicETH(h wire.AtomicETH) { b.arena = h.Append(b.arena) }

// AtomicAckETH adds the original value an atomic found.
func (b *Burst) AtomicAckETH(h wire.AtomicAckETH) { b.arena = h.Append(b.arena) }

// ImmDt adds immediate data.
func (b *Burst) ImmDt(v uint32) { b.arena = wire.ImmDt{Data: v}.Append(b.arena) }

// IETH adds the key a SEND with invalidate names.
func (b *Burst) IETH(k ib.RKey) { b.arena = wire.IETH{RKey: k}.Append(b.arena) }

// FETH adds a flush extended transport header.
func (b *Burst) FETH(h wire.FETH) { b.arena = h.Append(b.arena) }

// Copy adds payload bytes by value.
func (b *Burst) Copy(p []byte) { b.arena = append(b.arena, p...) }

// CopySpan adds n bytes of s from off by value: for memory that others may write meanwhile, whose
// ICRC would otherwise not match the packet. The caller keeps s and releases it. With false the
// memory is not mapped any more, and the caller calls Abort.
func (b *Burst) CopySpan(s mem.Span, off, n int) bool {
	at := len(b.arena)
	b.arena = b.arena[:at+n]
	if b.stream {
		return s.StreamOut(off, b.arena[at:])
	}
	return s.CopyOut(off, b.arena[at:])
}

// CopySpans is CopySpan of all bytes of several.
func (b *Burst) CopySpans(spans []mem.Span) bool {
	for i := range spans {
		if !b.CopySpan(spans[i], 0, spans[i].Len()) {
			return false
		}
	}
	return true
}

// Span adds n bytes of s from off, by reference when that pays. It takes over
// the caller's hold on s. It returns false as CopySpan does.
func (b *Burst) Span(s mem.Span, off, n int) (ok bool) {
	if b.plain || n <= copyBelow || len(b.held) == cap(b.held) {
		ok = b.CopySpan(s, off, n)
		s.Release()
		return ok
	}
	b.held = append(b.held, s)
	b.flush()
	from := len(b.iov)
	b.iov = s.AppendSlices(b.iov, off, n)
	for _, p := range b.iov[from:] {
		if b.crc, ok = mem.Sum(b.crc, p, wire.Update); !ok {
			return false
		}
	}
	b.written += n
	return true
}

// Spans is Span of all bytes of several; it takes over the hold on each.
func (b *Burst) Spans(spans []mem.Span) bool {
	for i := range spans {
		if !b.Span(spans[i], 0, spans[i].Len()) {
			qp.Release(spans[i+1:])
			return false
		}
	}
	return true
}

// Abort takes back the open datagram, whose payload cannot be read. Those before
// it stay.
func (b *Burst) Abort() {
	qp.Release(b.held[b.undo.held:])
	clear(b.held[b.undo.held:])
	clear(b.iov[b.undo.iov:])
	b.arena, b.iov, b.held, b.mark = b.arena[:b.undo.arena], b.iov[:b.undo.iov],
		b.held[:b.undo.held], b.undo.mark
	b.start, b.open = len(b.arena), 0
}

// flush moves the arena's new bytes into the ICRC and the scatter list.
func (b *Burst) flush() {
	p := b.arena[b.start:]
	b.sum(p)
	b.written += len(p)
	b.start = len(b.arena)
	if tail := b.arena[b.mark:]; len(tail) > 0 {
		b.iov = append(b.iov, tail)
		b.mark = len(b.arena)
	}
}

func (b *Burst) sum(p []byte) {
	if b.plain {
		return
	}
	if b.first {
		b.first = false
		b.crc = wire.UpdateBTH(b.crc, p)
		return
	}
	b.crc = wire.Update(b.crc, p)
}

// zeroPad completes a payload to a multiple of four bytes.
var zeroPad [3]byte

// End pads and seals the open datagram. It panics if its size is not that given to Begin: that is a
// fault of the machine, never of a peer.
func (b *Burst) End() {
	n := b.written + len(b.arena) - b.start
	pad := b.open - wire.ICRCBytes - n
	if pad < 0 || pad > 3 {
		panic("roce: datagram is not of the size announced")
	}
	b.arena = append(b.arena, zeroPad[:pad]...)
	p := b.arena[b.start:]
	b.sum(p)
	if b.plain {
		b.crc = b.more
	}
	b.arena = wire.AppendICRC(b.arena, b.crc)
	b.start = len(b.arena)
	b.bytes += b.open
	b.turn.longest = max(b.turn.longest, b.bytes-b.turn.message)
	b.n++
	b.turn.packets += 1 + int(b.more)
	b.closed = b.open < b.segBytes
	b.open = 0
}

// Seal completes the scatter list; the engine calls it before Iov.
func (b *Burst) Seal() {
	if tail := b.arena[b.mark:]; len(tail) > 0 {
		b.iov = append(b.iov, tail)
		b.mark = len(b.arena)
	}
}
