// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"encoding/binary"
	"net/netip"
	"strings"
)

// FieldID numbers the header fields of packets.
type FieldID uint8

// Field describes a header field: the layer that it is of, its name in the specification, and the
// form of its value: "d" is decimal, "x" with the digits hexadecimal, "s" text, "b" a flag.
type Field struct{ Layer, Name, Form string }

// Fields of packets.
const (
	fieldEnd FieldID = iota
	fieldFrame
	fieldLength
	fieldComment
	fieldTruncated
	fieldSrc
	fieldDst
	fieldTTL
	fieldDSCP
	fieldECN
	fieldIPID
	fieldDF
	fieldSrcPort
	fieldDstPort
	fieldOpcode
	fieldSE
	fieldMigReq
	fieldPad
	fieldTVer
	fieldPKey
	fieldFECN
	fieldBECN
	fieldDestQP
	fieldAckReq
	fieldPSN
	fieldOwnBits
	fieldXRCSRQ
	fieldQKey
	fieldSrcQP
	fieldPLT
	fieldSEL
	fieldVA
	fieldRKey
	fieldDMALen
	fieldSwapAdd
	fieldCompare
	fieldSyndrome
	fieldMSN
	fieldOrig
	fieldImm
	fieldInvRKey
	fieldMissing
	fieldPayload
	fieldICRC
	fieldFault
	fieldCM
	fieldSeq
	fieldAck
	fieldTCPFlags
	fieldMPA
	fieldTRPOpcode
	fieldTRPPSN
	fieldTRPAck
	fieldTRPSetUp
	fieldDDP
	numFields
)

// FieldTable has a row for each field.
var FieldTable = [numFields]Field{
	fieldFrame:     {"Frame", "Number", "d"},
	fieldLength:    {"Frame", "Length on the link", "d"},
	fieldComment:   {"Frame", "Comment", "s"},
	fieldTruncated: {"Frame", "Cut short by the capture", "b"},
	fieldSrc:       {"IP", "Source", "s"},
	fieldDst:       {"IP", "Destination", "s"},
	fieldTTL:       {"IP", "TTL or hop limit", "d"},
	fieldDSCP:      {"IP", "DSCP", "d"},
	fieldECN:       {"IP", "ECN", "s"},
	fieldIPID:      {"IP", "Identification", "x4"},
	fieldDF:        {"IP", "Don't fragment", "b"},
	fieldSrcPort:   {"UDP or TCP", "Source port", "d"},
	fieldDstPort:   {"UDP or TCP", "Destination port", "d"},
	fieldOpcode:    {"BTH", "OpCode", "s"},
	fieldSE:        {"BTH", "Solicited event", "b"},
	fieldMigReq:    {"BTH", "MigReq", "b"},
	fieldPad:       {"BTH", "PadCnt", "d"},
	fieldTVer:      {"BTH", "TVer", "d"},
	fieldPKey:      {"BTH", "P_Key", "x4"},
	fieldFECN:      {"BTH", "FECN", "b"},
	fieldBECN:      {"BTH", "BECN", "b"},
	fieldDestQP:    {"BTH", "DestQP", "x6"},
	fieldAckReq:    {"BTH", "AckReq", "b"},
	fieldPSN:       {"BTH", "PSN", "d"},
	fieldOwnBits:   {"BTH", "Bits of Verbena", "s"},
	fieldXRCSRQ:    {"XRCETH", "XRCSRQ", "x6"},
	fieldQKey:      {"DETH", "Q_Key", "x8"},
	fieldSrcQP:     {"DETH", "SrcQP", "x6"},
	fieldPLT:       {"FETH", "PLT", "d"},
	fieldSEL:       {"FETH", "SEL", "d"},
	fieldVA:        {"RETH or AtomicETH", "VA", "x16"},
	fieldRKey:      {"RETH or AtomicETH", "R_Key", "x8"},
	fieldDMALen:    {"RETH or AtomicETH", "DMALen", "d"},
	fieldSwapAdd:   {"RETH or AtomicETH", "SwapDt or AddDt", "x16"},
	fieldCompare:   {"RETH or AtomicETH", "CmpDt", "x16"},
	fieldSyndrome:  {"AETH", "Syndrome", "s"},
	fieldMSN:       {"AETH", "MSN", "d"},
	fieldOrig:      {"AtomicAckETH", "OrigRemDt", "x16"},
	fieldImm:       {"ImmDt", "Immediate", "x8"},
	fieldInvRKey:   {"IETH", "R_Key", "x8"},
	fieldMissing:   {"SACK", "Missing PSNs", "s"},
	fieldPayload:   {"Payload", "Bytes", "d"},
	fieldICRC:      {"ICRC", "ICRC", "s"},
	fieldFault:     {"Fault", "Malformed", "s"},
	fieldCM:        {"CM", "Message", "s"},
	fieldSeq:       {"TCP", "Sequence number", "d"},
	fieldAck:       {"TCP", "Acknowledgement", "d"},
	fieldTCPFlags:  {"TCP", "Flags", "s"},
	fieldMPA:       {"MPA and DDP", "Ends here", "s"},
	fieldTRPOpcode: {"TRP", "Opcode", "s"},
	fieldTRPPSN:    {"TRP", "PSN", "d"},
	fieldTRPAck:    {"TRP", "AckPSN", "d"},
	fieldTRPSetUp:  {"TRP", "Set-up", "s"},
	fieldDDP:       {"DDP", "Segment", "s"},
}

// maxTextBytes bounds the text of a field.
const maxTextBytes = 1 << 12

// fieldList gathers the fields of a packet: of each its number and its value, a varint or, for
// text, a varint length and bytes. fieldEnd ends it.
type fieldList struct{ b []byte }

func (l *fieldList) reset() { l.b = l.b[:0] }

func (l *fieldList) bytes() []byte { return append(l.b, byte(fieldEnd)) }

func (l *fieldList) number(id FieldID, v uint64) {
	l.b = binary.AppendUvarint(append(l.b, byte(id)), v)
}

func (l *fieldList) flag(id FieldID, v bool) {
	if v {
		l.number(id, 1)
	}
}

func (l *fieldList) text(id FieldID, v string) {
	v = strings.ToValidUTF8(v[:min(len(v), maxTextBytes)], "�")
	l.b = binary.AppendUvarint(append(l.b, byte(id)), uint64(len(v)))
	l.b = append(l.b, v...)
}

func (l *fieldList) addr(id FieldID, a netip.Addr) {
	l.b = append(l.b, byte(id), 0)
	at := len(l.b)
	l.b = a.AppendTo(l.b) // at most 45 bytes, as frames have no zones
	l.b[at-1] = byte(len(l.b) - at)
}
