// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"net/netip"
	"testing"
)

// One burst of 4 KiB datagrams sent and received, cut and joined by the kernel
// or datagram by datagram.
func BenchmarkBurst(b *testing.B) {
	for _, k := range []struct {
		name string
		opt  Options
	}{
		{"cut and joined", Options{}},
		{"cut", Options{NoJoin: true}},
		{"one by one", Options{NoJoin: true, NoSegment: true}},
		{"portable", Options{Portable: true}},
	} {
		b.Run(k.name, func(b *testing.B) {
			lo := netip.MustParseAddr("127.0.0.1")
			rx, tx := listen(b, lo, k.opt), listen(b, lo, k.opt)
			batch, p := NewRxBatch(), pattern(15*4096, 0)
			d := []Datagrams{{Dst: rx.LocalAddr(), Iov: [][]byte{p}, SegmentSize: 4096}}
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				tx.WriteBatch(d)
				for left := len(p); left > 0; {
					rx.ReadBatch(batch)
					for i := range batch.Len() {
						left -= len(batch.Message(i).Data)
					}
				}
			}
		})
	}
}

// BenchmarkSmall is one small datagram sent and received by one goroutine: the
// cost of the system calls.
func BenchmarkSmall(b *testing.B) {
	lo := netip.MustParseAddr("127.0.0.1")
	rx, tx := listen(b, lo, Options{}), listen(b, lo, Options{})
	batch := NewRxBatch()
	d := []Datagrams{{Dst: rx.LocalAddr(), Iov: [][]byte{make([]byte, 64)}}}
	b.ReportAllocs()
	for b.Loop() {
		tx.WriteBatch(d)
		for n := 0; n == 0; {
			n, _ = rx.ReadBatch(batch)
		}
	}
}

// BenchmarkEmptyRead measures a poll of an idle socket.
func BenchmarkEmptyRead(b *testing.B) {
	s, batch := listen(b, netip.MustParseAddr("127.0.0.1"), Options{}), NewRxBatch()
	b.ReportAllocs()
	for b.Loop() {
		s.ReadBatch(batch)
	}
}
