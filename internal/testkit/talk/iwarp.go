// SPDX-License-Identifier: BSD-2-Clause

package talk

import (
	"net/netip"
	"testing"
	"time"

	"verbena/internal/wire/iwarp"
	"verbena/internal/wire/pcap"
)

// LossyIWARP returns a conversation of iWARP over TCP of three WRITEs of three segments. The second
// loses a segment, for which B repeats its acknowledgement. The third loses its last, which A sends
// again by its timer.
func LossyIWARP(t testing.TB) []byte {
	c := New(t)
	var next [2]uint32
	server := netip.AddrPortFrom(B.Addr(), 7174)
	segment := func(back bool, s pcap.Segment, payload []byte) {
		s.Time, s.Src, s.Dst = Start.Add(c.At), A, server
		me, peer := 0, 1
		if back {
			s.Src, s.Dst, me, peer = s.Dst, s.Src, 1, 0
		}
		if s.Seq == 0 {
			s.Seq = next[me]
			next[me] += uint32(len(payload))
		}
		if s.SYN {
			next[me]++
		}
		if s.HasAck = !s.SYN || back; s.HasAck && s.Ack == 0 {
			s.Ack = next[peer]
		}
		if err := c.w.WriteSegment(&s, payload); err != nil {
			t.Fatal(err)
		}
		c.At += time.Microsecond
	}
	segment(false, pcap.Segment{SYN: true}, nil)
	segment(true, pcap.Segment{SYN: true}, nil)
	segment(false, pcap.Segment{}, nil)
	segment(false, pcap.Segment{}, iwarp.MPAFrame{CRC: true, Revision: 1}.Append(nil))
	segment(true, pcap.Segment{}, iwarp.MPAFrame{Reply: true, CRC: true, Revision: 1}.Append(nil))
	var last pcap.Segment
	for i := range 9 {
		p := TRPWrite(0, 0, i%3 == 2, 1000).Payload
		fpdu := iwarp.AppendFPDU(nil, p, true)
		at := next[0]
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
