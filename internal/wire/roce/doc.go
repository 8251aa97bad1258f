// SPDX-License-Identifier: BSD-2-Clause

// Package roce is the wire format of RoCEv2: the InfiniBand transport headers
// that follow the UDP header, as Go values, and the invariant CRC that ends
// every packet.
//
//	UDP payload:
//	 0        12            12+ext                   n-4      n
//	 +--------+-------------+------------------+-----+--------+
//	 |  BTH   | extended    | payload          | pad |  ICRC  |
//	 | 12 B   | headers     | 0 .. path MTU    | 0-3 | 4 B LE |
//	 +--------+-------------+------------------+-----+--------+
//
// Each header has a file, a size constant, ParseX(b) (X, rest, ok) and
// (X) Append(b) []byte. Which extended headers an opcode carries, and in which
// order, is a row of the opcode table (Opcode.Info). Packet takes a whole UDP
// payload apart; Pseudo computes and checks the ICRC.
//
// Everything here is a value without state: no function allocates, panics on
// input or keeps a pointer into a buffer, except that Packet.Payload and
// Packet.Raw alias the buffer that was parsed.
//
// Reserved bits are sent as zero and ignored when received. RoCEv1 and the RD
// service are not spoken.
//
// Spec: IBTA vol. 1, 9.2, 9.3, 9.6 and 9.7.5 and annex A17
// (RoCEv2); XRC: annex A14; FLUSH and ATOMIC WRITE: annex A19, memory placement extensions.
package roce
