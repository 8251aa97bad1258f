// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/binary"

	"verbena/ib"
	"verbena/internal/mem"
	wire "verbena/internal/wire/roce"
)

// A run is several datagrams of one message, which differ in their PSNs and payload. Most of a long
// message's are in runs: their memory is looked up once. Their payload is copied where that of a
// single datagram is.

// RunRoom returns how many datagrams of a run fit, each of size UDP payload bytes, with a payload
// that is a multiple of four. It is 0 where Run does not apply. It is 0 too after two refusals in
// this turn: the first may be at the end of a piece of memory.
func (b *Burst) RunRoom(path *Path, dst ib.QPN, size int) int {
	if b.plain || len(b.held) == cap(b.held) || b.Full() || b.turn.noRuns > 1 ||
		b.n > 0 && (b.Len() == 0 || size != b.segBytes || b.turn.path != path ||
			b.turn.dst != dst) {
		return 0
	}
	return min(b.limit-b.n, (b.room-b.bytes)/size)
}

// Run adds datagrams with so many bytes of s each, at most n, which is no more than RunRoom, and
// returns how many. A run ends with the piece of memory in which s starts. The first datagram has
// bth, and reth if bth.AllRETH is set. Each other has the next PSN, and the place of its payload.
// Run takes over the caller's hold on s. It returns 0, and leaves the hold, if there is no room for
// two in the piece or the memory is not mapped any more.
func (b *Burst) Run(path *Path, bth wire.BTH, reth wire.RETH, s mem.Span, payload, n int) int {
	data := s.Piece()
	if n = min(n, len(data)/payload); n < 2 {
		b.turn.noRuns++
		return 0
	}
	data = data[:n*payload]
	h := runHeaders{bth, reth, uint32(payload)}
	size := bth.Row().HeaderBytes + payload + wire.ICRCBytes
	ok := false
	if payload <= copyBelow {
		ok = b.copyRun(path, h, data, size, n)
	} else {
		ok = b.pointRun(path, h, data, size, n)
	}
	if !ok {
		b.turn.noRuns++
		return 0
	}
	if b.n == 0 {
		b.path, b.segBytes = path, size
	}
	b.turn.path, b.turn.dst = path, bth.DestQP
	if payload <= copyBelow {
		s.Release()
	} else {
		b.held = append(b.held, s)
	}
	b.start = len(b.arena)
	b.n += n
	b.bytes += n * size
	b.turn.packets += n
	b.turn.longest = max(b.turn.longest, b.bytes-b.turn.message)
	return n
}

// runHeaders are those of a run's next datagram.
type runHeaders struct {
	bth     wire.BTH
	reth    wire.RETH
	payload uint32
}

// next appends the headers to p, and moves on.
func (h *runHeaders) next(p []byte) []byte {
	p = h.bth.Append(p)
	h.bth.PSN = h.bth.PSN.Add(1)
	if h.bth.AllRETH {
		p = h.reth.Append(p)
		h.reth.VA += uint64(h.payload)
		h.reth.DMALen -= h.payload
	}
	return p
}

// copyRun adds the n datagrams of Run by value.
func (b *Burst) copyRun(path *Path, h runHeaders, data []byte, size, n int) bool {
	payload := int(h.payload)
	at, head := len(b.arena), size-payload-wire.ICRCBytes
	run := b.arena[at : at+n*size]
	if !mem.CopyEach(run[head:], size, data, payload) {
		return false
	}
	for i := range n {
		p := run[i*size : (i+1)*size]
		h.next(p[:0])
		sum := wire.UpdateBTH(path.Pseudo.Start(size, uint16(b.n+i)), p[:size-wire.ICRCBytes])
		wire.AppendICRC(p[:size-wire.ICRCBytes], sum)
	}
	b.arena = b.arena[:at+n*size]
	return true
}

// pointRun adds them by reference.
func (b *Burst) pointRun(path *Path, h runHeaders, data []byte, size, n int) bool {
	payload := int(h.payload)
	arena, sums, head := b.arena, b.sums[:n], size-payload-wire.ICRCBytes
	for i := range sums {
		at := len(arena)
		arena = h.next(arena)
		sums[i] = wire.UpdateBTH(path.Pseudo.Start(size, uint16(b.n+i)), arena[at:])
		arena = append(arena, make([]byte, wire.ICRCBytes)...)
	}
	if !mem.SumEach(sums, data, wire.Update) {
		return false
	}
	at := len(b.arena)
	for i, sum := range sums {
		at += head
		b.iov = append(b.iov, arena[b.mark:at], data[i*payload:(i+1)*payload])
		b.mark = at
		binary.LittleEndian.PutUint32(arena[at:], wire.Finish(sum))
		at += wire.ICRCBytes
	}
	b.arena = arena
	return true
}
