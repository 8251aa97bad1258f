// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"encoding/binary"
	"testing"

	"verbena/ib"
	"verbena/internal/queue"
)

// Applications write data, and then a word by which the other side knows that it
// is there. The word may go straight to its place, the data by the arena: it must
// not be there first.
func TestPlacedIsNotSeenEarly(t *testing.T) {
	p := newPair(t)
	x, y := p.connected(0x11)
	at, _ := y.node.own.pool.take(4096)
	buf, _ := y.own.Bytes(at, 4096)
	clear(buf)
	mr, err := y.table.Register(pd, buf, base+1<<30, allAccess)
	if err != nil {
		t.Fatal(err)
	}
	if err := y.node.Expose(mr, Piece(at, 4096)); err != nil {
		t.Fatal(err)
	}
	p.carry()
	for round := range uint64(50) {
		n := []int{8, 300, 5000}[round%3]
		want := x.fill(0, n, int(round)+1)
		word := x.write(8192, 8, y, 0)
		word.RKey, word.RemoteAddr = mr.RKey(), mr.Addr()
		binary.LittleEndian.PutUint64(x.bytes[8192:], round+1)
		for _, w := range []queue.SendWQE{x.write(0, n, y, 0), word} {
			slot, _ := x.sq.Reserve()
			sge := slot.SGE
			x.wrid++
			*slot = w
			slot.WRID, slot.SGE = x.wrid, append(sge, w.SGE...)
			x.sq.Commit()
		}
		x.q.Doorbell(p.now)
		for x.node.PollOutput(p.now, x.batch) {
			if err := x.batch.Apply(y.own.Far()); err != nil {
				t.Fatal(err)
			}
			x.batch.Reset()
			if binary.LittleEndian.Uint64(buf) == round+1 { // and the owner has not looked yet
				y.wantBytes("the word is there", 0, want)
			}
		}
		p.carry()
		x.wantWC("data", 2*round+1, ib.WCSuccess)
		x.wantWC("word", 2*round+2, ib.WCSuccess)
	}
	if x.q.Count[SentPlaced] != 0 {
		t.Errorf("%d bytes placed with others on their way", x.q.Count[SentPlaced])
	}
	// Alone it is there when it is written, before the owner looks.
	word := x.write(8192, 8, y, 0)
	word.RKey, word.RemoteAddr = mr.RKey(), mr.Addr()
	binary.LittleEndian.PutUint64(x.bytes[8192:], 77)
	x.post(word)
	x.wantWC("alone", 101, ib.WCSuccess)
	if x.q.Count[SentPlaced] != 8 || binary.LittleEndian.Uint64(buf) != 77 {
		t.Errorf("%d bytes placed, the word is %d", x.q.Count[SentPlaced], binary.LittleEndian.Uint64(buf))
	}
}
