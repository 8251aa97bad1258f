// SPDX-License-Identifier: BSD-2-Clause

package ntb

import "encoding/binary"

// Sizes of the entries of the command ring, as in the original.
const (
	CommandBytes  = 0x100
	ResponseBytes = 0x40
	MaxCommands   = 64 // bounds a node's command ring
)

// Op names the purpose of a command. The numbers are NTRDMA's, but for OpAddresses
// and OpQPGrant, which NTRDMA does not have.
type Op uint32

// Commands.
const (
	OpMRCreate Op = 0x08
	OpMRDelete Op = 0x09
	OpMRAppend Op = 0x0a
	OpQPCreate Op = 0x0c
	OpQPDelete Op = 0x0d
	OpQPModify Op = 0x0e

	OpAddresses Op = 0x10
	OpQPGrant   Op = 0x11
)

func (o Op) String() string {
	switch o {
	case OpMRCreate:
		return "MR_CREATE"
	case OpMRDelete:
		return "MR_DELETE"
	case OpMRAppend:
		return "MR_APPEND"
	case OpQPCreate:
		return "QP_CREATE"
	case OpQPDelete:
		return "QP_DELETE"
	case OpQPModify:
		return "QP_MODIFY"
	case OpAddresses:
		return "ADDRESSES"
	case OpQPGrant:
		return "QP_GRANT"
	}
	return "unknown"
}

// CommandHeaderBytes is the size of CommandHeader.
const CommandHeaderBytes = 8

// CommandHeader starts each command.
type CommandHeader struct {
	Op    Op
	Index Index // of the command in its ring
}

// ParseCommandHeader reads a CommandHeader.
func ParseCommandHeader(b []byte) (h CommandHeader, rest []byte, ok bool) {
	if len(b) < CommandHeaderBytes {
		return CommandHeader{}, b, false
	}
	return CommandHeader{Op: Op(binary.LittleEndian.Uint32(b)),
		Index: Index(binary.LittleEndian.Uint32(b[4:]))}, b[CommandHeaderBytes:], true
}

// Append appends the bytes of h to b.
func (h CommandHeader) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(h.Op))
	return binary.LittleEndian.AppendUint32(b, uint32(h.Index))
}

// CommandStatus is the result of a command.
type CommandStatus uint32

// Statuses. The original knows 0 and ~0.
const (
	CommandDone      CommandStatus = iota
	CommandMalformed               // its fields cannot be
	CommandUnknown                 // no such operation
	CommandNoSuch                  // names an object that does not exist
	CommandExists                  // names an object that exists already
	CommandNoRoom                  // the node has no memory left for it
)

func (s CommandStatus) String() string {
	names := [...]string{"done", "malformed", "unknown operation", "no such object",
		"exists already", "no room"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

// ResponseHeaderBytes is the size of ResponseHeader.
const ResponseHeaderBytes = 16

// ResponseHeader starts each response.
type ResponseHeader struct {
	Op     Op
	Index  Index // of the command
	Status CommandStatus
}

// ParseResponseHeader reads a ResponseHeader.
func ParseResponseHeader(b []byte) (h ResponseHeader, rest []byte, ok bool) {
	if len(b) < ResponseHeaderBytes {
		return ResponseHeader{}, b, false
	}
	return ResponseHeader{
		Op:     Op(binary.LittleEndian.Uint32(b)),
		Index:  Index(binary.LittleEndian.Uint32(b[4:])),
		Status: CommandStatus(binary.LittleEndian.Uint32(b[8:])),
		// reserved (32)
	}, b[ResponseHeaderBytes:], true
}

// Append appends the bytes of h to b.
func (h ResponseHeader) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(h.Op))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.Index))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.Status))
	return binary.LittleEndian.AppendUint32(b, 0)
}
