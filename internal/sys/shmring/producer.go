// SPDX-License-Identifier: BSD-2-Clause

package shmring

import "sync/atomic"

// Producer writes entries. Its calls must come one at a time.
type Producer struct {
	data        []byte
	head, armed *atomic.Uint64
	next        uint64 // where the next entry goes
	restartAt   uint64 // the value of next from which on Reserve may go back to the start
	seen        uint64 // how far the consumer has read, when last looked at
	corrupt     bool
	answered    *atomic.Uint64
	asked       uint64 // questions
	askedAt     uint64 // the value of next after the last one
	announced   uint64 // the value of next when MustWake last looked
}

func newProducer(memory []byte) *Producer {
	return &Producer{
		data:     memory[dataAt:],
		head:     word(memory, headAt),
		armed:    word(memory, armedAt),
		answered: word(memory, answeredAt),

		restartAt: restartBytes,
	}
}

// free reports whether n bytes are free. It loads the consumer's index only if its known value does
// not suffice.
func (p *Producer) free(n int) bool {
	if p.next+uint64(n) <= p.seen+dataBytes {
		return !p.corrupt
	}
	head := p.head.Load()
	if head < p.seen || head > p.next {
		p.corrupt = true
	}
	if p.corrupt {
		return false
	}
	p.seen = head
	return p.next+uint64(n) <= head+dataBytes
}

// Corrupt reports whether the consumer's index was wrong: nothing goes any more.
func (p *Producer) Corrupt() bool { return p.corrupt }

// Taken returns the position up to which the consumer has read. It changes while the consumer
// works.
func (p *Producer) Taken() uint64 { return p.seen }

// Reserve returns memory for an entry of up to MaxBytes, nil if there is no room for so many. The
// next Commit publishes the bytes written there.
func (p *Producer) Reserve() []byte {
	off := int(p.next % dataBytes)
	rest := 0
	if off+maxEntry > dataBytes || p.next >= p.restartAt && p.restarts() {
		rest = dataBytes - off
	}
	if !p.free(rest + maxEntry + lineBytes) {
		return nil
	}
	if rest > 0 {
		p.publish(skipLength, rest)
		p.restartAt = p.next + restartBytes
		off = 0
	}
	return p.data[off+headerBytes : off+headerBytes+MaxBytes : off+headerBytes+MaxBytes]
}

// restarts reports whether Reserve is to skip the rest of the ring: the consumer keeps up, so the
// start is free, and in the caches of both processors. Small entries that went through all of the
// ring would find each line in memory. The consumer is looked at once in restartBytes.
func (p *Producer) restarts() bool {
	p.restartAt = p.next + restartBytes
	head, start := p.head.Load(), p.next-p.next%dataBytes
	return head >= start+maxEntry+lineBytes && p.next-head < 2*tellEvery
}

// Commit publishes the first n bytes, 1 to MaxBytes, of the memory that Reserve returned, as one
// entry. m.Data is not looked at.
func (p *Producer) Commit(n int, m *Message) {
	word(p.data, int(p.next%dataBytes)+8).Store(second(m))
	p.publish(uint32(n), entryBytes(n))
}

// Ask publishes a question and returns its number, 0 if there is no room. The
// consumer answers when it has handled all that was published before: a process that
// does not run answers nothing. Where nothing was published since the last question,
// that one is asked.
func (p *Producer) Ask() uint64 {
	if p.asked > 0 && p.askedAt == p.next {
		return p.asked
	}
	if p.Reserve() == nil {
		return 0
	}
	p.Commit(1, &Message{Segment: 1, Question: true})
	p.asked, p.askedAt = p.asked+1, p.next
	return p.asked
}

// Answered reports whether the consumer has answered a question.
func (p *Producer) Answered(question uint64) bool { return p.answered.Load() >= question }

// publish makes the entry at next, which is written but for its first word, the
// consumer's.
func (p *Producer) publish(length uint32, size int) {
	after := p.next + uint64(size)
	word(p.data, int(after%dataBytes)).Store(0)
	word(p.data, int(p.next%dataBytes)).Store(first(p.next, length))
	p.next = after
}

// MustWake reports whether the consumer sleeps and the caller is to wake it. It is called after
// Commit, once for several. A consumer that went to sleep after the last entry was published has
// seen that entry.
func (p *Producer) MustWake() bool {
	if p.announced == p.next {
		return false
	}
	p.announced = p.next
	return p.armed.Load() != 0 && p.armed.Swap(0) != 0
}
