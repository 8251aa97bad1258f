// SPDX-License-Identifier: BSD-2-Clause

// Package cm has the messages of the InfiniBand communication manager as values. It has the
// management datagram (MAD) that carries them and one type per message. Each has a ParseX that
// takes the 232 data bytes and an Append that writes them.
//
//	0        24                                             256
//	┌────────┬───────────────────────────────────────────────┐
//	│ Header │ REQ, REP, RTU, REJ, …: fields | private data  │
//	└────────┴───────────────────────────────────────────────┘
//	          └ in a REQ of the TCP port space the first 36 bytes of
//	            private data are an IPHeader
//
// A MAD travels as the payload of a UD SEND Only packet from QP1 to QP1 with
// the Q_Key 0x80010000.
//
// Values hold no pointers: private data are arrays, padded with zeros as on the wire. Fields wider
// in Go than on the wire are masked when appended. Parsing checks length only; package ibcm judges
// the fields. Reserved bits are written as zero.
//
// Spec: IBTA vol. 1, chapter 12, tables 106 to 120 (message contents); annex A11
// (IP addressing).
package cm
