// SPDX-License-Identifier: BSD-2-Clause

package trace

import (
	"fmt"
	"time"

	"verbena/internal/wire/iwarp"
)

// AppendItem appends one line, without a newline, for an MPA frame or FPDU: the
// number of the frame in which it ends, the time since the first, addresses,
// frame length, info and detail.
func (f *Formatter) AppendItem(b []byte, since time.Duration, i *Item) []byte {
	protocol := "DDP/RDMA"
	if i.SetUp != nil || i.Length == 0 || i.BadMarker {
		protocol = "MPA"
	}
	b = fmt.Appendf(b, "%5d %11.6f %v → %v %s %d ", i.Number, since.Seconds(), i.Src.Addr(),
		i.Dst.Addr(), protocol, i.Len)
	b = f.AppendItemInfo(b, i)
	if !f.InfoOnly {
		b = append(b, ' ') // two spaces between Wireshark's text and ours
		b = appendItemDetail(b, i)
	}
	return b
}

// AppendItemInfo appends Wireshark's info column:
//
//	53337 > 7471 MPA Request Frame
//	53337 > 7471 Send [last DDP segment]
//
// A wrong CRC and a malformed message are marked behind it.
//
// Deviation: Wireshark 4.0 says nothing of an FPDU of no bytes, and does not
// know immediate data.
func (f *Formatter) AppendItemInfo(b []byte, i *Item) []byte {
	if i.NotCaptured {
		b = append(b, "[TCP Previous segment not captured] "...)
	}
	b = fmt.Appendf(b, "%d > %d ", i.Src.Port(), i.Dst.Port())
	h, payload, ok := iwarp.ParseHeader(i.ULPDU)
	switch {
	case i.SetUp != nil:
		b = append(b, i.SetUp.String()...)
	case i.BadMarker:
		b = append(b, "MPA FPDU [Malformed Packet: bad marker]"...)
	case i.Length == 0:
		b = append(b, "MPA FPDU"...)
	case !ok:
		b = fmt.Appendf(b, "[Malformed Packet: %d bytes]", i.Length)
	default:
		b = append(b, h.String()...)
		if !wellFormed(h, payload, i.Length) {
			b = append(b, " [Malformed Packet]"...)
		}
	}
	if i.BadCRC {
		b = append(b, " [Bad CRC]"...)
	}
	return b
}

// wellFormed reports whether an opcode has the buffer model and the headers
// that it must have.
func wellFormed(h iwarp.Header, payload []byte, length int) bool {
	o := h.Opcode.Info()
	switch {
	case !o.Valid || o.Tagged != h.Tagged || !h.Tagged && o.QN != h.QN:
		return false
	case o.FixedBytes > 0:
		return length-h.HeaderBytes() == o.FixedBytes
	case h.Opcode == iwarp.Terminate:
		_, _, ok := iwarp.ParseTermMsg(payload)
		return ok
	}
	return true
}

// appendItemDetail appends the header fields, each with a space before it and
// under the name the RFCs give it.
func appendItemDetail(b []byte, i *Item) []byte {
	if i.SetUp != nil {
		return appendSetUp(b, i.SetUp)
	}
	h, payload, ok := iwarp.ParseHeader(i.ULPDU)
	if !ok || i.BadMarker {
		return b
	}
	if h.Tagged {
		b = fmt.Appendf(b, " STag=0x%08x TO=0x%x", uint32(h.STag), h.TO)
	} else {
		b = fmt.Appendf(b, " QN=%d MSN=%d MO=%d", h.QN, h.MSN, h.MO)
		if h.Opcode.Info().Invalidates {
			b = fmt.Appendf(b, " InvSTag=0x%08x", uint32(h.STag))
		}
	}
	if !wellFormed(h, payload, i.Length) {
		return b
	}
	switch h.Opcode {
	case iwarp.ReadRequest:
		r, _, _ := iwarp.ParseReadReq(payload)
		return appendReadReq(b, r)
	case iwarp.AtomicRequest:
		a, _, _ := iwarp.ParseAtomicReq(payload)
		b = fmt.Appendf(b, " %v ID=%d STag=0x%08x TO=0x%x", a.Op, a.ID, uint32(a.STag), a.TO)
		if a.Op == iwarp.FetchAdd {
			return fmt.Appendf(b, " Add=0x%016x Mask=0x%016x", a.AddSwap, a.AddSwapMask)
		}
		return fmt.Appendf(b, " Swap=0x%016x Mask=0x%016x Compare=0x%016x Mask=0x%016x", a.AddSwap,
			a.AddSwapMask, a.Compare, a.CompareMask)
	case iwarp.AtomicResponse:
		a, _, _ := iwarp.ParseAtomicResp(payload)
		return fmt.Appendf(b, " ID=%d Orig=0x%016x", a.ID, a.Orig)
	case iwarp.Immediate, iwarp.ImmediateSE:
		m, _, _ := iwarp.ParseImmData(payload)
		return fmt.Appendf(b, " Imm=0x%08x", m.Data)
	case iwarp.Terminate:
		m, _, _ := iwarp.ParseTermMsg(payload)
		return appendTerminate(b, &m)
	}
	return fmt.Appendf(b, " Len=%d", i.Length-h.HeaderBytes())
}

