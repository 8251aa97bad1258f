package ring

import (
	"sync/atomic"

	"verbena/internal/mem"
)

// Producer writes entries. Its calls must come one at a time.
type Producer struct {
	data        []byte
	head, armed *atomic.Uint64
	next        uint64 // where the next entry goes
	seen        uint64 // how far the consumer has read, when last looked at
	corrupt     bool
}

func newProducer(memory []byte) *Producer {
	return &Producer{data: memory[dataAt:], head: word(memory, headAt), armed: word(memory, armedAt)}
}

// Room reports whether n entries of up to MaxBytes each fit.
func (p *Producer) Room(n int) bool {
	// One more of each: an entry may skip the rest of the ring, and the word
	// after it is cleared.
	return p.free((n + 1) * (entryBytes(MaxBytes) + lineBytes))
}

// free reports whether n bytes are free, looking at the consumer's index only if
// what is known of it does not do.
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

// Taken is how far the consumer has read: it changes while the consumer works.
func (p *Producer) Taken() uint64 { return p.seen }

// Write publishes the bytes of iov, 1 to MaxBytes, as one entry. It reports
// false if there is no room or some of the bytes are not mapped any more; nothing
// is published then. m.Data is not looked at.
func (p *Producer) Write(m *Message, iov [][]byte) bool {
	n := 0
	for _, b := range iov {
		n += len(b)
	}
	if n == 0 || n > MaxBytes {
		return false
	}
	size := entryBytes(n)
	off := int(p.next % dataBytes)
	rest := 0
	if off+size > dataBytes {
		rest = dataBytes - off
	}
	if !p.free(rest + size + lineBytes) {
		return false
	}
	if rest > 0 {
		p.publish(skipLength, rest)
		off = 0
	}
	at := off + headerBytes
	for _, b := range iov {
		if !mem.Copy(p.data[at:], b) {
			return false
		}
		at += len(b)
	}
	word(p.data, off+8).Store(second(m))
	p.publish(uint32(n), size)
	return true
}

// publish makes the entry at next, which is written but for its first word, the
// consumer's.
func (p *Producer) publish(length uint32, size int) {
	after := p.next + uint64(size)
	word(p.data, int(after%dataBytes)).Store(0)
	word(p.data, int(p.next%dataBytes)).Store(first(p.next, length))
	p.next = after
}

// MustWake reports whether the consumer sleeps and is to be woken by this call's
// caller. It is called after Write, once for several.
func (p *Producer) MustWake() bool { return p.armed.Load() != 0 && p.armed.Swap(0) != 0 }
