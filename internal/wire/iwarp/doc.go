// SPDX-License-Identifier: BSD-2-Clause

// Package iwarp is the wire format of iWARP over TCP, as Go values: the set-up
// frames and framing of MPA, the segment headers of DDP and the messages of
// RDMAP.
//
//	a stream:  MPA Request/Reply │ FPDU │ FPDU │ FPDU …
//
//	FPDU:
//	 0        2                              2+n      +pad   +4
//	 +--------+------------------------------+-------+-------+
//	 | ULPDU  | ULPDU: one DDP segment       | pad   | CRC   |
//	 | length | n bytes                      | 0-3 B | 4 B   |
//	 +--------+------------------------------+-------+-------+
//	 with a marker of 4 bytes before every 512th byte of the stream, if the
//	 receiver asked for markers
//
//	DDP segment:  control (2) │ tagged: STag, TO (12) or untagged: ULP, QN, MSN, MO (16) │ payload
//
// Each header has a file, a size constant, ParseX(b) (X, rest, ok) and (X) Append(b) []byte. Which
// buffer model, queue and payload an opcode has is a row of the opcode table (Opcode.Info); the
// meaning of a Terminate is in the table of its three numbers.
//
// Everything here is a value without state: no function allocates, panics on input or keeps a
// pointer into a buffer, except that MPAFrame.PrivateData aliases the buffer that was parsed.
// Reserved bits are sent as zero and ignored when received. Package internal/iwarp/mpa finds the
// FPDUs of a stream, and handles its markers.
//
// Spec: RFC 5044 (MPA), RFC 6581 (enhanced set-up), RFC 5041 (DDP), RFC 5040
// (RDMAP), RFC 7306 (atomics and immediate data).
package iwarp
