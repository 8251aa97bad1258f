// SPDX-License-Identifier: BSD-2-Clause

package cm

import (
	"encoding/binary"

	"verbena/ib"
)

// REPPrivateSize is the private data of a REP, in bytes.
const REPPrivateSize = 196

// Failover says whether the alternate path of a REQ was accepted.
type Failover uint8

// Failover answers.
const (
	FailoverAccepted    Failover = 0
	FailoverUnsupported Failover = 1
	FailoverRejected    Failover = 2
)

// REP accepts a connection. Local is its sender.
//
// Spec: IBTA vol. 1, table 110 REP message contents.
type REP struct {
	LocalCommID        uint32
	RemoteCommID       uint32
	VendorID           uint32 // 24 bits: as in REQ
	LocalQKey          ib.QKey
	LocalQPN           ib.QPN
	LocalEECN          uint32
	StartingPSN        ib.PSN // the first that the sender expects of the receiver
	ResponderResources uint8
	InitiatorDepth     uint8
	TargetACKDelay     uint8 // 5 bits: 4.096 µs × 2^n
	Failover           Failover
	FlowControl        bool
	RNRRetryCount      uint8 // 3 bits
	SRQ                bool
	LocalCAGUID        ib.GUID
	PrivateData        [REPPrivateSize]byte
}

// ParseREP reads the data of a REP MAD and returns the bytes behind it.
func ParseREP(b []byte) (r REP, rest []byte, ok bool) {
	if len(b) < DataSize {
		return r, b, false
	}
	r.LocalCommID = binary.BigEndian.Uint32(b)
	r.RemoteCommID = binary.BigEndian.Uint32(b[4:])
	r.LocalQKey = ib.QKey(binary.BigEndian.Uint32(b[8:]))
	r.LocalQPN = ib.QPN(be24(b[12:]))
	r.LocalEECN = be24(b[16:])
	r.StartingPSN = ib.PSN(be24(b[20:]))
	r.VendorID = uint32(b[15])<<16 | uint32(b[19])<<8 | uint32(b[23])
	r.ResponderResources, r.InitiatorDepth = b[24], b[25]
	// target ACK delay 5 | failover accepted 2 | flow control 1
	r.TargetACKDelay, r.Failover, r.FlowControl = b[26]>>3, Failover(b[26]>>1&3), b[26]&1 != 0
	// RNR retry count 3 | SRQ 1 | reserved 4
	r.RNRRetryCount, r.SRQ = b[27]>>5, b[27]&0x10 != 0
	r.LocalCAGUID = ib.GUID(binary.BigEndian.Uint64(b[28:]))
	copy(r.PrivateData[:], b[DataSize-REPPrivateSize:])
	return r, b[DataSize:], true
}

// Append writes the 232 bytes of r.
func (r *REP) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.LocalCommID)
	b = binary.BigEndian.AppendUint32(b, r.RemoteCommID)
	b = binary.BigEndian.AppendUint32(b, uint32(r.LocalQKey))
	b = append24(b, uint32(r.LocalQPN), uint8(r.VendorID>>16))
	b = append24(b, r.LocalEECN, uint8(r.VendorID>>8))
	b = append24(b, uint32(r.StartingPSN), uint8(r.VendorID))
	b = append(b, r.ResponderResources, r.InitiatorDepth)
	b = append(b, r.TargetACKDelay<<3|uint8(r.Failover&3)<<1|bit(r.FlowControl, 0))
	b = append(b, r.RNRRetryCount<<5|bit(r.SRQ, 4))
	b = binary.BigEndian.AppendUint64(b, uint64(r.LocalCAGUID))
	return append(b, r.PrivateData[:]...)
}
