// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"fmt"
	"strings"

	"verbena/internal/trace"
	"verbena/internal/wire/cm"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/roce"
	"verbena/internal/wire/trp"
)

var ecnNames = [4]string{"not capable", "ECT(1)", "ECT(0)", "congestion experienced"}

// datagram adds the fields of the frame, IP and UDP.
func (l *fieldList) datagram(d *pcap.Datagram, frame int) {
	l.number(fieldFrame, uint64(frame))
	l.number(fieldLength, uint64(d.FrameLen))
	l.flag(fieldTruncated, d.Truncated)
	l.addr(fieldSrc, d.Src.Addr())
	l.addr(fieldDst, d.Dst.Addr())
	l.number(fieldTTL, uint64(d.HopLimit))
	l.number(fieldDSCP, uint64(d.TrafficClass>>2))
	l.text(fieldECN, ecnNames[d.TrafficClass&ecnMask])
	if d.Src.Addr().Is4() {
		l.number(fieldIPID, uint64(d.IPID))
		l.flag(fieldDF, d.DontFragment)
	}
	l.number(fieldSrcPort, uint64(d.Src.Port()))
	l.number(fieldDstPort, uint64(d.Dst.Port()))
}

// roce adds the fields of a datagram of RoCEv2, whose ICRC is right or not.
func (l *fieldList) roce(d *pcap.Datagram, p *roce.Packet, verdict roce.Malformed, headers,
	right bool, frame int) {
	l.datagram(d, frame)
	if verdict == roce.TooShort || verdict == roce.BadLength && !d.Truncated {
		l.text(fieldFault, verdict.String())
		return
	}
	l.text(fieldOpcode, p.Info.Name)
	l.flag(fieldSE, p.Solicited)
	l.flag(fieldMigReq, p.MigReq)
	l.number(fieldPad, uint64(p.Pad))
	l.number(fieldTVer, uint64(p.TVer))
	l.number(fieldPKey, uint64(p.PKey))
	l.flag(fieldFECN, p.FECN)
	l.flag(fieldBECN, p.BECN)
	l.number(fieldDestQP, uint64(p.DestQP))
	l.flag(fieldAckReq, p.AckReq)
	l.number(fieldPSN, uint64(p.PSN))
	if p.Selective || p.Overtakes || p.Unawaited || p.AllRETH {
		l.text(fieldOwnBits, ownBits(p))
	}
	switch {
	case d.Truncated && (verdict != roce.WellFormed || !headers):
		return
	case verdict != roce.WellFormed:
		l.text(fieldFault, verdict.String())
		return
	}
	l.extended(p)
	if p.Info.Operation == roce.OpSelectiveAck && !d.Truncated {
		l.text(fieldMissing, missingText(p))
	}
	if p.Info.HasPayload {
		l.number(fieldPayload, uint64(len(p.Payload)))
	}
	switch {
	case d.Truncated:
	case right:
		l.text(fieldICRC, "right")
	default:
		l.text(fieldICRC, "wrong")
	}
}

func ownBits(p *roce.Packet) string {
	var names []string
	for _, f := range [...]struct {
		set  bool
		name string
	}{{p.Selective, "Selective"}, {p.Overtakes, "Overtakes"}, {p.Unawaited, "Unawaited"},
		{p.AllRETH, "AllRETH"}} {
		if f.set {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, " ")
}

// extended adds the fields of the extended headers.
func (l *fieldList) extended(p *roce.Packet) {
	i := p.Info
	if i.HasXRCETH {
		l.number(fieldXRCSRQ, uint64(p.XRCETH.SRQ))
	}
	if i.HasDETH {
		l.number(fieldQKey, uint64(p.DETH.QKey))
		l.number(fieldSrcQP, uint64(p.DETH.SrcQP))
	}
	if i.HasFETH {
		l.number(fieldPLT, uint64(p.FETH.PLT))
		l.number(fieldSEL, uint64(p.FETH.SEL))
	}
	if i.HasRETH {
		l.number(fieldVA, p.RETH.VA)
		l.number(fieldRKey, uint64(p.RETH.RKey))
		l.number(fieldDMALen, uint64(p.RETH.DMALen))
	}
	if i.HasAtomicETH {
		l.number(fieldVA, p.AtomicETH.VA)
		l.number(fieldRKey, uint64(p.AtomicETH.RKey))
		l.number(fieldSwapAdd, p.AtomicETH.SwapAdd)
		l.number(fieldCompare, p.AtomicETH.Compare)
	}
	if i.HasAETH {
		l.text(fieldSyndrome, syndromeText(p.AETH.Syndrome))
		l.number(fieldMSN, uint64(p.AETH.MSN))
	}
	if i.HasAtomicAck {
		l.number(fieldOrig, p.AtomicAck.Orig)
	}
	if i.HasImm {
		l.number(fieldImm, uint64(p.ImmDt.Data))
	}
	if i.HasIETH {
		l.number(fieldInvRKey, uint64(p.IETH.RKey))
	}
}

func syndromeText(s roce.Syndrome) string {
	switch s.Kind() {
	case roce.KindACK:
		if n, ok := roce.Credits(s.Value()); ok {
			return fmt.Sprintf("Ack, %d credits", n)
		}
		return "Ack"
	case roce.KindRNRNAK:
		return fmt.Sprintf("RNR Nak, wait %v", roce.RNRTimer(s.Value()))
	case roce.KindNAK:
		return fmt.Sprintf("Nak: %v", s)
	}
	return fmt.Sprintf("Reserved (0x%02x)", uint8(s))
}

// maxMissing bounds the gaps of a selective acknowledgement that are listed.
const maxMissing = 32

func missingText(p *roce.Packet) string {
	s, ok := roce.ParseSACK(p.Payload, p.PSN, nil)
	if !ok {
		return "malformed"
	}
	var b []byte
	for i, g := range s.Gaps {
		if i == maxMissing {
			return fmt.Sprintf("%s and %d more gaps", b, len(s.Gaps)-i)
		}
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, "%d", uint32(g.First))
		if last := g.End.Prev(); last != g.First {
			b = fmt.Appendf(b, " to %d", uint32(last))
		}
	}
	return fmt.Sprintf("%s; the rest before %d has arrived", b, uint32(s.Upper))
}

