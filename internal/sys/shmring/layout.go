// SPDX-License-Identifier: BSD-2-Clause

package shmring

import "errors"

// Layout of the memory. Words of different processors are two lines apart, because processors fetch
// lines in pairs.
const (
	headAt     = 0   // 8 bytes: how far the consumer has read
	answeredAt = 8   // 8 bytes: the questions that the consumer has answered
	armedAt    = 128 // 8 bytes: 1 if the consumer is to be woken
	dataAt     = 4096
	dataBytes  = 1 << 20 // half of a usual L2 cache
	totalBytes = dataAt + dataBytes
)

// Layout of an entry.
const (
	lineBytes   = 64
	headerBytes = 16
	skipLength  = 1<<32 - 1
	questionBit = 1 << 24 // of the entry's second word
	prefixedBit = 1 << 25 // of the entry's second word
)

// PrefixBytes is the length of a prefix: the addresses of a datagram.
const PrefixBytes = 32

// MaxBytes is the longest entry: 32 KiB of payload with the headers. The
// other side reads one while the next is written.
const MaxBytes = 33 << 10

// maxEntry is the room that the longest takes.
const maxEntry = (headerBytes + MaxBytes + lineBytes - 1) &^ (lineBytes - 1)

// restartBytes is the part of the ring that is used while the consumer keeps up. It has room for
// the longest entry, which may come next, and for entries that the consumer has not shown as read.
const restartBytes = maxEntry + lineBytes + 2*tellEvery

// MaxPackets bounds the packets of an entry.
const MaxPackets = 64

// MaxEntries is the number of entries in a ring.
const MaxEntries = dataBytes / lineBytes

// ErrCorrupt reports that the other side wrote something that is no entry.
var ErrCorrupt = errors.New("shmring: the other side's indices or lengths are wrong")

// ErrSilent says that somebody listens and does not answer in time.
var ErrSilent = errors.New("shmring: the peer does not answer")

// Message is an entry with its data and marks.
type Message struct {
	Data    []byte
	Segment int    // bytes of a packet; the last may be shorter
	TOS     uint8  // as of an IP header
	Tag     uint32 // the two ends agree on it
	// Prefixed marks an entry that has PrefixBytes before its packets. Prefix has them after Next;
	// a caller of Commit has written them.
	Prefixed bool
	Prefix   []byte
	// Question marks an entry that has nothing for anybody: see Producer.Ask.
	Question bool
}

// NewPair returns the two ends of a ring within this process.
func NewPair() (*Producer, *Consumer) {
	memory := make([]byte, totalBytes)
	return newProducer(memory), newConsumer(memory)
}

// turn is the number of the entry at a position: never 0 in its upper half, so
// that no entry's first word is.
func turn(pos uint64) uint64 { return (pos/lineBytes | 1<<31) & (1<<32 - 1) }

func first(pos uint64, length uint32) uint64 { return uint64(length) | turn(pos)<<32 }

func second(m *Message) uint64 {
	v := uint64(uint16(m.Segment)) | uint64(m.TOS)<<16 | uint64(m.Tag)<<32
	if m.Question {
		v |= questionBit
	}
	if m.Prefixed {
		v |= prefixedBit
	}
	return v
}

// entryBytes is the room that an entry of n bytes takes.
func entryBytes(n int) int { return (headerBytes + n + lineBytes - 1) &^ (lineBytes - 1) }
