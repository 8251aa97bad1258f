// SPDX-License-Identifier: BSD-2-Clause

package trace

import (
	"fmt"
	"time"

	"verbena/internal/wire/iwarp"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/trp"
)

// AppendTRP appends one line, without a newline, for a datagram of TRP: as
// AppendLine has it, with the words of the wire format, as Wireshark has none. A
// DDP segment is shown as in a TCP stream, behind the header's numbers.
func (f *Formatter) AppendTRP(b []byte, frame int, since time.Duration, d *pcap.Datagram) []byte {
	var p trp.Packet
	m := p.Parse(d.Payload)
	protocol := "TRP"
	segment := m == trp.WellFormed && p.Opcode == trp.Data && len(p.Payload) > 0
	if segment {
		protocol = "DDP/RDMA"
	}
	b = fmt.Appendf(b, "%5d %11.6f %v → %v %s %d %d > %d ", frame, since.Seconds(), d.Src.Addr(),
		d.Dst.Addr(), protocol, d.FrameLen, d.Src.Port(), d.Dst.Port())
	switch {
	case d.Truncated:
		return append(b, "[Packet size limited during capture]"...)
	case m != trp.WellFormed:
		return fmt.Appendf(b, "[Malformed Packet: %v, %d bytes]", m, len(d.Payload))
	case segment:
		return f.appendTRPSegment(b, &p)
	case p.Opcode == trp.Data:
		b = append(b, "ACK"...)
	default:
		b = append(b, p.Opcode.String()...)
	}
	if f.InfoOnly {
		return b
	}
	switch p.Opcode {
	case trp.Request, trp.Accept, trp.Reject:
		b = fmt.Appendf(b, "  IRD=%d ORD=%d PrivateData=%d", p.Setup.IRD, p.Setup.ORD,
			len(p.Setup.PrivateData))
		if p.AckPSN != 0 {
			b = fmt.Appendf(b, " Window=%d", p.AckPSN)
		}
		return b
	case trp.SACK:
		r := p.Range()
		return fmt.Appendf(b, "  Min=%d Max=%d", r.Min, r.Max)
	}
	return appendPSNs(append(b, ' '), &p)
}

func (f *Formatter) appendTRPSegment(b []byte, p *trp.Packet) []byte {
	h, payload, ok := iwarp.ParseHeader(p.Payload)
	switch {
	case !ok:
		b = fmt.Appendf(b, "[Malformed Packet: %d bytes]", len(p.Payload))
	case !wellFormed(h, payload, len(p.Payload)):
		b = append(append(b, h.String()...), " [Malformed Packet]"...)
	default:
		b = append(b, h.String()...)
	}
	if f.InfoOnly {
		return b
	}
	b = appendPSNs(append(b, ' '), p)
	return appendItemDetail(b, &Item{ULPDU: p.Payload, Length: len(p.Payload)})
}

func appendPSNs(b []byte, p *trp.Packet) []byte {
	return fmt.Appendf(b, " PSN=%d AckPSN=%d", p.PSN, p.AckPSN)
}
