// SPDX-License-Identifier: BSD-2-Clause

package cm

import (
	"encoding/binary"
	"fmt"

	"verbena/ib"
)

// Sizes of the variable parts of the SIDR messages, in bytes.
const (
	SIDRREQPrivateSize = 216
	SIDRInfoSize       = 72
	SIDRREPPrivateSize = 136
)

// SIDRREQ asks which datagram queue pair serves a service.
//
// Spec: IBTA vol. 1, table 119 SIDR_REQ message contents.
type SIDRREQ struct {
	RequestID   uint32
	PKey        ib.PKey
	ServiceID   ServiceID
	PrivateData [SIDRREQPrivateSize]byte
}

// ParseSIDRREQ reads the data of a SIDR_REQ MAD and returns the bytes behind it.
func ParseSIDRREQ(b []byte) (s SIDRREQ, rest []byte, ok bool) {
	if len(b) < DataSize {
		return s, b, false
	}
	s.RequestID = binary.BigEndian.Uint32(b)
	s.PKey = ib.PKey(binary.BigEndian.Uint16(b[4:]))
	// b[6:8] reserved
	s.ServiceID = ServiceID(binary.BigEndian.Uint64(b[8:]))
	copy(s.PrivateData[:], b[16:])
	return s, b[DataSize:], true
}

// Append writes the 232 bytes of s.
func (s *SIDRREQ) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, s.RequestID)
	b = binary.BigEndian.AppendUint16(b, uint16(s.PKey))
	b = append(b, 0, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(s.ServiceID))
	return append(b, s.PrivateData[:]...)
}

// SIDRStatus is the answer to a SIDR_REQ.
type SIDRStatus uint8

// SIDR statuses.
const (
	SIDRSuccess     SIDRStatus = 0
	SIDRUnsupported SIDRStatus = 1 // service id not supported
	SIDRRejected    SIDRStatus = 2 // by the service
	SIDRNoQP        SIDRStatus = 3
	SIDRRedirect    SIDRStatus = 4
	SIDRBadVersion  SIDRStatus = 5
)

var sidrNames = [...]string{"success", "service ID not supported", "rejected by service provider",
	"no QP available", "request redirected", "unsupported version"}

func (s SIDRStatus) String() string {
	if int(s) < len(sidrNames) {
		return sidrNames[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// SIDRREP answers a SIDR_REQ.
//
// Spec: IBTA vol. 1, table 120 SIDR_REP message contents.
type SIDRREP struct {
	RequestID   uint32
	Status      SIDRStatus
	InfoLength  uint8 // bytes of Info that count
	QPN         ib.QPN
	ServiceID   ServiceID
	QKey        ib.QKey
	Info        [SIDRInfoSize]byte
	PrivateData [SIDRREPPrivateSize]byte
}

// ParseSIDRREP reads the data of a SIDR_REP MAD and returns the bytes behind it.
func ParseSIDRREP(b []byte) (s SIDRREP, rest []byte, ok bool) {
	if len(b) < DataSize {
		return s, b, false
	}
	s.RequestID = binary.BigEndian.Uint32(b)
	s.Status, s.InfoLength = SIDRStatus(b[4]), b[5]
	// b[6:8] reserved
	s.QPN = ib.QPN(be24(b[8:])) // QPN 24 | reserved 8
	s.ServiceID = ServiceID(binary.BigEndian.Uint64(b[12:]))
	s.QKey = ib.QKey(binary.BigEndian.Uint32(b[20:]))
	copy(s.Info[:], b[24:])
	copy(s.PrivateData[:], b[24+SIDRInfoSize:])
	return s, b[DataSize:], true
}

// Append writes the 232 bytes of s.
func (s *SIDRREP) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, s.RequestID)
	b = append(b, uint8(s.Status), s.InfoLength, 0, 0)
	b = append24(b, uint32(s.QPN), 0)
	b = binary.BigEndian.AppendUint64(b, uint64(s.ServiceID))
	b = binary.BigEndian.AppendUint32(b, uint32(s.QKey))
	b = append(b, s.Info[:]...)
	return append(b, s.PrivateData[:]...)
}
