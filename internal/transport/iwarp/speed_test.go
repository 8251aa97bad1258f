// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/queue"
	"verbena/internal/sys/tcp"
	"verbena/internal/testkit/rig"
)

// poll busy-polls for n completions on the caller's thread, as an application
// does.
func poll(e *endpoint, wc []ib.WC, n int) {
	for n > 0 {
		k := e.CQ.Poll(wc[:min(n, len(wc))])
		for i := range k {
			if wc[i].Status != ib.WCSuccess {
				e.Node.T.Fatal(wc[i].Status)
			}
		}
		if n -= k; k == 0 {
			e.Node.Eng.FirstLane().Poll()
		}
	}
}

// BenchmarkIWARPWrite streams WRITEs; BenchmarkTCPStream is the same bytes in a
// raw stream.
func BenchmarkIWARPWrite(b *testing.B) {
	for _, crc := range []bool{false, true} {
		for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("crc=%v/%d", crc, size), func(b *testing.B) {
				x, y := iwarpPair(b, policy.Nap, size, iwarpOptions{crc: crc, rtr: mpa.RTRs(mpa.RTRRead)})
				wc := make([]ib.WC, 16)
				wr := queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: uint32(size), RKey: y.Region.RKey()}
				const depth = 16
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					if i >= depth {
						poll(x, wc, 1)
					}
					x.Request(wr)
				}
				poll(x, wc, min(depth, b.N))
				x.Request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: 8, RKey: y.Region.RKey()}) // all has arrived
				poll(x, wc, 1)
			})
		}
	}
}

// tcpPair returns the ends of a raw stream.
func tcpPair(b *testing.B) (x, y *tcp.Conn) {
	l, err := tcp.Listen(netip.MustParseAddrPort("127.0.0.1:0"), 1)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	if x, err = tcp.Dial(netip.AddrPort{}, l.Local()); err != nil {
		b.Fatal(err)
	}
	rig.Until(b, "a connection", func() bool { y, err = l.Accept(); return y != nil })
	return x, y
}

func BenchmarkTCPStream(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x, y := tcpPair(b)
			defer x.Close()
			go func() {
				var v tcp.Vectors
				buf := [][]byte{make([]byte, size)}
				for {
					n, err := y.Readv(&v, buf)
					if err != nil {
						y.Close()
						return
					}
					if n == 0 {
						runtime.Gosched()
					}
				}
			}()
			var v tcp.Vectors
			buf := make([]byte, size)
			b.SetBytes(int64(size))
			for range b.N {
				for off := 0; off < size; {
					n, err := x.Writev(&v, [][]byte{buf[off:]})
					if err != nil {
						b.Fatal(err)
					}
					off += n
				}
			}
		})
	}
}

// BenchmarkIWARPPingPong is two SENDs of 2 bytes, there and back, by a thread that
// polls for both ends; BenchmarkTCPPingPong is the same in a raw stream.
func BenchmarkIWARPPingPong(b *testing.B) {
	x, y := iwarpPair(b, policy.Nap, 64, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
	wr := queue.SendWQE{Opcode: ib.WRSend, Length: 2}
	wc := make([]ib.WC, 2)
	y.RecvOf(64)
	x.RecvOf(64)
	b.ReportAllocs()
	for b.Loop() {
		x.Request(wr)
		poll(y, wc, 1)
		y.RecvOf(64)
		y.Request(wr)
		poll(x, wc, 2)
		x.RecvOf(64)
		poll(y, wc, 1)
	}
}

func BenchmarkTCPPingPong(b *testing.B) {
	x, y := tcpPair(b)
	defer x.Close()
	defer y.Close()
	var v tcp.Vectors
	buf, msg := [][]byte{make([]byte, 64)}, [][]byte{make([]byte, 28)}
	pass := func(from, to *tcp.Conn) {
		from.Writev(&v, msg)
		for {
			if n, err := to.Readv(&v, buf); n > 0 || err != nil {
				return
			}
		}
	}
	for b.Loop() {
		pass(x, y)
		pass(y, x)
	}
}
