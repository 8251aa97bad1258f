// SPDX-License-Identifier: BSD-2-Clause

package ib

import "fmt"

// QPN is a 24-bit queue pair number.
type QPN uint32

// Queue pair numbers with a fixed meaning.
const (
	QP0         QPN = 0        // subnet management: not used by RoCE
	QP1         QPN = 1        // general services: the connection manager
	QPMulticast QPN = 0xffffff // destination of every multicast packet
)

func (q QPN) String() string { return fmt.Sprintf("0x%06x", uint32(q)) }

// SRQN is the 24-bit number of an XRC shared receive queue, by which a request
// of a peer names it.
type SRQN uint32

func (n SRQN) String() string { return fmt.Sprintf("0x%06x", uint32(n)) }

// LKey is the key by which the owner of memory names it in a work request.
type LKey uint32

// RKey is the key by which a remote peer names memory in a request.
type RKey uint32

// Next returns k with its low 8 bits, which the owner chooses, incremented: ibv_inc_rkey(3). A
// type 2 window that is bound again needs another key than before, and so does a region that a
// WRRegMR registers again.
func (k RKey) Next() RKey { return k&^0xff | (k+1)&0xff }

// QKey guards datagram queue pairs. A key with the top bit set is privileged:
// posted in a work request it stands for the key of the posting QP.
type QKey uint32

// QKeyGSI is the well-known Q_Key of QP1.
const QKeyGSI QKey = 0x80010000

// PKey is a partition key. Its top bit is set for full membership, else it is limited.
type PKey uint16

// DefaultPKey names the default partition: every port is a full member.
const DefaultPKey PKey = 0xffff

// Matches reports whether ports with these keys may communicate. They are of the same partition,
// and not both limited members. Spec: IBTA vol. 1, 10.9.1.2.
func (k PKey) Matches(o PKey) bool {
	return k&0x7fff == o&0x7fff && (k|o)&0x8000 != 0 && k&0x7fff != 0
}

// GUID is an EUI-64 that names a node, a system image or a port.
type GUID uint64

// String formats g the way ibv_devinfo does: four groups of four hex digits.
func (g GUID) String() string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", uint16(g>>48), uint16(g>>32),
		uint16(g>>16), uint16(g))
}

// MTU is a path MTU as the specification encodes it.
type MTU uint8

// The path MTUs: payload bytes per packet.
const (
	MTU256 MTU = iota + 1
	MTU512
	MTU1024
	MTU2048
	MTU4096
)

// Bytes returns the payload bytes of one packet, 0 for an invalid MTU.
func (m MTU) Bytes() int {
	if !m.Valid() {
		return 0
	}
	return 128 << m
}

// Valid reports whether m is one of the five path MTUs.
func (m MTU) Valid() bool { return m >= MTU256 && m <= MTU4096 }

func (m MTU) String() string { return fmt.Sprintf("%d", m.Bytes()) }

// MTUFor returns the largest path MTU of at most n bytes, 0 if n < 256.
func MTUFor(n int) MTU {
	for m := MTU4096; m >= MTU256; m-- {
		if m.Bytes() <= n {
			return m
		}
	}
	return 0
}
