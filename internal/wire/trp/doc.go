// SPDX-License-Identifier: BSD-2-Clause

// Package trp is the wire format of TRP, the trivial reliability protocol that
// carries iWARP's DDP segments over UDP, as Go values.
//
//	UDP payload:
//	 0         4           8        10                    n
//	 +---------+-----------+--------+---------------------+
//	 | PSN     | AckPSN    | Opcode | DDP segment         |  Data; without a segment an ACK
//	 +---------+-----------+--------+------+-----+-----+--+
//	 | 0       | window    | Opcode | len  | IRD | ORD |pd|  Request, Accept, Reject
//	 +---------+-----------+--------+------+-----+-----+--+
//	 | PSN     | AckPSN    | Opcode |                        FIN
//	 +---------+-----------+--------+
//	 | Min     | Max       | Opcode |                        SACK: [Min, Max) has arrived
//	 +---------+-----------+--------+
//
// All fields are big-endian. There is no checksum but UDP's, no MPA framing
// and no length: one datagram carries one segment.
//
// Everything here is a value without state: nothing allocates, panics on input
// or keeps a pointer into a buffer, except that Packet.Payload and
// Setup.PrivateData alias the buffer that was parsed.
//
// Source: urdma as it was released, include/proto_trp.h and src/kmod/cm.c of
// github.com/zrlio/urdma at 48336d1. Its doc/protocol.txt describes flags and
// credits that the code never had; the code counts.
package trp
