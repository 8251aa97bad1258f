// SPDX-License-Identifier: BSD-2-Clause

package shmring

import "sync/atomic"

// Consumer reads entries. Its calls must come one at a time, but for Waiting, Asked
// and Arm.
type Consumer struct {
	data        []byte
	head, armed *atomic.Uint64
	// next points to the place of the next entry, which the reader writes. Board moves it beside
	// threads in Waiting and Arm.
	next       atomic.Pointer[atomic.Uint64]
	told       uint64 // the value of head
	size       int    // of the entry that Next returned
	answered   *atomic.Uint64
	questions  uint64 // read so far
	unanswered atomic.Bool
	corrupt    atomic.Bool
}

// tellEvery is the number of bytes after which the producer is shown how far the consumer has
// read. The producer looks when the ring is full, and once in restartBytes; each look costs it a
// line of its cache.
const tellEvery = 4 << 10

func newConsumer(memory []byte) *Consumer {
	c := &Consumer{
		data:     memory[dataAt:],
		head:     word(memory, headAt),
		armed:    word(memory, armedAt),
		answered: word(memory, answeredAt),
	}
	c.next.Store(new(atomic.Uint64))
	return c
}

// Next returns the oldest entry, false if there is none. Its Data is valid until
// Advance, which must be called before the next Next.
func (c *Consumer) Next(m *Message) (bool, error) {
	pos := c.next.Load().Load()
	w := word(c.data, int(pos%dataBytes)).Load()
	if w == 0 {
		return false, nil
	}
	if c.corrupt.Load() {
		return false, ErrCorrupt
	}
	off := int(pos % dataBytes)
	if uint32(w) == skipLength && w == first(pos, skipLength) && off != 0 {
		pos += uint64(dataBytes - off)
		c.next.Load().Store(pos)
		if w = word(c.data, 0).Load(); w == 0 {
			return false, nil
		}
		off = 0
	}
	length := uint32(w)
	if w != first(pos, length) || length == 0 || length > MaxBytes ||
		off+entryBytes(int(length)) > dataBytes {
		c.corrupt.Store(true)
		return false, ErrCorrupt
	}
	n := int(length)
	v := word(c.data, off+8).Load()
	*m = Message{
		Data:     c.data[off+headerBytes : off+headerBytes+n : off+headerBytes+n],
		Segment:  int(uint16(v)),
		TOS:      uint8(v >> 16),
		Tag:      uint32(v >> 32),
		Question: v&questionBit != 0,
		Prefixed: v&prefixedBit != 0,
	}
	rest := n
	if m.Prefixed {
		if n <= PrefixBytes {
			c.corrupt.Store(true)
			return false, ErrCorrupt
		}
		m.Prefix, m.Data = m.Data[:PrefixBytes:PrefixBytes], m.Data[PrefixBytes:]
		rest -= PrefixBytes
	}
	if m.Segment == 0 || m.Segment > rest {
		m.Segment = rest
	}
	if (rest+m.Segment-1)/m.Segment > MaxPackets {
		c.corrupt.Store(true)
		return false, ErrCorrupt
	}
	c.size = entryBytes(n)
	if m.Question {
		c.questions++
		c.unanswered.Store(true)
	}
	return true, nil
}

// Ahead stores the Data of the entries that Next will return first, and returns their number. It
// ends before an entry that is no burst of connected queue pairs, or that the ring's end precedes.
func (c *Consumer) Ahead(data [][]byte) int {
	pos := c.next.Load().Load()
	for i := range data {
		off := int(pos % dataBytes)
		w := word(c.data, off).Load()
		length := uint32(w)
		if length == 0 || length > MaxBytes || w != first(pos, length) ||
			off+entryBytes(int(length)) > dataBytes ||
			word(c.data, off+8).Load()&(questionBit|prefixedBit) != 0 {
			return i
		}
		data[i] = c.data[off+headerBytes:][:length:length]
		pos += uint64(entryBytes(int(length)))
	}
	return len(data)
}

// Asked reports whether there is a question to be answered. Any thread may ask.
func (c *Consumer) Asked() bool { return c.unanswered.Load() }

// Answer says that all that came before the questions read so far is done with.
func (c *Consumer) Answer() {
	c.unanswered.Store(false)
	c.answered.Store(c.questions)
}

// Advance gives the entry that Next returned back to the producer.
func (c *Consumer) Advance() {
	pos := c.next.Load().Load() + uint64(c.size)
	c.size = 0
	c.next.Load().Store(pos)
	if pos-c.told >= tellEvery {
		c.told = pos
		c.head.Store(pos)
	}
}

// Waiting reports whether there is something to read. Any thread may ask. Beside a thread that
// reads it may say so although that thread has read it.
func (c *Consumer) Waiting() bool {
	return !c.corrupt.Load() && peek(c.data, int(c.next.Load().Load()%dataBytes)) != 0
}

// Arm asks the producer for a wake-up with its next entry. It reports false if something is there
// already. Any thread may call it.
//
// Nothing but the wake-up takes it back: a thread that did so, because it is awake,
// would take the wake-up from another thread that sleeps.
func (c *Consumer) Arm() bool {
	if c.armed.Load() == 0 {
		c.armed.Store(1)
	}
	return !c.Waiting()
}
