// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"sync/atomic"

	"verbena/ib"
)

// Buffer is memory that was allocated for a device's use of it.
type Buffer struct {
	ctx  *Context
	mem  []byte
	gone atomic.Bool
}

// AllocBuffer returns memory of n bytes, all zero, to be registered and used like any other.
func (c *Context) AllocBuffer(n int) (*Buffer, error) {
	if err := c.alive(); err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, invalid("n", "%d: must be more than 0", n)
	}
	b := &Buffer{ctx: c}
	var ok bool
	if b.mem, ok = c.back.TakeMemory(uint64(n)); !ok {
		b.mem = make([]byte, n)
		return b, nil
	}
	clear(b.mem)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.alive(); err != nil {
		c.back.GiveMemory(b.mem)
		return nil, err
	}
	c.buffers[b] = struct{}{}
	return b, nil
}

// Bytes returns the memory.
func (b *Buffer) Bytes() []byte { return b.mem }

// Free gives the memory back.
func (b *Buffer) Free() error {
	if b.gone.Swap(true) {
		return invalid("Buffer", "was freed before")
	}
	c := b.ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.buffers[b]; ok {
		delete(c.buffers, b)
		c.back.GiveMemory(b.mem)
	}
	return nil
}

// freeBuffers frees the buffers that are left when the context is closed.
func (c *Context) freeBuffers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for b := range c.buffers {
		c.back.GiveMemory(b.mem)
	}
	clear(c.buffers)
}

// expose lets the peer of a link write straight to the region, if its memory lies in the window.
// The caller holds m.mu, or is alone in knowing m.
func (m *MR) expose() {
	if len(m.buf) > 0 && m.region.Access().Has(ib.AccessRemoteWrite) &&
		m.ctx.back.Expose(m.region, m.buf) {
		m.exposed = true
		if m.ctx.keep(m) != nil { // the context is being closed
			m.withdraw()
		}
	}
}

// withdraw ends expose: when it returns the peer writes there no more.
func (m *MR) withdraw() {
	if !m.exposed {
		return
	}
	m.exposed = false
	m.ctx.unkeep(m)
	m.ctx.back.Withdraw(m.region)
}

// leave withdraws the region when its context is closed.
func (m *MR) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.withdraw()
}
