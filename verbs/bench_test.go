// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"fmt"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// BenchmarkWrite keeps a window of WRITEs outstanding on one queue pair over
// the loopback interface.
func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{8, 4096, 65536, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { writes(b, n) })
	}
}

// writes keeps a window of WRITEs of n bytes outstanding.
func writes(b *testing.B, n int) {
	x, y := newEnd(b, ib.QPTypeRC, n), newEnd(b, ib.QPTypeRC, n)
	connect(b, x, y, ib.MTU4096)
	wr := verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{x.mr.SGE(0, n)}, RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey()}
	list := make([]verbs.SendWR, 64)
	for i := range list {
		list[i] = wr
	}
	wc := make([]ib.WC, 64)
	b.SetBytes(int64(n))
	b.ReportAllocs()
	posted, done := 0, 0
	for b.Loop() {
		for posted-done >= 64 {
			k, err := x.cq.Poll(wc)
			check(b, err)
			done += k
			if k > 0 {
				_, err = x.qp.PostSend(list[:k-1]...)
				check(b, err)
				posted += k - 1
			}
		}
		_, err := x.qp.PostSend(list[:1]...)
		check(b, err)
		posted++
	}
	for done < posted {
		k, _ := x.cq.Poll(wc)
		done += k
	}
}

// BenchmarkSend is a ping-pong of small messages within one process.
func BenchmarkSend(b *testing.B) {
	x, y := newEnd(b, ib.QPTypeRC, 64), newEnd(b, ib.QPTypeRC, 64)
	connect(b, x, y, ib.MTU4096)
	send := []verbs.SendWR{{Opcode: ib.WRSend, Flags: ib.SendSignaled | ib.SendInline, Inline: make([]byte, 2)}}
	recv := []verbs.RecvWR{{SGList: []ib.SGE{x.mr.SGE(0, 64)}}}
	recvY := []verbs.RecvWR{{SGList: []ib.SGE{y.mr.SGE(0, 64)}}}
	wait := func(e *end, n int) {
		var wc [4]ib.WC
		for n > 0 {
			k, err := e.cq.Poll(wc[:])
			check(b, err)
			n -= k
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		x.qp.PostRecv(recv...)
		y.qp.PostRecv(recvY...)
		x.qp.PostSend(send...)
		wait(y, 1)
		y.qp.PostSend(send...)
		wait(x, 2)
		wait(y, 1)
	}
}
