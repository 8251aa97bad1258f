// SPDX-License-Identifier: BSD-2-Clause

package trace

import (
	"fmt"

	"verbena/ib"
	"verbena/internal/wire/roce"
)

// Formatter configures the text of packets. The zero value writes Wireshark's words and the detail,
// and does not look into management datagrams.
type Formatter struct {
	// DescribeMAD, if set, gives the words for a management datagram sent to
	// QP1: cm.Describe.
	DescribeMAD func(mad []byte) string
	// InfoOnly leaves out the detail.
	InfoOnly bool
}

// AppendInfo appends Wireshark's info column of a packet, to whose form m is the verdict of
// Packet.Parse:
//
//	RC RDMA Write First QP=0x000011
//	RC Acknowledge QP=0x000027 [Remote Access Error]
//	CM: ConnectRequest
//
// Deviation: the info column of Wireshark 4.0 does not know XRC, FLUSH, ATOMIC WRITE and CNP's
// opcode 0x81. It names no number for those it does not know; we do. Its field
// infiniband.bth.opcode does name XRC's.
func (f *Formatter) AppendInfo(b []byte, p *roce.Packet, m roce.Malformed) []byte {
	if m == roce.TooShort || m == roce.BadLength {
		return fmt.Appendf(b, "[Malformed Packet: %v, %d bytes]", m, len(p.Raw))
	}
	if m == roce.WellFormed && f.DescribeMAD != nil && p.DestQP == ib.QP1 &&
		p.Info.Service == roce.ServiceUD {
		return append(b, f.DescribeMAD(p.Payload)...)
	}
	b = fmt.Appendf(b, "%s QP=0x%06x", p.Info.Name, uint32(p.DestQP))
	if m != roce.WellFormed {
		return fmt.Appendf(b, " [Malformed Packet: %v]", m)
	}
	if p.Info.HasAETH && p.AETH.Syndrome.Kind() == roce.KindNAK {
		b = fmt.Appendf(b, " [%v]", p.AETH.Syndrome)
	}
	return b
}

// AppendDetail appends the header fields that the info does not show, each
// with a space before it and under the name the specification gives it. Numbers
// are decimal, addresses and keys hexadecimal, Len is in bytes without pad.
func (f *Formatter) AppendDetail(b []byte, p *roce.Packet, m roce.Malformed) []byte {
	if m == roce.TooShort || m == roce.BadLength {
		return b
	}
	b = fmt.Appendf(b, " PSN=%d", uint32(p.PSN))
	b = appendFlags(b, &p.BTH)
	if m != roce.WellFormed {
		return b
	}
	i := p.Info
	if i.HasXRCETH {
		b = fmt.Appendf(b, " XRCSRQ=0x%06x", uint32(p.XRCETH.SRQ))
	}
	if i.HasDETH {
		b = fmt.Appendf(b, " QKey=0x%08x SrcQP=0x%06x", uint32(p.DETH.QKey), uint32(p.DETH.SrcQP))
	}
	if i.HasFETH {
		b = fmt.Appendf(b, " PLT=%d SEL=%d", p.FETH.PLT, p.FETH.SEL)
	}
	if i.HasRETH {
		b = fmt.Appendf(b, " VA=0x%x RKey=0x%08x DMALen=%d", p.RETH.VA, uint32(p.RETH.RKey),
			p.RETH.DMALen)
	}
	if i.HasAtomicETH {
		b = appendAtomic(b, p)
	}
	if i.HasAETH {
		b = appendAETH(b, p.AETH)
	}
	if i.HasAtomicAck {
		b = fmt.Appendf(b, " Orig=0x%016x", p.AtomicAck.Orig)
	}
	if i.HasImm {
		b = fmt.Appendf(b, " Imm=0x%08x", p.ImmDt.Data)
	}
	if i.HasIETH {
		b = fmt.Appendf(b, " InvRKey=0x%08x", uint32(p.IETH.RKey))
	}
	if i.HasPayload {
		b = fmt.Appendf(b, " Len=%d", len(p.Payload))
	}
	return b
}

// appendFlags appends the one-bit fields of BTH that are set, but MigReq, which hardware always
// sets. It appends the P_Key if it is not the default one.
func appendFlags(b []byte, h *roce.BTH) []byte {
	for _, flag := range [...]struct {
		set  bool
		name string
	}{{h.AckReq, " AckReq"}, {h.Solicited, " SE"}, {h.FECN, " FECN"}, {h.BECN, " BECN"}} {
		if flag.set {
			b = append(b, flag.name...)
		}
	}
	if h.PKey != ib.DefaultPKey {
		b = fmt.Appendf(b, " PKey=0x%04x", uint16(h.PKey))
	}
	return b
}

func appendAtomic(b []byte, p *roce.Packet) []byte {
	a := &p.AtomicETH
	b = fmt.Appendf(b, " VA=0x%x RKey=0x%08x", a.VA, uint32(a.RKey))
	if p.Info.Operation == roce.OpFetchAdd {
		return fmt.Appendf(b, " Add=0x%016x", a.SwapAdd)
	}
	return fmt.Appendf(b, " Swap=0x%016x Compare=0x%016x", a.SwapAdd, a.Compare)
}

// appendAETH appends the MSN and, of an ACK the credits if it gives any, of an
// RNR NAK the time to wait. The code of a NAK stands in the info.
func appendAETH(b []byte, a roce.AETH) []byte {
	switch a.Syndrome.Kind() {
	case roce.KindACK:
		if n, ok := roce.Credits(a.Syndrome.Value()); ok {
			b = fmt.Appendf(b, " Credits=%d", n)
		}
	case roce.KindRNRNAK:
		b = fmt.Appendf(b, " RNR Nak Timer=%v", roce.RNRTimer(a.Syndrome.Value()))
	case roce.KindReserved:
		b = fmt.Appendf(b, " Syndrome=0x%02x", uint8(a.Syndrome))
	}
	return fmt.Appendf(b, " MSN=%d", uint32(a.MSN))
}
