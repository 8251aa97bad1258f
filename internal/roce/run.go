// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/binary"

	"verbena/ib"
	"verbena/internal/mem"
	wire "verbena/internal/wire/roce"
)

// A run is several datagrams of one message, which differ in their PSNs, RETHs and payload. Most of
// a long message's are in runs: their memory is looked up once.

// RunRoom returns how many datagrams of a run fit, each with so many bytes of headers and of
// payload, a multiple of four. It is 0 where Run does not apply. It is 0 too after two refusals in
// this turn: the first may be at the end of a piece of memory.
func (b *Burst) RunRoom(path *Path, dst ib.QPN, headers, payload int) int {
	size := headers + payload + wire.ICRCBytes
	if b.plain || payload <= copyBelow || len(b.held) == cap(b.held) || b.Full() ||
		b.turn.noRuns > 1 ||
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
	headers := bth.Row().HeaderBytes
	size := headers + payload + wire.ICRCBytes
	arena, sums, psn := b.arena, b.sums[:n], bth.PSN
	for i := range sums {
		at := len(arena)
		bth.PSN = psn.Add(uint32(i))
		arena = bth.Append(arena)
		if bth.AllRETH {
			arena = reth.Append(arena)
			reth.VA += uint64(payload)
			reth.DMALen -= uint32(payload)
		}
		sums[i] = wire.UpdateBTH(path.Pseudo.Start(size, uint16(b.n+i)), arena[at:])
		arena = append(arena, make([]byte, wire.ICRCBytes)...)
	}
	if !mem.SumEach(sums, data, wire.Update) {
		b.turn.noRuns++
		return 0
	}
	at := len(b.arena)
	for i, sum := range sums {
		at += headers
		b.iov = append(b.iov, arena[b.mark:at], data[i*payload:(i+1)*payload])
		b.mark = at
		binary.LittleEndian.PutUint32(arena[at:], wire.Finish(sum))
		at += wire.ICRCBytes
	}
	if b.n == 0 {
		b.path, b.segBytes = path, size
	}
	b.turn.path, b.turn.dst = path, bth.DestQP
	b.held = append(b.held, s)
	b.arena, b.start = arena, len(arena)
	b.n += n
	b.bytes += n * size
	b.turn.packets += n
	b.turn.longest = max(b.turn.longest, b.bytes-b.turn.message)
	return n
}
