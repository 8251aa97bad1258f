// SPDX-License-Identifier: BSD-2-Clause

package umad

import (
	"encoding/binary"

	"verbena/internal/wire/cm"
)

// Values in the header of a MAD for the agent of performance management (PMA).
const (
	classPerf        = 0x04
	classVersionPerf = 1

	methodGet     = 0x01
	methodSet     = 0x02
	methodGetResp = 0x81
	methodReply   = 0x80 // the bit of every answer

	attrClassPortInfo        cm.Attribute = 0x01
	attrPortCounters         cm.Attribute = 0x12
	attrPortCountersExtended cm.Attribute = 0x1d

	perfDataAt = 64 // behind the header are 40 reserved bytes
	portNumber = 1
)

// Status of an answer. Spec: IBTA vol. 1, 13.4.7.
const (
	statusBadVersion       = 1 << 2
	statusNoSuchMethod     = 2 << 2
	statusNoSuchAttribute  = 3 << 2 // or not with this method
	statusInvalidAttribute = 7 << 2
)

// Of ClassPortInfo.
const (
	// capNoIETF says that PortCountersExtended has bytes and packets only.
	capNoIETF = 1 << 10
	// respTimeValue is 4.096 us * 2^18: about a second.
	respTimeValue = 18
)

// Answer returns the answer of the port's PMA to a MAD. It is false where silence is the answer:
// the MAD is of another class, or is an answer itself. Counts cannot be reset.
func Answer(mad []byte, counters func() Counters) (reply [MADBytes]byte, ok bool) {
	h, _, ok := cm.ParseHeader(mad)
	if !ok || len(mad) != MADBytes || h.BaseVersion != cm.BaseVersion || h.Class != classPerf ||
		h.Method&methodReply != 0 {
		return reply, false
	}
	copy(reply[:], mad[:cm.HeaderSize])
	reply[3] = methodGetResp
	data := reply[perfDataAt:]
	binary.BigEndian.PutUint16(reply[4:], answer(&h, mad[perfDataAt+1], data, counters))
	return reply, true
}

// answer writes the attribute that a request asks for, and returns the status.
func answer(h *cm.Header, port uint8, data []byte, counters func() Counters) (status uint16) {
	switch {
	case h.ClassVersion != classVersionPerf:
		return statusBadVersion
	case h.Method != methodGet && h.Method != methodSet:
		return statusNoSuchMethod
	case h.Method == methodSet:
		return statusNoSuchAttribute
	case h.Attribute == attrClassPortInfo:
		putClassPortInfo(data)
		return 0
	case h.Attribute != attrPortCounters && h.Attribute != attrPortCountersExtended:
		return statusNoSuchAttribute
	case port != portNumber:
		return statusInvalidAttribute
	}
	c := counters()
	if h.Attribute == attrPortCounters {
		c.putPortCounters(data)
	} else {
		c.putPortCountersExtended(data)
	}
	return 0
}

// putClassPortInfo writes the agent's abilities. Spec: IBTA vol. 1, 13.4.8.1 and 16.1.3.1.
func putClassPortInfo(data []byte) {
	data[0], data[1] = cm.BaseVersion, classVersionPerf
	binary.BigEndian.PutUint16(data[2:], capNoIETF)
	data[7] = respTimeValue
}
