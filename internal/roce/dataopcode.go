// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"verbena/ib"
	wire "verbena/internal/wire/roce"
)

// DataOpcode returns the opcode of one packet of a SEND or WRITE message. base
// is where the opcodes of the service start: wire.RCSendFirst or
// wire.UCSendFirst. SEND with invalidate and ATOMIC WRITE are RC's only.
func DataOpcode(base wire.Opcode, o ib.WROpcode, first, last bool) wire.Opcode {
	return base + rcDataOpcode(o, first, last)
}

func rcDataOpcode(o ib.WROpcode, first, last bool) wire.Opcode {
	switch o {
	case ib.WRAtomicWrite:
		return wire.RCAtomicWrite
	case ib.WRRDMAWrite, ib.WRRDMAWriteWithImm:
		imm := o == ib.WRRDMAWriteWithImm
		switch {
		case first && last && imm:
			return wire.RCRDMAWriteOnlyImm
		case first && last:
			return wire.RCRDMAWriteOnly
		case first:
			return wire.RCRDMAWriteFirst
		case last && imm:
			return wire.RCRDMAWriteLastImm
		case last:
			return wire.RCRDMAWriteLast
		}
		return wire.RCRDMAWriteMiddle
	}
	switch {
	case !last && first:
		return wire.RCSendFirst
	case !last:
		return wire.RCSendMiddle
	case first && o == ib.WRSendWithImm:
		return wire.RCSendOnlyImm
	case first && o == ib.WRSendWithInv:
		return wire.RCSendOnlyInvalidate
	case first:
		return wire.RCSendOnly
	case o == ib.WRSendWithImm:
		return wire.RCSendLastImm
	case o == ib.WRSendWithInv:
		return wire.RCSendLastInvalidate
	}
	return wire.RCSendLast
}

// IsWrite reports whether an opcode of RC or UC is part of an RDMA WRITE.
func IsWrite(o wire.Opcode) bool { return o.Info().Operation == wire.OpRDMAWrite }