func appendSetUp(b []byte, m *iwarp.MPAFrame) []byte {
	b = fmt.Appendf(b, " Rev=%d", m.Revision)
	for _, flag := range [...]struct {
		set  bool
		name string
	}{{m.Markers, " Markers"}, {m.CRC, " CRC"}, {m.Reject, " Reject"}} {
		if flag.set {
			b = append(b, flag.name...)
		}
	}
	if e := m.Enhanced; m.IsEnhanced {
		b = fmt.Appendf(b, " IRD=%d ORD=%d", e.IRD, e.ORD)
		for _, flag := range [...]struct {
			set  bool
			name string
		}{{e.PeerToPeer, " PeerToPeer"}, {e.EmptyFPDU, " RTR=FPDU"}, {e.WriteRTR, " RTR=Write"},
			{e.ReadRTR, " RTR=Read"}} {
			if flag.set {
				b = append(b, flag.name...)
			}
		}
	}
	return fmt.Appendf(b, " PrivateData=%d", len(m.PrivateData))
}

func appendReadReq(b []byte, r iwarp.ReadReq) []byte {
	return fmt.Appendf(b, " SinkSTag=0x%08x SinkTO=0x%x Size=%d SrcSTag=0x%08x SrcTO=0x%x",
		uint32(r.SinkSTag), r.SinkTO, r.Size, uint32(r.SrcSTag), r.SrcTO)
}

// appendTerminate appends the error of a Terminate and the header that it names. "as siw" marks a
// control field whose nibbles are swapped, which Wireshark takes for other words.
func appendTerminate(b []byte, m *iwarp.TermMsg) []byte {
	b = fmt.Appendf(b, " %v", m.TermError)
	if m.Swapped {
		b = append(b, " (as siw)"...)
	}
	if m.HasDDP {
		b = fmt.Appendf(b, " of %v", m.DDP.Opcode)
		if m.DDP.Tagged {
			b = fmt.Appendf(b, " STag=0x%08x TO=0x%x", uint32(m.DDP.STag), m.DDP.TO)
		} else {
			b = fmt.Appendf(b, " QN=%d MSN=%d MO=%d", m.DDP.QN, m.DDP.MSN, m.DDP.MO)
		}
	}
	if m.HasRead {
		b = appendReadReq(b, m.Read)
	}
	return b
}

// AppendItemText appends the name and the header fields of an MPA frame or FPDU, without its place.
func AppendItemText(b []byte, i *Item) []byte {
	h, payload, ok := iwarp.ParseHeader(i.ULPDU)
	switch {
	case i.SetUp != nil:
		b = append(b, i.SetUp.String()...)
	case i.BadMarker:
		return append(b, "bad marker"...)
	case i.Length == 0:
		return append(b, "empty FPDU"...)
	case !ok:
		return fmt.Appendf(b, "malformed, %d bytes", i.Length)
	default:
		b = append(b, h.String()...)
		if !wellFormed(h, payload, i.Length) {
			b = append(b, " [Malformed Packet]"...)
		}
	}
	if i.BadCRC {
		b = append(b, " [Bad CRC]"...)
	}
	return appendItemDetail(b, i)
}
