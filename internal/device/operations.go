// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"slices"

	"verbena/ib"
)

// The operations of each type of queue pair. Spec: IBTA vol. 1, table 84, and annex A14.
var (
	// Those of RoCE. From ofNTB on they are those of NTB links, and from ofIWARP on those of iWARP
	// (RFC 5040 and RFC 7306).
	reliable = []ib.WROpcode{ib.WRAtomicWrite, ib.WRFlush, ib.WRSendWithImm, ib.WRSend,
		ib.WRSendWithInv, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm, ib.WRRDMARead,
		ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd, ib.WRLocalInv, ib.WRBindMW, ib.WRRegMR}
	unreliable = []ib.WROpcode{ib.WRSend, ib.WRSendWithImm, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm,
		ib.WRLocalInv, ib.WRBindMW, ib.WRRegMR}
	datagrams = []ib.WROpcode{ib.WRSend, ib.WRSendWithImm}
	rawPacket = []ib.WROpcode{ib.WRSend}
)

const ofNTB, ofIWARP = 2, 3

// Operations returns the operations that a queue pair may post to its send queue; false if devices
// of the kind have none of the type.
func (k Kind) Operations(t ib.QPType) ([]ib.WROpcode, bool) {
	ops := k.operations(t)
	return slices.Clip(ops), ops != nil
}

func (k Kind) operations(t ib.QPType) []ib.WROpcode {
	switch {
	case k == KindNTB && t == ib.QPTypeRC:
		return reliable[ofNTB:]
	case k.IsIWARP() && t == ib.QPTypeRC:
		return reliable[ofIWARP:]
	case k != KindRoCE:
		return nil
	}
	switch t {
	case ib.QPTypeRC, ib.QPTypeXRCSend:
		return reliable
	case ib.QPTypeUC:
		return unreliable
	case ib.QPTypeUD:
		return datagrams
	case ib.QPTypeRawPacket:
		return rawPacket
	}
	return nil
}
