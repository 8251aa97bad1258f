// SPDX-License-Identifier: BSD-2-Clause

package ntb

import "encoding/binary"

// GreetingBytes is the size of a Greeting.
const GreetingBytes = 16

// greetingMagic opens a TCP stream.
const greetingMagic uint32 = 0x73746e01

// A Greeting is the first thing that each end of a TCP stream says: how long
// the window is that the other may write to, and whether proofs of a secret follow.
type Greeting struct {
	WindowBytes uint64
	Secret      bool
}

// secretFlag is the bit of Secret.
const secretFlag = 1

// ParseGreeting reads a Greeting.
func ParseGreeting(b []byte) (g Greeting, rest []byte, ok bool) {
	if len(b) < GreetingBytes || binary.LittleEndian.Uint32(b) != greetingMagic {
		return Greeting{}, b, false
	}
	// magic (32) flags (32) window (64)
	flags := binary.LittleEndian.Uint32(b[4:])
	return Greeting{binary.LittleEndian.Uint64(b[8:]), flags&secretFlag != 0},
		b[GreetingBytes:], true
}

// Append appends the bytes of g to b.
func (g Greeting) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, greetingMagic)
	flags := uint32(0)
	if g.Secret {
		flags |= secretFlag
	}
	b = binary.LittleEndian.AppendUint32(b, flags)
	return binary.LittleEndian.AppendUint64(b, g.WindowBytes)
}

// MessageBytes is the size of a Message.
const MessageBytes = 32

// messageMagic stands at both ends of a Message.
const messageMagic uint64 = 0xe46e74625f6d7367

// A Message heads the bytes of one write in a TCP stream. One of no bytes is a
// signal: look at the doorbells. One of 4 or 8 bytes is written in one piece if
// it is aligned.
type Message struct {
	To    uint64 // offset in the receiver's window
	Bytes uint64
}

// ParseMessage reads a Message.
func ParseMessage(b []byte) (m Message, rest []byte, ok bool) {
	if len(b) < MessageBytes || binary.LittleEndian.Uint64(b) != messageMagic ||
		binary.LittleEndian.Uint64(b[24:]) != messageMagic {
		return Message{}, b, false
	}
	return Message{To: binary.LittleEndian.Uint64(b[8:]),
		Bytes: binary.LittleEndian.Uint64(b[16:])}, b[MessageBytes:], true
}

// Append appends the bytes of m to b.
func (m Message) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, messageMagic)
	b = binary.LittleEndian.AppendUint64(b, m.To)
	b = binary.LittleEndian.AppendUint64(b, m.Bytes)
	return binary.LittleEndian.AppendUint64(b, messageMagic)
}
