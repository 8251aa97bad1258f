// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"verbena/ib"
	wire "verbena/internal/wire/roce"
)

// dataOpcodes has RC's opcodes of the packets of a message by their position in it: middle, first,
// last, only.
var dataOpcodes = [...][4]wire.Opcode{
	ib.WRSend: {wire.RCSendMiddle, wire.RCSendFirst, wire.RCSendLast, wire.RCSendOnly},
	ib.WRSendWithImm: {wire.RCSendMiddle, wire.RCSendFirst, wire.RCSendLastImm,
		wire.RCSendOnlyImm},
	ib.WRSendWithInv: {wire.RCSendMiddle, wire.RCSendFirst, wire.RCSendLastInvalidate,
		wire.RCSendOnlyInvalidate},
	ib.WRRDMAWrite: {wire.RCRDMAWriteMiddle, wire.RCRDMAWriteFirst, wire.RCRDMAWriteLast,
		wire.RCRDMAWriteOnly},
	ib.WRRDMAWriteWithImm: {wire.RCRDMAWriteMiddle, wire.RCRDMAWriteFirst, wire.RCRDMAWriteLastImm,
		wire.RCRDMAWriteOnlyImm},
	ib.WRAtomicWrite: {3: wire.RCAtomicWrite},
}

// DataOpcode returns the opcode of one packet of a SEND or WRITE message. base
// is where the opcodes of the service start: wire.RCSendFirst or
// wire.UCSendFirst. SEND with invalidate and ATOMIC WRITE are RC's only.
func DataOpcode(base wire.Opcode, o ib.WROpcode, first, last bool) wire.Opcode {
	position := 0
	if first {
		position = 1
	}
	if last {
		position += 2
	}
	return base + dataOpcodes[o][position]
}

// IsWrite reports whether an opcode of RC or UC is part of an RDMA WRITE.
func IsWrite(o wire.Opcode) bool { return o.Info().Operation == wire.OpRDMAWrite }

// IsWithinWrite checks a packet of a WRITE after got bytes of it: the lengths of its
// packets have the sum that its first one announced, total.
func IsWithinWrite(p *wire.Packet, got, total uint32) bool {
	if p.Info.First {
		got, total = 0, p.RETH.DMALen
	}
	sum := uint64(got) + uint64(len(p.Payload))
	return total <= ib.MaxMessage && sum <= uint64(total) && p.Info.Last == (sum == uint64(total))
}
