// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"fmt"
	"testing"

	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

// BenchmarkSegment has two ends talk without a network: the cost of a segment to both and its share
// of the ACKs, with none lost and with one in a hundred.
func BenchmarkSegment(b *testing.B) {
	for _, c := range []struct{ size, lossEvery int }{{1024, 0}, {8192, 0}, {1024, 100}} {
		b.Run(fmt.Sprintf("%d bytes, loss 1 in %d", c.size, c.lossEvery), func(b *testing.B) {
			t := &testing.T{}
			m := newMemory(t, 8192)
			client, _ := Dial(0, Config{}, silent{}, listenAddr, wire.Setup{})
			l, _ := NewListener(Config{}, 1, 5)
			server, _ := l.ask(0, clientAddr, 1024)
			server.Accept(0, silent{}, wire.Setup{})
			burst := NewBurst()
			packet := make([]byte, 0, 9000)
			now := monotime.Time(0)
			n := 0
			move := func(from, to *Conn, source int) {
				for from.PollOutput(now, burst) {
					burst.Seal()
					head := burst.Iov()[0]
					for i := range burst.Len() {
						if n++; c.lossEvery > 0 && n%c.lossEvery == 0 {
							continue
						}
						// the headers of a burst lie between its payloads, or all in one piece
						if source == 0 && burst.SegmentBytes() > copyBelow {
							packet = append(append(packet[:0], burst.Iov()[2*i]...), burst.Iov()[2*i+1]...)
						} else {
							packet = append(packet[:0], head[i*burst.SegmentBytes():(i+1)*burst.SegmentBytes()]...)
						}
						if source == 0 {
							to.HandleInput(now, clientAddr, packet)
						} else {
							to.HandleInput(now, serverAddr, packet)
						}
					}
					burst.Reset()
				}
			}
			move(server, client, 1)
			move(client, server, 0)
			if client.State() != Established {
				b.Fatal(client.State())
			}
			head := make([]byte, 14)
			b.SetBytes(int64(c.size))
			b.ReportAllocs()
			turn := func() {
				move(client, server, 0)
				now = now.Add(monotime.Microsecond)
				move(server, client, 1)
				client.HandleTimeout(now)
			}
			for b.Loop() {
				for client.Room() == 0 {
					turn()
				}
				client.Send(head, m.span(0, c.size-14))
				if client.Outstanding()%16 == 0 {
					turn()
				}
			}
			if client.State() != Established {
				b.Fatal(client.State())
			}
		})
	}
}

// BenchmarkSACK has a peer report again what it has of a full window, in four ranges between gaps.
// It does so with each burst of segments that comes, while a gap is repaired.
func BenchmarkSACK(b *testing.B) {
	for window := 4096; window <= largestWindow; window *= 8 {
		b.Run(fmt.Sprint(window), func(b *testing.B) {
			c, _ := Dial(0, Config{Window: window}, silent{}, listenAddr, wire.Setup{})
			burst := NewBurst()
			send := func() {
				for c.PollOutput(0, burst) {
					burst.Reset()
				}
			}
			send()
			accept := wire.Packet{Header: wire.Header{AckPSN: wire.PSN(window), Opcode: wire.Accept}}
			c.HandleInput(0, serverAddr, accept.Append(nil))
			for c.loss.Bytes() < window {
				c.loss.Acked(0, c.loss.Bytes())
			}
			for c.Send([]byte{1}) {
				send()
			}
			if c.Outstanding() != window || c.snd.next != c.snd.end {
				b.Fatalf("%d outstanding, %d sent", c.Outstanding(), c.snd.next)
			}
			var reports [4][]byte
			for i := range reports {
				from := wire.PSN(window / len(reports) * i)
				r := wire.Range{Min: from + 1, Max: from + wire.PSN(window/len(reports))}
				reports[i] = (&wire.Packet{Header: r.Header()}).Append(nil)
			}
			report := func() {
				for _, r := range reports {
					c.HandleInput(0, serverAddr, r)
				}
				send()
			}
			report()
			for b.Loop() {
				report()
			}
		})
	}
}
