// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/sys/mapped"
	wire "verbena/internal/wire/rsocket"
	"verbena/verbs"
)

const (
	// largeSize is the size of a buffer of a stream that carries long messages. With less the two
	// ends wait for each other more often.
	largeSize = 2 << 20
	// largeMemory bounds the bytes of all large buffers of a process. Streams beyond it keep small
	// ones.
	largeMemory = 256 << 20
)

// largeInUse has the bytes of the large buffers of all streams.
var largeInUse atomic.Int64

// received returns n received bytes at an offset of Stream.Ready. The caller holds mu, and may use
// them without.
func (c *Conn) received(at, n uint32) []byte {
	if at < bufferSize {
		return c.rbuf[at:][:n]
	}
	return c.large[at-bufferSize:][:n]
}

// growReceive gives the stream a large receive buffer. The caller holds mu.
func (c *Conn) growReceive() {
	b, mr := c.newLarge(ib.AccessLocalWrite|ib.AccessRemoteWrite, &c.keeps[0])
	if mr == nil {
		return
	}
	c.large = b
	c.stream.GrowReceive(wire.Window{Addr: mr.Addr(), Key: mr.RKey(), Length: largeSize})
}

// growSend gives the stream a large send buffer. Bytes that the device still reads are in the small
// one, which stays registered. The caller holds writeMu and mu.
func (c *Conn) growSend() {
	b, mr := c.newLarge(0, &c.keeps[1])
	if mr == nil {
		return
	}
	c.sbuf, c.sbufMR = b, mr
	c.stream.GrowSend(largeSize)
}

// newLarge returns a large buffer, nil if there is no memory for it. It does not try again then.
func (c *Conn) newLarge(access ib.Access, failed *bool) ([]byte, *verbs.MR) {
	if *failed {
		return nil, nil
	}
	if largeInUse.Add(largeSize) > largeMemory {
		largeInUse.Add(-largeSize)
		*failed = true
		return nil, nil
	}
	b, err := mapped.New(largeSize)
	if err != nil {
		largeInUse.Add(-largeSize)
		*failed = true
		return nil, nil
	}
	mr, err := c.cm.RegMR(b, access)
	if err != nil {
		endLarge(b)
		*failed = true
		return nil, nil
	}
	return b, mr
}

func endLarge(b []byte) {
	mapped.Free(b)
	largeInUse.Add(-largeSize)
}

// freeLarge gives back the large buffers of a stream that has ended, once no call uses them.
func (c *Conn) freeLarge() {
	c.readMu.Lock()
	if c.large != nil {
		endLarge(c.large)
		c.large = nil
	}
	c.readMu.Unlock()
	c.writeMu.Lock()
	if len(c.sbuf) == largeSize {
		endLarge(c.sbuf)
		c.sbuf = nil
	}
	c.writeMu.Unlock()
}
