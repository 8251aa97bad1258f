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

// RunRoom returns how many datagrams of a run fit, each with a BTH and so many bytes of payload, a
// multiple of four. It is 0 where Run does not apply. It is 0 too after two refusals in this turn:
// the first may be at the end of a piece of memory.
func (b *Burst) RunRoom(path *Path, dst ib.QPN, payload, extra int) int {
	size := wire.BTHBytes + extra + payload + wire.ICRCBytes
	if b.plain || len(b.held) == cap(b.held) || b.Full() || b.turn.noRuns > 1 ||
		b.n > 0 && (b.Len() == 0 || size != b.segBytes || b.turn.path != path ||
			b.turn.dst != dst) {
		return 0
	}
	return min(b.limit-b.n, (b.room-b.bytes)/size)
}

// Run adds datagrams with so many bytes of s each, at most n, which is no more than RunRoom, and
// returns how many. A run ends with the piece of memory in which s starts. The first datagram has
// bth, each other the next PSN. Run takes over the caller's hold on s. It returns 0, and leaves the
// hold, if there is no room for two in the piece or the memory is not mapped any more.
func (b *Burst) Run(path *Path, bth wire.BTH, reth *wire.RETH, s mem.Span, payload, n int) int {
	head := wire.BTHBytes
	if reth != nil {
		head += 16
	}
	data := s.Piece()
	if n = min(n, len(data)/payload); n < 2 {
		b.turn.noRuns++
		return 0
	}
	data = data[:n*payload]
	ok := false
	if payload <= copyBelow {
		ok = b.copyRun(path, bth, reth, head, data, payload, n)
	} else {
		ok = b.pointRun(path, bth, reth, head, data, payload, n)
	}
	if !ok {
		b.turn.noRuns++
		return 0
	}
	size := head + payload + wire.ICRCBytes
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

// copyRun adds the n datagrams of Run by value.
func (b *Burst) copyRun(path *Path, bth wire.BTH, reth *wire.RETH, head int, data []byte, payload, n int) bool {
	size := head + payload + wire.ICRCBytes
	at := len(b.arena)
	run := b.arena[at : at+n*size]
	if !mem.CopyEach(run[head:], size, data, payload) {
		return false
	}
	psn := bth.PSN
	for i := range n {
		p := run[i*size : (i+1)*size]
		bth.PSN = psn.Add(uint32(i))
		h := bth.Append(p[:0])
		if reth != nil {
			e := *reth
			e.VA += uint64(i * payload)
			e.Append(h)
		}
		sum := wire.UpdateBTH(path.Pseudo.Start(size, uint16(b.n+i)), p[:size-wire.ICRCBytes])
		wire.AppendICRC(p[:size-wire.ICRCBytes], sum)
	}
	b.arena = b.arena[:at+n*size]
	return true
}

// pointRun adds them by reference.
func (b *Burst) pointRun(path *Path, bth wire.BTH, reth *wire.RETH, head int, data []byte, payload, n int) bool {
	size := head + payload + wire.ICRCBytes
	arena, sums, psn := b.arena, b.sums[:n], bth.PSN
	for i := range sums {
		at := len(arena)
		bth.PSN = psn.Add(uint32(i))
		arena = bth.Append(arena)
		if reth != nil {
			e := *reth
			e.VA += uint64(i * payload)
			arena = e.Append(arena)
		}
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

// Even reports whether datagrams of one size are cheaper: they go by sockets.
func (b *Burst) Even() bool { return !b.plain }
