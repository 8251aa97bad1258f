// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"encoding/binary"
	"fmt"
)

// MessageSize is the size of a message that is a SEND.
const MessageSize = 4

// MessageType is the purpose of a message.
type MessageType uint8

// Types of messages.
const (
	Data    MessageType = 0 // Value bytes were written
	Credit  MessageType = 4 // Value is the last message granted; the table may have changed
	IOMap   MessageType = 6 // an entry of the mappings was written
	Control MessageType = 7 // Value is Disconnect, KeepAlive or Shutdown
)

// Values of Control messages.
const (
	Disconnect = 0 // shuts both halves
	KeepAlive  = 1
	Shutdown   = 2 // shuts its sending half
)

const valueBits = 29

// MaxValue bounds the value of a message, and so the length of a window.
const MaxValue = 1<<valueBits - 1

// Message is a message: immediate data, or a SEND.
type Message struct {
	Type  MessageType
	Value uint32
}

// ParseMessage returns the message that 32 bits are.
func ParseMessage(v uint32) Message {
	return Message{MessageType(v >> valueBits), v & MaxValue}
}

// Uint32 returns the 32 bits of m.
func (m Message) Uint32() uint32 { return uint32(m.Type)<<valueBits | m.Value&MaxValue }

func (m Message) String() string {
	name, ok := map[MessageType]string{Data: "data", Credit: "credit", IOMap: "mapping",
		Control: "control"}[m.Type]
	if !ok {
		name = fmt.Sprintf("type %d", m.Type)
	}
	return fmt.Sprintf("%s %d", name, m.Value)
}

// PutSend writes a message that is a SEND of a sender that is not BigEndian.
func PutSend(b []byte, v uint32) { binary.LittleEndian.PutUint32(b, v) }
