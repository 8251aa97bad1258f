// SPDX-License-Identifier: BSD-2-Clause

package talk

import (
	"net/netip"
	"testing"
	"time"

	"verbena/internal/wire/iwarp"
	"verbena/internal/wire/pcap"
)

// Stream is a TCP connection from A to B in a capture.
type Stream struct {
	c    *Capture
	next [2]uint32 // sequence numbers of A and B
}

// Stream begins a connection of iWARP with the frames of its set-up.
func (c *Capture) Stream(request, reply iwarp.MPAFrame) *Stream {
	c.t.Helper()
	s := &Stream{c: c}
	s.Segment(false, pcap.Segment{SYN: true}, nil)
	s.Segment(true, pcap.Segment{SYN: true}, nil)
	s.Segment(false, pcap.Segment{}, nil)
	s.Segment(false, pcap.Segment{}, request.Append(nil))
	s.Segment(true, pcap.Segment{}, reply.Append(nil))
	return s
}

// Segment writes a segment to B or, if back, to A. Without Seq and Ack it has those that follow.
func (s *Stream) Segment(back bool, g pcap.Segment, payload []byte) {
	s.c.t.Helper()
	g.Time, g.Src, g.Dst = Start.Add(s.c.At), A, netip.AddrPortFrom(B.Addr(), 7174)
	g.Comment, s.c.Comment = s.c.Comment, ""
	me, peer := 0, 1
	if back {
		g.Src, g.Dst, me, peer = g.Dst, g.Src, 1, 0
	}
	if g.Seq == 0 {
		g.Seq = s.next[me]
		s.next[me] += uint32(len(payload))
	}
	if g.SYN {
		s.next[me]++
	}
	if g.HasAck = !g.SYN || back; g.HasAck && g.Ack == 0 {
		g.Ack = s.next[peer]
	}
	if err := s.c.w.WriteSegment(&g, payload); err != nil {
		s.c.t.Fatal(err)
	}
	s.c.At += time.Microsecond
}

// FPDUs writes a segment with a FPDU for each DDP segment.
func (s *Stream) FPDUs(back bool, ddp ...[]byte) {
	s.c.t.Helper()
	var b []byte
	for _, p := range ddp {
		b = iwarp.AppendFPDU(b, p, true)
	}
	s.Segment(back, pcap.Segment{}, b)
}

// LossyIWARP returns a conversation of iWARP over TCP of three WRITEs of three segments. The second
// loses a segment, for which B repeats its acknowledgement. The third loses its last, which A sends
// again by its timer.
func LossyIWARP(t testing.TB) []byte {
	c := New(t)
	s := c.Stream(iwarp.MPAFrame{CRC: true, Revision: 1},
		iwarp.MPAFrame{Reply: true, CRC: true, Revision: 1})
	segment := s.Segment
	var last pcap.Segment
	for i := range 9 {
		p := TRPWrite(0, 0, i%3 == 2, 1000).Payload
		fpdu := iwarp.AppendFPDU(nil, p, true)
		at := s.next[0]
		segment(false, pcap.Segment{}, fpdu)
		switch i {
		case 2:
			c.At += 20 * time.Microsecond
			segment(true, pcap.Segment{}, nil)
		case 3:
			c.At += 20 * time.Microsecond
			segment(true, pcap.Segment{}, nil)
		case 4:
			last = pcap.Segment{Seq: at}
		case 5:
			c.At += 20 * time.Microsecond
			segment(true, pcap.Segment{Ack: last.Seq}, nil)
			segment(false, last, iwarp.AppendFPDU(nil, TRPWrite(0, 0, false, 1000).Payload, true))
			c.At += 20 * time.Microsecond
			segment(true, pcap.Segment{}, nil)
		case 8:
			c.At += time.Millisecond
			segment(false, pcap.Segment{Seq: at}, fpdu)
			c.At += 20 * time.Microsecond
			segment(true, pcap.Segment{}, nil)
		}
	}
	return c.Bytes()
}