// cm adds the fields of a message of connection managers.
func (l *fieldList) cm(a cm.Attribute, data []byte) {
	var text string
	switch a {
	case cm.AttrREQ:
		r, _, _ := cm.ParseREQ(data)
		text = fmt.Sprintf("ConnectRequest comm_id=0x%08x qpn=0x%06x psn=%d service=0x%016x "+
			"mtu=%d responder_resources=%d initiator_depth=%d retry=%d rnr_retry=%d from %v to %v "+
			"ack_timeout=%d", r.LocalCommID, uint32(r.LocalQPN), uint32(r.StartingPSN),
			uint64(r.ServiceID), r.PathMTU.Bytes(), r.ResponderResources, r.InitiatorDepth,
			r.RetryCount, r.RNRRetryCount, r.Primary.LocalGID.Addr(), r.Primary.RemoteGID.Addr(),
			r.Primary.ACKTimeout)
	case cm.AttrREP:
		r, _, _ := cm.ParseREP(data)
		text = fmt.Sprintf("ConnectReply comm_id=0x%08x to 0x%08x qpn=0x%06x psn=%d "+
			"responder_resources=%d initiator_depth=%d rnr_retry=%d", r.LocalCommID, r.RemoteCommID,
			uint32(r.LocalQPN), uint32(r.StartingPSN), r.ResponderResources, r.InitiatorDepth,
			r.RNRRetryCount)
	case cm.AttrREJ:
		r, _, _ := cm.ParseREJ(data)
		text = fmt.Sprintf("ConnectReject comm_id=0x%08x to 0x%08x reason: %v", r.LocalCommID,
			r.RemoteCommID, r.Reason)
	default:
		text = a.String()
	}
	l.text(fieldCM, text)
}

// segment adds the fields of a TCP segment.
func (l *fieldList) segment(s *pcap.Segment, frame int) {
	l.number(fieldFrame, uint64(frame))
	l.number(fieldLength, uint64(s.FrameLen))
	l.flag(fieldTruncated, s.Truncated)
	l.addr(fieldSrc, s.Src.Addr())
	l.addr(fieldDst, s.Dst.Addr())
	l.number(fieldSrcPort, uint64(s.Src.Port()))
	l.number(fieldDstPort, uint64(s.Dst.Port()))
	l.number(fieldSeq, uint64(s.Seq))
	if s.HasAck {
		l.number(fieldAck, uint64(s.Ack))
	}
	var flags []string
	for _, f := range [...]struct {
		set  bool
		name string
	}{{s.SYN, "SYN"}, {s.HasAck, "ACK"}, {s.FIN, "FIN"}, {s.RST, "RST"}} {
		if f.set {
			flags = append(flags, f.name)
		}
	}
	l.text(fieldTCPFlags, strings.Join(flags, " "))
	l.number(fieldPayload, uint64(len(s.Payload)+s.Missing))
}

// maxItems bounds the FPDUs that a segment's fields list.
const maxItems = 64

// item adds an MPA frame or FPDU that ends in the packet.
func (l *fieldList) item(i *trace.Item) {
	if len(l.b) < maxItems*maxTextBytes {
		l.text(fieldMPA, string(trace.AppendItemText(nil, i)))
	}
}

// trp adds the fields of a datagram of TRP.
func (l *fieldList) trp(d *pcap.Datagram, p *trp.Packet, verdict trp.Malformed, frame int) {
	l.datagram(d, frame)
	switch {
	case d.Truncated && verdict != trp.WellFormed && verdict != trp.BadOpcode:
		return
	case verdict != trp.WellFormed:
		l.text(fieldFault, verdict.String())
		return
	}
	l.text(fieldTRPOpcode, p.Opcode.String())
	l.number(fieldTRPPSN, uint64(p.PSN))
	l.number(fieldTRPAck, uint64(p.AckPSN))
	if s := p.Setup; p.Opcode == trp.Request || p.Opcode == trp.Accept || p.Opcode == trp.Reject {
		l.text(fieldTRPSetUp, fmt.Sprintf("IRD=%d ORD=%d PrivateData=%d", s.IRD, s.ORD,
			len(s.PrivateData)))
	}
	if p.Opcode == trp.Data && len(p.Payload) > 0 {
		l.text(fieldDDP, string(trace.AppendItemText(nil, &trace.Item{ULPDU: p.Payload,
			Length: len(p.Payload) + d.Missing})))
	}
}
