// SPDX-License-Identifier: BSD-2-Clause

package umad

import (
	"encoding/binary"
	"math"
)

// Counters are the counts of a port.
type Counters struct {
	XmitBytes, RcvBytes     uint64
	XmitPackets, RcvPackets uint64
	RcvErrors               uint64 // malformed packets, and those with a wrong ICRC
}

// octetsPerUnit is the unit of PortXmitData and PortRcvData.
const octetsPerUnit = 4

// putPortCounters writes PortCounters. Counts stay at their largest value: they do not wrap.
//
// Spec: IBTA vol. 1, 16.1.3.5.
func (c *Counters) putPortCounters(data []byte) {
	put16 := func(at int, v uint64) {
		binary.BigEndian.PutUint16(data[at:], uint16(min(v, math.MaxUint16)))
	}
	put32 := func(at int, v uint64) {
		binary.BigEndian.PutUint32(data[at:], uint32(min(v, math.MaxUint32)))
	}
	data[1] = portNumber
	put16(8, c.RcvErrors)
	put32(24, c.XmitBytes/octetsPerUnit)
	put32(28, c.RcvBytes/octetsPerUnit)
	put32(32, c.XmitPackets)
	put32(36, c.RcvPackets)
}

// putPortCountersExtended writes PortCountersExtended without the counts of unicast and multicast
// packets, which capNoIETF says.
//
// Spec: IBTA vol. 1, 16.1.4.11.
func (c *Counters) putPortCountersExtended(data []byte) {
	data[1] = portNumber
	for i, v := range []uint64{
		c.XmitBytes / octetsPerUnit, c.RcvBytes / octetsPerUnit, c.XmitPackets, c.RcvPackets,
	} {
		binary.BigEndian.PutUint64(data[8+8*i:], v)
	}
}
