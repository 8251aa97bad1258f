// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"slices"

	"verbena/ib"
)

// local has the operations that send nothing.
var local = []ib.WROpcode{ib.WRLocalInv, ib.WRBindMW, ib.WRRegMR}

// The operations of a reliable connection, as the protocol carries them.
var (
	// Spec: RFC 5040 and RFC 7306.
	rcIWARP = append([]ib.WROpcode{ib.WRSend, ib.WRSendWithInv, ib.WRRDMAWrite,
		ib.WRRDMAWriteWithImm, ib.WRRDMARead, ib.WRAtomicCmpAndSwp,
		ib.WRAtomicFetchAndAdd}, local...)
	rcNTB = append([]ib.WROpcode{ib.WRSendWithImm}, rcIWARP...)
	// Spec: IBTA vol. 1, table 84, and annex A14.
	rcRoCE = append([]ib.WROpcode{ib.WRAtomicWrite, ib.WRFlush}, rcNTB...)
)

// operations has the types of queue pairs that a kind of device has, and the operations that each
// may post to its send queue.
//
// Spec: IBTA vol. 1, table 84.
var operations = map[Kind]map[ib.QPType][]ib.WROpcode{
	KindRoCE: {
		ib.QPTypeRC:      rcRoCE,
		ib.QPTypeXRCSend: rcRoCE,
		ib.QPTypeUC: append([]ib.WROpcode{ib.WRSend, ib.WRSendWithImm, ib.WRRDMAWrite,
			ib.WRRDMAWriteWithImm}, local...),
		ib.QPTypeUD:        {ib.WRSend, ib.WRSendWithImm},
		ib.QPTypeRawPacket: {ib.WRSend},
	},
	KindIWARP: {ib.QPTypeRC: rcIWARP},
	KindTRP:   {ib.QPTypeRC: rcIWARP},
	KindNTB:   {ib.QPTypeRC: rcNTB},
}

// Operations returns the operations that a queue pair may post to its send queue; false if devices
// of the kind have none of the type.
func (k Kind) Operations(t ib.QPType) ([]ib.WROpcode, bool) {
	ops, ok := operations[k][t]
	return slices.Clip(ops), ok
}
