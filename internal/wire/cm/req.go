// SPDX-License-Identifier: BSD-2-Clause

package cm

import (
	"encoding/binary"

	"verbena/ib"
)

// REQPrivateSize is the private data of a REQ, in bytes.
const REQPrivateSize = 92

// TransportService is the kind of connection a REQ asks for.
type TransportService uint8

// ExtendedXRC is the extended transport of XRC.
const ExtendedXRC = 1

// Transport services. With 3 the extended transport field says more.
const (
	ServiceRC       TransportService = 0
	ServiceUC       TransportService = 1
	ServiceRD       TransportService = 2
	ServiceExtended TransportService = 3
)

// REQ requests a connection. Local is its sender.
//
// Spec: IBTA vol. 1, table 106 REQ message contents.
type REQ struct {
	LocalCommID           uint32
	VendorID              uint32 // 24 bits: of ECE, whose options are Header.Modifier
	ServiceID             ServiceID
	LocalCAGUID           ib.GUID
	LocalQKey             ib.QKey
	LocalQPN              ib.QPN
	ResponderResources    uint8 // READs and atomics the sender will serve at once
	LocalEECN             uint32
	InitiatorDepth        uint8 // READs and atomics the sender will have outstanding
	RemoteEECN            uint32
	RemoteResponseTimeout uint8 // 5 bits: how soon the receiver is to answer, 4.096 µs × 2^n
	Service               TransportService
	FlowControl           bool   // end-to-end credits
	StartingPSN           ib.PSN // the first that the sender expects of the receiver
	LocalResponseTimeout  uint8  // 5 bits: how soon the sender will answer a REP
	RetryCount            uint8  // 3 bits
	PKey                  ib.PKey
	PathMTU               ib.MTU // 4 bits
	RDCExists             bool
	RNRRetryCount         uint8 // 3 bits
	MaxCMRetries          uint8 // 4 bits: how often a message may be sent again
	SRQ                   bool
	ExtendedTransport     uint8 // 3 bits
	Primary               Path
	Alternate             Path
	PrivateData           [REQPrivateSize]byte
}

// ParseREQ reads the data of a REQ MAD and returns the bytes behind it.
func ParseREQ(b []byte) (r REQ, rest []byte, ok bool) {
	if len(b) < DataSize {
		return r, b, false
	}
	r.LocalCommID = binary.BigEndian.Uint32(b)
	r.VendorID = be24(b[5:]) // reserved 8 | vendor ID 24
	r.ServiceID = ServiceID(binary.BigEndian.Uint64(b[8:]))
	r.LocalCAGUID = ib.GUID(binary.BigEndian.Uint64(b[16:]))
	// b[24:28] reserved
	r.LocalQKey = ib.QKey(binary.BigEndian.Uint32(b[28:]))
	r.LocalQPN, r.ResponderResources = ib.QPN(be24(b[32:])), b[35]
	r.LocalEECN, r.InitiatorDepth = be24(b[36:]), b[39]
	r.RemoteEECN = be24(b[40:])
	// response time-out 5 | transport service 2 | flow control 1
	r.RemoteResponseTimeout, r.Service, r.FlowControl = b[43]>>3, TransportService(b[43]>>1&3),
		b[43]&1 != 0
	r.StartingPSN = ib.PSN(be24(b[44:]))
	r.LocalResponseTimeout, r.RetryCount = b[47]>>3, b[47]&7
	r.PKey = ib.PKey(binary.BigEndian.Uint16(b[48:]))
	// path MTU 4 | RDC exists 1 | RNR retry count 3
	r.PathMTU, r.RDCExists, r.RNRRetryCount = ib.MTU(b[50]>>4), b[50]&8 != 0, b[50]&7
	// max CM retries 4 | SRQ 1 | extended transport 3
	r.MaxCMRetries, r.SRQ, r.ExtendedTransport = b[51]>>4, b[51]&8 != 0, b[51]&7
	r.Primary, _, _ = ParsePath(b[52:])
	r.Alternate, _, _ = ParsePath(b[52+PathSize:])
	copy(r.PrivateData[:], b[DataSize-REQPrivateSize:])
	return r, b[DataSize:], true
}

// Append writes the 232 bytes of r.
func (r *REQ) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.LocalCommID)
	b = binary.BigEndian.AppendUint32(b, r.VendorID&(1<<24-1))
	b = binary.BigEndian.AppendUint64(b, uint64(r.ServiceID))
	b = binary.BigEndian.AppendUint64(b, uint64(r.LocalCAGUID))
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(r.LocalQKey))
	b = append24(b, uint32(r.LocalQPN), r.ResponderResources)
	b = append24(b, r.LocalEECN, r.InitiatorDepth)
	b = append24(b, r.RemoteEECN,
		r.RemoteResponseTimeout<<3|uint8(r.Service&3)<<1|bit(r.FlowControl, 0))
	b = append24(b, uint32(r.StartingPSN), r.LocalResponseTimeout<<3|r.RetryCount&7)
	b = binary.BigEndian.AppendUint16(b, uint16(r.PKey))
	b = append(b, uint8(r.PathMTU)<<4|bit(r.RDCExists, 3)|r.RNRRetryCount&7)
	b = append(b, r.MaxCMRetries<<4|bit(r.SRQ, 3)|r.ExtendedTransport&7)
	b = r.Primary.Append(b)
	b = r.Alternate.Append(b)
	return append(b, r.PrivateData[:]...)
}
