// SPDX-License-Identifier: BSD-2-Clause

package pcap

import (
	"net/netip"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Segment is one TCP segment of a capture.
type Segment struct {
	Time     time.Time
	Src, Dst netip.AddrPort

	Seq           uint32 // of the first byte, or of SYN
	SYN, FIN, RST bool
	HasAck        bool
	Ack           uint32 // the next byte expected of the other side, if HasAck

	Payload   []byte // valid until the next call of Next or NextPacket
	Truncated bool   // the capture holds only the beginning of the payload
	FrameLen  int    // bytes on the link, whatever was captured of them
}

// segment takes a frame apart; ok is false if it is not TCP, or a fragment.
func segment(p gopacket.Packet) (s Segment, ok bool) {
	tcp, ok := p.Layer(layers.LayerTypeTCP).(*layers.TCP)
	if !ok {
		return Segment{}, false
	}
	s.Src, s.Dst, ok = addresses(p, uint16(tcp.SrcPort), uint16(tcp.DstPort))
	s.Seq, s.SYN, s.FIN, s.RST = tcp.Seq, tcp.SYN, tcp.FIN, tcp.RST
	s.HasAck, s.Ack = tcp.ACK, tcp.Ack
	s.Payload = tcp.Payload
	s.Truncated = p.Metadata().Truncated
	return s, ok
}
