// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"testing"

	"verbena/ib"
)

// associatedPair returns two ends without a network. step carries one end's datagrams to the other,
// and the acknowledgements back.
func associatedPair(t testing.TB) (a, b *peer, step func()) {
	a, b = associated(t)
	a.a.SendCQ, b.a.RecvCQ, b.a.SendCQ, a.a.RecvCQ = &ring{}, &ring{}, &ring{}, &ring{}
	packet := make([]byte, 0, segmentBytes+10)
	move := func(from, to *peer) {
		for from.a.PollOutput(0, from.burst) {
			from.burst.Seal()
			for _, p := range from.burst.Iov() {
				for len(p) > 0 {
					n := min(len(p), from.burst.SegmentBytes()-len(packet))
					packet = append(packet, p[:n]...)
					if p = p[n:]; len(packet) == from.burst.SegmentBytes() {
						to.a.HandleInput(0, from.at, packet)
						packet = packet[:0]
					}
				}
			}
			if len(packet) > 0 {
				to.a.HandleInput(0, from.at, packet)
				packet = packet[:0]
			}
			from.burst.Reset()
		}
	}
	return a, b, func() {
		move(a, b)
		move(b, a)
		move(a, b)
		move(b, a)
	}
}

func TestAssociationDoesNotAllocate(t *testing.T) {
	a, b, step := associatedPair(t)
	request := func(op ib.WROpcode, n uint32) {
		w, _ := a.sq.Reserve()
		w.Opcode, w.Length, w.SGE, w.RemoteAddr, w.RKey = op, n, append(w.SGE, a.sge(0, int(n))), base, b.mr.RKey()
		a.sq.Commit()
		a.a.Doorbell(0)
	}
	run := func(name string, post func()) {
		for range 200 { // the ring of segments and its headers grow to their largest
			post()
			step()
		}
		if n := testing.AllocsPerRun(100, func() { post(); step() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		if a.sq.Len() != 0 {
			t.Errorf("%s: %d have not completed", name, a.sq.Len())
		}
	}
	recv := []ib.SGE{b.sge(6000, 5000)}
	run("WRITE", func() { request(ib.WRRDMAWrite, 5000) })
	run("READ", func() { request(ib.WRRDMARead, 5000) })
	run("FETCH_ADD", func() { request(ib.WRAtomicFetchAndAdd, 8) })
	run("SEND", func() { b.postRecv(1, recv[0]); request(ib.WRSend, 5000) })
}

// BenchmarkAssociationWrite measures the time that both ends need for the bytes of a WRITE.
func BenchmarkAssociationWrite(b *testing.B) {
	x, y, step := associatedPair(b)
	const n = 1 << 18
	b.SetBytes(n)
	b.ReportAllocs()
	for b.Loop() {
		w, _ := x.sq.Reserve()
		w.Opcode, w.Length, w.SGE, w.RemoteAddr, w.RKey = ib.WRRDMAWrite, n, append(w.SGE, x.sge(0, n)), base, y.mr.RKey()
		x.sq.Commit()
		x.a.Doorbell(0)
		for x.sq.Len() > 0 {
			step()
		}
	}
}
