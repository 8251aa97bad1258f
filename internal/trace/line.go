// SPDX-License-Identifier: BSD-2-Clause

package trace

import (
	"fmt"
	"time"

	"verbena/internal/wire/pcap"
	"verbena/internal/wire/roce"
)

// AppendLine appends one line, without a newline, for a datagram of a capture:
// its frame number, the time since the first frame, addresses, frame length,
// info and detail. A wrong ICRC, and a payload that the capture cut short, are
// marked behind the info.
func (f *Formatter) AppendLine(b []byte, frame int, since time.Duration, d *pcap.Datagram) []byte {
	var p roce.Packet
	m := p.Parse(d.Payload)
	b = fmt.Appendf(b, "%5d %11.6f %v → %v RRoCE %d ", frame, since.Seconds(), d.Src.Addr(),
		d.Dst.Addr(), d.FrameLen)
	if d.Truncated {
		// A packet that is cut short cannot be judged: neither the form nor the ICRC.
		return f.appendTruncated(b, d.Payload)
	}
	b = f.AppendInfo(b, &p, m)
	if m == roce.TooShort || m == roce.BadLength {
		return b // nothing in it is where it should be
	}
	if !d.VerifyICRC() {
		b = append(b, " [Bad ICRC]"...)
	}
	if !f.InfoOnly {
		b = append(b, ' ') // two spaces between Wireshark's text and ours
		b = f.AppendDetail(b, &p, m)
		if d.TrafficClass&ecnMask == congestionExperienced {
			b = append(b, " CE"...)
		}
	}
	return b
}

// ECN codepoints. Source: RFC 3168, section 5.
const (
	ecnMask               = 3
	congestionExperienced = 3
)

// AppendComment appends one line, without a newline, for the comment of a frame: quoted, because a
// comment may have any bytes.
func AppendComment(b []byte, frame int, since time.Duration, comment string) []byte {
	return fmt.Appendf(b, "%5d %11.6f comment: %q", frame, since.Seconds(), comment)
}

// AppendCall appends one line, without a newline, for a verbs call: quoted, as a comment is.
func AppendCall(b []byte, frame int, since time.Duration, text string) []byte {
	return fmt.Appendf(b, "%5d %11.6f call: %q", frame, since.Seconds(), text)
}

// appendTruncated appends the facts that the BTH alone gives.
func (f *Formatter) appendTruncated(b []byte, payload []byte) []byte {
	h, _, ok := roce.ParseBTH(payload)
	if !ok {
		return append(b, "[Packet size limited during capture]"...)
	}
	b = fmt.Appendf(b, "%v QP=0x%06x [Packet size limited during capture]", h.Opcode,
		uint32(h.DestQP))
	if f.InfoOnly {
		return b
	}
	b = fmt.Appendf(b, "  PSN=%d", uint32(h.PSN))
	return appendFlags(b, &h)
}
